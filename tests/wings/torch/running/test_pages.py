"""What a run returns takes its pages along: nothing is copied, and later runs do not change it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
if sys.platform != "linux":
    pytest.skip("pages move on Linux only", allow_module_level=True)

import memplan  # noqa: E402
from memplan.torch.running import pages  # noqa: E402

nn = torch.nn


def of_ones(nbytes: int) -> Any:
    arena = pages.mapped(nbytes)
    assert arena is not None
    return arena.fill_(1)


def test_pages_move_and_leave_zeros() -> None:
    arena = of_ones(100_000)
    found = pages.taken(arena, 320, 90_100)
    assert found is not None
    assert found.data_ptr() % 64 == 0
    assert found.untyped_storage().nbytes() == len(found) == 90_100 - 320
    assert bool((found == 1).all())
    assert bool((arena[:320] == 1).all())
    assert bool((arena[90_100:] == 1).all())
    assert int(arena[4096 : 90_100 // 4096 * 4096].sum()) == 0
    arena.fill_(2)
    again = pages.taken(arena, 320, 90_100)
    assert again is not None
    del arena
    assert bool((found + again == 3).all())


def test_pages_move_to_and_fro() -> None:
    arena = of_ones(100_000)
    at = pages.page_up(arena.data_ptr())
    move = pages.Move(at, at + 40_960, 20_480)
    arena[40_960:61_440].fill_(2)
    assert pages.moved(move)
    assert arena[::20_480].tolist() == [0, 1, 1, 1, 1]
    assert pages.moved(move.back)
    assert arena[::20_480].tolist() == [1, 1, 0, 1, 1]


def test_less_than_a_page_does_not_move() -> None:
    assert pages.taken(of_ones(100_000), 4000, 8000) is None


@pytest.mark.parametrize("why", ["the system cannot", "too many live"])
def test_where_pages_cannot_move_results_are_copied(monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    if why == "too many live":
        monkeypatch.setattr(pages, "_MOST", 0)
    else:
        monkeypatch.setattr(pages, "_mremap", lambda: lambda *_: pages._FAILED)
    arena = of_ones(100_000)
    assert pages.taken(arena, 0, 90_000) is None
    assert bool((arena == 1).all())
    module, x = nn.Linear(64, 64), torch.randn(1000, 64)
    plan = memplan.plan(module, args=(x,), alignment=64)
    first, second = plan.run(x).outputs, plan.run(x + 1).outputs
    with torch.no_grad():
        assert torch.equal(first, module(x))
        assert torch.equal(second, module(x + 1))


def test_without_such_pages_an_arena_is_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> Any:
        raise OSError("no addresses are left")

    monkeypatch.setattr(pages, "_region", refused)
    module, x = nn.Linear(64, 64), torch.randn(1000, 64)
    run = memplan.plan(module, args=(x,), alignment=64).run(x, check=True)
    with torch.no_grad():
        assert torch.equal(run.outputs, module(x))


def test_large_outputs_are_not_allocated_and_stay() -> None:
    """Those that share a storage are copied, as is what has gaps."""

    class Net(nn.Module):
        def forward(self, x: Any) -> Any:
            y = x.exp()
            pair = (x + 1).sin()
            return y, pair[:500], pair[500:], (x * 3)[:, :40], y

    x = torch.randn(1000, 64)
    plan = memplan.plan(Net(), args=(x,), alignment=64)
    kept = [plan.run(x + k).outputs for k in range(3)]
    with torch.profiler.profile(profile_memory=True) as seen:
        plan.run(x, check=True)
    made = [e.nbytes() for e in seen.profiler.kineto_results.events() if e.name() == "[memory]" and e.nbytes() > 0]
    assert sorted(made) == [128_000, 128_000, 160_000]
    for k, outputs in enumerate(kept):
        assert all(torch.equal(a, b) for a, b in zip(outputs, Net()(x + k), strict=True))
        assert outputs[0] is outputs[4]


def test_tied_weights_have_one_gradient() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(100, 64), nn.Linear(64, 100, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, x: Any) -> Any:
            return self.head(self.embed(x)).square().mean()

    module, x = Tied(), torch.arange(50)
    plan = memplan.plan(module, args=(x,), train=True, alignment=64)
    first, second = plan.run(x), plan.run(x)
    module(x).backward()
    assert all(torch.equal(g, module.embed.weight.grad) for run in (first, second) for g in run.gradients.values())
    assert len({g.data_ptr() for run in (first, second) for g in run.gradients.values()}) == 2


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x.exp().masked_fill(torch.ones(100, dtype=torch.bool), 2.0).sin(),
        lambda x: x.exp().scatter_add(1, torch.zeros(4, 100, dtype=torch.int64), x).sin(),
        lambda x: nn.functional.silu(nn.functional.silu(x * 2)),
    ],
    ids=["masked_fill", "scatter_add", "silu_backward"],
)
def test_what_writes_over_its_input_is_not_copied(compute: Any) -> None:
    class Net(nn.Module):
        def forward(self, x: Any) -> Any:
            return compute(x).sum()

    x = torch.randn(4, 100, requires_grad=True)
    plan = memplan.plan(Net(), args=(x,), train=True, alignment=64)
    runs = [plan.run(x, check=True) for _ in range(2)]
    Net()(x).backward()
    assert all(torch.equal(run.gradients["x"], x.grad) for run in runs)
    assert runs[1].copied == 0


def resident(arena: Any) -> int:
    """Bytes of the whole pages of an arena that are there."""
    first, last = pages.page_up(arena.data_ptr()), pages.page_down(arena.data_ptr() + len(arena))
    with Path("/proc/self/pagemap").open("rb") as file:
        file.seek(first // 4096 * 8)
        entries = np.frombuffer(file.read((last - first) // 4096 * 8), dtype=np.uint64)
    return int((entries >> np.uint64(63)).sum()) * 4096


def test_copies_of_small_results_take_no_more_than_leaves_the_arena() -> None:
    module, x = nn.Sequential(*(nn.Linear(32, 32) for _ in range(30))), torch.randn(512, 32)
    plan = memplan.plan(module, args=(x,), train=True, alignment=64)
    expected = plan.run(x, check=True, views=True)
    arena = vars(plan)["_bound"].bound._memory.arena
    expected, before = [gradient.clone() for gradient in expected.gradients.values()], resident(arena)
    for check in (True, False):
        run = plan.run(x, check=check)
        copied = sum(gradient.nbytes for gradient in run.gradients.values())
        assert copied > 100_000
        assert before - resident(arena) > copied - 4096
        assert all(map(torch.equal, run.gradients.values(), expected))
    assert resident(arena) <= before  # the same pages again
