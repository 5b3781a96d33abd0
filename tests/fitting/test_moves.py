"""Tensors that are moved out of the arena and fetched again: where in the order that happens."""

from __future__ import annotations

import memplan
from builders import graphs
from builders.fit_cases import Dict, fitted
from memplan import _core
from memplan.plans.costs import costs_of


def test_what_is_changed_moves_out_after_the_change() -> None:
    size = {"x": 100, "x_": 100, "b": 200, "c": 200, "z": 1}
    view = [{"output": "x_", "input": "x", "offset": 0}]
    graph: Dict = graphs.graph(
        [graphs.tensor("i", 1, "input"), *({"name": n, "bytes": s} for n, s in size.items())],
        graphs.op("make", "i", "x", cost=9),
        {"name": "relu_", "type": "aten.relu_", "inputs": ["x"], "outputs": ["x_"], "alias": view, "cost": 9},
        graphs.op("f_b", "i", "b", cost=9),
        graphs.op("f_c", "b", "c", cost=9),
        graphs.op("f_z", "c x_", "z", cost=9),
        outputs="z",
    )
    ops = {op.name: op for op in fitted(graph, 410, transfer=0.01).graph.ops}
    assert list(ops["x~out"].inputs) == ["x"]
    assert list(ops["x~out"].after) == ["relu_"]
    assert list(ops["x~in"].after) == ["x~out"]


def test_more_freedom_costs_no_more() -> None:
    """Of a real network, what the search finds with moves costs no more than what it finds without."""
    graph = memplan.capture("example:resnet50_train").graph
    assert isinstance(graph, _core.Graph)
    sharing = _core.StorageOptions()
    capacity = _core.buffers_of(graph, sharing).problem.load * 8 // 10
    facts = costs_of(graph, "bytes"), _core.again_of(graph)
    without, moves = (
        _core.fit_graph(graph, *facts, sharing, capacity, transfer=transfer, work=10**8) for transfer in (None, 2.0)
    )
    assert moves.added_cost <= without.added_cost


def test_what_is_placed_is_free_once_what_it_is_part_of_has_moved_out() -> None:
    """The part that lies in its whole is not moved itself: its bytes are free as soon as only the whole is read."""
    graph = {
        "tensors": [
            {"name": name, "bytes": size, "kind": "input" if name == "x" else "intermediate"}
            for name, size in {"x": 20, "a": 12, "whole": 32, "large": 100, "small": 4, "end": 4}.items()
        ],
        "ops": [
            {"name": "first", "inputs": ["x"], "outputs": ["a"]},
            {
                "name": "join",
                "inputs": ["a", "x"],
                "outputs": ["whole"],
                "concat": [{"output": "whole", "input": "a"}, {"output": "whole", "input": "x", "offset": 12}],
            },
            {"name": "make", "inputs": [], "outputs": ["large"]},
            {"name": "reduce", "inputs": ["large"], "outputs": ["small"]},
            {"name": "last", "inputs": ["whole", "small"], "outputs": ["end"]},
        ],
        "outputs": ["end"],
    }
    place = ("input", "intermediate", "output", "workspace")
    assert memplan.plan(graph, place=place).peak == 136
    least = memplan.fit(graph, "least", allow=("offload",), place=place)
    assert least.peak == least.fitting.load_bound == 104
    assert memplan.fit(graph, 104, allow=("offload",), place=place).peak == 104
