"""One call of a kernel, which gets memory from an arena: its results in their places, scratch in free bytes."""

from __future__ import annotations

import sys
from typing import Any

import pytest

torch = pytest.importorskip("torch")
if sys.platform != "linux":
    pytest.skip("kernels are served on Linux only", allow_module_level=True)

from torch.multiprocessing.reductions import StorageWeakRef  # noqa: E402

import memplan  # noqa: E402
from memplan.torch.compiling import serving  # noqa: E402
from memplan.torch.compiling.serving import OUTSIDE, served  # noqa: E402

SIZE = 8192  # floats of a result
SCRATCH = [(0, 1 << 16, 1 << 18)]


def arena() -> Any:
    return torch.zeros(1 << 18)


def test_a_result_in_its_place() -> None:
    whole, run = arena(), served("twice", [((), 0, 64, 4 * SIZE)], SCRATCH)
    result = run(whole, 1, torch.full, (SIZE,), fill_value=2.0)
    assert result.data_ptr() == whole.data_ptr() + 64
    assert bool((whole[16 : 16 + SIZE] == 2).all())


def test_a_result_keeps_its_arena_and_frees_it() -> None:
    whole, run = arena(), served("twice", [((), 0, 64, 4 * SIZE)], SCRATCH)
    result = run(whole, 1, torch.full, (SIZE,), 2.0)
    seen = StorageWeakRef(whole.untyped_storage())
    del whole
    part = result[:4]
    del result
    assert not seen.expired()
    assert bool((part == 2).all())
    del part
    assert seen.expired()


def test_what_comes_first_is_not_taken_for_the_result_twice() -> None:
    whole, run = arena(), served("twice", [((), 0, 64, 4 * SIZE)], SCRATCH)
    places = []

    def kernel() -> Any:
        result = torch.full((SIZE,), 1.0) + 1
        places.append(result.data_ptr() - whole.data_ptr())
        return result

    for _ in range(2):
        assert bool((run(whole, 1, kernel) == 2).all())
    assert places == [1 << 16, 64]


def test_results_of_one_size_may_be_made_in_any_order() -> None:
    places = [((0,), 0, 64, 4 * SIZE), ((1,), 0, 64 + 4 * SIZE, 4 * SIZE)]
    whole, run = arena(), served("two", places, SCRATCH)

    def kernel() -> Any:
        second, first = torch.full((SIZE,), 2.0), torch.full((SIZE,), 1.0)
        return first, second

    for _ in range(2):
        pair = run(whole, 1, kernel)
        assert [float(tensor.sum()) for tensor in pair] == [SIZE, 2 * SIZE]
        whole[:16].zero_()
    assert [tensor.data_ptr() - whole.data_ptr() for tensor in pair] == [64, 64 + 4 * SIZE]


def test_a_result_of_the_graph_is_not_made_in_scratch() -> None:
    whole, run = arena(), served("outside", [((0,), OUTSIDE, 0, 4 * SIZE), ((1,), 0, 64, 4)], SCRATCH)
    kept = []
    for number in range(3):
        pair = run(whole, 1, lambda number=number: (torch.full((SIZE,), 1.0) + number, torch.zeros(1)))
        kept.append(pair[0])
        whole.zero_()
    assert [float(tensor.sum()) for tensor in kept] == [SIZE * 1.0, SIZE * 2.0, SIZE * 3.0]
    inside = range(whole.data_ptr(), whole.data_ptr() + whole.nbytes)
    assert not any(tensor.data_ptr() in inside for tensor in kept)


def test_what_nothing_owns_is_handed_on() -> None:
    """A number, an input, and a result that nobody is known to read, made in scratch."""
    whole, given, run = arena(), torch.ones(4), served("mixed", [((0,), 0, 64, 16)], SCRATCH)
    found = run(whole, 1, lambda: (torch.full((4,), 2.0), 7, given, torch.full((SIZE,), 3.0)))
    whole.zero_()
    assert found[0].data_ptr() == whole.data_ptr() + 64
    assert found[1] == 7
    assert found[2] is given
    assert float(found[3].sum()) == 3 * SIZE


def test_a_result_that_is_the_arena_stays_as_it_is() -> None:
    whole, run = arena(), served("same", [((), 0, 0, 4 << 18)], [])
    assert run(whole, 1, whole.view_as, whole).data_ptr() == whole.data_ptr()
    seen = StorageWeakRef(whole.untyped_storage())
    del whole
    assert seen.expired()


@pytest.mark.parametrize("keeps", ["the result", "something else"])
def test_a_kernel_that_keeps_memory_is_refused(keeps: str) -> None:
    whole, run, kept = arena(), served("keeper", [((), 0, 64, 4 * SIZE)], SCRATCH), []

    def keeper() -> Any:
        kept.append(torch.full((SIZE,), 1.0))
        return kept[0][:] if keeps == "the result" else torch.full((4,), 1.0)

    with pytest.raises(memplan.errors.UnsupportedError, match=r"keeper keeps memory past its call.*'serve': False"):
        run(whole, 1, keeper)
    assert torch.ones(SIZE).data_ptr() != kept[0].data_ptr()


def test_a_kernel_that_raises_leaves_torch_as_it_was() -> None:
    whole, run = arena(), served("failing", [((), 0, 64, 4 * SIZE)], SCRATCH)
    with pytest.raises(ZeroDivisionError):
        run(whole, 1, lambda: 1 / 0)
    assert torch.ones(SIZE).data_ptr() != whole.data_ptr() + 64


def test_offsets_are_multiplied_with_sizes() -> None:
    whole, run = arena(), served("scaled", [((), 0, 64, 4)], [])
    assert run(whole, SIZE, torch.full, (SIZE,), 2.0).data_ptr() == whole.data_ptr() + 64 * SIZE


def test_kernels_within_kernels() -> None:
    whole, inner, outer = (
        arena(),
        *(served(name, [((), 0, at, 4 * SIZE)], []) for name, at in (("a", 64), ("b", 1 << 17))),
    )
    result = outer(whole, 1, lambda: inner(whole, 1, torch.full, (SIZE,), 2.0) + 1)
    assert result.data_ptr() == whole.data_ptr() + (1 << 17)
    assert bool((result == 3).all())


def test_what_is_lacking_is_named() -> None:
    with pytest.raises(TypeError, match="twice: expected arenas with scales, and a kernel"):
        served("twice", [((), 0, 64, 4 * SIZE)], [])(arena(), 1)


def test_code_runs_where_nothing_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_calls", lambda: None)
    whole, run = arena(), served("twice", [((), 0, 64, 4 * SIZE)], [(1, 0, 64)])
    result = run(whole, 1, whole, 1, torch.full, (SIZE,), fill_value=2.0)
    assert bool((result == 2).all())
    assert not whole.any()


def test_nothing_is_served_where_the_compiler_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("the C++ compiler failed")

    monkeypatch.setattr(serving, "built", fail)
    assert serving._calls.__wrapped__() is None
    assert serving.can_serve()  # what was built before
