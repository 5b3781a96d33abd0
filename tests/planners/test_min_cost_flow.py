"""min_cost_flow: the least cost of all, and the known answers of TFLite's own test."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given

import memplan
from builders.strategies import BOUNDED, columns
from oracles.reference import Columns


def least_cost(problem: Columns) -> int:
    """Each birth opens an object or takes one over from any that has died: every choice is tried."""
    size, first, last, _ = problem
    births = sorted((i for i in range(len(size)) if size[i]), key=lambda i: first[i])

    @cache
    def cost(rank: int, taken: int) -> int:
        if rank == len(births):
            return 0
        born = births[rank]
        best = size[born] + cost(rank + 1, taken)
        for i in births[:rank]:
            if last[i] <= first[born] and not taken & 1 << i:
                best = min(best, max(0, size[born] - size[i]) + cost(rank + 1, taken | 1 << i))
        return best

    return cost(0, 0)


def objects_of(plan: memplan.Plan) -> list[list[int]]:
    """The members of each object, in order; without alignment they begin where the object begins."""
    by_birth = sorted((slot.first, i) for i, slot in enumerate(plan) if slot.bytes)
    objects: dict[int, list[int]] = {}
    for _, i in by_birth:
        objects.setdefault(int(plan.offsets[i]), []).append(i)
    return list(objects.values())


def cost_of(objects: list[list[int]], size: list[int]) -> int:
    return sum(size[members[0]] + sum(max(0, size[b] - size[a]) for a, b in pairwise(members)) for members in objects)


@given(columns(max_buffers=11, alignments=(1,)))
@example(([10, 10, 5, 5], [0, 0, 5, 7], [1, 3, 8, 9], [1] * 4))
@BOUNDED
def test_the_least_cost(problem: Columns) -> None:
    plan = memplan.plan(memplan.Problem(*problem), "min_cost_flow")
    objects = objects_of(plan)
    assert cost_of(objects, problem[0]) == least_cost(problem)
    assert plan.objects == len(objects)
    assert plan.peak == sum(max(problem[0][i] for i in members) for members in objects)


# (size, first task, last task), both tasks included; the object of each, and the objects' sizes.
CHAIN = [(16, 0, 1), (8, 1, 2), (64, 2, 3), (32, 3, 4), (8, 4, 5)]
COMPLEX = [(32, 0, 1), (32, 1, 4), (8, 2, 5), (16, 3, 5), (8, 4, 5), (64, 5, 7), (8, 6, 8), (8, 7, 8), (16, 8, 9)]
KNOWN = {
    "one record": ([(16, 0, 1)], [0], [16]),
    "chain": (CHAIN, [0, 1, 0, 1, 0], [64, 32]),
    "complex": (COMPLEX, [0, 1, 2, 0, 3, 1, 3, 2, 0], [32, 64, 8, 8]),
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_answers(name: str) -> None:
    records, ids, sizes = KNOWN[name]
    size, first, last = (list(column) for column in zip(*records, strict=True))
    plan = memplan.plan((size, first, [step + 1 for step in last]), "min_cost_flow")
    begin = np.cumsum([0, *sizes])
    assert plan.offsets.tolist() == [begin[i] for i in ids]
    assert (plan.peak, plan.objects) == (sum(sizes), len(sizes))


def test_a_hand_over_is_undone_when_that_is_cheaper() -> None:
    """2 of 5 bytes would take the tighter object of 5; but 3, born with it, may not take the one of 9 that 2 may."""
    size, first, last = [5, 9, 5, 5], [0, 0, 1, 3], [1, 1, 9, 9]
    plan = memplan.plan((size, first, last), "min_cost_flow")
    assert cost_of(objects_of(plan), size) == 14
    assert plan.peak == 14


def test_grow_after_all() -> None:
    """Matched in the order of birth, 2 takes the only object that is free; 3 is worth it more, and takes it from 2."""
    size, first, last = [10, 2, 1, 10], [0, 0, 2, 3], [1, 9, 9, 9]
    plan = memplan.plan((size, first, last), "min_cost_flow")
    assert objects_of(plan) == [[0, 3], [1], [2]]


@given(columns())
@BOUNDED
def test_members_of_an_object_begin_where_it_begins_as_alignment_allows(problem: Columns) -> None:
    plan = memplan.plan(memplan.Problem(*problem), "min_cost_flow")
    plan.verify()
    loose = memplan.plan(memplan.Problem(*problem[:3]), "min_cost_flow")
    assert plan.objects == loose.objects


def test_conflicts_and_what_is_too_large_are_refused() -> None:
    with pytest.raises(memplan.errors.UnsupportedError, match="'min_cost_flow' does not support conflicts"):
        memplan.plan(memplan.Problem([1, 1], [0, 1], [1, 2], conflicts=[(0, 1)]), "min_cost_flow")
    many = np.ones(4097, dtype=np.int64)
    with pytest.raises(memplan.errors.UnsupportedError, match="at most 4096 buffers with bytes, this problem has 4097"):
        memplan.plan((many, many, many + 1), "min_cost_flow")
