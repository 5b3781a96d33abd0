"""If nodes of ONNX whose condition follows from sizes and constants: the branch that is taken stands in their place."""

from __future__ import annotations

import io

import numpy as np
import onnx.parser
import pytest
import torch
from torch import nn

import memplan
from builders.onnx_models import BOOL, I64, const, graph, model, node, onnx, ops, sizes, stub, value
from builders.onnx_running import plans_of, runs, wanted
from memplan.errors import SourceError
from memplan.onnx.reading import import_onnx


def parsed(text, opset=21):
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]>\n{text}')


def types_of(source, **options):
    return [op["type"] for op in import_onnx(source, **options)["ops"]]


def reals(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def squeeze(shape):
    """As TorchScript writes a squeeze."""
    then = graph([node("Squeeze", ["x", "two"], ["a"], name="squeeze")], [], [value("a", None)], [const("two", [2])])
    other = graph([node("Identity", ["x"], ["b"])], [], [value("b", None)])
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "at"], ["size"], axis=0),
        node("Equal", ["size", "one"], ["c"]),
        node("If", ["c"], ["s"], then_branch=then, else_branch=other, name="if"),
        node("Relu", ["s"], ["y"]),
    ]
    weights = [const("at", 2), const("one", 1)]
    return model(nodes, [value("x", shape)], [value("y", None)], weights)


@pytest.mark.parametrize(("size", "shape", "type"), [(1, [4, 8], "Squeeze"), (3, [4, 8, 3], "Identity")])
def test_the_squeeze_of_torchscript(size, shape, type):
    source = squeeze([4, 8, "n"])
    found = import_onnx(source, dims={"n": size})
    assert [op["type"] for op in found["ops"]] == ["Shape", "Gather", "Equal", type, "Relu"]
    assert {t["name"]: t["shape"] for t in found["tensors"]}["y"] == shape
    assert ops(found)["squeeze" if size == 1 else "Identity_0"]["outputs"] == ["s"]
    fixed = squeeze([4, 8, size])
    feeds = {"x": reals(4, 8, size)}
    runs(fixed, feeds, wanted(fixed, feeds), plans_of(fixed))


CONDITIONS = {
    "Cast": "n = Shape(x)  k = Gather<axis=0>(n, at)  c = Cast<to=9>(k)",
    "And": "n = Shape(x)  k = Gather<axis=0>(n, at)  e = Equal(k, four)  f = Not(e)  g = Not(f)  c = And(e, g)",
    "Slice": "n = Shape<start=0, end=1>(x)  e = Greater(n, one)  c = Squeeze(e)",
    "Unsqueeze": "n = Shape(x)  s = Slice(n, zeros, ones)  k = Squeeze(s)  u = Unsqueeze(k, zeros)  c = Equal(u, fs)",
    "Size": "n = Size(x)  h = Div(n, two)  c = Less(one, h)",
    "ConstantOfShape": "n = Shape(x)  t = ConstantOfShape<value=bool[1] {1}>(none)  o = Or(t, t)  c = Identity(o)",
    "Concat": "n = Shape(x)  m = Concat<axis=0>(n, n)  k = ReduceMax<keepdims=0>(m)  c = Equal(k, four)",
    "of another branch": """a = Constant<value=bool {1}>()
        c = If(a)<then_branch = t () => (d) { n = Shape<end=1>(x)  d = Equal(n, fs) },
                  else_branch = e () => (d) { d = Constant<value=bool {0}>() }>""",
}
CONSTANTS = """int64 at = {0}, int64 four = {4}, int64 one = {1}, int64 two = {2}, int64[1] zeros = {0},
    int64[1] ones = {1}, int64[1] fs = {4}, int64[0] none = {}"""


@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions_of_all_kinds(name):
    source = parsed(f"""g (float[N] x) => (float[M] y) <{CONSTANTS}> {{
        {CONDITIONS[name]}
        y = If(c)<then_branch = t () => (a) {{ a = Relu(x) }}, else_branch = e () => (b) {{ b = Nothing(x) }}>
    }}""")
    assert types_of(source, dims={"N": 4})[-1] == "Relu"


def test_the_branch_that_is_not_taken_is_not_read():
    bad = [
        node("Reshape", ["x"], ["r"]),  # lacks an input
        node("Add", ["r", "nowhere"], ["s"]),
        node("Constant", [], ["text"], value_string="text"),
        node("Unknown", ["s", "w", "text"], ["b"], domain="some.where"),
    ]
    other = graph(bad, [], [value("b", [9, 9], I64)], [stub("w", [4])])
    then = graph([node("Relu", ["x"], ["a"])], [], [value("a", None)])
    nodes = [node("If", ["c"], ["y"], then_branch=then, else_branch=other, name="if")]
    source = model(nodes, [value("x", [4])], [value("y", None)], [const("c", True, np.bool_)], domains=["some.where"])
    found = import_onnx(source)
    assert [op["type"] for op in found["ops"]] == ["Relu"]
    assert sizes(found) == {"x": 16, "c": 1, "y": 16}
    x = reals(4)
    assert memplan.plan(source).run(x, check=True).outputs["y"].tolist() == np.maximum(x, 0).tolist()
    source.graph.initializer[0].CopyFrom(const("c", False, np.bool_))
    with pytest.raises(SourceError, match=r"'Reshape_0' \(Reshape\) has 1 inputs"):
        import_onnx(source)


