"""Kernels of a planned run get memory from its arena: results in their places, scratch in free bytes."""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
if sys.platform != "linux":
    pytest.skip("kernels are served on Linux only", allow_module_level=True)

import memplan  # noqa: E402
from memplan.torch.running import offering, pages  # noqa: E402
from memplan.torch.running.kernels import Instruction  # noqa: E402

nn = torch.nn


def convolutions() -> Any:
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.GELU(), nn.Conv2d(8, 8, 3, padding=1, stride=2)]
    return nn.Sequential(*layers, nn.Upsample(scale_factor=2), nn.Conv2d(8, 4, 1), nn.Softmax(1)).eval()


def of(compute: Callable[[Any], Any]) -> Any:
    class Net(nn.Module):
        def forward(self, x: Any) -> Any:
            return compute(x)

    return Net()


def runs(module: Any, x: Any, **options: Any) -> list[Any]:
    """Three poisoned runs, equal to eager."""
    plan = memplan.plan(module, args=(x,), alignment=64, **options)
    with torch.no_grad():
        expected = module(x)
    found = [plan.run(x, check=True) for _ in range(3)]
    assert all(torch.equal(run.outputs, expected) for run in found)
    return found


def test_convolutions_write_where_the_plan_says() -> None:
    first, second, third = runs(convolutions(), torch.randn(2, 3, 32, 32))
    assert first.copied >= second.copied == third.copied == 0


def test_scratch_lies_in_the_arena_where_it_has_room() -> None:
    """At the convolution, the arena has what its wide input and output need later."""
    torch.manual_seed(0)
    conv, wide = nn.Conv2d(8, 8, 3, padding=1), 64

    def compute(x: Any) -> Any:
        return conv(x).repeat(1, wide, 1, 1).exp().sum(1)

    first, *later = runs(of(compute), torch.randn(1, 8, 64, 64))
    assert first.outside > 4096
    assert all(run.outside < 4096 for run in later)


def test_scratch_lies_where_a_result_is_made_later() -> None:
    """A dilated convolution unfolds its input and frees that, before it makes its result."""
    torch.manual_seed(0)
    conv, norm = nn.Conv1d(16, 16, 3, padding=16, dilation=16), nn.BatchNorm1d(16)

    class Net(nn.Module):
        def forward(self, x: Any) -> Any:
            for _ in range(3):
                x = x + norm(conv(x)).relu()
            return x

    first, *later = runs(Net().eval(), torch.randn(16, 16, 256))
    assert all(run.copied == 0 and run.outside < 4096 < first.outside for run in later)


def test_results_outside_of_the_arena_are_the_callers() -> None:
    """They are made there, not copied, and later runs make others."""
    module = of(lambda x: ((y := x.exp()) * 2, y[1:] + 1, y.sum()))
    x = torch.randn(100, 100)
    plan = memplan.plan(module, args=(x,), alignment=64, place=["intermediate"])
    first = plan.run(x).outputs
    with torch.profiler.profile(profile_memory=True) as seen:
        second = plan.run(x + 1).outputs
    made = [e.nbytes() for e in seen.profiler.kineto_results.events() if e.name() == "[memory]" and e.nbytes() > 0]
    assert sorted(size for size in made if size > 1000) == [39600, 40000, 40000]  # x + 1 is one of them
    for given, found in ((x, first), (x + 1, second)):
        assert all(torch.equal(a, b) for a, b in zip(module(given), found, strict=True))
    assert len({tensor.untyped_storage().data_ptr() for tensor in (*first, *second)}) == 6


def test_results_outside_of_the_arena_stay_where_their_kernels_have_made_them() -> None:
    module = of(nn.Conv2d(3, 8, 3, padding=1))
    found = runs(module, torch.randn(2, 3, 32, 32), place=["intermediate"])
    assert [run.copied for run in found] == [0, 0, 0]
    assert len({run.outputs.data_ptr() for run in found}) == 3


def test_a_result_that_a_kernel_shares_is_copied_out_of_the_arena() -> None:
    """The kernel gives its own input, where its fake kernel promises a new tensor."""

    library = torch.library.Library("memplan_sharing", "DEF")
    library.define("maybe_new(Tensor x) -> Tensor")
    library.impl("maybe_new", lambda x: x.view(-1), "CPU")
    torch.library.register_fake("memplan_sharing::maybe_new", torch.empty_like, lib=library)
    maybe_new = torch.ops.memplan_sharing.maybe_new
    plan = memplan.plan(
        of(lambda x: maybe_new(x.exp())), args=(torch.zeros(6000),), place=["intermediate"], alignment=64
    )
    first = plan.run(torch.zeros(6000)).outputs
    plan.run(torch.ones(6000))
    assert bool((first == 1).all())


