"""What a caller says of the inputs of an ONNX model: sizes, examples, values; and small constants in other files."""

from __future__ import annotations

import os
import re

import numpy as np
import onnx.parser
import pytest
import torch

import memplan
from builders.onnx_models import I64, const, graph, model, node, onnx, sizes, value
from builders.onnx_running import wanted
from memplan.errors import SourceError
from memplan.onnx.reading import import_onnx


def parsed(text, opset=21):
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]>\n{text}')


def shapes(source, **options):
    return {t["name"]: t["shape"] for t in import_onnx(source, **options)["tensors"]}


def pair(x, y):
    """Two inputs, each through a node."""
    nodes = [node("Relu", ["x"], ["a"]), node("Relu", ["y"], ["b"])]
    return model(nodes, [value("x", x), value("y", y)], [value("a", x), value("b", y)])


# Names that are none


@pytest.mark.parametrize("name", ["?", "None", "unk__7", "", None, -1, "unknown"])
def test_what_says_only_that_a_size_is_unknown_is_no_name(name):
    source = pair([name, name], [name, 4])
    found = shapes(source, dims={"x[0]": 2, "x[1]": 3, "y[0]": 5})
    assert (found["a"], found["b"]) == ([2, 3], [5, 4])
    assert shapes(source, args=(np.zeros((2, 3)), np.zeros((5, 4))))["a"] == [2, 3]
    with pytest.raises(SourceError, match=r"'x\[0\]' \(dimension 0 of 'x'\); 'x\[1\]' .*'y\[0\]'"):
        import_onnx(source)
    if isinstance(name, str) and name:
        with pytest.raises(SourceError, match=r"which says only that a size is not known, of 3 .*'x\[0\]', 'x\[1\]'"):
            import_onnx(source, dims={name: 3})
        assert shapes(pair([name, 2], [4, 4]), dims={name: 3})["a"] == [3, 2]


def test_a_name_is_one_dimension():
    assert shapes(pair(["n", 2], [4, "n"]), dims={"n": 3})["b"] == [4, 3]


# Sizes by axis


def test_sizes_by_axis():
    source = pair(["batch", "n"], ["batch", 4])
    assert shapes(source, dims={"x[0]": 2, "x[1]": 3})["b"] == [2, 4]
    assert shapes(source, dims={"batch": 2, "x[-1]": 3, "y[0]": 2, "y[1]": 4})["a"] == [2, 3]


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({"batch": 2, "x[0]": 3, "n": 1},
         "dims['batch'] is 2, dims['x[0]'] is 3; both are 'batch', dimension 0 of 'x' and dimension 0 of 'y'"),
        ({"x[0]": 2, "y[-2]": 3, "n": 1}, "dims['x[0]'] is 2, dims['y[-2]'] is 3; both are 'batch'"),
        ({"batch": 2, "n": 1, "y[1]": 5}, "dims['y[1]'] is 5, but 'y[1]' is 4 in the model"),
        ({"batch": 2, "n": 1, "y[2]": 5}, "dims names no symbolic dimension of the model: 'y[2]'"),
        ({"batch": 2, "n": 1, "z[0]": 5}, "dims names no symbolic dimension of the model: 'z[0]'"),
    ],
)  # fmt: skip
def test_sizes_that_contradict_each_other(dims, message):
    with pytest.raises(SourceError, match=re.escape(message)):
        import_onnx(pair(["batch", "n"], ["batch", 4]), dims=dims)