def test_branches_in_branches_and_in_loops():
    """What is known outside, and the shapes of states, decide inside of bodies too."""
    source = parsed("""g (float[N, 1] x) => (float[N, 1] y) <int64 three = {3}, int64 zero = {0}, int64 one = {1}> {
        yes = Constant<value=bool {1}>()
        n = Shape(x)
        k = Gather<axis=0>(n, zero)
        few = Less(k, three)
        y = Loop(three, yes, x)<body = b (int64 i, bool go, float[?, ?] h) => (bool goes, float[?, ?] last) {
            goes = Identity(go)
            m = Shape(h)
            w = Gather<axis=0>(m, one)
            narrow = Equal(w, one)
            last = If(few)<
                then_branch = t () => (a) {
                    a = If(narrow)<then_branch = t2 () => (p) { p = Neg(h) }, else_branch = e2 () => (q) { q = No(h) }>
                },
                else_branch = e () => (d) { c = Concat<axis=1>(h, h)  d = ReduceMax<keepdims=1>(c, m) }>
        }>
    }""")
    found = import_onnx(source, dims={"N": 2})
    assert sizes(found)["y"] == 8
    assert ops(found)["Loop_3"]["workspace"] < 64
    fixed = parsed(onnx.printer.to_text(source).split("]\n>", 1)[1].replace("float[N,1]", "float[2,1]"))
    x = reals(2, 1)
    [y] = memplan.plan(fixed).run(x, check=True).outputs.values()
    assert y.tolist() == (-x).tolist()


def test_names_of_both_graphs_stay_apart():
    """A branch that uses names of its own that are also outside, captures, and gives one value twice."""
    then = graph(
        [node("Relu", ["x"], ["h"], name="n"), node("Add", ["h", "k"], ["o"], name="m")],
        [], [value("o", None), value("o", None), value("h", None)], [const("k", [1.0], np.float32)],
    )  # fmt: skip
    nodes = [
        node("If", ["c"], ["p", "q", ""], then_branch=then, else_branch=then, name="n"),
        node("Neg", ["x"], ["h"], name="m"),
        node("If", ["c"], ["r", "s", "t"], then_branch=then, else_branch=then),
        node("Sum", ["p", "q", "r", "s", "t", "h", "k"], ["y"]),
    ]
    weights = [const("c", True, np.bool_), const("k", [2.0], np.float32)]
    source = model(nodes, [value("x", [4])], [value("y", [4]), value("r", [4])], weights)
    found = import_onnx(source)
    assert "If" not in [op["type"] for op in found["ops"]]
    assert len({op["name"] for op in found["ops"]}) == len(found["ops"])
    feeds = {"x": reals(4)}
    relu = np.maximum(feeds["x"], 0)
    result = memplan.plan(source).run(feeds, check=True).outputs
    np.testing.assert_allclose(result["y"], 4 * (relu + 1) + relu - feeds["x"] + 2, rtol=1e-6)
    np.testing.assert_allclose(result["r"], relu + 1, rtol=1e-6)


def test_a_condition_that_is_not_known_keeps_both_branches():
    source = model(
        [node("If", ["c"], ["y"], then_branch=graph([node("Relu", ["x"], ["a"])], [], [value("a", None)]),
              else_branch=graph([node("Neg", ["x"], ["b"])], [], [value("b", None)]))],
        [value("x", [4]), value("c", [], BOOL)], [value("y", None)],
    )  # fmt: skip
    assert types_of(source) == ["If"]
    assert types_of(source, values={"c": True}) == ["Relu"]
    assert types_of(source, values={"c": False}) == ["Neg"]


def test_a_weight_that_decided_on_a_branch_must_stay():
    """Of numbers, too, which are not integers."""
    source = parsed("""g (float[4] x) => (float[4] y) <float limit = {0.5}> {
        one = Constant<value=float {1}>()
        c = Less(limit, one)
        y = If(c)<then_branch = t () => (a) { a = Relu(x) }, else_branch = e () => (b) { b = Neg(x) }>
    }""")
    plan = memplan.plan(source)
    plan.run(reals(4), weights={"limit": np.float32(0.5)})
    with pytest.raises(ValueError, match="weight 'limit' is a constant that shapes and slices depend on"):
        plan.run(reals(4), weights={"limit": np.float32(2)})


