"""Searches that begin with an earlier plan."""

from __future__ import annotations

from typing import Any

import pytest

import memplan
from builders.registered import PLANNERS

GIVEN = memplan.generate.layered(60)
SEARCHING = [row.name for row in memplan.planners() if "start" in row.supports]


def changed(problem: memplan.Problem, buffer: int, bytes_: int) -> memplan.Problem:
    size = problem.size.copy()
    size[buffer] += bytes_
    return memplan.Problem(size, problem.first, problem.last, problem.alignment, problem.names or None)


def test_those_that_search_take_it() -> None:
    assert SEARCHING == ["auto", "beam", "exhaustive", "hill_climb", "somas", "squeaky_wheel", "valley"]


@pytest.mark.parametrize("planner", PLANNERS)
def test_planners_start_from_a_plan_or_refuse_by_name(planner: str) -> None:
    problem = memplan.Problem([2, 4, 4, 1, 2, 1, 1], [0, 4, 0, 2, 5, 3, 2], [2, 6, 3, 5, 9, 5, 4])
    best = memplan.plan(problem)
    if planner not in SEARCHING:
        with pytest.raises(
            memplan.errors.UnsupportedError, match="does not support start: it does not search from an earlier"
        ):
            memplan.plan(problem, planner, start=best)
        return
    peaks: list[int] = []
    plan = memplan.plan(problem, planner, start=best, on_improvement=lambda plan: peaks.append(plan.peak))
    plan.verify()
    assert (plan.peak, peaks) == (best.peak, [best.peak])


def test_a_plan_that_still_holds_is_kept() -> None:
    earlier = memplan.plan(GIVEN)
    again = memplan.plan(GIVEN, start=earlier)
    assert (again.peak, again.winner) == (earlier.peak, "start")
    assert again.offsets.tolist() == earlier.offsets.tolist()
    low = memplan.plan(GIVEN, start=dict(zip(["#1", "none"], [0, 4], strict=True)))
    assert low.peak == earlier.peak


def test_what_holds_no_more_is_mended() -> None:
    earlier = memplan.plan(GIVEN)
    for buffer in (3, 17, 40):
        problem = changed(GIVEN, buffer, 7)
        peaks: list[int] = []
        plan = memplan.plan(problem, start=earlier, on_improvement=lambda plan, peaks=peaks: peaks.append(plan.peak))
        plan.verify()
        assert peaks == sorted(peaks, reverse=True)
        assert plan.peak <= memplan.plan(problem, "first_fit").peak
    given = memplan.Problem([8, 8, 8], [0, 0, 0], [4, 4, 4])
    assert memplan.plan(given, start={"#0": 4, "#1": 3, "#2": 40}).peak == 24  # packed, as staying costs more


def test_pins_distances_and_branches_come_first() -> None:
    given = memplan.Problem([10, 10, 6], [0] * 3, [5] * 3, names=["a", "b", "c"])
    start = {"a": 0, "b": 10, "c": 20}
    pinned = memplan.plan(given, pin={"b": 0}, start=start)
    assert (pinned.peak, pinned["b"].offset) == (26, 0)
    apart = memplan.plan(given, together=[("a", "b", 12)], start=start)
    assert apart["b"].offset - apart["a"].offset == 12
    assert memplan.plan(given, exclusive=[(["a"], ["b", "c"])], start=start).peak == 16
    assert memplan.plan(given, start=start, capacity=26).winner == "start"
    assert memplan.plan(given, start=start, alignment=4).peak == 30


def test_graphs_start_from_plans_of_graphs() -> None:
    earlier = memplan.plan("example:resnet50_infer")
    later = memplan.plan("example:resnet50_infer", start=earlier, order="best")
    assert later.peak <= earlier.peak
    assert memplan.plan("example:resnet50_infer", start=earlier).peak == earlier.peak


@pytest.mark.parametrize(
    ("start", "error", "message"),
    [
        ([0], TypeError, "start must be a plan or a mapping from names to offsets, got list"),
        ({"#0": -1}, ValueError, r"start\['#0'\] must be >= 0"),
    ],
)
def test_starts_that_are_none(start: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        memplan.plan(GIVEN, start=start)
    with pytest.raises(TypeError, match="option start does not go with pools"):
        memplan.plan(GIVEN, start={"#0": 0}, pools=[memplan.plans.Pool("sram")])


def test_little_effort_starts_where_much_ended() -> None:
    problem = memplan.generate.layered(200)
    earlier = memplan.plan(problem, "auto:effort=3000000")
    plan = memplan.plan(problem, "auto:effort=1000", start=earlier)
    assert plan.peak <= earlier.peak