@pytest.mark.parametrize(
    "text",
    [
        "g (float[N, 4] x, float[M, 4] y) => (float[K, 4] z) { z = Add(x, y) }",
        "g (float[N, 4] x, float[M, 4] y) => (float[2, 4] z) { z = Add(x, y) }",  # declared shapes do not hide it
        "g (float[4, N] x, float[M, 4] y) => (float[4, 4] z) { r = Relu(x)  z = MatMul(r, y) }",
        "g (float[N, 4] x, float[M, 4] y) => (float[2, 8] z) { z = Concat<axis=1>(x, y) }",
    ],
)
def test_sizes_that_do_not_go_together_are_named(text):
    with pytest.raises(SourceError, match=r"cannot take .*, with the sizes N = 2, M = 3: .*imension"):
        import_onnx(parsed(text), dims={"N": 2, "M": 3})


def test_a_size_of_a_result_that_is_not_what_follows():
    source = parsed("g (float[N] x) => (float[K] z) { z = Concat<axis=0>(x, x) }")
    assert shapes(source, dims={"N": 2, "K": 4})["z"] == [4]
    message = "dims['K'] is 5, but dimension 0 of 'z' is 4, as follows from N = 2"
    with pytest.raises(SourceError, match=re.escape(message)):
        import_onnx(source, dims={"N": 2, "K": 5})


# Examples


def test_examples_give_sizes():
    source, x, y = pair(["n", "m"], ["n", 4]), np.zeros((2, 3), np.float32), torch.zeros(2, 4)
    for options in ({"args": (x, y)}, {"args": [x, y]}, {"args": {"y": y, "x": x}}, {"args": (x,), "kwargs": {"y": y}}):
        assert shapes(source, **options)["b"] == [2, 4]
        assert memplan.plan(source, **options)["a"].bytes == 24
    assert shapes(source, args=(torch.empty(2, 3, device="meta"),))["b"] == [2, 4]
    assert shapes(source, args=(None, y), dims={"m": 5})["a"] == [2, 5]
    assert shapes(pair(None, [1]), args={"x": x})["a"] == [2, 3]  # of an input without a shape
    assert shapes(pair(None, [1]), args={"x": np.float32(1)})["a"] == []


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"args": (1, 2, 3)}, TypeError, "args has 3 examples, the model takes 2; the inputs are 'x', 'y'"),
        ({"args": {"z": 1}}, TypeError, "the model has no input 'z'"),
        ({"args": (np.zeros((2, 3)),), "kwargs": {"x": 1}}, TypeError, "'x' is given twice, in args and in kwargs"),
        ({"args": np.zeros((2, 3))}, TypeError, "args must be a tuple of examples"),
        ({"args": ([[1], [2, 3]],)}, TypeError, "the example for 'x' must be an array, got list"),
        ({"args": (np.zeros(2),)}, SourceError, "the example for 'x' must have 2 dimensions, got the shape [2]"),
        ({"args": (np.zeros((2, 3)), np.zeros((3, 4)))}, SourceError,
         "dimension 0 of the example for 'x' is 2, dimension 0 of the example for 'y' is 3; both are 'n'"),
        ({"args": (None, np.zeros((2, 5)))}, SourceError,
         "dimension 1 of the example for 'y' is 5, but 'y[1]' is 4 in the model"),
        ({"args": (np.zeros((2, 3)),), "dims": {"m": 4}}, SourceError, "dims['m'] is 4, dimension 1 of the example"),
    ],
)  # fmt: skip
def test_examples_that_do_not_fit(options, kind, message):
    with pytest.raises(kind, match=re.escape(message)):
        import_onnx(pair(["n", "m"], ["n", 4]), **options)


# Values