def test_a_model_in_the_order_of_its_plan_keeps_its_ifs():
    source = squeeze([4, 8, 1])
    plan = memplan.plan(source, order="best")
    assert [one.op_type for one in plan.program.graph.node].count("If") == 1
    feeds = {"x": reals(4, 8, 1)}
    found = wanted(plan.program, feeds)
    assert found["y"].tobytes() == wanted(source, feeds)["y"].tobytes()


class Squeezes(nn.Module):
    """What TorchScript makes Ifs of: squeezes, and code that asks for sizes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.squeeze(1)
        if y.dim() == 2:
            y = y.unsqueeze(0)
        z = torch.squeeze(y, 2) if y.size(2) == 1 else y * torch.sigmoid(y)
        return z.squeeze(0)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shape", [(3, 1, 8), (3, 2, 8), (3, 1, 1), (1, 1, 8), (1, 2, 1)])
def test_scripted_modules(shape):
    file, axes = io.BytesIO(), {0: "a", 1: "b", 2: "c"}
    scripted = torch.jit.script(Squeezes())
    torch.onnx.export(
        scripted, (torch.zeros(3, 1, 8),), file, dynamo=False, input_names=["x"], dynamic_axes={"x": axes}
    )
    source = onnx.load_from_string(file.getvalue())
    assert "If" in [one.op_type for one in source.graph.node]
    plan = memplan.plan(source, dims=dict(zip("abc", shape, strict=True)))
    assert "If" not in [op.type for op in plan.graph.ops]
    x = reals(*shape)
    [y] = plan.run(x, check=True).outputs.values()
    np.testing.assert_allclose(y, Squeezes()(torch.from_numpy(x)).numpy(), rtol=1e-6)


def voice(width):
    """A detector of voice by spectra: a layer of sines, a squeeze, a recurrent layer. Its size depends on the rate."""
    names = [f"{name}{width}" for name in ("f", "w", "r", "o")]
    chance = np.random.default_rng(width)
    shapes = ([2 * width, 1, width], [1, 16, 2 * width], [1, 16, 4], [1, 4, 1])
    weights = [
        const(name, chance.standard_normal(shape) / width, np.float32)
        for name, shape in zip(names, shapes, strict=True)
    ]
    then = graph([node("Squeeze", ["rows", "last"], ["s"])], [], [value("s", None)], [const("last", [-1])])
    other = graph([node("Transpose", ["rows"], ["s"], perm=[2, 0, 1])], [], [value("s", None)])
    nodes = [
        node("Unsqueeze", ["x", "one"], ["wave"]),
        node("Conv", ["wave", names[0]], ["spectrum"], strides=[width]),
        node("Relu", ["spectrum"], ["rows"]),
        node("Shape", ["rows"], ["n"], start=2, end=3),
        node("Equal", ["n", "one"], ["c"]),
        node("If", ["c"], ["q"], then_branch=then, else_branch=other),
        node("LSTM", ["q", names[1], names[2], "", "", "h0", "c0"], ["", "h", "cell"], hidden_size=4),
        node("MatMul", ["h", names[3]], ["z"]),
        node("Sigmoid", ["z"], ["p"]),
    ]
    return graph(nodes, [], [value("p", None), value("h", None), value("cell", None)], weights)


@pytest.mark.parametrize(("rate", "width"), [(16000, 8), (8000, 4)])
def test_a_detector_of_voice(rate, width):
    nodes = [
        node("Equal", ["rate", "high"], ["is_high"]),
        node("If", ["is_high"], ["y", "h1", "c1"], then_branch=voice(8), else_branch=voice(4)),
    ]
    states = [value(name, [1, "batch", 4]) for name in ("h0", "c0")]
    inputs = [value("x", ["batch", "samples"]), value("rate", [], I64), *states]
    outputs = [value(name, None) for name in ("y", "h1", "c1")]
    source = model(nodes, inputs, outputs, [const("high", 16000), const("one", [1])])
    state = np.zeros((1, 1, 4), np.float32)
    feeds = {"x": reals(1, 3 * width), "rate": np.array(rate), "h0": state, "c0": state}
    plan = memplan.plan(source, args=feeds, values={"rate": rate})
    assert "If" not in [op.type for op in plan.graph.ops]
    found, expected = plan.run(feeds, check=True).outputs, wanted(source, feeds)
    assert all(found[name].tobytes() == expected[name].tobytes() for name in expected)
    assert plan.run(feeds["x"], kwargs={"h0": state, "c0": state}).outputs["y"].tobytes() == expected["y"].tobytes()
    with pytest.raises(ValueError, match=f"input 'rate' must be {rate}, for which alone the model was planned, got 1"):
        plan.run({**feeds, "rate": np.array(1)})
