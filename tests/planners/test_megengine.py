"""megengine against a literal reading of its document, and the document's own pictures."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memplan
from builders.strategies import BOUNDED, bounded, columns
from oracles.reference import Columns

Part = tuple[int, int, int, int, int]  # buffer, begin, end, first, last


class Chunk(NamedTuple):
    """Bytes [begin, end) of a buffer in the steps [first, last); `dest` is the chunk that it overwrites."""

    buffer: int
    begin: int
    end: int
    first: int
    last: int
    dest: int | None


def chunks_of(problem: Columns, parts: list[Part]) -> list[Chunk]:
    """A buffer begins with all bytes of its parts; where parts end, it keeps what reaches around all that remain."""
    size, first, last, _ = problem
    chunks: list[Chunk] = []
    for i in range(len(size)):
        if size[i] == 0:
            continue
        own = [part for part in parts if part[0] == i] or [(i, 0, size[i], first[i], last[i])]
        born, dest = first[i], None
        for step in sorted({part[4] for part in own}):
            ahead = [part for part in own if part[4] > step]
            kept = (min(p[1] for p in ahead), max(p[2] for p in ahead)) if ahead else None
            now = [part for part in own if part[4] >= step]
            begin, end = min(p[1] for p in now), max(p[2] for p in now)
            if kept != (begin, end):
                chunks.append(Chunk(i, begin, end, born, step, dest))
                born, dest = step, len(chunks) - 1
    return chunks


class Reference:
    def __init__(self, problem: Columns, parts: list[Part]) -> None:
        self.alignment = problem[3]
        self.chunks = chunks_of(problem, parts)
        self.blocks: list[list[int | None]] = []  # by address: chunk or None, size, age of a free block
        self.age = 0
        self.below: dict[int, list[int]] = {c: [] for c in range(len(self.chunks))}

    def size(self, c: int) -> int:
        return self.chunks[c].end - self.chunks[c].begin

    def position(self, c: int) -> int:
        return next(k for k, block in enumerate(self.blocks) if block[0] == c)

    def tidy(self) -> None:
        """Joins free blocks that touch; those that have changed become the youngest."""
        k = 0
        while k < len(self.blocks):
            run = k
            while run < len(self.blocks) and self.blocks[run][0] is None:
                run += 1
            if run > k and (run - k > 1 or self.blocks[k][2] is None):
                total = sum(block[1] or 0 for block in self.blocks[k:run])
                self.blocks[k:run] = [[None, total, self.age]] if total > 0 else []
                self.age += 1 if total > 0 else 0
                run = k
            k = max(run, k) + 1

    def alloc(self, c: int) -> None:
        size = self.size(c)
        free = [block for block in self.blocks if block[0] is None]
        if free:
            fitting = [block for block in free if block[1] >= size]
            if fitting:
                block = min(fitting, key=lambda block: block[1:])
            else:
                block = max(free, key=lambda block: block[1:])
            at = next(k for k, other in enumerate(self.blocks) if other is block)
            left = max(0, block[1] - size)
            self.blocks[at : at + 1] = [[c, size, None], *([[None, left, None]] if left else [])]
        else:
            self.blocks.append([c, size, None])
        self.tidy()
        self.record(c)

    def free(self, c: int) -> None:
        self.blocks[self.position(c)] = [None, self.size(c), None]
        self.tidy()

    def overwrite(self, c: int) -> None:
        dest = self.chunks[c].dest
        assert dest is not None
        at = self.position(dest)
        self.blocks[at] = [c, self.size(c), None]
        if front := self.chunks[c].begin - self.chunks[dest].begin:
            self.blocks.insert(at, [None, front, None])
            self.tidy()
        if back := self.chunks[dest].end - self.chunks[c].end:
            self.blocks.insert(self.position(c) + 1, [None, back, None])
            self.tidy()
        self.record(c)

    def record(self, c: int) -> None:
        at = self.position(c)
        used_before = [block[0] for block in self.blocks[:at] if block[0] is not None]
        used_after = [block[0] for block in self.blocks[at + 1 :] if block[0] is not None]
        self.below[c] += used_before[-1:]
        for above in used_after[:1]:
            self.below[above].append(c)

    def solve(self, count: int) -> list[int]:
        chunks = self.chunks
        overwritten = {chunk.dest for chunk in chunks}
        order = sorted(range(len(chunks)), key=lambda c: (chunks[c].first, chunks[c].last, c))
        for step in sorted({step for chunk in chunks for step in (chunk.first, chunk.last)}):
            for c in order:
                if chunks[c].first == step and chunks[c].dest is not None:  # the step before ends with it
                    self.overwrite(c)
            for c in order:
                if chunks[c].last == step and c not in overwritten:
                    self.free(c)
            for c in order:
                if chunks[c].first == step and chunks[c].dest is None:
                    self.alloc(c)

        @cache
        def root(buffer: int) -> int:
            needed = [0]
            for c, chunk in enumerate(chunks):
                if chunk.buffer == buffer:
                    needed += [root(chunks[b].buffer) + chunks[b].end - chunk.begin for b in self.below[c]]
            return -(-max(needed) // self.alignment[buffer]) * self.alignment[buffer]

        placed = {chunk.buffer for chunk in chunks}
        return [root(i) if i in placed else 0 for i in range(count)]


@st.composite
def shaped(draw: st.DrawFn) -> tuple[Columns, list[Part]]:
    """Problems of which some buffers are overwritten again and again, and some have rectangles anywhere."""
    problem = draw(columns(max_buffers=10))
    parts: list[Part] = []
    for i, (size, first, last, _) in enumerate(zip(*problem, strict=True)):
        kind = draw(st.sampled_from(["whole", "overwritten", "anywhere"]))
        if size == 0 or kind == "whole":
            continue
        own: list[Part] = []
        if kind == "overwritten":
            begin, end = 0, size
            for step in sorted(draw(st.sets(st.integers(first + 1, last), max_size=3))):
                b = draw(st.integers(begin, end - 1))
                e = draw(st.integers(b + 1, end))
                own += [(i, begin, b, first, step)] if begin < b else []
                own += [(i, e, end, first, step)] if e < end else []
                begin, end = b, e
            own.append((i, begin, end, first, last))
        else:
            for _ in range(draw(st.integers(1, 4))):
                b, f = draw(st.integers(0, size - 1)), draw(st.integers(first, last - 1))
                part = (i, b, draw(st.integers(b + 1, size)), f, draw(st.integers(f + 1, last)))
                if not any(meet(part, other, 0) for other in own):
                    own.append(part)
        parts += own
    return problem, parts


def meet(a: Part, b: Part, shift: int) -> bool:
    """Whether two rectangles share a byte at some step, with the second moved up."""
    return a[1] < b[2] + shift and b[1] + shift < a[2] and a[3] < b[4] and b[3] < a[4]


def planned(problem: Columns, parts: list[Part] | None = None) -> memplan.Plan:
    return memplan.plan(memplan.Problem(*problem, parts=parts or None), "megengine")


def plan_of(rows: list[tuple[int, int, int]], parts: list[Part] | None = None) -> memplan.Plan:
    size, first, last = (list(column) for column in zip(*rows, strict=True))
    return planned((size, first, last, [1] * len(size)), parts)


@given(columns() | columns(max_buffers=40, alignments=(1,)))
@bounded(100)
def test_same_offsets_as_the_reference(problem: Columns) -> None:
    assert planned(problem).offsets.tolist() == Reference(problem, []).solve(len(problem[0]))


@given(shaped())
@BOUNDED
def test_same_offsets_with_shapes_and_no_part_meets_another(case: tuple[Columns, list[Part]]) -> None:
    problem, parts = case
    offsets = planned(problem, parts).offsets.tolist()
    assert offsets == Reference(problem, parts).solve(len(offsets))
    assert not any(offset % alignment for offset, alignment in zip(offsets, problem[3], strict=True))
    shaped_ones = {part[0] for part in parts}
    whole = [
        (i, 0, size, first, last)
        for i, (size, first, last, _) in enumerate(zip(*problem, strict=True))
        if i not in shaped_ones and size > 0
    ]
    everything = parts + whole
    for k, a in enumerate(everything):
        for b in everything[:k]:
            assert a[0] == b[0] or not meet(a, b, offsets[b[0]] - offsets[a[0]])


# The document's three ways to allocate


def test_nothing_free_a_block_is_added_at_the_end() -> None:
    assert plan_of([(5, 0, 3), (2, 1, 3), (9, 2, 3)]).offsets.tolist() == [0, 5, 7]


def test_the_smallest_block_that_fits_is_cut() -> None:
    # 8, 4 and 6 bytes are free, and 3 asked for; what is left of the 4 goes to the one that asks for 1.
    rows = [(8, -6, 2), (1, -5, 9), (4, -4, 2), (1, -3, 9), (6, -2, 2), (1, -1, 9)]
    plan = plan_of([*rows, (3, 2, 8), (1, 3, 8)])
    assert plan.offsets.tolist()[6:] == [9, 12]
    assert plan.peak == 21


def test_none_fits_and_the_largest_free_block_grows() -> None:
    # 3 and 2 bytes are free around 2, and 5 asked for: the 3 grow to 5, and what was above them shifts by 2.
    rows = [(3, -2, 1), (2, -1, 3), (2, 0, 1)]
    assert plan_of(rows).offsets.tolist() == [0, 3, 5]
    grown = plan_of([*rows, (5, 1, 3)])
    assert grown.offsets.tolist() == [0, 5, 7, 0]
    assert grown.peak == 9


def test_blocks_shift_only_as_far_as_somebody_needs() -> None:
    # 11 are asked for where 9 are free, below 2 used and 8 free; those 8 were used before, and did not shift.
    plan = plan_of([(9, -2, 1), (10, -1, 0), (2, 0, 3), (11, 1, 3)])
    assert plan.offsets.tolist() == [0, 9, 11, 0]
    assert plan.peak == plan.load == 19


# Its two ways to free


def test_freed_between_used_blocks_nothing_is_joined() -> None:
    # Two free blocks of 3 with 1 used between them are not 6: one of them grows.
    plan = plan_of([(3, -4, 1), (1, -3, 3), (3, -2, 1), (1, -1, 3), (6, 1, 3)])
    assert plan.peak == 11


def test_freed_next_to_free_blocks_they_are_joined() -> None:
    # The one in the middle goes last, and all three are one block of 9.
    plan = plan_of([(3, -3, 1), (3, -2, 2), (3, -1, 1), (1, 0, 3), (9, 2, 3)])
    assert plan.offsets.tolist() == [0, 3, 6, 9, 0]
    assert plan.peak == plan.load == 10


# Overwrites

MB = 2**20
OVERWRITTEN = (20 * MB, 0, 5)  # in step 0, by 10 MB at 6 MB
ITS_PARTS = [(0, 0, 6 * MB, 0, 1), (0, 6 * MB, 16 * MB, 0, 5), (0, 16 * MB, 20 * MB, 0, 1)]


def test_an_overwrite_frees_both_ends() -> None:
    plan = plan_of([OVERWRITTEN, (6 * MB, 1, 5), (4 * MB, 1, 5)], ITS_PARTS)
    assert plan.offsets.tolist() == [0, 0, 16 * MB]
    assert plan.peak == 20 * MB
    assert plan_of([OVERWRITTEN, (6 * MB, 1, 5), (4 * MB, 1, 5)]).peak == 30 * MB


@pytest.mark.parametrize(("below", "root"), [(5, 0), (6, 0), (8, 2), (11, 5)])
def test_a_chain_is_moved_by_its_root(below: int, root: int) -> None:
    """Only as far as what lies below the written bytes reaches above their offset in the root."""
    plan = plan_of([OVERWRITTEN, (below * MB, 1, 5)], ITS_PARTS)
    assert plan.offsets.tolist() == [root * MB, 0]
    assert plan.peak == (20 + root) * MB


def test_a_chain_of_overwrites() -> None:
    parts = [(0, 0, 2, 0, 1), (0, 2, 3, 0, 2), (0, 3, 6, 0, 3), (0, 6, 8, 0, 2), (0, 8, 9, 0, 1)]
    plan = plan_of([(9, 0, 3), (2, 1, 3), (1, 1, 3), (2, 2, 3), (1, 2, 3)], parts)
    assert plan.offsets.tolist() == [0, 0, 8, 6, 2]
    assert plan.peak == plan.load == 9


def test_bytes_between_others_stay() -> None:
    parts = [(0, 0, 2, 0, 5), (0, 2, 8, 0, 1), (0, 8, 9, 0, 5)]
    assert plan_of([(9, 0, 5), (6, 1, 5)], parts).offsets.tolist() == [0, 9]


def test_bytes_that_come_late_are_kept_from_the_birth_on() -> None:
    parts = [(0, 0, 4, 0, 5), (0, 4, 9, 3, 5)]
    assert plan_of([(9, 0, 5), (5, 0, 3)], parts).offsets.tolist() in ([0, 9], [5, 0])


def test_born_together_those_that_die_first_come_first() -> None:
    assert plan_of([(3, 0, 9), (4, 0, 2), (5, 0, 2)]).offsets.tolist() == [9, 0, 4]


def test_every_buffer_at_once_is_no_deep_recursion() -> None:
    plan = plan_of([(1, k, 100_000) for k in range(20_000)])
    assert plan.peak == 20_000


@given(columns())
@BOUNDED
def test_pushdown_is_another_name_of_it(problem: tuple[list[int], list[int], list[int], list[int]]) -> None:
    """MegEngine's source calls it so."""
    pushdown, megengine = (memplan.plan(memplan.Problem(*problem), name) for name in ("pushdown", "megengine"))
    assert pushdown.offsets.tolist() == megengine.offsets.tolist()
    assert (pushdown.planner, pushdown.winner) == ("pushdown", "pushdown")


def test_an_alias_has_no_row_and_is_taken() -> None:
    rows = {row.name: row for row in memplan.planners()}
    assert rows["megengine"].alias == "pushdown"
    assert "pushdown" not in rows
    assert "pushdown" not in memplan.planning.planner_names()
    with pytest.raises(ValueError, match="planner 'megengine' takes no parameters, got 'k=1'"):
        memplan.plan(([4], [0], [1]), "pushdown:k=1")
    with pytest.raises(ValueError, match="the name 'pushdown' is taken by memplan's own planner"):
        memplan.register(replace(rows["cp_sat"], name="pushdown"))
    with pytest.raises(ValueError, match=r"planner must be one of .*, got ''"):
        memplan.plan(([4], [0], [1]), "")