BY_VALUE = {
    "TopK": ("int64[1] k", "float[A] y, int64[A] i", "y, i = TopK(x, k)", 5, [5]),
    "Range": ("int64 k", "int64[A] y", "y = Range(zero, k, step)", 7, [4]),
    "Slice": ("int64[1] k", "float[A] y", "y = Slice(x, k, end)", [3], [6]),
    "Reshape": ("int64[2] k", "float[A, B] y", "y = Reshape(x, k)", [3, -1], [3, 3]),
    "Expand": ("int64[r] k", "float[A, B] y", "y = Expand(x, k)", (4, 9), [4, 9]),
    "Tile": ("int64[?] k", "float[A] y", "y = Tile(x, k)", np.array([2]), [18]),
    "ConstantOfShape": ("int64[2] k", "float[A, B] y", "y = ConstantOfShape(k)", torch.tensor([2, 3]), [2, 3]),
    "Pad": ("int64[2] k", "float[A] y", "y = Pad(x, k)", [1, 2], [12]),
    "OneHot": ("int64 k", "float[A, B] y", "i = Cast<to=7>(x)  v = Constant<value_floats=[0.0, 1.0]>()  "
               "y = OneHot(i, k, v)", 4, [9, 4]),
    "Resize": ("float[1] k", "float[A] y", "y = Resize(x, , k)", [2.0], [18]),
    "vectors of one": ("int64[1] k", "int64[A] y", "f = Unsqueeze(zero, axis)  y = Range(f, k, step)", 7, [4]),
    "of another dtype": ("int32 k", "int64[A] y", "l = CastLike(k, step)  y = Range(zero, l, step)", 5, [3]),
    "computed": ("int32 k", "float[A] y", "l = Cast<to=7>(k)  m = Mul(l, step)  u = Unsqueeze(m, axis)  "
                 "y = Tile(x, u)", 2, [36]),
}  # fmt: skip


def by_value(name):
    given, made, nodes, number, shape = BY_VALUE[name]
    constants = "int64 zero = {0}, int64 step = {2}, int64[1] end = {9}, int64[1] axis = {0}"
    return parsed(f"g (float[9] x, {given}) => ({made}) <{constants}> {{ {nodes} }}"), number, shape


@pytest.mark.parametrize("name", BY_VALUE)
def test_values_of_small_inputs(name):
    source, number, shape = by_value(name)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(source.graph.input[1].type.tensor_type.elem_type)
    rank = len(source.graph.input[1].type.tensor_type.shape.dim)
    k = np.asarray(number).astype(dtype).reshape([-1] * rank)
    with pytest.raises(SourceError, match=r"values=\{'k': \.\.\.\}" if k.dtype.kind == "i" else "no known size"):
        import_onnx(source, dims={"k[0]": len(k)} if name in ("Expand", "Tile") else {})
    feeds = {"x": np.arange(9, dtype=np.float32), "k": k}
    plans = [memplan.plan(source, values={"k": number})]
    if k.dtype.kind == "i":
        plans.append(memplan.plan(source, args=feeds))
    expected = wanted(source, feeds)
    for plan in plans:
        assert plan.graph.tensor(plan.graph.index("y")).shape == shape
        assert plan.notes == (f"the plan holds for these inputs alone: k = {k.item() if k.size == 1 else k.tolist()}",)
        for found in (plan.run(feeds, check=True).outputs, plan.run(feeds["x"], check=True).outputs):
            assert all(found[name].tobytes() == expected[name].tobytes() for name in expected)
        with pytest.raises(ValueError, match=re.escape(f"input 'k' must be {k.tolist()}, for which alone")):
            plan.run({**feeds, "k": k + 1})


def test_examples_hold_only_where_sizes_depend_on_them():
    """Indices of words are integers too; only the number of the first is needed."""
    source = parsed("""g (int64[n] words, int64[1] k, float[9, 4] table) => (float[m, 4] y) {
        rows = Gather<axis=0>(table, words)
        sums = ReduceSum(rows)
        best, at = TopK<axis=0>(rows, k)
        y = Add(best, sums)
    }""")
    words, table = np.array([1, 2, 3]), np.ones((9, 4), np.float32)
    plan = memplan.plan(source, args=(words, np.array([2]), table))
    assert plan.notes == ("the plan holds for these inputs alone: k = 2",)
    plan.run(words + 1, np.array([2]), table)
    whole = parsed("g (int64[n] words, int64 k) => (int64[n] y) { y = Add(words, k) }")
    assert memplan.plan(whole, args=(words, 2)).notes == ()


