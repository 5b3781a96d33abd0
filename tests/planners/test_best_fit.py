"""best_fit: by birth, into the tightest free block that fits; a drawing has a line per step and a letter per byte."""

from __future__ import annotations

import pytest
from hypothesis import example, given

import memplan
from builders import fits
from builders.drawn import drawn
from builders.strategies import BOUNDED, bounded, columns
from oracles.free_blocks import SKIPPED_BYTES, Blocks, simulate
from oracles.reference import Columns


def tightest(fitting: Blocks) -> tuple[int, int]:
    return min(fitting, key=lambda block: (block[1] - block[0], block[0]))


@example(SKIPPED_BYTES)
@given(problem=columns() | columns(max_buffers=60, alignments=(1,)))
@bounded(100)
def test_same_offsets_as_the_reference(problem: Columns) -> None:
    assert memplan.plan(memplan.Problem(*problem), "best_fit").offsets.tolist() == simulate(problem, tightest)


def test_the_tightest_block_is_taken_and_the_lowest_of_equal_ones() -> None:
    assert drawn(fits.BOTH_FIT, "best_fit") == [
        "aaaaaaaabbccccd",
        "........bbeee.d",
    ]
    assert drawn(fits.EQUAL, "best_fit") == [
        "aaaabbccccd",
        "eee.bb....d",
    ]


def test_the_arena_grows_from_what_is_free_at_its_top() -> None:
    """linear_scan would put b above a in the first of these."""
    assert drawn(fits.GROWS_FROM_THE_TOP, "best_fit") == [
        "aaaa..",
        "bbbbbb",
    ]
    assert drawn(fits.GROWS_ABOVE, "best_fit") == [
        "aaaab......",
        "....bcccccc",
    ]


def test_a_block_has_to_hold_it_aligned_and_what_is_skipped_stays_free() -> None:
    """The tightest block, of 4 bytes from 12 on, holds e only where alignment is not asked."""
    assert drawn(fits.ALIGNED, "best_fit", fits.ALIGNMENT) == fits.ALIGNED_DRAWN


def test_the_large_block_is_left_to_who_needs_it() -> None:
    """first_fit and worst_fit take it for e, and f goes on top."""
    assert drawn(fits.TIGHTEST_WINS, "best_fit") == [
        "aaaaaaaabccccd",
        "ffffffffbeeeed",
    ]


def test_what_it_leaves_is_of_no_use() -> None:
    """A byte beside e and a byte beside f do not hold g. first_fit leaves the two in one place."""
    assert drawn(fits.TIGHTEST_LOSES, "best_fit") == [
        "aaaaaabcccccd..",
        "fffff.beeee.dgg",
    ]


@given(problem=columns(max_buffers=40, alignments=(1,)))
@BOUNDED
def test_equal_sizes_reach_the_load_and_none_takes_more_than_naive(problem: Columns) -> None:
    size, first, last, _ = problem
    equal = memplan.plan(([3] * len(size), first, last), "best_fit")
    assert (equal.peak, equal.optimal) == (equal.load, True)
    assert memplan.plan((size, first, last), "best_fit").peak <= sum(size)


def test_it_has_no_parameters_and_knows_no_conflicts_and_no_shapes() -> None:
    (row,) = (row for row in memplan.planners() if row.name == "best_fit")
    assert (row.parameters, row.supports, row.exact) == ((), ("alignment",), False)
    conflicting = memplan.Problem([4, 4], [0, 1], [1, 2], conflicts=[(0, 1)])
    with pytest.raises(memplan.errors.UnsupportedError, match="planner 'best_fit' does not support conflicts"):
        memplan.plan(conflicting, "best_fit")
    # The upper half of the first is given back when the second is born, which does not lie there.
    shaped = memplan.Problem([8, 4], [0, 1], [2, 2], parts=[(0, 0, 8, 0, 1), (0, 0, 4, 1, 2)])
    assert memplan.plan(shaped, "best_fit").offsets.tolist() == [0, 8]
