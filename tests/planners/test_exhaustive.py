"""exhaustive: against every offset of every buffer; what it proves, what it refuses, and when it stops."""

from __future__ import annotations

import pytest
from hypothesis import given

import memplan
from builders.optima import proven
from builders.strategies import BOUNDED, columns
from oracles.reference import Columns


@pytest.mark.parametrize("kind", ["lifetimes", "conflicts"])
def test_the_least_peak(kind: str) -> None:
    assert proven("exhaustive", kind, range(60), 6) == 60


@given(columns(max_buffers=10, alignments=(1, 2)))
@BOUNDED
def test_no_planner_is_better(problem: Columns) -> None:
    source = memplan.Problem(*problem)
    best = memplan.plan(source, "exhaustive")
    assert best.optimal
    assert all(
        best.peak <= memplan.plan(source, planner).peak for planner in ("auto", "hill_climb", "beam", "xla_heap")
    )


def test_alignment_and_conflicts_raise_the_bound_above_the_load() -> None:
    aligned = memplan.plan(memplan.Problem([3, 3], [0, 0], [1, 1], 4), "exhaustive")
    assert (aligned.load, aligned.lower_bound, aligned.peak) == (6, 7, 7)
    padded = memplan.plan(memplan.Problem([4, 3, 1], [0] * 3, [1] * 3, 2), "exhaustive")
    assert (padded.load, padded.lower_bound, padded.peak) == (8, 9, 9)
    ring = [(i, (i + 1) % 5) for i in range(5)]  # five, each apart from two others: two heights are not enough
    around = memplan.plan(memplan.Problem([1] * 5, range(5), range(1, 6), conflicts=ring), "exhaustive")
    assert (around.load, around.lower_bound, around.peak) == (1, 3, 3)


def test_what_is_apart_in_time_is_solved_apart() -> None:
    # A hundred copies of a problem, one after another: as many buffers as no search could order.
    size, first, last = [4, 2, 2, 3, 4], [0, 0, 1, 2, 2], [1, 4, 3, 4, 3]
    many = (size * 100, [f + 4 * k for k in range(100) for f in first], [m + 4 * k for k in range(100) for m in last])
    plan = memplan.plan(many, "exhaustive")
    assert (plan.peak, plan.optimal) == (11, True)


def test_too_many_that_hang_together() -> None:
    chain = ([1] * 65, list(range(65)), list(range(2, 67)))
    with pytest.raises(
        memplan.errors.UnsupportedError, match=r"'exhaustive' takes at most 64 buffers .* problem has 65"
    ):
        memplan.plan(chain, "exhaustive")
    assert memplan.plan(tuple(column[:64] for column in chain), "exhaustive").peak == 2
    apart = memplan.Problem([1] * 65, range(65), range(1, 66))
    assert memplan.plan(apart, "exhaustive").peak == 1
    linked = memplan.Problem([1] * 65, range(65), range(1, 66), conflicts=[(0, i) for i in range(1, 65)])
    with pytest.raises(memplan.errors.UnsupportedError, match="has 65"):
        memplan.plan(linked, "exhaustive")


def test_without_nodes_the_best_so_far_is_not_proven() -> None:
    # greedy_by_size leaves 9 where 8 is possible.
    problem = memplan.Problem([2, 2, 5, 4], [2, 4, 1, 3], [6, 7, 3, 5])
    stopped = memplan.plan(problem, "exhaustive:nodes=0")
    assert (stopped.peak, stopped.lower_bound, stopped.optimal) == (9, 8, False)
    assert memplan.plan(problem, "exhaustive").peak == 8


def test_the_time_limit_stops_a_long_search() -> None:
    # Alignments without a common divisor leave bounds that prove nothing.
    n = 30
    problem = memplan.Problem(
        [7 + 5 * i % 31 for i in range(n)], [0] * n, [1] * n, [[8, 27, 25][i % 3] for i in range(n)]
    )
    plan = memplan.plan(problem, f"exhaustive:nodes={2**40}", time_limit=0.05)
    assert not plan.optimal
    assert plan.seconds < 5
