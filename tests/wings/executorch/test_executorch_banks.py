"""Memories of ExecuTorch that are filled one after another, beside its own planner of banks."""

from __future__ import annotations

import random
from typing import Any

import pytest

import memplan

pytest.importorskip("torch")
pytest.importorskip("executorch")

import torch
from executorch.exir.banked_memory_planning import Bank, BankedGreedy, BankPlacementError, TargetMemoryMap
from executorch.exir.schema import DeviceType

from builders.executorch_programs import program_of, runs, sizes, widths
from builders.executorch_specs import ALIGNMENT, empty_graph, faults, placed, random_specs, spec

KiB = 1024


def flat_specs(rng: random.Random) -> list[Any]:
    """Specs that lie in no others; some are put into memory 2, or into one without a capacity."""
    specs = [one for one in random_specs(rng) if one.storage_base is None]
    for one in specs:
        one.mem_id = rng.choice([None, None, None, None, 2, 4])
    return specs


def theirs(specs: list[Any], room: dict[int, int], padding: int) -> dict[int, int] | None:
    """Bytes of each memory by ExecuTorch's own planner; None where it finds no place."""
    memories = TargetMemoryMap([Bank(f"bank {k}", size, k) for k, size in room.items()])
    try:
        found = BankedGreedy(memories)(ALIGNMENT, specs, empty_graph(), None, padding)
    except BankPlacementError:
        return None
    return dict(enumerate(found.bufsizes))


