"""naive: every buffer its own bytes, in the order of the rows; what other planners are compared with."""

from __future__ import annotations

from hypothesis import given

import memplan
from builders.drawn import Rows, drawn, problem_of
from builders.strategies import BOUNDED, bounded, columns
from oracles.reference import Columns, align_up


def naive(problem: Columns) -> list[int]:
    size, _, _, alignment = problem
    offsets, top = [], 0
    for bytes_, multiple in zip(size, alignment, strict=True):
        offsets.append(align_up(top, multiple) if bytes_ else 0)
        top = offsets[-1] + bytes_ if bytes_ else top
    return offsets


@given(problem=columns() | columns(max_buffers=60, alignments=(1,)))
@bounded(100)
def test_same_offsets_as_the_reference(problem: Columns) -> None:
    assert memplan.plan(memplan.Problem(*problem), "naive").offsets.tolist() == naive(problem)


@given(columns(alignments=(1,)))
@BOUNDED
def test_it_peaks_at_the_sum(problem: Columns) -> None:
    plan = memplan.plan(memplan.Problem(*problem), "naive")
    assert plan.peak == plan.naive == sum(problem[0])


def test_nothing_is_shared_and_rows_say_the_order() -> None:
    """c is born first, and a when c is dead."""
    rows: Rows = {"a": (3, 1, 2), "b": (4, 0, 2), "c": (3, 0, 1)}
    assert drawn(rows, "naive") == [
        "...bbbbccc",
        "aaabbbb...",
    ]


def test_bytes_are_lost_to_alignment() -> None:
    """plan.naive, which all planners report, is the sum of sizes alone."""
    rows: Rows = {"a": (3, 0, 1), "b": (4, 0, 1), "c": (1, 0, 1)}
    assert drawn(rows, "naive", {"b": 8}) == ["aaa.....bbbbc"]
    assert memplan.plan(problem_of(rows, {"b": 8}), "naive").naive == 8


def test_lifetimes_conflicts_and_shapes_make_no_difference() -> None:
    size, last = [8, 4, 2], [2, 3, 4]
    shaped = memplan.Problem(size, [0, 1, 2], last, parts=[(0, 0, 8, 0, 1), (0, 0, 4, 1, 2)])
    conflicting = memplan.Problem(size, [0, 1, 2], last, conflicts=[(0, 2)])
    for problem in (memplan.Problem(size, [0, 0, 0], last), shaped, conflicting):
        assert memplan.plan(problem, "naive").offsets.tolist() == [0, 8, 12]


def test_all_is_above_what_is_pinned_or_reserved() -> None:
    """Even where it would fit below, and after what is pinned there has died."""
    pinned = memplan.Problem([2, 3, 4], [0, 0, 5], [1, 1, 6], pins=[-1, 10, -1])
    assert memplan.plan(pinned, "naive").offsets.tolist() == [13, 10, 15]
    reserved = memplan.Problem([2, 3], [0, 0], [1, 1], reserved=[(6, 8, 0, 1)])
    assert memplan.plan(reserved, "naive").offsets.tolist() == [8, 10]
