"""`Plan.run`, the door: what it refuses before any runtime is asked, and how a plan is held against its network."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

import memplan
from builders import graphs
from builders.graphs import chain
from memplan import _core
from memplan.importers.graph_dict import graph_of
from memplan.plans.costs import costs_of
from memplan.running.from_file import with_graph
from memplan.running.matching import require_same

NETWORK: dict[str, Any] = graphs.graph(
    "x 64 input, y 64, z 32", graphs.op("first", "x", "y"), graphs.op("second", "y", "z"), outputs="z"
)


def changed(**network: Any) -> memplan.Graph:
    graph = memplan.capture(copy.deepcopy(NETWORK) | network).graph
    assert isinstance(graph, memplan.Graph)
    return graph


def test_a_plan_knows_what_was_planned() -> None:
    module, x = torch.nn.Linear(4, 4), torch.ones(1, 4)
    plan = memplan.plan(module, args=(x,), train=True)
    assert plan.source is not None
    assert plan.source.value is module
    assert plan.source.reading.args == (x,)
    assert (plan.source.form.name, plan.source.reading.train) == ("torch", True)


def test_the_network_is_no_part_of_pickles_equality_and_text() -> None:
    module = torch.nn.Linear(4, 4)
    plan = memplan.plan(module, args=(torch.ones(1, 4),))
    for other in (pickle.loads(pickle.dumps(plan)), copy.deepcopy(plan)):
        assert other == plan
        assert other.source is None
    assert "Linear" not in repr(plan)


def test_plans_without_a_network() -> None:
    for source in (NETWORK, ([1], [0], [1])):
        plan = memplan.plan(source)
        assert plan.source is None
        with pytest.raises(TypeError, match=r"holds no network.*plan.run\(..., source=model\)"):
            plan.run()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"args": [], "inputs": (1,)}, r"run\(x\) or run\(args=\(x,\)\), not both; got 1 and args"),
        ({"args": torch.ones(1)}, "args must be a tuple of the positional arguments"),
        ({"kwargs": [1]}, "kwargs must be a mapping from names to values, got list"),
        ({"weights": {1: 2}}, "weights must be a mapping from names to values, got dict"),
        ({"train": True}, "option train goes with source="),
        ({"source": NETWORK}, "source must be a network that runs, or a path to one, got a source of kind dict"),
    ],
)
def test_calls_that_are_refused(call: dict[str, Any], message: str) -> None:
    plan = memplan.plan(NETWORK)
    with pytest.raises(TypeError, match=message):
        plan.run(*call.pop("inputs", ()), **call)


def test_another_network_is_told_by_its_first_difference() -> None:
    graph, tensors, ops = changed(outputs=["y", "z"]), NETWORK["tensors"], NETWORK["ops"]
    require_same(graph, changed(outputs=["y", "z"]))
    larger = [tensors[0], tensors[1] | {"bytes": 128}, tensors[2]]
    renamed = [ops[0] | {"name": "other"}, ops[1]]
    for network, message in [
        ({"tensors": larger}, "tensor 'y' has bytes 64 in the plan and 128 in the network"),
        ({"ops": renamed}, "the plan has the op 'first' where the network has 'other'"),
        ({"tensors": [*tensors, {"name": "w", "bytes": 1, "kind": "weight"}]}, "has 3 tensors, the network 4"),
        ({"outputs": ["z", "y"]}, r"the outputs \['y', 'z'\], the network \['z', 'y'\]"),
    ]:
        with pytest.raises(memplan.errors.SourceError, match=message):
            require_same(graph, changed(**{"outputs": ["y", "z"]} | network))


def test_a_plan_from_a_file_is_held_against_its_network(tmp_path: Path) -> None:
    plan = memplan.plan(NETWORK)
    plan.to_json(tmp_path / "plan.json")
    read = memplan.read_plan(tmp_path / "plan.json")
    again = with_graph(read, changed())
    assert [again["y"].offset, again["z"].offset] == [plan["y"].offset, plan["z"].offset]
    with pytest.raises(memplan.errors.SourceError, match="'y' has 64 bytes in the plan and 65"):
        with_graph(read, changed(tensors=[NETWORK["tensors"][0], {"name": "y", "bytes": 65}, NETWORK["tensors"][2]]))
    renamed = [NETWORK["ops"][0] | {"outputs": ["v"]}, NETWORK["ops"][1] | {"inputs": ["v"]}]
    tensors = [NETWORK["tensors"][0], {"name": "v", "bytes": 64}, NETWORK["tensors"][2]]
    with pytest.raises(memplan.errors.SourceError, match="the plan has the tensor 'y', the network has none"):
        with_graph(read, changed(tensors=tensors, ops=renamed))


def test_a_plan_from_a_file_is_replayed_on_its_network(tmp_path: Path) -> None:
    network = NETWORK | {"tensors": [*NETWORK["tensors"], {"name": "w", "bytes": 64}]}
    ops = [*NETWORK["ops"], {"name": "third", "inputs": ["z"], "outputs": ["w"]}]
    plan = memplan.plan(network | {"ops": ops, "outputs": ["w"]})
    plan.to_json(tmp_path / "plan.json")
    read = memplan.read_plan(tmp_path / "plan.json")
    late = [*NETWORK["ops"], {"name": "third", "inputs": ["y", "z"], "outputs": ["w"]}]
    with pytest.raises(memplan.errors.InvalidPlanError, match="the plan, on the network that was given, is not valid"):
        with_graph(read, changed(tensors=network["tensors"], ops=late, outputs=["w"]))


@pytest.mark.parametrize(
    ("reruns", "fetches"),
    [
        ([("b1", "f0")], []),
        ([("b3", "f1"), ("b2", "f1"), ("b1", "f0")], []),
        ([], [("b2", "t0"), ("b0", "t0")]),
        ([("b2", "f1")], [("b0", "t0")]),
    ],
)
def test_ops_that_a_plan_from_a_file_has_besides_are_added_again(
    reruns: list[tuple[str, str]], fetches: list[tuple[str, str]], tmp_path: Path
) -> None:
    """Ops run again, and tensors are fetched, right before an op; some twice."""
    graph = graph_of(chain(5))
    at = {op.name: k for k, op in enumerate(graph.ops)}
    pairs = [(at[before], at[op]) for before, op in reruns], [(at[before], graph.index(t)) for before, t in fetches]
    changed = _core.rerun_graph(
        graph, costs_of(graph, "auto"), _core.again_of(graph), _core.StorageOptions(), *pairs, 1.0
    ).graph
    assert len(changed.ops) > len(graph.ops)
    memplan.plan(changed).to_json(tmp_path / "plan.json")
    assert with_graph(memplan.read_plan(tmp_path / "plan.json"), graph).graph == changed


def test_a_file_that_does_not_say_where_tensors_lie(tmp_path: Path) -> None:
    memplan.plan(NETWORK).to_csv(tmp_path / "plan.csv")
    with pytest.raises(TypeError, match="does not say where tensors lie: a JSON file"):
        with_graph(memplan.read_plan(tmp_path / "plan.csv"), changed())


def test_the_tensors_of_a_file_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    memplan.plan(NETWORK).to_json(path)
    text = path.read_text()
    path.write_text(text.replace('"buffer": 1', '"buffer": 7'))
    with pytest.raises(memplan.errors.SourceError, match=r"tensors\['z'\].buffer must be 0 to 1, got 7"):
        memplan.read_plan(path)
