"""greedy_by_size: the largest first, into the tightest gap; a drawing has a line per step and a letter per byte."""

from __future__ import annotations

import pytest
from hypothesis import given

import memplan
from builders import peers
from builders.drawn import Rows, drawn
from builders.strategies import bounded, columns
from oracles.reference import Columns, place, tightest, with_bytes


def greedy_by_size(problem: Columns) -> list[int]:
    """Every gap below, between and above what is alive with it, the tightest that fits."""
    order = sorted(with_bytes(problem), key=lambda i: (-problem[0][i], problem[1][i], i))
    return place(problem, order, tightest)


@given(problem=columns() | columns(max_buffers=60, alignments=(1,)))
@bounded(100)
def test_same_offsets_as_the_reference(problem: Columns) -> None:
    assert memplan.plan(memplan.Problem(*problem), "greedy_by_size").offsets.tolist() == greedy_by_size(problem)


@pytest.mark.parametrize(
    ("rows", "offsets", "peak"),
    [
        (peers.TFLITE_CHAIN, [0, 64, 0, 64, 0], 96),
        (peers.TFLITE_COMPLEX, [0, 32, 80, 64, 88, 0, 64, 72, 0], 96),
    ],
    ids=["chain", "complex"],
)
def test_offsets_of_tflite(rows: list[peers.ComparisonRow], offsets: list[int], peak: int) -> None:
    plan = memplan.plan(peers.problem(rows), "greedy_by_size")
    assert plan.offsets.tolist() == offsets
    assert plan.peak == peak


def test_the_largest_come_first_and_the_others_fill_what_they_leave() -> None:
    """c is smaller than b, which is in its way when it comes: below b is room."""
    rows: Rows = {"d": (2, 1, 3), "c": (3, 2, 4), "b": (5, 0, 3), "a": (6, 0, 2)}
    assert drawn(rows, "greedy_by_size") == [
        "aaaaaabbbbb..",
        "aaaaaabbbbbdd",
        "ccc...bbbbbdd",
        "ccc..........",
    ]


def test_the_tightest_gap_is_taken_and_the_lowest_of_equal_ones() -> None:
    rows: Rows = {"a": (9, 0, 1), "b": (8, 0, 2), "c": (7, 0, 1), "d": (6, 0, 2), "e": (5, 1, 2)}
    assert drawn(rows, "greedy_by_size") == [
        "aaaaaaaaabbbbbbbbcccccccdddddd",
        ".........bbbbbbbbeeeee..dddddd",
    ]
    rows = {"a": (4, 0, 1), "b": (4, 0, 2), "c": (4, 0, 1), "d": (4, 0, 2), "e": (3, 1, 2)}
    assert drawn(rows, "greedy_by_size") == [
        "aaaabbbbccccdddd",
        "eee.bbbb....dddd",
    ]


def test_equal_sizes_go_by_birth_then_by_index() -> None:
    rows: Rows = {"a": (4, 1, 3), "b": (4, 0, 2), "c": (4, 1, 2)}
    assert drawn(rows, "greedy_by_size") == [
        "bbbb........",
        "bbbbaaaacccc",
        "....aaaa....",
    ]


def test_a_gap_has_to_hold_it_aligned() -> None:
    """From 9 on, 8 bytes are free: d would begin at 16 and end beyond them, e ends with them."""
    rows: Rows = {"a": (9, 0, 2), "b": (8, 0, 1), "c": (7, 0, 2), "d": (6, 1, 2), "e": (1, 1, 2), "f": (5, 1, 2)}
    assert drawn(rows, "greedy_by_size", {"d": 8, "e": 8}) == [
        "aaaaaaaaabbbbbbbbccccccc......",
        "aaaaaaaaafffff..ecccccccdddddd",
    ]


def test_conflicts_shapes_and_pins_count() -> None:
    conflicting = memplan.Problem([4, 4], [0, 1], [1, 2], conflicts=[(0, 1)])
    assert memplan.plan(conflicting, "greedy_by_size").offsets.tolist() == [0, 4]
    # The upper half of 0 is given back at step 1, where 1 is born.
    shaped = memplan.Problem([8, 4], [0, 1], [2, 2], parts=[(0, 0, 8, 0, 1), (0, 0, 4, 1, 2)])
    assert memplan.plan(shaped, "greedy_by_size").offsets.tolist() == [0, 4]
    # The small one is there before the large ones, which go around it.
    pinned = memplan.Problem([1, 6, 4], [0, 0, 0], [1, 1, 1], pins=[5, -1, -1])
    assert memplan.plan(pinned, "greedy_by_size").offsets.tolist() == [5, 6, 0]


def test_it_has_no_parameters() -> None:
    (row,) = (row for row in memplan.planners() if row.name == "greedy_by_size")
    assert (row.parameters, row.exact) == ((), False)