def test_no_kernel_gets_reserved_bytes() -> None:
    conv = nn.Conv2d(8, 8, 3, padding=1)
    module, x = of(lambda x: conv(x).repeat(1, 64, 1, 1).exp().sum(1)), torch.randn(1, 8, 64, 64)

    def free(**options: Any) -> list[int]:
        plan = memplan.plan(module, args=(x,), alignment=64, **options)
        memory: Any = types.SimpleNamespace(arena=torch.empty(plan.peak, dtype=torch.uint8), behind=0)
        own = offering.Offering(plan, memory, True)
        places, _ = own.places(object(), 0, np.array([(4096, 0, 3), (8192, 1, 2)]), [])
        return [at - memory.arena.data_ptr() for at in places.values()]

    end = 1 << 20
    assert max(free()) < end
    assert len(free()) == 2
    assert all(at >= end for at in free(reserved=[(0, end)]))
    assert all(at >= end for at in free(reserved=[(0, end, 0, 1)]))


def test_what_is_behind_the_arena_is_given_back_once_no_kernel_needs_it() -> None:
    module, x = of(lambda x: x.exp().sin()), torch.randn(1 << 16)
    plan = memplan.plan(module, args=(x,), alignment=64)
    plan.run(x)
    own = vars(plan)["_bound"].bound._offering
    first, other = object(), object()
    own.places(first, 0, np.array([(1 << 20, 0, 1)]), [])
    own.places(other, 0, np.array([(1 << 19, 0, 1)]), [])
    behind = plan.run(x).outside
    assert behind >= 1 << 19
    own.places(first, 0, np.array([(64, 0, 1)]), [])
    plan.run(x)
    assert plan.run(x).outside == behind - (1 << 19)
    own.places(other, 0, np.array([(64, 0, 1)]), [])
    plan.run(x)
    assert plan.run(x).outside < 1 << 18


def test_a_plan_may_have_room_for_what_kernels_allocate() -> None:
    torch.manual_seed(0)
    layers = [
        nn.Conv2d(3, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, padding=1),
        nn.Conv2d(16, 2, 3, padding=1),
    ]
    module, x = nn.Sequential(*layers).eval(), torch.randn(1, 3, 64, 64)
    plain = runs(module, x)[-1]
    with_room = runs(module, x, kernels=True)[-1]
    assert with_room.arena_bytes > plain.arena_bytes
    assert plain.outside > 16 * 64 * 64 * 4
    assert with_room.outside < 256  # bytes: a bias in blocks is not counted
    plan = memplan.plan(module, args=(x,), alignment=64, kernels=True)
    assert {op.name for op in plan.graph.ops if op.workspace} == {"0.convolution", "2.convolution", "3.convolution"}  # type: ignore[union-attr]
    for wrong in ({"source": torch.export.export(module, (x,))}, {"source": module, "args": (x,), "device": "cuda"}):
        with pytest.raises(TypeError, match="option kernels applies to modules on the CPU"):
            memplan.plan(**wrong, kernels=True)


def test_scratch_without_room_lies_behind_the_arena() -> None:
    conv = nn.Conv2d(8, 8, 3, padding=1)
    module, x = of(lambda x: conv(x).sum()), torch.randn(1, 8, 64, 64)
    plan = memplan.plan(module, args=(x,), alignment=64)
    first, *later = [plan.run(x) for _ in range(4)]
    with memplan.torch.record() as tape:
        plan.run(x)
    assert max(tape.size, default=0) < 4096
    assert all(100_000 < run.outside <= first.outside for run in later)


