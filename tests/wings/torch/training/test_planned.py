"""Steps that plan themselves: equal results, few bytes, and nothing in the way of the rest of the program."""

from __future__ import annotations

import gc
import re
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import memplan  # noqa: E402
from memplan.torch.training.library import cpu  # noqa: E402

Step = Callable[..., Any]


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Every test frees its arenas, and torch has its own allocator again."""
    yield
    gc.collect()
    assert cpu().arenas() == 0
    assert not cpu().busy


def trainer() -> Step:
    """A loop's step that leaves its gradients to the next one."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 5))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def batch(size: int) -> tuple[Any, Any]:
    chance = torch.Generator().manual_seed(size)
    return torch.randn(size, 3, 8, 8, generator=chance), torch.randint(0, 5, (size,), generator=chance)


@pytest.mark.parametrize("sizes", [[16] * 8, [16, 16, 16, 16, 5] * 4, [4, 4, 4, 4, 16, 16, 16, 16, 16, 16, 4, 16]])
@pytest.mark.parametrize("warmup", [0, 1])
def test_a_loop_has_the_same_losses(sizes: list[int], warmup: int) -> None:
    plain, step = trainer(), memplan.torch.planned(trainer(), warmup=warmup, quiet=True)
    losses = [(plain(*batch(size)), step(*batch(size))) for size in sizes]  # kept until the end
    assert all(torch.equal(a, b) for a, b in losses)
    report = step.report()
    assert report is not None
    assert report.served > 0


def test_after_two_recorded_calls_all_is_served() -> None:
    step = memplan.torch.planned(trainer(), quiet=True)
    for calls in range(3):  # one to warm up, two that are recorded
        assert step.report() is None or calls == 3
        step(*batch(16))
    for _ in range(4):
        step(*batch(16))
    report = step.report()
    assert report is not None
    assert (report.steps, report.missed, report.moved) == (4, 0, 0)
    assert len(step.plans) == 1
    assert report.alive == 4  # gradients lie in the arena from one step into the next


def test_smaller_steps_need_no_plan_and_larger_ones_get_one() -> None:
    step = memplan.torch.planned(trainer(), quiet=True)
    for size in [16] * 5 + [9] * 5:
        step(*batch(size))
    assert len(step.plans) == 1
    for size in [64] * 6:
        step(*batch(size))
    assert len(step.plans) == 2
    report = step.report()
    assert report is not None
    assert report.missed == 0
    step(*batch(16))
    assert len(step.plans) == 2


def test_what_runs_between_two_recorded_calls_is_no_part_of_the_plan() -> None:
    step = memplan.torch.planned(trainer(), quiet=True)
    step(*batch(16))
    step(*batch(16))
    between = torch.ones(1 << 22)
    assert bool((between == 1).all())
    del between
    step(*batch(16))
    (plan,) = step.plans.values()
    assert plan.peak < 1 << 20


def test_it_says_once_what_it_saves(capfd: pytest.CaptureFixture[str]) -> None:
    @memplan.torch.planned(warmup=0)
    def scale(x: Any) -> Any:
        return (x * 2).relu().sum()

    for _ in range(5):
        assert float(scale(torch.ones(100_000))) == 200_000
    said = capfd.readouterr().err
    assert said.count("memplan: scale runs in an arena of ") == 1
    sizes = r"had \S+ [MG]iB before its first call, held \S+ [MG]iB at most in a step as it was, and \S+ [MG]iB now\n"
    assert re.search(f"; the process {sizes}", said)
    assert scale.__name__ == "scale"
    assert 0 < scale.began <= max(scale.held)
    assert min(scale.held) > 0


