"""memplan as ExecuTorch's algorithm, on specs: what is placed where, by an oracle that is written apart."""

from __future__ import annotations

import random
from typing import Any

import pytest

import memplan

pytest.importorskip("torch")
pytest.importorskip("executorch")

import torch
from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite, Verifier, greedy
from executorch.exir.schema import DeviceType
from executorch.exir.tensor import TensorSpec

from builders.executorch_specs import ALIGNMENT, empty_graph, faults, placed, random_specs, spec


def test_random_specs_are_placed_as_their_lives_allow() -> None:
    for seed in range(150):
        rng = random.Random(seed)
        specs = random_specs(rng)
        padding = rng.choice([0, 64])
        _, result = placed(specs, rng.choice(["auto", "first_fit", "greedy_by_size"]), padding)
        assert set(result.spec_dict) == set(specs), seed
        assert not list(faults(specs, result, padding)), seed


def test_a_plan_is_no_larger_than_the_greedy_one_and_says_how_large_that_is() -> None:
    for seed in range(40):
        specs = random_specs(random.Random(seed))
        algorithm, result = placed(specs)
        for one in specs:  # lives as ExecuTorch prolongs them before it plans
            base = one.storage_base
            while base is not None:
                base.lifetime = [min(base.lifetime[0], one.lifetime[0]), max(base.lifetime[1], one.lifetime[1])]
                base = base.storage_base
        theirs = greedy(ALIGNMENT, specs, empty_graph(), None, 0).bufsizes
        assert all(a <= b for a, b in zip(result.bufsizes, theirs, strict=True)), seed
        algorithm, _ = placed(specs)
        assert [arena.greedy_bytes for arena in algorithm.arenas] == [theirs[a.memory] for a in algorithm.arenas], seed


def test_executorch_finds_nothing_wrong_with_pairs() -> None:
    """Its own rules, as its Verifier has them, for random specs that lie in no others."""
    for seed in range(20):
        specs = [one for one in random_specs(random.Random(seed)) if one.storage_base is None]
        algorithm = memplan.executorch.memory_planning_algo()
        MemoryPlanningAlgorithmSuite([algorithm])(ALIGNMENT, specs, empty_graph(), None, 0)
        for k, a in enumerate(specs):
            for b in specs[k + 1 :]:
                if Verifier.storage_overlap(a, b):
                    assert not Verifier.lifetime_overlap(a, b)
                    assert Verifier.mem_obj_id_match(a, b)


def test_both_ends_of_a_life_are_included() -> None:
    touching, apart = [spec(64, 0, 2), spec(64, 2, 3)], [spec(64, 0, 1), spec(64, 2, 3)]
    assert placed(touching)[1].bufsizes == [0, 128]
    assert placed(apart)[1].bufsizes == [0, 64]


def test_what_lies_in_a_spec_keeps_it_alive() -> None:
    base = spec(64, 0, 1)
    inside = spec(32, 1, 5, None, base, 32)
    other = spec(64, 3, 4)
    _, result = placed([inside, other, base])
    assert result.bufsizes == [0, 128]
    assert result.spec_dict[inside].mem_offset == result.spec_dict[base].mem_offset + 32


def test_no_specs_need_no_bytes() -> None:
    assert placed([])[1].bufsizes == [0, 0]
    assert placed([], padding=64)[1].bufsizes == [0, 0]


def test_bytes_that_a_graph_reserves_at_the_bottom_stay_free() -> None:
    graph = empty_graph()
    graph.input_mem_buffer_sizes = [0, 48, 0, 32]
    algorithm = memplan.executorch.memory_planning_algo()
    one = spec(64, 0, 1)
    result = algorithm(ALIGNMENT, [one], graph, None, 0)
    assert result.bufsizes == [0, 112, 0, 32]
    assert result.spec_dict[one].mem_offset == 48


def test_memories_of_devices_are_numbered_as_in_the_program() -> None:
    graph, algorithm = empty_graph(), memplan.executorch.memory_planning_algo()
    first, second, gpu = spec(64, 0, 1), spec(32, 0, 1, 2), spec(16, 0, 1)
    gpu.device, gpu.device_index = DeviceType.CUDA, 1
    for _ in range(2):  # the second time it begins anew
        algorithm(ALIGNMENT, [first, second], graph, None, 0)
        assert algorithm(ALIGNMENT, [gpu], graph, None, 0).bufsizes == [0, 16]
    found = [(arena.device, arena.memory, arena.bytes) for arena in algorithm.arenas]
    assert found == 2 * [("CPU:0", 1, 64), ("CPU:0", 2, 32), ("CUDA:1", 3, 16)]


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        ([spec(16, 0, 1, 0)], "must be in a memory >= 1"),
        ([spec(16, 0, 1, None, spec(16, 0, 1))], "which is not planned"),
        ([spec(16, 3, 2)], r"must have a lifetime \[first, last\], got \[3, 2\]"),
        ([TensorSpec(torch.uint8, torch.Size([3]))], "tensor '#0' must have a lifetime"),
    ],
)
def test_specs_that_cannot_be_placed_are_refused(specs: list[Any], message: str) -> None:
    with pytest.raises(memplan.errors.SourceError, match=message):
        placed(specs)


