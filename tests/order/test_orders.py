"""The table of orders: every name gives a legal order; tests of torch's wing compare Inductor's rules with torch."""

from __future__ import annotations

import random
from typing import Any

import pytest

import memplan
from builders.graphs import two_branches
from memplan import _core
from memplan.importers.graph_dict import graph_of
from oracles.plain import waits
from oracles.sharing import small_graph

NAMES = [row.name for row in memplan.orders()]


def is_legal(graph: dict[str, Any], order: list[int]) -> bool:
    apart = {**graph, "ops": [{**op, "stream": k} for k, op in enumerate(graph["ops"])]}
    place = {op: k for k, op in enumerate(order)}
    return sorted(order) == list(range(len(graph["ops"]))) and all(
        place[before] < place[op] for op, befores in enumerate(waits(apart)) for before in befores
    )


@pytest.mark.parametrize("name", NAMES)
def test_every_order_is_legal(name: str) -> None:
    chance = random.Random(name)
    for _ in range(60):
        graph = small_graph(chance, streams=False, ops=9)
        captured = graph_of(graph)
        order = _core.order_of(captured, name)
        assert is_legal(graph, list(order.ops)), (name, order.ops, graph)
        assert order.load == _core.buffers_of(_core.reordered(captured, order.ops)).problem.load


@pytest.mark.parametrize("name", NAMES)
def test_every_name_plans_and_reorders(name: str) -> None:
    plan = memplan.plan(two_branches(), order=name)
    assert plan.graph == memplan.reorder(two_branches(), order=name)
    assert plan.peak == _core.order_of(graph_of(two_branches()), name).load


def test_an_order_is_taken_as_it_is() -> None:
    """Both branches are begun before one is ended; only "best" is never worse than given."""
    graph = two_branches()
    graph["ops"] = [graph["ops"][k] for k in (0, 2, 1, 3, 4)]
    given = memplan.plan(graph)
    assert given.peak == 12
    assert memplan.plan(graph, order="oldest").peak == 21
    assert memplan.plan(graph, order="best").peak == 12
    assert memplan.plan(graph, order="given") == given