def test_memory_of_the_calls_before_is_freed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What only a cycle holds too. After the first served call, and never again."""
    trimmed: list[None] = []
    monkeypatch.setattr("memplan.torch.malloc.trim", lambda: trimmed.append(None))
    left: list[weakref.ref[Any]] = []

    @memplan.torch.planned(warmup=0, quiet=True)
    def step(x: Any) -> Any:
        if not left:
            cycle = {"x": x + 1}
            left.append(weakref.ref(cycle["x"]))
            cycle["cycle"] = cycle
        return (x * 2).sum()

    gc.disable()
    try:
        for _ in range(2):
            step(torch.ones(1000))
        assert left[0]() is not None
        assert not trimmed
        for _ in range(3):
            step(torch.ones(1000))
            assert left[0]() is None
            assert len(trimmed) == 1
        step.forget()
        for _ in range(4):
            step(torch.ones(1000))
        assert len(trimmed) == 2
    finally:
        gc.enable()


def test_a_method_is_planned() -> None:
    class Loop:
        @memplan.torch.planned
        def step(self, x: Any) -> Any:
            return (x + self.one).sum()

        one = 1

    loop = Loop()
    assert [float(loop.step(torch.ones(1000))) for _ in range(6)] == [2000] * 6


@pytest.mark.parametrize("at", range(6))
def test_a_step_that_raises_leaves_no_trace(at: int) -> None:
    calls: list[int] = []

    def step(x: Any) -> Any:
        calls.append(0)
        made = x * 2
        if len(calls) == at + 1:
            raise ZeroDivisionError
        return made.sum()

    planned = memplan.torch.planned(step, quiet=True)
    for call in range(10):
        if call == at:
            with pytest.raises(ZeroDivisionError):
                planned(torch.ones(1000))
            assert not cpu().busy
            continue
        assert float(planned(torch.ones(1000))) == 2000
    assert planned.report() is not None


def test_where_something_else_is_recorded_or_served_it_runs_as_it_is() -> None:
    inner = memplan.torch.planned(lambda x: (x * 2).sum(), quiet=True)
    outer = memplan.torch.planned(lambda x: inner(x) + x.sum(), quiet=True)
    assert [float(outer(torch.ones(1000))) for _ in range(8)] == [3000] * 8
    assert outer.report() is not None
    with memplan.torch.record() as tape:
        assert float(inner(torch.ones(1000))) == 2000
    assert len(tape) > 0
    between = memplan.torch.planned(lambda x: (x * 3).sum(), warmup=0, quiet=True)
    other = memplan.torch.planned(lambda x: (x * 5).sum(), warmup=0, quiet=True)
    found = [(float(between(torch.ones(1000))), float(other(torch.ones(1000)))) for _ in range(8)]
    assert found == [(3000, 5000)] * 8
    assert between.report() is not None
    assert other.report() is not None


def test_threads_may_call_it_at_once() -> None:
    step = memplan.torch.planned(lambda x: (x * 2).sort().values.sum(), quiet=True)
    wrong: list[float] = []

    def work() -> None:
        wrong.extend(found for _ in range(50) if (found := float(step(torch.ones(2000)))) != 4000)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_threads_may_each_have_a_step_of_their_own() -> None:
    wrong: list[float] = []

    def work(factor: int) -> None:
        step = memplan.torch.planned(lambda x: (x * factor).sort().values.sum(), quiet=True)
        wrong.extend(found for _ in range(50) if (found := float(step(torch.ones(2000)))) != 2000 * factor)

    threads = [threading.Thread(target=work, args=(factor,)) for factor in range(2, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("calls", [2, 5])
def test_forget_gives_the_arena_back(calls: int) -> None:
    step = memplan.torch.planned(trainer(), quiet=True)
    for _ in range(calls):
        step(*batch(16))
    step.forget()
    assert not cpu().busy
    assert step.report() is None
    for _ in range(5):
        step(*batch(16))
    assert step.report() is not None


@pytest.mark.parametrize(
    ("given", "error"),
    [({"step": 3}, "takes a function"), ({"warmup": -1}, "warmup must be >= 0"), ({"planner": "aut"}, "planner must")],
)
def test_what_it_takes(given: dict[str, Any], error: str) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        memplan.torch.planned(**{"step": trainer(), **given})
