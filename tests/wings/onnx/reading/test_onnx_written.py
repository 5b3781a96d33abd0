"""ONNX files as others write them: by torch's older exporter, and by ONNX Runtime when it has optimised a model."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import memplan
from builders.onnx_exported import Cache, Layer, Masked, exported, optimised
from builders.onnx_models import F32, I64, const, helper, model, node, onnx, ops, sizes, value
from builders.onnx_package_models import DATA
from memplan.errors import SourceError
from memplan.onnx.reading import runtime

# torch's older exporter: shapes behind arithmetic


@pytest.mark.parametrize(("module", "shape"), [(Cache(), (2, 40, 16)), (Masked(), (2, 64))])
def test_the_older_exporters_arithmetic_of_shapes(module, shape):
    x = torch.zeros(shape)
    source = exported(module, x)
    types = {n.op_type for n in source.graph.node}
    assert {"Expand", "Where"} <= types
    assert types & {"ScatterElements", "ScatterND"}
    plan = memplan.plan(source)
    result = module(x)
    assert plan[source.graph.output[0].name].bytes == result.numel() * result.element_size()


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([node("ScatterElements", ["s", "one", "five"], ["t"])], 10),
        ([node("ScatterND", ["s", "at", "five"], ["t"])], 10),
        ([node("TopK", ["s", "two"], ["t", "places"])], 12),
        ([node("Trilu", ["square"], ["u"]), node("ReduceSum", ["u"], ["t"], keepdims=0)], 6),
        ([node("OneHot", ["one", "depth", "values"], ["u"]), node("ArgMax", ["u"], ["v"], axis=1, keepdims=0),
          node("Squeeze", ["v"], ["w"]), node("Add", ["w", "five"], ["t"])], 6),
        ([node("BitShift", ["unsigned", "unsigned"], ["u"], direction="LEFT"), node("Cast", ["u"], ["t"], to=I64)], 8),
    ],
)  # fmt: skip
def test_any_operator_may_be_part_of_it(nodes, expected):
    weights = [
        *(const(name, [number]) for name, number in {"one": 1, "two": 2, "five": 5}.items()),
        const("at", [[1]]),
        const("square", [[1, 1], [9, 4]]),
        const("depth", 3),
        const("values", [0, 1]),
        const("unsigned", [2], np.uint32),
    ]
    shape = [node("Shape", ["x"], ["s"]), *nodes, node("Expand", ["scalar", "t"], ["y"])]
    result = memplan.capture(
        model(shape, [value("x", [2, 6])], [value("y", None)], [*weights, const("scalar", [1.0], np.float32)])
    ).graph
    assert sizes(result.to_dict())["y"] == 4 * expected


@pytest.mark.parametrize("op_type", ["RandomUniformLike", "Bernoulli"])
def test_what_differs_from_run_to_run_is_no_size(op_type):
    nodes = [
        node(op_type, ["half"], ["r"]),
        node("Cast", ["r"], ["t"], to=I64),
        node("Expand", ["x", "t"], ["y"]),
    ]
    with pytest.raises(SourceError, match=r"'y', written by node .* has no known size"):
        memplan.capture(model(nodes, [value("x", [1])], [value("y", None)], [const("half", [0.5], np.float32)]))


# ONNX Runtime


def own_types(source):
    return {f"{n.domain}.{n.op_type}" for n in source.graph.node if n.domain.startswith("com.microsoft")}


def test_light_models(tmp_path):
    path = str(DATA / "light" / "light_squeezenet.onnx")
    for level, wanted in (("EXTENDED", "com.microsoft.FusedConv"), ("ALL", "com.microsoft.nchwc.Conv")):
        source = optimised(path, level, tmp_path)
        assert wanted in own_types(source)
        plan = memplan.plan(source)
        assert plan[source.graph.output[0].name].bytes == 4 * 1000


def test_a_layer_of_a_transformer(tmp_path):
    source = optimised(exported(Layer(), torch.zeros(2, 5, 16)), "EXTENDED", tmp_path)
    assert {"com.microsoft.SkipLayerNormalization", "com.microsoft.FusedMatMul"} & own_types(source)
    assert memplan.plan(source)[source.graph.output[0].name].bytes == 2 * 5 * 16 * 4


RUNTIMES = {
    "Gelu": (["x"], [2, 5, 16], {}),
    "FastGelu": (["x"], [2, 5, 16], {}),
    "QuickGelu": (["x"], [2, 5, 16], {}),
    "BiasGelu": (["x", "b"], [2, 5, 16], {}),
    "SkipLayerNormalization": (["x", "x", "b"], [2, 5, 16], {}),
    "FusedMatMul": (["x", "w"], [2, 5, 48], {"alpha": 0.5}),
    "Attention": (["x", "w", "c"], [2, 5, 16], {"num_heads": 2}),
    "EmbedLayerNormalization": (["i", "", "w", "w", "", "c", "c"], [2, 5, 48], {}),
}


def of_runtime(op_type):
    inputs, _, attributes = RUNTIMES[op_type]
    outputs = ["t", "mask"] if op_type == "EmbedLayerNormalization" else ["t"]
    made = node(op_type, inputs, outputs, domain="com.microsoft", name="own", **attributes)
    given = [value("x", [2, 5, 16]), value("i", [2, 5], TensorProto.INT32)]
    weights = [const(name, np.zeros(shape), np.float32) for name, shape in {"b": 16, "c": 48, "w": (16, 48)}.items()]
    return model([made, node("Neg", ["t"], ["y"])], given, [value("y", None)], weights, domains=["com.microsoft"])


TensorProto = onnx.TensorProto


@pytest.mark.parametrize("op_type", RUNTIMES)
def test_its_operators_have_the_shapes_that_it_infers(op_type):
    pytest.importorskip("onnxruntime")
    graph = memplan.capture(of_runtime(op_type)).graph
    assert graph.tensor(graph.index("t")).shape == RUNTIMES[op_type][1]
    assert ops(graph.to_dict())["own"]["type"] == f"com.microsoft.{op_type}"


def test_without_it_the_message_has_the_remedy(monkeypatch):
    monkeypatch.setattr(runtime, "_installed", lambda: None)
    message = (
        r"tensor 't', written by node 'own' \(FusedMatMul\), has no known size: its shape is unknown; "
        r"com.microsoft.FusedMatMul is an operator of ONNX Runtime, which tells its shapes where it is installed: "
        r"pip install 'memplan\[onnxruntime\]', or import the model as it was before ONNX Runtime optimised it"
    )
    with pytest.raises(SourceError, match=message):
        memplan.capture(of_runtime("FusedMatMul"))


def test_what_it_does_not_know_either():
    pytest.importorskip("onnxruntime")
    nodes = [helper.make_node("Mystery", ["x"], ["y"], domain="com.microsoft")]
    source = model(nodes, [value("x", [2])], [value("y", None, F32)], domains=["com.microsoft"])
    with pytest.raises(SourceError, match=r"com.microsoft.Mystery is an operator of ONNX Runtime, which does not tell"):
        memplan.capture(source)
