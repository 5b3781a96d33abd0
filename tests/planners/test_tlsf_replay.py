"""tlsf_replay against a plain version of the allocator, and what its classes do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memplan
from builders.strategies import BOUNDED, columns
from oracles.reference import Columns, align_up


class Arena:
    """Free blocks in a list, in the order in which they were made; every request looks at all of them."""

    def __init__(self, size: int, splits: int) -> None:
        self.free = [(0, size)]
        self.bits = splits.bit_length()

    def width(self, size: int) -> int:
        return 1 << max(0, size.bit_length() - self.bits)

    def class_of(self, size: int) -> tuple[int, int]:
        return size.bit_length(), size // self.width(size)

    def take(self, size: int, alignment: int) -> int:
        wanted = size + alignment - 1
        wanted = self.class_of(align_up(wanted, self.width(wanted)))
        fitting = [block for block in self.free if self.class_of(block[1]) >= wanted]
        start, length = min(fitting, key=lambda block: self.class_of(block[1]))  # the first made of the lowest class
        self.free.remove((start, length))
        begin = align_up(start, alignment)
        pieces = [(start, begin - start), (begin + size, start + length - begin - size)]
        self.free += [piece for piece in pieces if piece[1]]
        return begin

    def give_back(self, begin: int, size: int) -> None:
        for block in list(self.free):
            if block[0] + block[1] == begin or block[0] == begin + size:
                self.free.remove(block)
                begin, size = min(begin, block[0]), size + block[1]
        self.free.append((begin, size))


def replay(problem: Columns, block: int = 1, splits: int = 32) -> list[int]:
    size, first, last, alignment = problem
    asked = [align_up(s, block) for s in size]
    births = sorted((i for i in range(len(size)) if size[i]), key=lambda i: first[i])
    arena = Arena(2 * sum(asked[i] + alignment[i] - 1 for i in births), splits)
    offsets = [0] * len(size)
    for step in sorted({*first, *last}):
        for i in births:
            if last[i] == step:
                arena.give_back(offsets[i], asked[i])
        for i in births:
            if first[i] == step:
                offsets[i] = arena.take(asked[i], alignment[i])
    return offsets


@given(columns(max_buffers=40), st.sampled_from([1, 4, 16]), st.sampled_from([1, 2, 16, 32]))
@BOUNDED
def test_same_offsets_as_the_reference(problem: Columns, block: int, splits: int) -> None:
    plan = memplan.plan(memplan.Problem(*problem), f"tlsf_replay:block={block},splits={splits}")
    assert plan.offsets.tolist() == replay(problem, block, splits)


@given(columns(max_buffers=40), st.integers(1, 5000))
@BOUNDED
def test_same_offsets_for_larger_sizes(problem: Columns, factor: int) -> None:
    size, first, last, alignment = problem
    problem = [s * factor + i for i, s in enumerate(size)], first, last, alignment
    plan = memplan.plan(memplan.Problem(*problem), "tlsf_replay")
    assert plan.offsets.tolist() == replay(problem)


def test_a_block_of_the_same_class_may_be_passed_over() -> None:
    """Of 1,000 and 1,007 bytes, in one class of 16, the second may not fit into the first: the search goes on above."""
    columns = [1000, 1, 1000, 1], [0, 0, 1, 2], [1, 9, 9, 9]
    assert memplan.plan(columns, "best_fit").offsets.tolist() == [0, 1000, 0, 1001]
    assert memplan.plan(columns, "tlsf_replay").offsets.tolist() == [0, 1000, 1001, 0]
    assert memplan.plan(columns, "tlsf_replay:splits=512").offsets.tolist() == [0, 1000, 0, 1001]


def test_of_a_class_the_block_that_was_freed_first_is_taken() -> None:
    size, first, last = [8, 1, 8, 1, 8], [0, 0, 0, 0, 3], [2, 9, 1, 9, 9]
    assert memplan.plan((size, first, last), "tlsf_replay").offsets.tolist() == [0, 8, 9, 17, 9]


def test_blocks_as_in_tinygrad() -> None:
    size, first, last = [5000, 1, 4096], [0, 0, 0], [1, 1, 1]
    plan = memplan.plan((size, first, last), "tlsf_replay:block=4096")
    assert plan.offsets.tolist() == [0, 8192, 12288]
    assert plan.peak == 16384  # the last block is full
    assert memplan.plan((size, first, last), "tlsf_replay").peak == 9097


def test_blocks_that_exceed_int64_are_refused() -> None:
    huge = memplan.Problem([2**62, 2**62 - 2], [0, 0], [1, 1])
    assert memplan.plan(huge, "tlsf_replay").peak == 2**63 - 2
    with pytest.raises(
        memplan.errors.UnsupportedError, match=r"'tlsf_replay' takes at most 2\^63 - 1 bytes.*blocks of 4096"
    ):
        memplan.plan(huge, "tlsf_replay:block=4096")
