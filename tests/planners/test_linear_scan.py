"""linear_scan: against a plain version, the spill, and the cell of PyTorch's tests."""

from __future__ import annotations

from hypothesis import given

import memplan
from builders.strategies import bounded, columns
from oracles.reference import Columns, align_up, with_bytes


def linear_scan(problem: Columns) -> list[int]:
    """One set of free bytes, looked at byte by byte."""
    size, first, last, alignment = problem
    offsets: dict[int, int] = {}
    active: list[int] = []
    free: set[int] = set()
    end = 0

    def regions() -> list[range]:
        starts = sorted(byte for byte in free if byte - 1 not in free)
        return [range(start, next(b for b in range(start, end + 1) if b not in free)) for start in starts]

    def take(i: int, begin: int) -> None:
        offsets[i] = align_up(begin, alignment[i])
        free.difference_update(range(offsets[i], offsets[i] + size[i]))

    def append(i: int) -> None:
        nonlocal end
        old, end = end, align_up(end, alignment[i]) + size[i]
        free.update(range(old, end))
        take(i, old)

    def holds(region: range, i: int) -> bool:
        return align_up(region.start, alignment[i]) + size[i] <= region.stop

    for born in sorted(with_bytes(problem), key=lambda i: (first[i], last[i], i)):
        for dead in [i for i in active if last[i] <= first[born]]:
            active.remove(dead)
            free.update(range(offsets[dead], offsets[dead] + size[dead]))
        fitting = [region for region in regions() if holds(region, born)]
        later = sorted((i for i in active if last[i] > last[born]), key=lambda i: (-last[i], -first[i], -i))
        spill = [i for i in later if holds(range(offsets[i], offsets[i] + size[i]), born)]
        if fitting:
            take(born, min(fitting, key=lambda region: (len(region), region.start)).start)
        elif spill:
            begin = offsets[spill[0]]
            free.update(range(begin, begin + size[spill[0]]))
            take(born, begin)
            append(spill[0])
        else:
            append(born)
        active.append(born)
    return [offsets.get(i, 0) for i in range(len(size))]


@given(columns() | columns(max_buffers=40, alignments=(1,)))
@bounded(100)
def test_same_offsets_as_the_reference(problem: Columns) -> None:
    assert memplan.plan(memplan.Problem(*problem), "linear_scan").offsets.tolist() == linear_scan(problem)


def test_what_dies_last_is_spilled() -> None:
    # 1 takes the place of 0, which goes to the end; 2 takes what 0 left beside 1.
    plan = memplan.plan(([8, 5, 3], [0, 1, 2], [9, 3, 4]), "linear_scan")
    assert plan.offsets.tolist() == [8, 0, 5]
    # Nothing that dies earlier, or is smaller, is spilled.
    assert memplan.plan(([8, 5], [0, 1], [2, 3]), "linear_scan").offsets.tolist() == [0, 8]
    assert memplan.plan(([4, 5], [0, 1], [9, 3]), "linear_scan").offsets.tolist() == [0, 4]


def test_it_is_not_best_fit() -> None:
    # The end of the arena is not extended from the free region that touches it, and 1 is spilled for 2.
    sizes, first, last = [4, 6], [0, 1], [1, 2]
    assert memplan.plan((sizes, first, last), "linear_scan").offsets.tolist() == [0, 4]
    assert memplan.plan((sizes, first, last), "best_fit").offsets.tolist() == [0, 0]


def test_the_cell_of_pytorch() -> None:
    """test/cpp/jit/test_memory_planning.cpp of pull request 64348, LSTMLinearScan, gives the offsets and 3072 bytes.

    The lifetimes are those of the cell's operators, in order: two products and their sum, of which the four gates are
    chunks; the gates for input, output, cell and what is forgotten; two products; the new state's tanh.
    """
    sizes = [1024] * 3 + [256] * 7
    lives = [(0, 2), (1, 2), (2, 6), (3, 8), (4, 11), (5, 8), (6, 7), (7, 9), (8, 9), (10, 11)]
    plan = memplan.plan((sizes, [f for f, _ in lives], [m + 1 for _, m in lives]), "linear_scan")
    assert plan.offsets.tolist() == [0, 1024, 2048, 0, 256, 512, 768, 1024, 768, 0]
    assert plan.peak == 3072


def test_no_spill_beyond_int64() -> None:
    # Spilling the first for each of the others in turn would end at four times its size, 2^63: the last goes on top.
    big = 2**61
    half = big // 2 + 1
    plan = memplan.plan(([big, half, half, half], [0, 1, 2, 3], [9, 5, 6, 7]), "linear_scan")
    spilled_twice = [2 * big, 0, big, 3 * big]
    assert plan.offsets.tolist() == spilled_twice