def test_a_size_that_no_example_tells():
    source = parsed("""g (float[4] x, int64[1] k) => (float[m] y) <int64[1] minus = {-1}> {
        places = NonZero(x)
        flat = Reshape(places, minus)
        t = Gather(x, flat)
        y = Tile(t, k)
    }""")
    with pytest.raises(SourceError, match=r"'places', written by node 'NonZero_0' \(NonZero\), has no known size"):
        import_onnx(source, args=(np.ones(4, np.float32), np.array([2])))


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        ({"q": 5}, TypeError, "values names no input of the model: 'q'; the inputs are 'x', 'k'"),
        ({"k": 5.5}, TypeError, "values['k'] must be int64, a number or an array of numbers, got 5.5"),
        ({"k": "five"}, TypeError, "values['k'] must be int64"),
        ({"k": [1, 2]}, SourceError, "dimension 0 of values['k'] is 2, but 'k[0]' is 1 in the model"),
        ({"k": [[1]]}, SourceError, "values['k'] must have 1 dimension, got the shape [1, 1]"),
        ({"x": np.zeros(2000)}, SourceError, "values['x'] has 2000 elements, values may have 1024"),
        (5, TypeError, "values must be by name, such as {'k': 5}, got 5"),
    ],
)
def test_values_that_do_not_fit(values, kind, message):
    with pytest.raises(kind, match=re.escape(message)):
        memplan.capture(by_value("TopK")[0], values=values)


def test_values_are_for_onnx():
    with pytest.raises(TypeError, match="option values does not apply to a source of kind torch"):
        memplan.plan(torch.nn.Linear(2, 2), args=(torch.zeros(1, 2),), values={"k": 5})


def test_a_plan_of_a_file_takes_sizes_and_values_from_the_call(tmp_path):
    source, x = by_value("Tile")[0], np.arange(9, dtype=np.float32)
    memplan.plan(source, values={"k": [2]}).to_json(tmp_path / "plan.json")
    plan = memplan.read_plan(tmp_path / "plan.json")
    assert plan.run(x, np.array([2]), source=source).outputs["y"].shape == (18,)
    assert plan.run(x, source=source, values={"k": 2}).outputs["y"].shape == (18,)
    with pytest.raises(SourceError, match="the network is not the one that was planned"):
        plan.run(x, source=source, values={"k": 3})


# Small constants in other files


def stored(folder, shape=(3, 3), **how):
    """A model in a file, whose constants are in another file of the folder."""
    source = model(
        [node("MatMul", ["x", "w"], ["h"]), node("Reshape", ["h", "to"], ["y"], name="r")],
        [value("x", [3, 64])],
        [value("y", [3, 3])],
        [const("w", np.ones((64, 3)), np.float32), const("to", [*shape])],
    )
    source.graph.output[0].type.tensor_type.ClearField("shape")
    onnx.save(source, folder / "m.onnx", save_as_external_data=True, location="m.bin", size_threshold=0, **how)
    return folder / "m.onnx"


def test_small_constants_in_a_file_beside_the_model(tmp_path, monkeypatch):
    path = stored(tmp_path, (9, -1))
    assert shapes(path)["y"] == [9, 1]
    assert memplan.plan(path).run(np.ones((3, 64), np.float32), check=True).outputs["y"].shape == (9, 1)
    assert shapes(onnx.load(path))["y"] == [9, 1]
    monkeypatch.chdir(tmp_path)
    assert shapes("m.onnx")["y"] == shapes("./m.onnx")["y"] == [9, 1]
    monkeypatch.chdir(tmp_path.parent)
    assert shapes(os.path.join(tmp_path.name, "m.onnx"))["y"] == [9, 1]


