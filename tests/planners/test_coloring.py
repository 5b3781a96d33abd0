"""Coloring: a conflict graph, coloured greedily in three orders; a pool per colour."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import memplan
from builders.pooling import (
    CASES,
    Columns,
    Pairs,
    Pools,
    alive_together,
    by_birth,
    conflict,
    expect,
    expect_valid,
    pools_of,
    problem_of,
    problems,
)
from builders.strategies import BOUNDED, columns

ORDERS = ("birth", "size", "dsatur")


def graph_of(columns: Columns, pairs: Pairs) -> dict[int, set[int]]:
    buffers = by_birth(columns)
    return {
        i: {j for j in buffers if i != j and (alive_together(columns, i, j) or conflict(pairs, i, [j]))}
        for i in buffers
    }


def color(graph: dict[int, set[int]], order: str, columns: Columns) -> Pools:
    """The textbook's way: look at everything again before each step."""
    colors: dict[int, int] = {}

    def urgency(i: int) -> tuple[int, ...]:
        around = {colors[j] for j in graph[i] if j in colors}
        if order == "dsatur":
            return (-len(around), -len([j for j in graph[i] if j not in colors]), i)
        return (columns[1][i], i) if order == "birth" else (-columns[0][i], columns[1][i], i)

    while len(colors) < len(graph):
        i = min((i for i in graph if i not in colors), key=urgency)
        colors[i] = next(c for c in itertools.count() if c not in {colors.get(j) for j in graph[i]})
    return [[i for i in graph if colors[i] == c] for c in range(len(set(colors.values())))]


@pytest.mark.parametrize("order", ORDERS)
@given(problem=problems())
@BOUNDED
def test_same_pools_as_the_reference(order: str, problem: tuple[Columns, Pairs]) -> None:
    graph = graph_of(*problem)
    expect(f"coloring:order={order}", *problem, color(graph, order, problem[0]))


@pytest.mark.parametrize("order", ORDERS[1:])
@pytest.mark.parametrize("case", CASES)
def test_degenerate(case: str, order: str) -> None:
    expect_valid(case, f"coloring:order={order}")


def test_by_birth_unless_told() -> None:
    columns = ([1, 9, 1, 5], [0, 1, 2, 3], [2, 3, 4, 6])
    by_birth = memplan.plan(columns, "coloring:order=birth")
    assert memplan.plan(columns, "coloring").offsets.tolist() == by_birth.offsets.tolist()


@given(columns(max_buffers=60))
@BOUNDED
def test_by_birth_the_colors_of_lifetimes_are_the_largest_clique(problem: Columns) -> None:
    size, first, last, _ = problem
    clique = max(
        (sum(s > 0 and f <= t < m for s, f, m in zip(size, first, last, strict=True)) for t in first), default=0
    )
    pools = {order: memplan.plan(memplan.Problem(*problem), f"coloring:order={order}").objects for order in ORDERS}
    assert pools["birth"] == clique
    assert min(pools.values()) == clique


@given(problems())
@BOUNDED
def test_no_fewer_colors_than_any_clique_with_conflicts_either(problem: tuple[Columns, Pairs]) -> None:
    graph = graph_of(*problem)
    largest = max((k for k in (1, 2, 3) for c in itertools.combinations(graph, k) if clique(graph, c)), default=0)
    for order in ORDERS:
        plan = memplan.plan(problem_of(*problem), f"coloring:order={order}")
        assert largest <= plan.objects <= len(graph)


def clique(graph: dict[int, set[int]], buffers: tuple[int, ...]) -> bool:
    return all(b in graph[a] for a, b in itertools.combinations(buffers, 2))


def test_by_birth_may_need_a_color_too_many_with_conflicts() -> None:
    """Evens against odds, all but next ones: two colours do; by birth next ones share, and it takes three."""
    pairs = [(a, b) for a in (0, 2, 4) for b in (1, 3, 5) if b != a + 1]
    problem = memplan.Problem([1] * 6, range(6), range(1, 7), conflicts=pairs)
    assert memplan.plan(problem, "coloring:order=birth").objects == 3
    assert memplan.plan(problem, "coloring:order=dsatur").objects == 2


def test_by_size_keeps_like_with_like() -> None:
    """By birth each large buffer meets a small one, 4 + 4; by size the large ones share, and the small ones."""
    lives = ([1, 4, 4, 1], [0, 1, 3, 4], [2, 3, 5, 6])
    assert pools_of(memplan.plan(lives, "coloring:order=birth")) == {0: [0, 2], 4: [1, 3]}
    assert pools_of(memplan.plan(lives, "coloring:order=size")) == {0: [1, 2], 4: [0, 3]}


GE_TABLE = ([1] * 5, [0, 1, 2, 3, 4], [1, 3, 4, 4, 5])  # Input, T1, T2, T3, Output; the document's ends are included
GE_NAMES = ["Input", "T1", "T2", "T3", "Output"]


def test_the_worked_graph_of_ge_as_its_table_has_it() -> None:
    """T1 and T2 conflict, T1 and T3 do not and share: two pools hold all five."""
    plan = memplan.plan(memplan.Problem(*GE_TABLE, names=GE_NAMES), "coloring")
    assert [[GE_NAMES[i] for i in pool] for pool in pools_of(plan).values()] == [
        ["Input", "T1", "T3", "Output"],
        ["T2"],
    ]
    assert plan.objects == 2


def test_the_worked_graph_of_ge_as_its_drawing_has_it() -> None:
    """Op3 reads T1 while it writes T3, which the table forgets: from the graph itself they are apart."""
    tensors = [{"name": name, "bytes": 1, "kind": "input" if name == "Input" else "intermediate"} for name in GE_NAMES]
    ops = [
        {"name": "Op1", "inputs": ["Input"], "outputs": ["T1"]},
        {"name": "Op2", "inputs": ["T1"], "outputs": ["T2"]},
        {"name": "Op3", "inputs": ["T1"], "outputs": ["T3"]},
        {"name": "Op4", "inputs": ["T2", "T3"], "outputs": ["Output"]},
    ]
    plan = memplan.plan({"tensors": tensors, "ops": ops, "outputs": ["Output"]}, "coloring")
    assert plan["T1"].offset != plan["T3"].offset
    assert plan["Output"].offset == plan["T1"].offset
    assert plan.objects == 3


def test_refuses_what_it_could_not_hold() -> None:
    count = 22_362  # alive together: 250,018,341 pairs
    columns = [np.full(count, value, dtype=np.int64) for value in (1, 0, 1)]
    with pytest.raises(
        memplan.errors.UnsupportedError, match=r"'coloring' takes at most 250000000 pairs.*has 250018341"
    ):
        memplan.plan(memplan.Problem(*columns), "coloring")
    steps = np.arange(100_001)
    problem = memplan.Problem(np.ones_like(steps), steps, steps + 1)
    with pytest.raises(memplan.errors.UnsupportedError, match=r"at most 100000 buffers by dsatur.*has 100001"):
        memplan.plan(problem, "coloring:order=dsatur")
    assert memplan.plan(problem, "coloring:order=size").objects == 1


@given(st.integers(0, 200))
@BOUNDED
def test_dsatur_counts_colors_beyond_a_word(count: int) -> None:
    plan = memplan.plan(([3] * count, [0] * count, [1] * count), "coloring:order=dsatur")
    assert plan.objects == count
