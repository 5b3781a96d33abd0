"""Every planner ends soon when it is asked to, however large the problem, and what it gives then is whole."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable

import numpy as np
import pytest

import memplan
from builders.registered import END_WITH_THEIR_BEST, PLANNERS

SEARCHES = END_WITH_THEIR_BEST - {"cp_sat"}
IN_THE_CORE = [planner for planner in PLANNERS if planner != "cp_sat"]
AFTER = 0.05  # seconds of processor time
LATE = 0.3  # seconds of processor time: a few looks at the clock, and the verification

posix = pytest.mark.skipif(sys.platform == "win32", reason="sends signals to itself")


def crowded(buffers: int) -> memplan.Problem:
    """A third of them is alive at a time: nothing is quick."""
    random = np.random.default_rng(0)
    first = random.integers(0, buffers, buffers)
    return memplan.Problem(random.integers(1, 1 << 20, buffers), first, first + random.integers(1, buffers, buffers))


CROWDED = crowded(100_000)
LAYERED = memplan.generate.layered(200_000)
PROBLEMS = {"crowded": CROWDED, "layered": LAYERED}


def seconds_late(run: Callable[[], object]) -> float:
    """Seconds of processor time that pass between an interrupt and the end."""
    before = signal.signal(signal.SIGPROF, signal.default_int_handler)
    begin = time.process_time()
    try:
        signal.setitimer(signal.ITIMER_PROF, AFTER)
        run()
    except (KeyboardInterrupt, memplan.errors.UnsupportedError):
        pass
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    return time.process_time() - begin - AFTER


@pytest.mark.few(20)
@posix
@pytest.mark.parametrize("kind", PROBLEMS)
@pytest.mark.parametrize("planner", IN_THE_CORE)
def test_an_interrupt_ends_every_planner(planner: str, kind: str) -> None:
    late = 0.0
    for _ in range(3):  # what shares the caches may slow anything down; once is enough
        plans: list[memplan.Plan] = []
        late = seconds_late(lambda: plans.append(memplan.plan(PROBLEMS[kind], planner)))  # noqa: B023
        assert all(planner in SEARCHES or not plan.interrupted for plan in plans)
        if late < LATE:
            return
    pytest.fail(f"it ended {late:.2f} s late")


@pytest.mark.few(12)
@pytest.mark.parametrize("planner", IN_THE_CORE)
def test_a_time_limit_ends_every_planner(planner: str) -> None:
    begin = time.process_time()
    try:
        plan = memplan.plan(CROWDED, planner, time_limit=0.05)
    except memplan.errors.TimeLimitError as error:
        assert planner not in SEARCHES
        said = f"planner '{planner}' did not end within its time limit of 0.05 s"
        assert str(error).startswith(said)  # noqa: PT017
    except memplan.errors.UnsupportedError:
        pass
    else:
        plan.verify()
        assert plan.peak <= int(CROWDED.size.sum())
    assert time.process_time() - begin < 1


def test_a_time_limit_is_a_timeout() -> None:
    with pytest.raises(TimeoutError, match="planners that search, such as 'auto', keep their best"):
        memplan.plan(CROWDED, "greedy_by_size", time_limit=1e-9)


@pytest.mark.parametrize("planner", sorted(SEARCHES - {"exhaustive"}))
def test_without_any_time_there_is_a_plan(planner: str) -> None:
    plan = memplan.plan(LAYERED, planner, time_limit=1e-9)
    plan.verify()
    assert plan.peak <= int(LAYERED.size.sum())


@pytest.mark.parametrize("planner", sorted(SEARCHES))
def test_the_first_plan_is_that_of_first_fit(planner: str) -> None:
    """Small problems are not looked at the clock for before it is done; parts of a shape go by their whole."""
    problem = memplan.generate.layered(400) if planner != "exhaustive" else memplan.generate.layered(20)
    shaped = memplan.Problem([8, 4, 4], [0, 0, 1], [2, 1, 2], 1, None, [(0, 0, 4, 0, 1), (0, 4, 8, 0, 2)])
    for source in (problem, shaped):
        plan = memplan.plan(source, planner, time_limit=1e-9)
        plan.verify()


def test_conflicts_are_kept_in_a_plan_that_is_cut_short() -> None:
    size = [3] * 3000
    pairs = [(i, i + 1) for i in range(2999)]
    problem = memplan.Problem(size, list(range(3000)), list(range(1, 3001)), 1, None, None, pairs)
    plan = memplan.plan(problem, "hill_climb", time_limit=1e-9)
    plan.verify()
    assert plan.peak >= 6


@posix
def test_what_ends_a_planner_that_does_not_search_may_be_an_error_of_a_handler() -> None:
    class Enough(Exception):
        pass

    def handle(*_: object) -> None:
        raise Enough

    before = signal.signal(signal.SIGPROF, handle)
    try:
        signal.setitimer(signal.ITIMER_PROF, AFTER)
        with pytest.raises(Enough):
            memplan.plan(CROWDED, "greedy_by_size")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def test_compare_has_a_row_for_what_did_not_end() -> None:
    rows = memplan.compare(CROWDED, planners=["naive", "greedy_by_size"], time_limit=0.01).rows
    assert [row.error for row in rows] == ["", "TimeLimitError"]


@pytest.mark.slow
def test_what_is_pinned_is_in_the_way_of_a_plan_that_is_cut_short() -> None:
    """Buffers are placed among pins, instead of above all of them, however short the time is."""
    plan = memplan.plan(LAYERED, "first_fit")
    pins = np.where(np.arange(len(LAYERED.size)) % 10 == 0, plan.offsets, -1)
    pinned = memplan.plan(LAYERED.with_pins(pins), time_limit=1e-9)
    pinned.verify()
    assert pinned.peak < 2 * plan.peak < int(LAYERED.size.sum()) / 100
    warm = memplan.plan(LAYERED.with_pins(pins), time_limit=1e-9, start=plan)
    warm.verify()
    assert warm.peak <= plan.peak


def test_a_layout_that_is_pinned_as_a_whole_is_a_plan() -> None:
    plan = memplan.plan(LAYERED, "first_fit")
    begin = time.process_time()
    pinned = memplan.plan(LAYERED.with_pins(plan.offsets))
    assert pinned.optimal
    assert np.array_equal(pinned.offsets, plan.offsets)
    assert time.process_time() - begin < 5
