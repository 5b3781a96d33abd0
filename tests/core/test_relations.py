"""Plans of random graphs with every relation, held against the oracle's run of them, in every order that is legal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import memplan
from builders.strategies import BOUNDED, bounded, places, relation_graphs
from memplan import _core
from oracles import plain as oracle

pytestmark = pytest.mark.no_cover

Dict = dict[str, Any]
ORDERS = 40  # that are tried at most


@st.composite
def cases(draw: st.DrawFn) -> tuple[Dict, _core.Graph, _core.Buffers, list[str]]:
    """A graph as a dict and captured, its buffers with random options, and the names of what is donated."""
    graph = draw(relation_graphs())
    inputs = [tensor["name"] for tensor in graph["tensors"] if tensor["kind"] == "input"]
    donate = draw(st.lists(st.sampled_from(inputs), max_size=2)) if inputs else []
    place = draw(st.one_of(st.just(["intermediate", "output", "workspace"]), places))
    options = _core.StorageOptions(place, draw(st.sampled_from([1, 1, 4])), True, [], donate, True)
    captured = memplan.capture(graph).graph
    try:
        return graph, captured, _core.buffers_of(captured, options), donate
    except memplan.errors.GraphError as error:
        assume("which of them runs first" not in str(error))
        raise


def run(
    graph: Dict, buffers: _core.Buffers, donate: list[str], offsets: Sequence[int], sequence: list[int] | None = None
) -> list[str]:
    """What the oracle finds wrong when everything lies where the offsets of the buffers put it."""
    names = [tensor["name"] for tensor in graph["tensors"]]
    place, region = {}, {}
    for t, name in enumerate(names):
        buffer = int(buffers.buffer_of_tensor[t])
        place[name] = int(buffers.offset_in_buffer[t]) + (offsets[buffer] if buffer >= 0 else 0)
        region[name] = oracle.ARENA if buffer >= 0 else names[buffers.root_of_tensor[t]]
    workspace = {
        op["name"]: offsets[b] if (b := int(buffers.buffer_of_workspace[k])) >= 0 else oracle.NOWHERE
        for k, op in enumerate(graph["ops"])
    }
    return oracle.replay(graph, place, workspace, region=region, donated=donate, sequence=sequence)


def orders(graph: Dict) -> list[list[int]]:
    return list(islice(oracle.legal_orders(oracle.waits(graph)), ORDERS))


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("planner", ["naive", "auto"])
@given(cases())
@bounded(100)
def test_a_plan_keeps_every_value_in_every_legal_order(planner: str, case: Any) -> None:
    graph, captured, buffers, donate = case
    offsets = memplan.plan(buffers.problem, planner).offsets.tolist()
    assert _core.replay(captured, buffers, offsets) == []
    for order in orders(graph):
        assert run(graph, buffers, donate, offsets, order) == []


@given(cases(), st.data())
@bounded(100)
def test_replay_agrees_with_the_oracle_on_plans_that_are_broken(case: Any, data: st.DataObject) -> None:
    graph, captured, buffers, donate = case
    assume(len(buffers.problem) > 1)
    offsets = memplan.plan(buffers.problem, data.draw(st.sampled_from(["naive", "auto"]))).offsets.tolist()
    for _ in range(data.draw(st.integers(1, 3))):
        moved = data.draw(st.integers(0, len(offsets) - 1))
        offsets[moved] = data.draw(st.integers(0, 24))
    found = _core.replay(captured, buffers, offsets)
    every = orders(graph)
    if run(graph, buffers, donate, offsets):
        assert found
    if found:
        assert len(every) == ORDERS or any(run(graph, buffers, donate, offsets, order) for order in every)
    if buffers.problem.conflicts is None:
        assert bool(found) == bool(run(graph, buffers, donate, offsets))


@given(cases())
@BOUNDED
def test_with_the_reuse_edges_of_a_plan_every_other_order_is_free(case: Any) -> None:
    """Each op on a stream of its own: what data, `after`, overwrites and the edges leave open loses nothing."""
    graph, captured, buffers, donate = case
    assume(not any("overwrite" in op for op in graph["ops"]))  # their waits are the graph's own
    offsets = memplan.plan(buffers.problem, "auto").offsets.tolist()
    names = [op["name"] for op in graph["ops"]]
    edges = [(names[a], names[b]) for a, b in _core.reuse_edges(captured, buffers, offsets)]
    for order in islice(oracle.legal_orders(oracle.waits(graph, edges, streams=False)), ORDERS):
        assert run(graph, buffers, donate, offsets, order) == []


@given(relation_graphs(), places)
@BOUNDED
def test_naive_is_what_is_needed_without_sharing(graph: Dict, place: list[str]) -> None:
    captured = memplan.capture(graph).graph
    try:
        shared = _core.buffers_of(captured, _core.StorageOptions(place))
        alone = _core.buffers_of(captured, _core.StorageOptions(place, 1, False, [], [], False))
    except memplan.errors.GraphError as error:
        assume("which of them runs first" not in str(error))
        raise
    assert shared.unshared == alone.unshared == alone.problem.size.sum()
    plan = memplan.plan(captured, "naive", place=place)
    assert plan.peak == plan.naive == shared.unshared
    assert shared.problem.load <= alone.problem.load


@given(relation_graphs(), places)
@BOUNDED
def test_auto_never_does_worse_for_sharing(graph: Dict, place: list[str]) -> None:
    plan = memplan.plan(graph, place=place)
    apart = memplan.plan(graph, place=place, inplace=False, zero_copy=False)
    assert plan.peak <= apart.peak
    assert plan.lower_bound <= apart.lower_bound
