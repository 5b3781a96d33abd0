"""worst_fit: by birth, into the largest free block; a drawing has a line per step and a letter per byte."""

from __future__ import annotations

import pytest
from hypothesis import example, given

import memplan
from builders import fits
from builders.drawn import drawn
from builders.strategies import BOUNDED, bounded, columns
from oracles.free_blocks import SKIPPED_BYTES, Blocks, simulate
from oracles.reference import Columns


def largest(fitting: Blocks) -> tuple[int, int]:
    return max(fitting, key=lambda block: (block[1] - block[0], block[0]))


@example(SKIPPED_BYTES)
@given(problem=columns() | columns(max_buffers=60, alignments=(1,)))
@bounded(100)
def test_same_offsets_as_the_reference(problem: Columns) -> None:
    assert memplan.plan(memplan.Problem(*problem), "worst_fit").offsets.tolist() == simulate(problem, largest)


def test_the_largest_block_is_taken_and_the_highest_of_equal_ones() -> None:
    assert drawn(fits.BOTH_FIT, "worst_fit") == [
        "aaaaaaaabbccccd",
        "eee.....bb....d",
    ]
    assert drawn(fits.LARGER_ABOVE, "worst_fit") == [
        "aaaabbccccccccd",
        "....bbeee.....d",
    ]
    assert drawn(fits.EQUAL, "worst_fit") == [
        "aaaabbccccd",
        "....bbeee.d",
    ]


def test_the_arena_grows_only_where_no_block_fits() -> None:
    """It could always take what is above the top, which has no end: it takes that last."""
    assert drawn(fits.GROWS_FROM_THE_TOP, "worst_fit") == [
        "aaaa..",
        "bbbbbb",
    ]
    assert drawn(fits.GROWS_ABOVE, "worst_fit") == [
        "aaaab......",
        "....bcccccc",
    ]


def test_a_block_has_to_hold_it_aligned_and_what_is_skipped_stays_free() -> None:
    assert drawn(fits.ALIGNED, "worst_fit", fits.ALIGNMENT) == fits.ALIGNED_DRAWN


def test_what_it_leaves_is_of_use() -> None:
    """first_fit and best_fit put e into the 5 bytes at 0. What is left there and above holds one of f and g."""
    assert drawn(fits.LARGEST_WINS, "worst_fit") == [
        "aaaaabccccccccd",
        "gggggbeeefffffd",
    ]
    for other in ("first_fit", "best_fit"):
        assert drawn(fits.LARGEST_WINS, other) == [
            "aaaaabccccccccd.....",
            "eee..bfffff...dggggg",
        ]


def test_the_large_block_is_gone_when_it_is_needed() -> None:
    assert drawn(fits.TIGHTEST_WINS, "worst_fit") == [
        "aaaaaaaabccccd........",
        "eeee....b....dffffffff",
    ]


@given(problem=columns(max_buffers=40, alignments=(1,)))
@BOUNDED
def test_equal_sizes_reach_the_load_and_none_takes_more_than_naive(problem: Columns) -> None:
    size, first, last, _ = problem
    equal = memplan.plan(([3] * len(size), first, last), "worst_fit")
    assert (equal.peak, equal.optimal) == (equal.load, True)
    assert memplan.plan((size, first, last), "worst_fit").peak <= sum(size)


def test_it_has_no_parameters_and_knows_no_conflicts_and_no_shapes() -> None:
    (row,) = (row for row in memplan.planners() if row.name == "worst_fit")
    assert (row.parameters, row.supports, row.exact) == ((), ("alignment",), False)
    conflicting = memplan.Problem([4, 4], [0, 1], [1, 2], conflicts=[(0, 1)])
    with pytest.raises(memplan.errors.UnsupportedError, match="planner 'worst_fit' does not support conflicts"):
        memplan.plan(conflicting, "worst_fit")
    # The upper half of the first is given back when the second is born, which does not lie there.
    shaped = memplan.Problem([8, 4], [0, 1], [2, 2], parts=[(0, 0, 8, 0, 1), (0, 0, 4, 1, 2)])
    assert memplan.plan(shaped, "worst_fit").offsets.tolist() == [0, 8]
