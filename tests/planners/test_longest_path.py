"""longest_path against a plain version of itself, and what its colours mean for ops that run side by side."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import memplan
from builders.strategies import BOUNDED, columns
from oracles.reference import Columns

Pairs = set[tuple[int, int]]


def chains(problem: Columns, pairs: Pairs) -> list[list[int]]:
    """The longest chain of what is left, again and again; every pair of buffers is looked at."""
    size, first, last, _ = problem
    apart = pairs | {(b, a) for a, b in pairs}
    left, found = [i for i in range(len(size)) if size[i]], []
    while left:
        best: dict[int, tuple[int, int]] = {}  # per buffer, number and bytes of the best chain that ends with it
        before: dict[int, int | None] = {}
        for j in sorted(left, key=lambda j: (first[j], j)):
            earlier = [i for i in best if last[i] <= first[j] and (i, j) not in apart]
            before[j] = max(earlier, key=lambda i: (best[i], -i), default=None)
            count, bytes_ = best[before[j]] if before[j] is not None else (0, 0)
            best[j] = count + 1, bytes_ + size[j]
        chain, end = [], max(best, key=lambda i: (best[i], -i), default=None)
        while end is not None:
            chain.insert(0, end)
            end = before[end]
        kept: list[int] = []
        for i in chain:
            if not any((k, i) in apart for k in kept):
                kept.append(i)
        found.append(kept)
        left = [i for i in left if i not in kept]
    return found


def laid_end_to_end(problem: Columns, pools: list[list[int]]) -> list[int]:
    size, _, _, alignment = problem
    offsets, top = [0] * len(size), 0
    for members in pools:
        strictest = max(alignment[i] for i in members)
        begin = -(-top // strictest) * strictest
        for i in members:
            offsets[i] = -(-begin // alignment[i]) * alignment[i]
            top = max(top, offsets[i] + size[i])
    return offsets


@given(columns())
@example(([5, 5, 5], [0, 1, 2], [1, 2, 3], [1, 3, 2]))
@BOUNDED
def test_same_offsets_as_the_reference(problem: Columns) -> None:
    plan = memplan.plan(memplan.Problem(*problem), "longest_path")
    colours = chains(problem, set())
    assert plan.offsets.tolist() == laid_end_to_end(problem, colours)
    assert plan.objects == len(colours)


@given(columns(max_buffers=16), st.data())
@BOUNDED
def test_same_offsets_with_conflicts(problem: Columns, data: st.DataObject) -> None:
    count = len(problem[0])
    pair = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda p: p[0] != p[1])
    pairs = data.draw(st.sets(pair, max_size=30)) if count > 1 else set()
    plan = memplan.plan(memplan.Problem(*problem, conflicts=sorted(pairs) or None), "longest_path")
    colours = chains(problem, pairs)
    assert plan.offsets.tolist() == laid_end_to_end(problem, colours)
    assert plan.objects == len(colours)


# Two branches from 1 to 8, computed in the order of their numbers: 1 -> 2 -> 3 -> 4 -> 8 and 1 -> 5 -> 6 -> 7 -> 8.
READS = {1: [], 2: [1], 3: [2], 4: [3], 5: [1], 6: [5], 7: [6], 8: [4, 7]}
BRANCHES = ({2, 3, 4}, {5, 6, 7})


def two_branches() -> Columns:
    last = {
        value: max([reader for reader, inputs in READS.items() if value in inputs], default=value) for value in READS
    }
    return [8] * 8, list(READS), [last[value] + 1 for value in READS], [1] * 8


def not_ordered() -> Pairs:
    """Pairs of which neither is out of use, whatever order the branches run in, before the other is written."""
    before = {value: set(inputs) for value, inputs in READS.items()}
    for value in READS:
        for earlier in list(before[value]):
            before[value] |= before[earlier]
    uses = {value: {value, *(reader for reader in READS if value in READS[reader])} for value in READS}

    def is_over(a: int, b: int) -> bool:
        return uses[a] <= before[b]

    return {(a - 1, b - 1) for a in READS for b in READS if a < b and not is_over(a, b) and not is_over(b, a)}


def sharing(plan: memplan.Plan) -> Pairs:
    slots = list(plan)
    return {
        (a + 1, b + 1)
        for b in range(len(slots))
        for a in range(b)
        if slots[a].offset < slots[b].end and slots[b].offset < slots[a].end
    }


def across(pairs: Pairs) -> Pairs:
    return {(a, b) for a, b in pairs if any(a in x and b in y for x, y in (BRANCHES, BRANCHES[::-1]))}


def test_one_order_ties_the_branches_together() -> None:
    plan = memplan.plan(memplan.Problem(*two_branches()), "longest_path")
    assert (2, 5) in sharing(plan)
    assert plan.objects == plan.peak // 8 == 4


def test_with_the_graphs_conflicts_sharing_stays_within_a_branch() -> None:
    plan = memplan.plan(memplan.Problem(*two_branches(), conflicts=sorted(not_ordered())), "longest_path")
    assert across(sharing(plan)) == set()
    assert {(2, 4), (5, 7)} <= sharing(plan)
    assert plan.objects == plan.peak // 8 == 5


def test_a_buffer_that_conflicts_further_back_waits() -> None:
    """0 may be followed by 1, and 1 by 2, but 2 may not share with 0."""
    plan = memplan.plan(memplan.Problem([4, 4, 4], [0, 1, 2], [1, 2, 3], conflicts=[(0, 2)]), "longest_path")
    assert plan.offsets.tolist() == [0, 0, 4]


@pytest.mark.parametrize(("sizes", "expected"), [([1, 9, 2], [0, 0, 9]), ([1, 2, 9], [0, 9, 0])])
def test_of_chains_of_one_length_the_larger_goes_first(sizes: list[int], expected: list[int]) -> None:
    """One of 1 and 2 follows 0."""
    plan = memplan.plan((sizes, [0, 1, 1], [1, 2, 2]), "longest_path")
    assert plan.offsets.tolist() == expected
