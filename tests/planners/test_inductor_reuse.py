"""inductor_reuse: freed blocks go to requests for exactly as many bytes, the last freed first.

That torch does the same is held by tests/wings/torch/inductor/test_torch.py.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memplan
from builders.pooling import CASES, Columns, Pairs, Pools, by_birth, conflict, expect, expect_valid, pools_of, problems
from builders.strategies import BOUNDED, columns

FEW = (0, 4, 4, 8)


def pools(columns: Columns, pairs: Pairs, below_peak: bool = False) -> Pools:
    """The document's list of blocks to reuse, keyed by bytes, on the sequence of allocations and frees."""
    size, first, last, _ = columns
    steps = range(min(first, default=0), max(last, default=0))
    load = {step: sum(s for s, f, m in zip(size, first, last, strict=True) if f <= step < m) for step in steps}
    highest = max(load.values(), default=0)
    frees = [(last[i], 0, i) for i in by_birth(columns)]
    allocs = [(first[i], 1, i) for i in by_birth(columns)]
    reuse_list: dict[int, list[tuple[int, list[int]]]] = {}
    made: Pools = []
    for step, is_alloc, i in sorted(frees + allocs):
        waiting = reuse_list.setdefault(size[i], [])
        if not is_alloc:
            waiting.append((step, next(block for block in made if i in block)))
            continue
        usable = [item for item in waiting if not conflict(pairs, i, item[1])][-1:]
        for freed, block in usable:
            wait = range(freed, step)
            if below_peak and any(load[moment] + size[i] > highest for moment in wait):
                usable = []
                continue
            if below_peak:
                load.update({moment: load[moment] + size[i] for moment in wait})
            waiting.remove((freed, block))
            block.append(i)
        if not usable:
            made.append([i])
    return made


@pytest.mark.parametrize("rule", ["always", "below_peak"])
@given(problem=problems(max_buffers=40, sizes=FEW))
@BOUNDED
def test_same_blocks_as_the_reference(rule: str, problem: tuple[Columns, Pairs]) -> None:
    expect(f"inductor_reuse:reuse={rule}", *problem, pools(*problem, below_peak=rule == "below_peak"))


long_runs = st.lists(st.tuples(st.sampled_from((4, 8, 24)), st.integers(0, 60), st.integers(1, 9)), max_size=60)


@given(long_runs)
@BOUNDED
def test_same_blocks_where_blocks_wait_for_long(rows: list[tuple[int, int, int]]) -> None:
    size, first, length = ([row[k] for row in rows] for k in range(3))
    columns = (size, first, [f + n for f, n in zip(first, length, strict=True)], [1] * len(size))
    for rule in ("always", "below_peak"):
        expect(f"inductor_reuse:reuse={rule}", columns, [], pools(columns, [], below_peak=rule == "below_peak"))


@pytest.mark.parametrize("case", CASES)
def test_degenerate_below_the_peak(case: str) -> None:
    expect_valid(case, "inductor_reuse:reuse=below_peak")


@given(columns(max_buffers=60, alignments=(1,)))
@BOUNDED
def test_only_equal_sizes_share(problem: Columns) -> None:
    size = problem[0]
    for rule in ("always", "below_peak"):
        plan = memplan.plan(memplan.Problem(*problem), f"inductor_reuse:reuse={rule}")
        blocks = pools_of(plan).values()
        assert all(len({size[i] for i in block}) == 1 for block in blocks)
        assert plan.peak == sum(size[block[0]] for block in blocks)  # all that there are, end to end
        assert plan.objects == len(blocks)


def test_the_last_freed_is_the_first_reused() -> None:
    """0 and 1 are freed in turn; 3 takes 1, and 4, a step later, what is left."""
    plan = memplan.plan(([4] * 5, [0, 0, 0, 3, 4], [1, 2, 9, 9, 9]), "inductor_reuse")
    assert pools_of(plan) == {0: [0, 4], 4: [1, 3], 8: [2]}


def test_what_dies_together_is_freed_by_index() -> None:
    plan = memplan.plan(([4] * 3, [0, 0, 1], [1, 1, 2]), "inductor_reuse")
    assert pools_of(plan) == {0: [0], 4: [1, 2]}


def test_a_larger_block_is_no_use() -> None:
    plan = memplan.plan(([8, 4, 8], [0, 1, 2], [1, 2, 3]), "inductor_reuse")
    assert pools_of(plan) == {0: [0, 2], 8: [1]}


def test_a_block_that_waits_over_the_peak_is_left_alone_below_it() -> None:
    """The block of 0 is free over the step of 1 and 2, the peak of 10: to keep it there would take 14."""
    problem = memplan.Problem([4, 9, 1, 4], [0, 1, 1, 2], [1, 2, 2, 3])
    assert memplan.plan(problem, "inductor_reuse").objects == 3
    below = memplan.plan(problem, "inductor_reuse:reuse=below_peak")
    assert pools_of(below) == {0: [0], 4: [1], 13: [2], 14: [3]}


def test_blocks_that_wait_add_up() -> None:
    """Two blocks of 4 wait over a load of 2; the peak of 8 has room for one of them."""
    problem = memplan.Problem([4, 4, 2, 4, 4], [0, 0, 1, 2, 2], [1, 1, 2, 3, 3])
    assert memplan.plan(problem, "inductor_reuse").objects == 3
    assert pools_of(memplan.plan(problem, "inductor_reuse:reuse=below_peak")) == {0: [0], 4: [1, 3], 8: [2], 10: [4]}


def test_a_wait_within_another() -> None:
    """0 waits from 1 to 9 for 1; over the 5 at step 6 that makes 9, and the 8 of 2 would make 17, beyond the peak."""
    size, first, last = [4, 4, 8, 8, 5, 15], [0, 9, 4, 10, 6, 20], [1, 10, 5, 11, 7, 21]
    below = memplan.plan((size, first, last), "inductor_reuse:reuse=below_peak")
    assert sorted(pools_of(below).values()) == [[0, 1], [2], [3], [4], [5]]


def test_no_wait_is_always_fine() -> None:
    problem = memplan.Problem([4, 4], [-(2**63), 0], [0, 2**63 - 1])
    assert memplan.plan(problem, "inductor_reuse:reuse=below_peak").objects == 1
