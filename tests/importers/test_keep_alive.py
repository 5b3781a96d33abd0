"""``keep_alive``: tensors that are read after the run live to its end, whatever they were read from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memplan
from builders.commands import run
from builders.paths import DATA

GRAPH: dict[str, Any] = {
    "tensors": [
        {"name": "x", "bytes": 64, "kind": "input"},
        {"name": "w", "bytes": 8, "kind": "weight"},
        {"name": "r", "bytes": 64},
        {"name": "v", "bytes": 64},
        {"name": "s", "bytes": 64},
        {"name": "y", "bytes": 64},
    ],
    "ops": [
        {"name": "relu", "inputs": ["x", "w"], "outputs": ["r"], "inplace": [{"output": "r", "input": "x"}]},
        {"name": "view", "inputs": ["r"], "outputs": ["v"], "alias": [{"output": "v", "input": "r"}]},
        {"name": "sin", "inputs": ["v"], "outputs": ["s"], "inplace": [{"output": "s", "input": "v"}]},
        {"name": "cos", "inputs": ["s"], "outputs": ["y"], "inplace": [{"output": "y", "input": "s"}]},
    ],
    "outputs": ["y"],
}
EVERYTHING: dict[str, Any] = {"place": ("input", "weight", "intermediate", "output"), "donate": ["x"]}


def onnx_model() -> Any:
    pytest.importorskip("onnx")
    from builders.onnx_models import model, node, value

    return model([node("Relu", ["x"], ["r"]), node("Sin", ["r"], ["y"])], [value("x", [16])], [value("y", [16])])


def torch_network() -> Any:
    torch = pytest.importorskip("torch")
    net = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 16))
    return memplan.capture(net.eval(), args=(torch.ones(1, 16),))


def tflite_model() -> Any:
    pytest.importorskip("tflite")
    return DATA / "tflite" / "elementwise.tflite"


SOURCES = {
    "dict": lambda: GRAPH,
    "graph": lambda: memplan.capture(GRAPH).graph,
    "onnx": onnx_model,
    "torch": torch_network,
    "tflite": tflite_model,
}


@pytest.mark.parametrize("kind", SOURCES)
def test_each_tensor_lives_to_the_end(kind: str) -> None:
    source = SOURCES[kind]()
    graph = memplan.capture(source).graph
    place = {"place": ("input", "weight", "intermediate", "output")}
    for tensor in (tensor.name for tensor in graph.tensors):
        plan = memplan.plan(source, keep_alive=[tensor], **place)
        assert plan[tensor].last == len(graph.ops)
        edited = graph.to_dict()
        edited["outputs"] = list(dict.fromkeys([*graph.outputs, tensor]))
        assert plan.peak == memplan.plan(edited, **place).peak


def test_nothing_is_written_over_what_is_kept() -> None:
    assert memplan.plan(GRAPH, **EVERYTHING).peak == 72
    assert memplan.plan(GRAPH, keep_alive=["x"], **EVERYTHING).peak == 136
    assert memplan.plan(GRAPH, keep_alive=["x", "v"], **EVERYTHING).peak == 200
    assert memplan.plan(GRAPH, keep_alive=["w", "y"], **EVERYTHING).peak == 72


def test_all_functions_take_it(tmp_path: Path) -> None:
    keep: dict[str, Any] = {"keep_alive": ["x", "r"]}
    net = memplan.capture(GRAPH, **keep)
    assert net.graph.outputs == ["y", "x", "r"]
    assert memplan.plan(net, **EVERYTHING).peak == memplan.plan(GRAPH, **keep, **EVERYTHING).peak == 200
    assert memplan.plan(net, keep_alive=["s"], **EVERYTHING).peak == 264
    assert memplan.plan(net, order="best", **EVERYTHING).peak == 200
    assert memplan.reorder(GRAPH, **keep).outputs == ["y", "x", "r"]
    assert memplan.order_bound(GRAPH, **keep, **EVERYTHING).bytes == 200
    assert memplan.fit(GRAPH, "least", **keep, **EVERYTHING).peak == 200
    assert [row.peak for row in memplan.compare(GRAPH, ["naive"], **keep, **EVERYTHING).rows] == [264]
    assert memplan.plan_many({"a": GRAPH}, **keep, **EVERYTHING).peak == 200
    path, place = tmp_path / "graph.json", "input,weight,intermediate,output"
    path.write_text(json.dumps(GRAPH))
    assert run("plan", path, "--keep-alive", "x,r", "--place", place, "--json", tmp_path / "plan.json") == 0
    assert memplan.read_plan(tmp_path / "plan.json").peak == 200


def test_names_that_are_not_there() -> None:
    with pytest.raises(
        memplan.errors.GraphError, match="keep_alive must name tensors, got 'relu'; the tensors are 'x', 'w'"
    ):
        memplan.plan(GRAPH, keep_alive=["relu"])
    with pytest.raises(memplan.errors.GraphError, match="keep_alive must name tensors, got 'X'; did you mean 'x'"):
        memplan.plan(memplan.capture(GRAPH), keep_alive=["X"])
    with pytest.raises(TypeError, match="keep_alive must be a collection of names, got 'x'"):
        memplan.plan(GRAPH, keep_alive="x")
    with pytest.raises(TypeError, match="option keep_alive does not apply to a source of kind problem"):
        memplan.plan(memplan.Problem([1], [0], [1]), keep_alive=["x"])


def test_a_network_runs_as_it_is() -> None:
    """What is kept is no output of the network: it stays in the arena."""
    torch = pytest.importorskip("torch")
    net = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 16)).eval()
    x = torch.arange(32.0).reshape(2, 16)
    for source, given in ((net, {"args": (x,)}), (memplan.capture(net, args=(x,)), {})):
        plan = memplan.plan(source, keep_alive=["0.addmm", "input"], **given)
        assert torch.equal(plan.run(x, check=True).outputs, net(x))
        assert torch.equal(plan.program(x), net(x))


def test_a_model_of_onnx_runs_as_it_is(tmp_path: Path) -> None:
    model, x = onnx_model(), np.arange(16, dtype=np.float32)
    plan = memplan.plan(model, keep_alive=["r", "x"])
    found = plan.run({"x": x}, check=True).outputs
    assert list(found) == ["y"]
    assert np.array_equal(found["y"], memplan.plan(model).run({"x": x}).outputs["y"])
    plan.to_onnx(tmp_path / "m.onnx")
    assert [output.name for output in plan.program.graph.output] == ["y"]