def test_scratch_behind_the_arena_has_its_free_pages_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is free at the convolution lies in six pieces, and each is too small."""
    moves: list[pages.Move] = []
    monkeypatch.setattr(offering, "moved", lambda move: moves.append(move) or pages.moved(move))
    conv = nn.Conv2d(8, 8, 3, padding=1)

    def compute(x: Any) -> Any:
        y = conv(x.exp()).sum()
        small = [x[:, :6] * number for number in range(6)]
        return sum((tensor.sum() for tensor in small), y)

    size = 6 * 64 * 64 * 4
    apart = [(begin + size, begin + size + 64) for begin in range(0, 6 * (size + 64), size + 64)]
    first, *later = runs(of(compute), torch.randn(1, 8, 64, 64), reserved=apart)
    assert first.outside > 100_000
    assert all(run.outside < 4096 for run in later)
    assert moves
    assert {move.back for move in moves} == set(moves)


def test_malloc_gives_back_what_the_first_runs_have_left(monkeypatch: pytest.MonkeyPatch) -> None:
    trims: list[None] = []
    monkeypatch.setattr(offering, "trim", lambda: trims.append(None))
    module, x = convolutions(), torch.randn(2, 3, 32, 32)
    plan = memplan.plan(module, args=(x,), alignment=64)
    counts = [(plan.run(x), len(trims))[1] for _ in range(4)]
    assert counts == [1, 1, 1, 1]


def test_without_the_allocator_results_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offering, "cpu_if_built", lambda: None)
    found = runs(convolutions(), torch.randn(2, 3, 32, 32))
    assert {(run.copied, run.outside) for run in found} == {(3, None)}


def test_what_a_kernel_allocates_first_does_not_overwrite_its_input() -> None:
    """rsub makes a tensor of its number first, as large as its result, which lies over its input."""
    runs(of(lambda x: torch.rsub(x.sum() * 2, 1) * 3), torch.randn(100))


def test_a_custom_kernel_may_keep_what_it_allocates() -> None:
    kept: list[Any] = []

    @torch.library.custom_op("memplan_tests::keeping", mutates_args=())
    def keeping(x: torch.Tensor) -> torch.Tensor:
        kept.append(torch.full((5000,), 7.0))
        assert all(bool((tensor == 7).all()) for tensor in kept)
        return x * 2

    keeping.register_fake(lambda x: torch.empty_like(x))
    runs(of(lambda x: keeping(x.exp()).repeat(20).sum()), torch.randn(5000))
    assert len(kept) == 4


def test_a_kernel_that_raises_leaves_torch_as_it_was() -> None:
    module = of(lambda index: torch.arange(5000.0).gather(0, index).exp().sum())
    good, bad = torch.arange(100), torch.arange(4950, 5050)
    plan = memplan.plan(module, args=(good,), alignment=64)
    assert float(plan.run(good).outputs) == float(module(good))
    with pytest.raises(RuntimeError, match="out of bounds"):
        plan.run(bad)
    assert torch.ones(5000).sum() == 5000
    assert float(plan.run(good).outputs) == float(module(good))


def test_threads_run_plans_at_once() -> None:
    wrong: list[int] = []

    def work(seed: int) -> None:
        module, x = convolutions(), torch.randn(1, 3, 16, 16)
        plan = memplan.plan(module, args=(x,), alignment=64)
        with torch.no_grad():
            for _ in range(20):
                x = torch.randn(1, 3, 16, 16)
                if not torch.equal(plan.run(x).outputs, module(x)):
                    wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_planned_run_may_be_recorded() -> None:
    module, x = convolutions(), torch.randn(2, 3, 16, 16)
    plan = memplan.plan(module, args=(x,), alignment=64)
    plan.run(x)
    with memplan.torch.record() as tape:
        plan.run(x)
    assert 0 < len(tape) < 50
    with torch.no_grad():
        assert torch.equal(plan.run(x).outputs, module(x))


def test_a_kernel_that_keeps_what_it_was_offered_is_refused() -> None:
    """None of torch's does. What it keeps would be written over."""
    kept: list[Any] = []

    def keeping(*_: object) -> bool:
        made = torch.empty(2000)
        if kept:
            kept.append(made)
        return False

    module = of(lambda x: x.exp().repeat(8).sum())
    plan = memplan.plan(module, args=(torch.randn(2000),), alignment=64)
    memory = types.SimpleNamespace(arena=torch.empty(plan.peak, dtype=torch.uint8), behind=0)
    served = offering.Offering(plan, memory, True)
    call = served.around(0, Instruction(keeping, True))
    with served.installed():
        call()  # its first call says that it needs scratch
        kept.append(None)
        with pytest.raises(memplan.errors.UnsupportedError, match="keeps memory past its call, so it cannot"):
            call()
        call()
    assert not memory.arena.numel() > kept[2].data_ptr() - memory.arena.data_ptr() >= 0