def later(specs: list[Any], places: dict[int, int], room: dict[int, int]) -> int:
    """Bytes in later memories, each as often as there are memories before its own."""
    steps = {k: step for step, k in enumerate(room)}
    return sum(-(-one.nbytes() // ALIGNMENT) * ALIGNMENT * steps.get(places[id(one)], 0) for one in specs)


def test_random_specs_fill_memories_in_turn() -> None:
    """Where ExecuTorch finds places memplan does, with no more bytes in later memories; also where it finds none."""
    spilled = beaten = only_ours = 0
    for seed in range(120):
        rng = random.Random(seed)
        specs, padding = flat_specs(rng), rng.choice([0, 0, 32])
        room = {k: rng.choice([128, 256, 384, 640]) for k in rng.choice([(1, 2), (2, 1), (1, 2, 3), (3, 1)])}
        fixed = {id(one): one.mem_id for one in specs}
        expected = theirs(specs, room, padding)
        in_theirs = {} if expected is None else _places(specs, room, padding)
        try:
            _, result = placed(specs, padding=padding, capacity=room)
        except memplan.InfeasibleError:
            assert expected is None, seed
            continue
        found = {id(one): result.spec_dict[one].mem_id for one in specs}
        assert all(found[one] == memory for one, memory in fixed.items() if memory is not None), seed
        assert all(found[one] in room for one, memory in fixed.items() if memory is None), seed
        assert all(size <= room.get(k, size) for k, size in enumerate(result.bufsizes)), seed
        for one in specs:
            one.mem_id = found[id(one)]
        assert not list(faults(specs, result, padding)), seed
        first = next(iter(room))
        spilled += any(found[one] != first for one, memory in fixed.items() if memory is None)
        only_ours += expected is None
        if expected is not None:
            assert later(specs, found, room) <= later(specs, in_theirs, room), seed
            beaten += later(specs, found, room) < later(specs, in_theirs, room)
    assert min(spilled, beaten, only_ours) >= 5, (spilled, beaten, only_ours)


def _places(specs: list[Any], room: dict[int, int], padding: int) -> dict[int, int]:
    memories = TargetMemoryMap([Bank(f"bank {k}", size, k) for k, size in room.items()])
    found = BankedGreedy(memories)(ALIGNMENT, specs, empty_graph(), None, padding)
    return {id(one): found.spec_dict[one].mem_id for one in specs}


def test_the_first_memory_is_filled_first() -> None:
    specs = [spec(64, 0, 1), spec(64, 0, 1), spec(32, 0, 1, 2)]
    assert placed(specs, capacity={1: 128, 2: 128})[1].bufsizes == [0, 128, 32]
    assert placed(specs, capacity={1: 64, 2: 128})[1].bufsizes == [0, 64, 96]
    assert placed(specs, capacity={2: 96, 1: 64})[1].bufsizes == [0, 64, 96]
    assert placed(specs, capacity={2: 160, 1: 64})[1].bufsizes == [0, 0, 160]
    with pytest.raises(memplan.InfeasibleError, match=r"the graph, memories 1, 2: .*no plan fits"):
        placed(specs, capacity={1: 64, 2: 64})
    with pytest.raises(memplan.InfeasibleError, match=r"the graph, memory 1: no plan fits a capacity of 64"):
        placed(specs, capacity={1: 64})  # no other memory has a capacity


def test_what_lies_in_a_spec_goes_with_it() -> None:
    whole = spec(64, 0, 1)
    part = spec(16, 1, 2, None, whole, 32)
    _, result = placed([whole, part, spec(64, 0, 2, 1)], capacity={1: 64, 2: 64})
    assert [(result.spec_dict[one].mem_id, result.spec_dict[one].mem_offset) for one in (whole, part)] == [
        (2, 0),
        (2, 32),
    ]


def test_memories_of_other_devices_are_not_filled() -> None:
    specs = [spec(64, 0, 1), spec(64, 0, 1)]
    for one in specs:
        one.device = DeviceType.CUDA
    with pytest.raises(memplan.InfeasibleError, match="memory 1: no plan fits a capacity of 64"):
        placed(specs, capacity={1: 64, 2: 64})


def test_a_program_runs_in_memories_that_are_filled_in_turn() -> None:
    model, inputs = widths()
    memory = memplan.executorch.memory_planning_pass(capacity={1: "16KiB", 2: "64KiB"})
    program = program_of(model, memory)
    assert [arena.memory for arena in memory.arenas] == [1, 2]
    assert sizes(program) == [[0, *(arena.bytes for arena in memory.arenas)]]
    assert all(arena.bytes <= 16 * KiB for arena in memory.arenas)  # of 28 KiB in one memory
    assert torch.allclose(runs(program, inputs)[0][0], model.module()(*inputs), atol=1e-5)
    only = memplan.executorch.memory_planning_pass(capacity={1: "32KiB", 2: "64KiB"})
    program_of(widths()[0], only)
    assert [arena.memory for arena in only.arenas] == [1]


def test_bodies_are_filled_in_turn_too() -> None:
    """A branch needs more than the first memory has; what it returns lies where the result of the cond does."""

    class Branches(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            def wide(v: torch.Tensor) -> torch.Tensor:
                return torch.cat([v * 2, v.exp(), v - 1]).relu().sum(0, keepdim=True) + v

            y = torch.cond(x.sum() > 0, wide, lambda v: v - 1, [x.relu()])
            return y * x.exp() + y.reshape(1, -1)

    inputs = [(torch.ones(1, 256),), (-torch.ones(1, 256),)]
    model = torch.export.export(Branches(), inputs[0])
    memory = memplan.executorch.memory_planning_pass(capacity={1: "4KiB", 2: "16KiB"})
    program = program_of(model, memory)
    assert {arena.memory for arena in memory.arenas if arena.body} == {1, 2}
    assert all(arena.bytes <= 4 * KiB for arena in memory.arenas if arena.memory == 1)
    for one, [found] in zip(inputs, runs(program, *inputs), strict=True):
        assert torch.allclose(found, Branches()(*one))


def test_state_that_methods_share_keeps_its_memory() -> None:
    model, _ = widths()
    shared = memplan.executorch.memory_planning_pass(capacity={1: "16KiB", 2: "64KiB"}, share_mutable_buffers=True)
    with pytest.raises(memplan.InfeasibleError, match="memory 1: no plan fits a capacity of 16384"):
        program_of({"forward": model}, shared)
