"""interval_move against a literal reading of MegEngine's allocator: every conflict kept, everything recursive."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given

import memplan
from builders.strategies import BOUNDED, bounded, columns
from oracles.reference import Columns, align_up


class Reference:
    """Sizes are multiples of what all alignments share; positions of each buffer's own alignment."""

    def __init__(self, problem: Columns) -> None:
        size, self.first, self.last, self.alignment = problem
        shared = math.gcd(*(a for a, s in zip(self.alignment, size, strict=True) if s > 0))
        self.size = [align_up(s, shared) if s > 0 else 0 for s in size]
        self.at = [0] * len(size)
        self.above: list[list[int]] = [[] for _ in size]
        self.peak = 0

    def end(self, i: int) -> int:
        return self.at[i] + self.size[i]

    def solve(self) -> list[int]:
        order = [i for i in range(len(self.size)) if self.size[i] > 0]
        order.sort(key=lambda i: (self.first[i] - self.last[i], self.first[i], -self.size[i], i))
        for k, i in enumerate(order):
            conflict = [j for j in order[:k] if self.first[j] < self.last[i] and self.first[i] < self.last[j]]
            higher = self.insert(i, conflict)
            for j in conflict:
                self.above[i if j in higher else j].append(j if j in higher else i)
            for j in higher:
                self.move_higher(j, self.end(i))
        return self.at

    def insert(self, i: int, conflict: list[int]) -> list[int]:
        """Sets where i begins; returns the conflicts that have to be above it."""
        if conflict:
            self.at[i], floor = min(self.candidates(i, conflict))[-2:]
        else:
            self.at[i], floor = 0, 0
        self.peak = max(self.peak, self.end(i))
        return [j for j in conflict if self.end(j) > floor]

    def candidates(self, i: int, conflict: list[int]) -> list[tuple[int, int, int, int]]:
        """Per free chunk: rise of the peak, bytes that do not fit (or, negative, that remain), where, chunk's begin."""
        found, begin = [], 0
        for j in sorted(conflict, key=lambda j: (self.at[j], j)):
            if self.at[j] >= begin:
                found.append(self.candidate(i, begin, self.at[j], conflict))
            begin = max(begin, self.end(j))
        return [*found, self.candidate(i, begin, self.peak, conflict)]

    def candidate(self, i: int, begin: int, end: int, conflict: list[int]) -> tuple[int, int, int, int]:
        at = align_up(begin, self.alignment[i])
        missing = at + self.size[i] - end
        if missing <= 0:
            return -1, -missing, at, begin  # before all that push; the least that remains
        rise = max(0, at + self.size[i] - self.peak)
        for j in conflict:
            if self.end(j) > begin:
                rise = max(rise, at + self.size[i] - (self.at[j] + self.room(j)))
        return rise, missing, at, begin

    def room(self, i: int) -> int:
        """How far i can go up without raising the peak."""
        limit = min([self.peak, *(self.at[j] + self.room(j) for j in self.above[i])])
        highest = (limit - self.size[i]) // self.alignment[i] * self.alignment[i]
        return highest - self.at[i]

    def move_higher(self, i: int, floor: int) -> None:
        if self.at[i] >= floor:
            return
        self.at[i] = align_up(floor, self.alignment[i])
        self.peak = max(self.peak, self.end(i))
        for j in self.above[i]:
            self.move_higher(j, self.end(i))


def planned(problem: Columns) -> memplan.Plan:
    return memplan.plan(memplan.Problem(*problem), "interval_move")


# The fifth goes into a gap that is too small at its aligned beginning, below somebody who ends before that.
PUSHED_PAST = ([4, 5, 4, 9, 2], [0, 0, 0, 2, 0], [9, 8, 2, 9, 1], [1, 1, 1, 1, 64])


@given(columns(max_buffers=12) | columns(max_buffers=14, alignments=(1,)))
@example(PUSHED_PAST)
@bounded(100)
def test_same_offsets_as_the_reference(problem: Columns) -> None:
    assert planned(problem).offsets.tolist() == Reference(problem).solve()


@given(columns(max_buffers=14, alignments=(8,)))
@BOUNDED
def test_one_alignment_is_as_sizes_rounded_up(problem: Columns) -> None:
    size, first, last, _ = problem
    rounded = planned(([align_up(s, 8) for s in size], first, last, [1] * len(size)))
    assert planned(problem).offsets.tolist() == rounded.offsets.tolist()


# The peak is 20 elsewhere; on top of 5 bytes that stay, 4 bytes are free in [10, 16) below 3 that came before that.
UNDER_A_HIGH_PEAK = [(20, 30, 60), (5, 0, 20), (4, 0, 10), (3, 8, 16)]


def plan_of(rows: list[tuple[int, int, int]]) -> memplan.Plan:
    size, first, last = (list(column) for column in zip(*rows, strict=True))
    return planned((size, first, last, [1] * len(size)))


@pytest.mark.parametrize(("size", "offset"), [(1, 5), (3, 5), (4, 5), (5, 12), (8, 12)])
def test_the_tightest_gap_is_taken(size: int, offset: int) -> None:
    plan = plan_of([*UNDER_A_HIGH_PEAK, (size, 12, 15)])
    assert plan.offsets.tolist() == [0, 0, 5, 9, offset]
    assert plan.peak == 20


def test_where_none_fits_what_is_above_moves_up() -> None:
    """On top 8 bytes are free, and 2 below the one that can go up by 8."""
    rows = [*UNDER_A_HIGH_PEAK, (2, 11, 17)]
    before, after = plan_of(rows), plan_of([*rows, (10, 12, 15)])
    assert before.offsets.tolist() == [0, 0, 5, 9, 5]
    assert after.offsets.tolist() == [0, 0, 5, 17, 5, 7]
    assert after.peak == before.peak == 20


def test_the_peak_rises_as_little_as_it_can() -> None:
    """By 1, pushed to the limit, and not by the 3 that 11 bytes would take on top."""
    plan = plan_of([*UNDER_A_HIGH_PEAK, (2, 11, 17), (11, 12, 15)])
    assert plan.offsets.tolist() == [0, 0, 5, 18, 5, 7]
    assert plan.peak == 21


def test_of_places_that_cost_the_same_the_lowest() -> None:
    """So the second goes below the first."""
    assert plan_of([(5, 0, 20), (4, 0, 10)]).offsets.tolist() == [4, 0]


def test_a_high_stack_is_no_deep_recursion() -> None:
    """All are alive together, and each pushes all that are above it."""
    count = 2000
    plan = planned(([1] * count, list(range(-count, 0)), list(range(1, count + 1)), [1] * count))
    assert plan.peak == count
