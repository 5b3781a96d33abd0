"""ge_pool: by birth, the first pool that is large enough and free."""

from __future__ import annotations

import pytest
from hypothesis import given

import memplan
from builders.pooling import Columns, Pairs, Pools, by_birth, conflict, end_to_end, expect, pools_of, problems
from builders.strategies import BOUNDED, columns

MB, KB = 10**6, 10**3


def pools(columns: Columns, pairs: Pairs) -> Pools:
    """The document's pseudocode, with lifetimes that leave out their ends."""
    size, first, last, _ = columns
    made: list[tuple[int, list[int]]] = []  # size of a pool, and what it has held
    for i in by_birth(columns):
        for large, held in made:
            if large >= size[i] and last[held[-1]] <= first[i] and not conflict(pairs, i, held):
                held.append(i)
                break
        else:
            made.append((size[i], [i]))
    return [held for _, held in made]


@given(problems())
@BOUNDED
def test_same_pools_as_the_reference(problem: tuple[Columns, Pairs]) -> None:
    expect("ge_pool", *problem, pools(*problem))


@given(columns(max_buffers=80, alignments=(1,)))
@BOUNDED
def test_same_pools_with_many(problem: Columns) -> None:
    plan = memplan.plan(memplan.Problem(*problem), "ge_pool")
    assert plan.offsets.tolist() == end_to_end(problem, pools(problem, []))


def test_a_pool_is_the_first_and_not_the_tightest() -> None:
    plan = memplan.plan(([9, 4, 4], [0, 0, 2], [1, 1, 3]), "ge_pool")
    assert pools_of(plan) == {0: [0, 2], 9: [1]}


def test_timeline() -> None:
    """The third tensor takes the first one's 10 MB; the second one's 15 MB do not fit there, and a pool never grows."""
    problem = memplan.Problem([10 * MB, 15 * MB, 10 * MB], [0, 1, 2], [1, 2, 3], names=["A", "B", "C"])
    plan = memplan.plan(problem, "ge_pool")
    assert plan["C"].offset == plan["A"].offset
    assert (plan.objects, plan.peak) == (2, 25 * MB)
    assert memplan.plan(problem, "coloring").peak == 15 * MB  # the figure that the document gives


def test_worked_graph_shares_the_pool_of_t1_and_t3() -> None:
    """Input, T1, T2, T3, Output by the document's table, its ends included: [0,0] [1,2] [2,3] [3,3] [4,4]."""
    plan = memplan.plan(([1] * 5, [0, 1, 2, 3, 4], [1, 3, 4, 4, 5]), "ge_pool")
    assert list(pools_of(plan).values()) == [[0, 1, 3, 4], [2]]


def test_reading_the_ends_as_the_document_does_would_share_among_the_living() -> None:
    """free_after_step <= start with ends included puts T2 [2,3] into the pool of T1 [1,2]: both are alive at 2."""
    inclusive = ([1, 1], [1, 2], [2, 3], [1, 1])
    assert pools(inclusive, []) == [[0, 1]]
    half_open = ([1, 1], [1, 2], [3, 4])
    assert memplan.plan(half_open, "ge_pool").objects == 2


def cnn(**sizes_and_lives: tuple[int, int, int]) -> memplan.Problem:
    size, first, last = zip(*sizes_and_lives.values(), strict=True)
    return memplan.Problem(list(size), list(first), list(last), names=list(sizes_and_lives))


INPUT, CONV, POOL = 150 * KB, 3_200 * KB, 800 * KB


def test_cnn_without_reuse() -> None:
    plain = cnn(Input=(INPUT, 0, 4), T1=(CONV, 1, 3), T2=(CONV, 2, 4), T3=(POOL, 3, 4))
    assert memplan.plan(plain, "naive").peak == 7_350 * KB


def test_cnn_with_relu_in_place() -> None:
    """T2 is joined to T1, which ends before step 3 in the document's report, and the input is kept."""
    joined = cnn(Input=(INPUT, 0, 4), T1=(CONV, 1, 3), T3=(POOL, 3, 4))
    plan = memplan.plan(joined, "ge_pool")
    assert plan["T3"].offset == plan["T1"].offset
    assert (plan.objects, plan.peak) == (2, 3_350 * KB)


def test_cnn_whose_last_op_reads_what_it_would_write_over() -> None:
    """The op at step 3 reads T2; with that, T3 cannot lie there, and the block needs 0.8 MB more."""
    joined = cnn(Input=(INPUT, 0, 4), T1=(CONV, 1, 4), T3=(POOL, 3, 4))
    assert memplan.plan(joined, "ge_pool").peak == 4_150 * KB


@pytest.mark.parametrize(("sizes", "peak"), [((1, 2, 3), 6), ((3, 2, 1), 3)])
def test_descending_sizes_share_and_ascending_ones_do_not(sizes: tuple[int, ...], peak: int) -> None:
    assert memplan.plan((list(sizes), [0, 1, 2], [1, 2, 3]), "ge_pool").peak == peak
