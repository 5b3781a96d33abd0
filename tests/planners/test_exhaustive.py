"""exhaustive: against every offset of every buffer; what it proves, what it refuses, and when it stops."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import memplan
from builders.strategies import BOUNDED, columns
from oracles.reference import Columns, meet

Pairs = Collection[tuple[int, int]]


def optimum(problem: Columns, conflicts: Pairs = ()) -> int:
    """The least peak: buffers one after another at every aligned offset, all that ends below the best so far."""
    size, _, _, alignment = problem
    buffers = [i for i in range(len(size)) if size[i] > 0]
    apart = {(i, j) for i in buffers for j in buffers if i != j and meet(problem, i, j)}
    apart |= {pair for i, j in conflicts for pair in ((i, j), (j, i))}
    best = sum(s + a for s, a in zip(size, alignment, strict=True)) + 1
    offsets: dict[int, int] = {}

    def place(position: int, top: int) -> None:
        nonlocal best
        if position == len(buffers):
            best = min(best, top)
            return
        i = buffers[position]
        for offset in range(0, best - size[i], alignment[i]):
            if all((i, j) not in apart or offset + size[i] <= o or o + size[j] <= offset for j, o in offsets.items()):
                offsets[i] = offset
                place(position + 1, max(top, offset + size[i]))
                del offsets[i]

    place(0, 0)
    return min(best, sum(s + a for s, a in zip(size, alignment, strict=True))) if buffers else 0


@st.composite
def tiny(draw: st.DrawFn, alignments: tuple[int, ...] = (1,), max_buffers: int = 5) -> Columns:
    rows = draw(
        st.lists(
            st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(1, 3), st.sampled_from(alignments)),
            max_size=max_buffers,
        )
    )
    return [r[0] for r in rows], [r[1] for r in rows], [r[1] + r[2] for r in rows], [r[3] for r in rows]


def expect_optimum(problem: Columns, conflicts: Pairs = ()) -> None:
    plan = memplan.plan(memplan.Problem(*problem, conflicts=sorted(conflicts) or None), "exhaustive")
    assert plan.peak == plan.lower_bound == optimum(problem, conflicts)
    assert plan.optimal


@given(tiny())
@BOUNDED
def test_lifetimes(problem: Columns) -> None:
    expect_optimum(problem)


@given(tiny(alignments=(1, 2, 3, 4)) | tiny(alignments=(4,)) | tiny(alignments=(2, 4)))
@BOUNDED
@example(([3, 3], [0, 0], [1, 1], [4, 4]))
@example(([4, 3, 1], [0, 0, 0], [1, 1, 1], [2, 2, 2]))
def test_alignment(problem: Columns) -> None:
    expect_optimum(problem)


@given(tiny(alignments=(1, 1, 1, 2, 3)), st.data())
@BOUNDED
def test_conflicts(problem: Columns, data: st.DataObject) -> None:
    n = len(problem[0])
    pairs = [(i, j) for j in range(n) for i in range(j)]
    expect_optimum(problem, data.draw(st.sets(st.sampled_from(pairs))) if pairs else ())


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
    with pytest.raises(memplan.UnsupportedError, match=r"'exhaustive' takes at most 64 buffers .* problem has 65"):
        memplan.plan(chain, "exhaustive")
    assert memplan.plan(tuple(column[:64] for column in chain), "exhaustive").peak == 2
    apart = memplan.Problem([1] * 65, range(65), range(1, 66))
    assert memplan.plan(apart, "exhaustive").peak == 1
    linked = memplan.Problem([1] * 65, range(65), range(1, 66), conflicts=[(0, i) for i in range(1, 65)])
    with pytest.raises(memplan.UnsupportedError, match="has 65"):
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