def test_a_plan_runs_in_another_folder_than_it_was_made_in(tmp_path, monkeypatch):
    stored(tmp_path)
    monkeypatch.chdir(tmp_path)
    plan = memplan.plan("m.onnx")
    monkeypatch.chdir("/")
    assert plan.run(np.ones((3, 64), np.float32)).outputs["y"].tolist() == [[64] * 3] * 3
    assert plan.program.graph.node[0].op_type == "MatMul"


def test_one_file_for_each_constant(tmp_path):
    assert shapes(stored(tmp_path, all_tensors_to_one_file=False))["y"] == [3, 3]


def test_constants_in_a_file_that_cannot_be_read(tmp_path):
    path = stored(tmp_path)
    unread = onnx.load(path, load_external_data=False)
    message = "the value of 'to' cannot be read: it is in another file, and a ModelProto does not say where that lies"
    with pytest.raises(SourceError, match=f"'y', written by node 'r' .* no known size: .*{message}"):
        import_onnx(unread)
    onnx.load_external_data_for_model(unread, str(tmp_path))
    assert shapes(unread)["y"] == [3, 3]
    whole = (tmp_path / "m.bin").read_bytes()
    (tmp_path / "m.bin").write_bytes(whole[:-8])
    with pytest.raises(SourceError, match="the value of 'to' cannot be read: "):
        import_onnx(path)
    (tmp_path / "m.bin").unlink()
    with pytest.raises(SourceError, match=r"the value of 'to' cannot be read: .*m\.bin"):
        import_onnx(path)


@pytest.mark.parametrize("location", ["../m.bin", "/etc/passwd"])
def test_no_file_of_another_folder_is_read(location, tmp_path):
    (tmp_path / "in").mkdir()
    path = stored(tmp_path / "in")
    (tmp_path / "in" / "m.bin").rename(tmp_path / "m.bin")
    source = onnx.load(path, load_external_data=False)
    for tensor in source.graph.initializer:
        tensor.external_data[0].value = location
    onnx.save(source, path)
    with pytest.raises(SourceError, match="the value of 'to' cannot be read: "):
        import_onnx(path)


def test_no_more_of_a_file_is_read_than_a_constant_has(tmp_path):
    path = stored(tmp_path)
    source = onnx.load(path, load_external_data=False)
    for tensor in source.graph.initializer:
        kept = [entry for entry in tensor.external_data if entry.key != "length"]
        del tensor.external_data[:]
        tensor.external_data.extend(kept)
    onnx.save(source, path)
    with open(tmp_path / "m.bin", "ab") as file:
        file.truncate(2**40)  # of which nothing is stored
    assert shapes(path)["y"] == [3, 3]


def test_constants_of_bodies_in_a_file(tmp_path):
    body = graph([node("Reshape", ["x", "to"], ["r"])], [], [value("r", None)], [const("to", [2, -1])])
    other = graph([node("Reshape", ["x", "too"], ["s"])], [], [value("s", None)], [const("too", [-1, 3])])
    source = model(
        [node("Equal", ["k", "k"], ["c"]), node("If", ["c"], ["y"], then_branch=body, else_branch=other)],
        [value("x", [6])], [value("y", [2, 3])], [const("k", 3)],
    )  # fmt: skip
    onnx.save(source, tmp_path / "m.onnx", save_as_external_data=True, location="m.bin", size_threshold=0)
    assert shapes(tmp_path / "m.onnx")["y"] == [2, 3]
    assert sizes(import_onnx(tmp_path / "m.onnx"))["y"] == 24


def test_an_input_of_indices_is_not_asked_for():
    """What is no integer on the way is not offered."""
    nodes = [node("Gather", ["table", "words"], ["rows"]), node("NonZero", ["rows"], ["y"], name="nz")]
    source = model(nodes, [value("words", [3], I64), value("table", [9, 4])], [value("y", None)])
    with pytest.raises(SourceError) as error:
        import_onnx(source)
    assert "values=" not in str(error.value)
