"""Models of ONNX with ops in pieces: ordinary models with equal results."""

from __future__ import annotations

import numpy as np
import pytest

import memplan
from builders.onnx_models import const, model, node, onnx, value
from memplan import _core
from memplan.importers.onnx import imported
from memplan.run.onnx.split import split_model

ort = pytest.importorskip("onnxruntime")


def network(chance, rows=16):
    """Convolutions, with strides too, pooling, what is added to its own input, and a resize."""
    weights, nodes, last, channels, count = [], [], "x", 3, 0

    def add(op_type, inputs, **attributes):
        nonlocal count
        count += 1
        nodes.append(node(op_type, inputs, [f"t{count}"], name=f"n{count}", **attributes))
        return f"t{count}"

    def weight(*shape):
        weights.append(const(f"w{len(weights)}", chance.uniform(-1, 1, shape), np.float32))
        return weights[-1].name

    for _ in range(int(chance.integers(3, 7))):
        kind = chance.choice(["conv", "strided", "residual", "pool", "up", "norm"])
        if kind in ("conv", "strided"):
            made = int(chance.integers(2, 5))
            stride = 2 if kind == "strided" else 1
            attributes = {"pads": [1] * 4, "strides": [stride] * 2}
            last = add("Relu", [add("Conv", [last, weight(made, channels, 3, 3), weight(made)], **attributes)])
            channels = made
        elif kind == "residual":
            inner = add("Conv", [last, weight(channels, channels, 3, 3)], auto_pad="SAME_UPPER")
            last = add("Add", [inner, last])
        elif kind == "pool":
            last = add("MaxPool", [last], kernel_shape=[3, 3], pads=[1] * 4)
        elif kind == "up":
            weights.append(const(f"w{len(weights)}", [1, 1, 2, 2], np.float32))
            last = add(
                "Resize",
                [last, "", weights[-1].name],
                mode="nearest",
                coordinate_transformation_mode="asymmetric",
                nearest_mode="floor",
            )
        else:
            last = add("Mul", [last, weight(channels, 1, 1)])
    return model(nodes, [value("x", [1, 3, rows, 8])], [value(last, [None] * 4)], weights)


def along_rows(graph):
    """Each op with the loop that goes along its rows."""
    found = []
    for k, op in enumerate(graph.ops):
        loop = next((i for i, loop in enumerate(op.loops) if [(w[1], w[2]) for w in loop.writes] == [(2, 2)]), None)
        if loop is not None:
            found.append((k, loop, False))
    return found


def run(source, x):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return ort.InferenceSession(source.SerializeToString(), options).run(None, {"x": x})[0]


@pytest.mark.parametrize("seed", range(20))
def test_a_model_in_pieces_computes_the_same(seed):
    chance = np.random.default_rng(seed)
    source = network(chance)
    graph = memplan.capture(source).graph
    split = _core.split(graph, [(along_rows(graph), int(chance.integers(2, 5)))])
    found = split_model(imported(source), source, graph, split.pieces)
    onnx.checker.check_model(found, full_check=True)
    x = chance.standard_normal((1, 3, 16, 8)).astype(np.float32)
    np.testing.assert_allclose(run(found, x), run(source, x), rtol=1e-5, atol=1e-5)
    assert len(found.graph.node) > len(source.graph.node)


def test_a_plan_with_pieces_is_written(tmp_path):
    chance = np.random.default_rng(3)
    source = network(chance)
    plan = memplan.fit(source, "least", allow=("split",), max_pieces=4)
    assert any(change.kind == "split" for change in plan.changes)
    plan.to_onnx(tmp_path / "pieces.onnx")
    found = onnx.load(tmp_path / "pieces.onnx")
    x = chance.standard_normal((1, 3, 16, 8)).astype(np.float32)
    np.testing.assert_allclose(run(found, x), run(source, x), rtol=1e-5, atol=1e-5)
    assert len(found.graph.node) > len(source.graph.node)
    with pytest.raises(memplan.UnsupportedError, match="pieces are written for the model that was planned"):
        plan.to_onnx(tmp_path / "other.onnx", source=network(np.random.default_rng(4)))