@pytest.mark.parametrize(
    ("offset", "message"),
    [
        (-16, r"at bytes \[-16, 16\), which must be in \[0, 64\)"),
        (48, r"at bytes \[48, 80\), which"),
        (8, "at byte 8, which must be a multiple of 16"),
    ],
)
def test_a_spec_outside_of_what_it_lies_in_is_refused(offset: int, message: str) -> None:
    base = spec(64, 0, 1)
    with pytest.raises(memplan.errors.SourceError, match=message):
        placed([base, spec(32, 0, 1, None, base, offset)])


def test_specs_that_lie_in_one_another_are_refused() -> None:
    a, b = spec(16, 0, 1), spec(16, 0, 1)
    a.storage_base, b.storage_base = b, a
    with pytest.raises(memplan.errors.SourceError, match="storage_base goes in a circle"):
        placed([a, b])


def test_a_capacity_is_kept_or_the_error_names_what_is_in_the_way() -> None:
    specs = [spec(64, 0, 1), spec(64, 1, 2), spec(32, 0, 2, 2)]
    assert placed(specs, capacity="128 B")[1].bufsizes == [0, 128, 32]
    with pytest.raises(memplan.InfeasibleError, match=r"the graph, memory 1: no plan fits a capacity of 127") as caught:
        placed(specs, capacity=127)
    assert (caught.value.lower_bound, caught.value.proven) == (128, True)
    with pytest.raises(memplan.InfeasibleError, match=r"the graph, memory 2: no plan fits a capacity of 16"):
        placed(specs, capacity={2: 16})
    assert placed(specs, "naive", capacity=192)[1].bufsizes == [0, 128, 32]


def test_padding_counts_as_part_of_a_capacity() -> None:
    specs = [spec(64, 0, 1)]
    assert placed(specs, padding=64, capacity=128)[1].bufsizes == [0, 128]
    for capacity in (127, 10):
        with pytest.raises(memplan.InfeasibleError, match=r"\(64 of its bytes are for padding and bodies\)"):
            placed(specs, padding=64, capacity=capacity)


@pytest.mark.parametrize(
    ("capacity", "error", "message"),
    [
        ({0: 16}, ValueError, r"memory ids >= 1 as keys \(0 has constants\), got 0"),
        ({"SRAM": 16}, TypeError, "memory ids as keys, got 'SRAM'"),
        ({1: -1}, ValueError, r"capacity\[1\] must be >= 0"),
        ("lots", ValueError, "capacity must be"),
    ],
)
def test_a_bad_capacity_is_refused(capacity: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        memplan.executorch.memory_planning_algo(capacity=capacity)


def test_bad_options_are_refused_before_anything_is_planned() -> None:
    for options in ({"planner": "no_such"}, {"time_limit": -1}, {"threads": 0}):
        with pytest.raises(ValueError, match=r"no_such|time_limit|threads"):
            memplan.executorch.memory_planning_algo(**options)


def test_without_executorch_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memplan.executorch.versions.find_spec", lambda name: None)
    with pytest.raises(memplan.errors.MissingDependencyError, match=r"pip install 'memplan\[executorch\]'"):
        memplan.executorch.memory_planning_pass()


def test_a_version_that_lacks_a_name_is_refused_with_those_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    from memplan.executorch import versions

    tested = pytest.raises(memplan.errors.UnsupportedError, match=r"names of executorch 1\.5; this is executorch \d")
    with tested, versions.names_of_executorch():
        from executorch.exir.memory_planning import no_such_name  # noqa: F401
    with pytest.raises(ImportError, match="no_such_module"), versions.names_of_executorch():
        import no_such_module  # noqa: F401

    def not_found(name: str) -> str:
        raise versions.PackageNotFoundError(name)

    monkeypatch.setattr(versions, "version", not_found)
    assert versions._installed() == "of an unknown version"
