"""What an order keeps: barriers, random numbers, mutation, workspaces, streams; each by a graph that shows it."""

from __future__ import annotations

import random

import pytest

import memplan
from builders import graphs
from builders.graphs import two_branches
from memplan.importers.graph_dict import graph_of
from oracles.sharing import small_graph

FREE = 12  # bytes of the best order of two_branches
KEPT = 21  # with both branches in memory at once


def test_all_ops_stay_on_their_side_of_a_barrier() -> None:
    assert memplan.plan(two_branches(), order="best").peak == FREE
    plan = memplan.plan(two_branches(), order="best", barrier=["right"])
    assert (plan.peak, plan.order[:2]) == (KEPT, ("left", "right"))
    assert plan.order_bound == KEPT  # of the orders that the barrier leaves
    assert memplan.reorder(two_branches(), barrier=("right",)) == plan.graph
    assert memplan.plan({**two_branches(), "barriers": ["right"]}, order="best").peak == KEPT
    assert memplan.plan(two_branches(), order="best", barrier=["join"]).peak == FREE


@pytest.mark.parametrize("order", ["best", "lpmf", "oldest", "newest_backwards", "exact"])
def test_barriers_hold_in_every_order(order: str) -> None:
    chance = random.Random(order)
    for _ in range(40):
        graph = small_graph(chance, streams=False, ops=12)
        listed = [op["name"] for op in graph["ops"]]
        barriers = chance.sample(listed, min(len(listed), 2))
        found = [op.name for op in memplan.reorder(graph, order=order, barrier=barriers).ops]
        for barrier in barriers:
            assert set(found[: found.index(barrier)]) == set(listed[: listed.index(barrier)])


def test_barriers_add_two_waits_per_op_at_most() -> None:
    chain = {
        "tensors": [{"name": "x", "bytes": 1, "kind": "input"}, *({"name": f"t{k}", "bytes": 1} for k in range(300))],
        "ops": [{"name": f"o{k}", "inputs": ["x"], "outputs": [f"t{k}"]} for k in range(300)],
        "outputs": [],
        "barriers": [f"o{k}" for k in range(0, 300, 7)],
    }
    assert sum(len(op.after) for op in graph_of(chain).ops) <= 600


def test_barriers_that_are_none() -> None:
    with pytest.raises(memplan.errors.GraphError, match="barrier must name ops, got 'rigth'; did you mean 'right'"):
        memplan.plan(two_branches(), barrier=["rigth"])
    with pytest.raises(memplan.errors.GraphError, match="barrier must name ops, got 'x'; the ops are 'left', 'right'"):
        graph_of({**two_branches(), "barriers": ["x"]})
    with pytest.raises(TypeError, match="barrier must be a collection of names, got 'right'"):
        memplan.reorder(two_branches(), barrier="right")
    with pytest.raises(TypeError, match="option barrier applies to graphs"):
        memplan.plan(([1], [0], [1]), barrier=["right"])


def test_barriers_hold_in_comparisons_and_where_a_graph_is_made_to_fit() -> None:
    found = memplan.compare(two_branches(), ["auto"], orders=["given", "best"], barrier=["right"])
    assert [row.peak for row in found] == [KEPT, KEPT]
    assert found.order_bound == KEPT
    assert memplan.fit(two_branches(), FREE, allow=["order"]).peak == FREE
    with pytest.raises(memplan.InfeasibleError):
        memplan.fit(two_branches(), FREE, allow=["order"], barrier=["right"])


def test_streams_keep_their_order_and_take_no_barrier() -> None:
    graph = two_branches()
    graph["ops"][0]["stream"] = 1
    plan = memplan.plan(graph, order="best", barrier=["join"])
    assert plan.order == ("left", "right", "less", "fewer", "join")
    assert not any(op.after for op in plan.graph.ops)


def test_workspaces_count() -> None:
    """The op with much scratch runs while nothing else is alive."""
    graph = graphs.graph(
        "x 1 input, a 4, b 4, c 4",
        graphs.op("plain", "x", "a"),
        graphs.op("scratch", "x", "b", workspace=20),
        graphs.op("join", "a b", "c"),
        outputs="c",
    )
    assert memplan.plan(graph).peak == 28
    plan = memplan.plan(graph, order="best")
    assert (plan.peak, plan.order[0], plan.order_optimal) == (24, "scratch", True)
    assert memplan.plan(graph, order="best", place=("intermediate", "output")).peak == 12


def test_what_changes_ops_keeps_all_else() -> None:
    graph = graph_of(two_branches())
    ops = [{**op, "cost": 3.0, "recompute": False, "type": "relu"} for op in two_branches()["ops"]]
    asked = memplan.capture({**two_branches(), "ops": ops}, inplace_ops=["relu"]).graph
    named = graph_of({**two_branches(), "ops": ops, "barriers": [graph.ops[1].name]})
    for changed in (asked, named):
        assert [(op.cost, op.recompute) for op in changed.ops] == [(3.0, False)] * len(graph.ops)
