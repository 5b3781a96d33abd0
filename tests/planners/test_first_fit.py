"""first_fit: by birth, into the lowest free block that fits; a drawing has a line per step and a letter per byte."""

from __future__ import annotations

import pytest
from hypothesis import example, given

import memplan
from builders import fits
from builders.drawn import Rows, drawn
from builders.strategies import BOUNDED, bounded, columns
from oracles.free_blocks import SKIPPED_BYTES, Blocks, simulate
from oracles.reference import Columns


def lowest(fitting: Blocks) -> tuple[int, int]:
    return min(fitting)


@example(SKIPPED_BYTES)
@given(problem=columns() | columns(max_buffers=60, alignments=(1,)))
@bounded(100)
def test_same_offsets_as_the_reference(problem: Columns) -> None:
    assert memplan.plan(memplan.Problem(*problem), "first_fit").offsets.tolist() == simulate(problem, lowest)


def test_the_lowest_block_is_taken_whatever_its_size() -> None:
    assert drawn(fits.BOTH_FIT, "first_fit") == [
        "aaaaaaaabbccccd",
        "eee.....bb....d",
    ]
    assert drawn(fits.LARGER_ABOVE, "first_fit") == [
        "aaaabbccccccccd",
        "eee.bb........d",
    ]


def test_the_arena_grows_from_what_is_free_at_its_top() -> None:
    assert drawn(fits.GROWS_FROM_THE_TOP, "first_fit") == [
        "aaaa..",
        "bbbbbb",
    ]
    assert drawn(fits.GROWS_ABOVE, "first_fit") == [
        "aaaab......",
        "....bcccccc",
    ]


def test_a_block_has_to_hold_it_aligned_and_what_is_skipped_stays_free() -> None:
    assert drawn(fits.ALIGNED, "first_fit", fits.ALIGNMENT) == fits.ALIGNED_DRAWN


def test_buffers_of_one_step_go_by_index() -> None:
    rows: Rows = {"a": (1, 1, 2), "b": (2, 0, 2), "c": (3, 1, 2), "d": (1, 0, 1)}
    assert drawn(rows, "first_fit") == [
        "bbd...",
        "bbaccc",  # d is dead: its byte and all above it are free, for a and then for c
    ]


def test_a_small_buffer_takes_the_block_that_a_large_one_needs() -> None:
    """best_fit leaves the large block to f."""
    assert drawn(fits.TIGHTEST_WINS, "first_fit") == [
        "aaaaaaaabccccd........",
        "eeee....b....dffffffff",
    ]
    assert drawn(fits.TIGHTEST_LOSES, "first_fit") == [  # where best_fit needs two bytes more
        "aaaaaabcccccd",
        "eeeeggbfffffd",
    ]


def test_what_is_born_later_and_larger_is_not_foreseen() -> None:
    """greedy_by_size places c before anything else; but it does not know who lives when."""
    rows: Rows = {"a": (1, 0, 2), "b": (1, 1, 3), "c": (4, 2, 3)}
    assert drawn(rows, "first_fit") == [
        "a.....",
        "ab....",
        ".bcccc",
    ]
    assert drawn(rows, "greedy_by_size") == [
        "a....",
        "a...b",
        "ccccb",
    ]
    rows = {"a": (2, 0, 1), "b": (1, 0, 2), "c": (1, 1, 3), "d": (2, 2, 3)}
    assert drawn(rows, "first_fit") == [
        "aab",
        "c.b",
        "cdd",
    ]
    assert drawn(rows, "greedy_by_size") == [
        "aab.",
        "..bc",
        "dd.c",
    ]


@given(problem=columns(max_buffers=40, alignments=(1,)))
@BOUNDED
def test_equal_sizes_reach_the_load_and_none_takes_more_than_naive(problem: Columns) -> None:
    size, first, last, _ = problem
    equal = memplan.plan(([3] * len(size), first, last), "first_fit")
    assert (equal.peak, equal.optimal) == (equal.load, True)
    assert memplan.plan((size, first, last), "first_fit").peak <= sum(size)


def test_it_has_no_parameters_and_knows_no_conflicts_and_no_shapes() -> None:
    (row,) = (row for row in memplan.planners() if row.name == "first_fit")
    assert (row.parameters, row.supports, row.exact) == ((), ("alignment",), False)
    conflicting = memplan.Problem([4, 4], [0, 1], [1, 2], conflicts=[(0, 1)])
    with pytest.raises(memplan.errors.UnsupportedError, match="planner 'first_fit' does not support conflicts"):
        memplan.plan(conflicting, "first_fit")
    # The upper half of the first is given back when the second is born, which does not lie there.
    shaped = memplan.Problem([8, 4], [0, 1], [2, 2], parts=[(0, 0, 8, 0, 1), (0, 0, 4, 1, 2)])
    assert memplan.plan(shaped, "first_fit").offsets.tolist() == [0, 8]
