"""Plans of ONNX models, run in their arena: what is in the arena, what is copied, what is refused."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import memplan
from builders.onnx_models import (
    BOOL,
    F32,
    I64,
    TensorProto,
    const,
    graph,
    helper,
    model,
    node,
    numpy_helper,
    onnx,
    value,
)
from memplan.errors import InvalidPlanError, MissingDependencyError, SourceError
from memplan.onnx.running import program_of
from memplan.onnx.wing import MODEL
from memplan.options.source import Source
from memplan.running import plans

reference = pytest.importorskip("onnx.reference")
CHANCE = np.random.default_rng(0)


def reals(*shape):
    return CHANCE.standard_normal(shape).astype(np.float32)


def expected(source, feeds):
    return dict(
        zip([o.name for o in source.graph.output], reference.ReferenceEvaluator(source).run(None, feeds), strict=True)
    )


def same(found, wanted):
    assert list(found) == list(wanted)
    for name, array in wanted.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes(), name


def checked(source, feeds, **options):
    """The run of a model, whose outputs are those of onnx's reference on the whole model, bit by bit."""
    run = memplan.plan(source, **options).run(feeds, check=True)
    same(run.outputs, expected(source, feeds))
    return run


def residual():
    """Two layers with a residual: what can be written over, and what cannot."""
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node("Relu", ["a"], ["b"]),
        node("MatMul", ["b", "w"], ["c"]),
        node("Add", ["c", "b"], ["d"]),
        node("Softmax", ["d"], ["y"]),
    ]
    return model(nodes, [value("x", ["n", 8])], [value("y", None)], [const("w", reals(8, 8), np.float32)])


# What a run is


@pytest.mark.parametrize("planner", ["auto", "first_fit", "naive"])
@pytest.mark.parametrize("inplace", [True, False])
def test_a_run_gives_what_the_reference_gives(planner, inplace):
    run = checked(residual(), {"x": reals(4, 8)}, planner=planner, inplace=inplace, dims={"n": 4})
    assert (run.ops, run.copied) == (5, 5)
    assert run.arena_bytes == memplan.plan(residual(), planner, inplace=inplace, dims={"n": 4}).peak


def test_inputs_by_name_and_in_order():
    source = model([node("Sub", ["a", "b"], ["y"])], [value("a", [3]), value("b", [3])], [value("y", None)])
    plan, a, b = memplan.plan(source), reals(3), reals(3)
    for run in (plan.run({"a": a, "b": b}), plan.run(a, b), plan.run(a, kwargs={"b": b}), plan.run(args=[a, b])):
        assert run.outputs["y"].tolist() == (a - b).tolist()


def test_the_caller_keeps_what_it_gave():
    source, x = residual(), reals(4, 8)
    before = x.copy()
    plan = memplan.plan(source, dims={"n": 4}, donate=["x"])
    first = plan.run(x).outputs["y"]
    kept = first.copy()
    plan.run(reals(4, 8))
    assert first.tolist() == kept.tolist()
    assert x.tolist() == before.tolist()


def test_views_are_bytes_of_the_arena_until_the_next_run():
    plan = memplan.plan(residual(), dims={"n": 4})
    shown = plan.run(reals(4, 8), views=True).outputs["y"]
    x = reals(4, 8)
    later = plan.run(x)
    assert shown.tolist() == later.outputs["y"].tolist()
    assert not np.shares_memory(later.outputs["y"], shown)


def test_views_of_the_arena_may_be_the_next_inputs():
    plan = memplan.plan(residual(), dims={"n": 4})
    x = reals(4, 8)
    once = plan.run(x).outputs["y"]
    shown = plan.run(x, views=True).outputs["y"]
    same(plan.run(shown, check=True).outputs, plan.run(once).outputs)


def test_every_tensor_lies_where_the_plan_says():
    plan = memplan.plan(residual(), dims={"n": 4}, place=["input", "weight", "intermediate", "output", "workspace"])
    bound = plans.program_of(plan).bind(plan)
    x = reals(4, 8)
    bound.run([x], check=True)
    arena = bound._memory.arena
    assert arena.ctypes.data % 64 == 0
    assert len(arena) == plan.peak
    for name, content in (("w", plans.program_of(plan).weights["w"]), ("y", bound.run([x]).outputs["y"])):
        slot = plan[name]
        assert arena[slot.offset : slot.end].tobytes() == content.tobytes()


@pytest.mark.parametrize("place", [["workspace"], ["output"], ["input", "output"], ["weight", "intermediate"]])
@pytest.mark.parametrize("donate", [[], ["x"]])
def test_what_is_not_placed_lies_outside(place, donate):
    source = residual()
    checked(source, {"x": reals(4, 8)}, dims={"n": 4}, place=place, donate=donate)


def test_views_and_parts_cost_nothing():
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("Split", ["r"], ["a", "b"], num_outputs=2),
        node("Neg", ["a"], ["n"]),
        node("Exp", ["b"], ["e"]),
        node("Concat", ["n", "e"], ["c"], axis=0),
        node("Reshape", ["c", "to"], ["s"]),
        node("Identity", ["s"], ["i"]),
        node("Slice", ["i", "two", "six"], ["l"]),
        node("Transpose", ["l"], ["y"], perm=[1, 0]),
    ]
    weights = [const("to", [8, 3]), const("two", [2]), const("six", [6])]
    source = model(nodes, [value("x", [4, 6])], [value("y", None)], weights)
    x = {"x": reals(4, 6)}
    assert (run := checked(source, x)).ops == run.copied == 4
    assert (run := checked(source, x, zero_copy=False)).ops == run.copied == 7
    assert memplan.plan(source).peak < memplan.plan(source, zero_copy=False).peak


def test_a_part_that_a_concatenation_holds_twice_is_copied_once_more():
    nodes = [node("Relu", ["x"], ["r"]), node("Concat", ["r", "r"], ["y"], axis=0)]
    source = model(nodes, [value("x", [3])], [value("y", None)])
    assert memplan.plan(source).sharing[0].how == "concat"
    assert checked(source, {"x": reals(3)}).copied == 2


def test_outputs_may_be_inputs_that_another_output_overwrites():
    inputs = [value("i", [], I64), value("go", [], BOOL), value("p", [3]), value("q", [3])]
    body = graph([], inputs, [value("go", [], BOOL), value("q", [3]), value("p", [3])])
    nodes = [
        node("Neg", ["x"], ["a"]),
        node("Exp", ["x"], ["b"]),
        node("Loop", ["once", "", "a", "b"], ["c", "d"], body=body, name="swap"),
        node("Sub", ["c", "d"], ["y"]),
    ]
    source = model(nodes, [value("x", [3])], [value("y", None)], [const("once", 1)])
    plan, x = memplan.plan(source, inplace_ops=["Loop"]), reals(3)
    assert ("swap", "c", "a") in {(shared.op, shared.output, shared.input) for shared in plan.sharing}
    assert plan.run(x, check=True).outputs["y"].tolist() == (np.exp(x) + x).tolist()


def test_no_ops_and_outputs_that_are_inputs_and_weights():
    source = model([], [value("x", [2])], [value("x", [2]), value("w", [1])], [const("w", [7.0], np.float32)])
    run = memplan.plan(source).run(np.ones(2, np.float32), check=True)
    assert {name: array.tolist() for name, array in run.outputs.items()} == {"x": [1, 1], "w": [7]}
    assert (run.ops, run.arena_bytes) == (0, 0)


# Kinds of values

NARROW = ["BFLOAT16", "FLOAT16", "FLOAT8E4M3FN", "FLOAT8E5M2", "INT4", "UINT4", "INT2", "FLOAT4E2M1", "BOOL", "DOUBLE"]


@pytest.mark.parametrize("alignment", [1, 64])
@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("shape", [(3, 5), (), (0, 4)])
def test_elements_of_any_width(name, shape, alignment):
    if not hasattr(TensorProto, name):
        pytest.skip(f"onnx {onnx.__version__} has no {name}")
    dtype = getattr(TensorProto, name)
    nodes = [
        node("Cast", ["x"], ["c"], to=dtype),
        node("Unsqueeze", ["c", "axis"], ["u"]),
        node("Concat", ["u", "u"], ["d"], axis=0),
        node("Cast", ["d"], ["y"], to=F32),
    ]
    outputs = [value("y", None), value("d", None, dtype)]
    source = model(nodes, [value("x", shape)], outputs, [const("axis", [0])], opset=25, ir=13)
    checked(source, {"x": np.round(2 * reals(*shape))}, alignment=alignment)
    checked(source, {"x": np.round(2 * reals(*shape))}, alignment=alignment, zero_copy=False)


def test_onnx_runtime_leaves_what_numpy_has_not_to_the_reference():
    pytest.importorskip("onnxruntime")
    nodes = [node("Cast", ["x"], ["c"], to=TensorProto.BFLOAT16), node("Cast", ["c"], ["y"], to=F32)]
    source = model(nodes, [value("x", [3])], [value("y", None)])
    x = np.array([1, 2.5, -3], np.float32)
    assert memplan.plan(source).run(x, engine="onnxruntime", check=True).outputs["y"].tolist() == [1, 2.5, -3]
    nodes = [node("Mystery", ["x"], ["y"], domain="com.microsoft", name="what")]
    kind = TensorProto.BFLOAT16
    source = model(nodes, [value("x", [2], kind)], [value("y", [2], kind)], domains=["com.microsoft"])
    with pytest.raises(
        SourceError, match=r"'what' \(Mystery\) .*ONNX Runtime: it gives and takes no arrays of bfloat16$"
    ):
        memplan.plan(source).run(x)


def test_packed_inputs_weights_and_views():
    packed = helper.make_tensor("w", TensorProto.INT4, [5], [-8, 7, 1, 0, -1])
    nodes = [
        node("Identity", ["x"], ["i"]),
        node("Concat", ["i", "w"], ["y"], axis=0),
    ]
    inputs = [value("x", [3], TensorProto.INT4)]
    source = model(nodes, inputs, [value("y", None, TensorProto.INT4)], [packed])
    x = np.array([1, -2, 3]).astype(numpy_helper.to_array(packed).dtype)
    plan = memplan.plan(source, place=["input", "weight", "intermediate", "output"])
    for views in (False, True):
        found = plan.run(x, check=True, views=views).outputs["y"]
        assert found.astype(int).tolist() == [1, -2, 3, -8, 7, 1, 0, -1]


def test_old_versions_of_onnx_have_no_arrays_for_some(monkeypatch):
    from memplan.onnx.running import values

    values.numpy_dtype.cache_clear()
    monkeypatch.setattr(helper, "tensor_dtype_to_np_dtype", lambda number: np.dtype(np.float32))
    with pytest.raises(MissingDependencyError, match=r"values of bfloat16 need onnx >= 1\.19"):
        values.numpy_dtype("bfloat16")
    values.numpy_dtype.cache_clear()


def test_offsets_that_no_element_divides():
    nodes = [
        node("Greater", ["x", "zero"], ["g"]),
        node("Not", ["g"], ["n"]),
        node("Neg", ["x"], ["m"]),
        node("Where", ["n", "m", "x"], ["y"]),
    ]
    source = model(nodes, [value("x", [3])], [value("y", None)], [const("zero", 0.0, np.float32)])
    plan = memplan.plan(source)
    offsets = {name: slot.offset for name, slot in plan.tensors.items()}
    assert any(offsets[name] % 4 for name in ("m", "y"))
    checked(source, {"x": reals(3)})


def test_optional_inputs_and_outputs():
    nodes = [
        node("Clip", ["x", "", "top"], ["a"]),
        node("Dropout", ["a"], ["b", ""]),
        node("MaxPool", ["b"], ["c", "where"], kernel_shape=[2]),
        node("Mul", ["c", "c"], ["y"]),
    ]
    source = model(nodes, [value("x", [1, 2, 6])], [value("y", None)], [const("top", 0.5, np.float32)])
    assert checked(source, {"x": reals(1, 2, 6)}).ops == 3  # the Dropout passes on what it reads


# The payload of weights


def test_external_data_are_read_beside_the_model(tmp_path):
    source = residual()
    (tmp_path / "model").mkdir()
    path = tmp_path / "model" / "m.onnx"
    onnx.save(source, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    plan, x = memplan.plan(path, dims={"n": 4}), reals(4, 8)
    same(plan.run(x, check=True).outputs, expected(onnx.load(path), {"x": x}))
    unread = onnx.load(path, load_external_data=False)
    with pytest.raises(SourceError, match=r"'w' is in another file.*give the path of the model"):
        memplan.plan(unread, dims={"n": 4}).run(x)
    assert unread.graph.initializer[0].data_location == TensorProto.EXTERNAL
    (tmp_path / "model" / "weights.bin").unlink()
    with pytest.raises(SourceError, match=r"the value of 'w' cannot be read: .*weights\.bin"):
        memplan.plan(path, dims={"n": 4}).run(x)


def test_large_weights_constants_and_sparse_ones():
    big = reals(50, 40)
    sparse = helper.make_sparse_tensor(
        helper.make_tensor("s", F32, [2], [1.5, -2.5]), helper.make_tensor("i", I64, [2, 2], [0, 1, 39, 3]), [40, 4]
    )
    linear = helper.make_sparse_tensor(
        helper.make_tensor("v", F32, [1500], reals(1500).tolist()),
        helper.make_tensor("i", I64, [1500], range(1500)),
        [2000],
    )
    nodes = [
        node("Constant", [], ["k"], value=const("", reals(4, 3000), np.float32)),
        node("Constant", [], ["f"], value_floats=reals(3000).tolist()),
        node("Constant", [], ["l"], value_ints=list(range(2000))),
        node("Constant", [], ["z"], sparse_value=linear),
        node("MatMul", ["x", "big"], ["a"]),
        node("MatMul", ["a", "s"], ["b"]),
        node("MatMul", ["b", "k"], ["c"]),
        node("Add", ["c", "f"], ["d"]),
        node("Gather", ["d", "l"], ["e"], axis=1),
        node("Add", ["e", "z"], ["y"]),
    ]
    source = model(
        nodes,
        [value("x", [2, 50])],
        [value("y", None)],
        [numpy_helper.from_array(big, "big")],
        sparse=[sparse],
    )
    x = reals(2, 50)
    dense = np.zeros((40, 4), np.float32)
    dense[0, 1], dense[39, 3] = 1.5, -2.5
    k = numpy_helper.to_array(source.graph.node[0].attribute[0].t)
    f = np.array(source.graph.node[1].attribute[0].floats, np.float32)
    z = np.zeros(2000, np.float32)
    z[:1500] = linear.values.float_data
    wanted = ((x @ big @ dense @ k + f)[:, :2000] + z).astype(np.float32)
    found = memplan.plan(source).run(x, check=True).outputs["y"]
    np.testing.assert_array_equal(found, wanted)


def test_a_large_constant_inside_a_function():
    table = reals(1, 2000)
    nodes = [
        node("MatMul", ["x", "x"], ["a"]),
        node("Expand", ["a", "to"], ["b"]),
        node("Attributed", ["b"], ["y"], domain="mine"),
    ]
    inner = [
        helper.make_node("Constant", [], ["t"]),
        node("Add", ["i", "t"], ["o"]),
    ]
    inner[0].attribute.append(helper.make_attribute("value", numpy_helper.from_array(table)))
    function = helper.make_function("mine", "Attributed", ["i"], ["o"], inner, [helper.make_opsetid("", 21)])
    source = model(
        nodes,
        [value("x", [1, 1])],
        [value("y", None)],
        [const("to", [3, 2000])],
        functions=[function],
        domains=["mine"],
    )
    checked(source, {"x": reals(1, 1)})


def test_a_large_tensor_in_an_attribute_of_a_node():
    keys, values = np.arange(2000), reals(2000)
    nodes = [
        node(
            *("LabelEncoder", ["x"], ["y"]),
            domain="ai.onnx.ml",
            keys_tensor=numpy_helper.from_array(keys),
            values_tensor=numpy_helper.from_array(values),
            default_tensor=numpy_helper.from_array(np.zeros(1, np.float32)),
        )
    ]
    source = model(nodes, [value("x", [3], I64)], [value("y", [3])])
    source.opset_import.append(helper.make_opsetid("ai.onnx.ml", 4))
    run = memplan.plan(source).run(np.array([7, 1999, 5000]), check=True)
    assert run.outputs["y"].tolist() == [values[7], values[1999], 0]


def test_weights_by_name():
    source, x, other = residual(), reals(4, 8), reals(8, 8)
    changed = onnx.ModelProto()
    changed.CopyFrom(source)
    changed.graph.initializer[0].CopyFrom(const("w", other, np.float32))
    plan = memplan.plan(source, dims={"n": 4})
    same(plan.run(x, weights={"w": other}, check=True).outputs, expected(changed, {"x": x}))
    same(plan.run(x).outputs, expected(source, {"x": x}))


def test_a_weight_that_bodies_read_is_replaced_there_too():
    body = helper.make_graph([node("Mul", ["x", "w"], ["b"])], "b", [], [value("b", None)])
    nodes = [node("If", ["c"], ["y"], then_branch=body, else_branch=body, name="if")]
    source = model(nodes, [value("c", [], BOOL), value("x", [2])], [value("y", None)], [const("w", [2, 3], np.float32)])
    x = np.ones(2, np.float32)
    run = memplan.plan(source).run(np.array(True), x, weights={"w": np.array([4, 5], np.float32)})
    assert run.outputs["y"].tolist() == [4, 5]


# What is refused

REFUSED = [
    ((), {}, TypeError, "the run lacks the input 'a', 'b'; the inputs are 'a', 'b'"),
    (({"a": 0, "c": 0},), {}, TypeError, "the model has no input 'c'; the inputs are 'a', 'b'"),
    (({"a": 0, "bb": 0},), {}, TypeError, "no input 'bb'; did you mean 'b'"),
    ((0,), {"kwargs": {"a": 0}}, TypeError, "input 'a' is given twice"),
    ((1, 2, 3), {}, TypeError, "takes 2 inputs, got 3; the inputs are 'a', 'b'"),
    ((np.zeros(3), np.zeros(3)), {}, TypeError, r"input 'a' must be float32\[3\], got float64\[3\]"),
    (
        (np.zeros((1, 3), np.float32), np.zeros(3)),
        {},
        ValueError,
        r"input 'a' must be float32\[3\], got float32\[1,3\]",
    ),
    (("text", 0), {}, TypeError, r"input 'a' must be float32\[3\], got <U4\[\]"),
]


@pytest.mark.parametrize(("args", "options", "kind", "message"), REFUSED)
def test_inputs_that_do_not_fit(args, options, kind, message):
    source = model([node("Sub", ["a", "b"], ["y"])], [value("a", [3]), value("b", [3])], [value("y", None)])
    with pytest.raises(kind, match=message):
        memplan.plan(source).run(*args, **options)


def test_weights_that_do_not_fit():
    nodes = [node("Slice", ["x", "one", "three"], ["s"]), node("Mul", ["s", "w"], ["y"])]
    weights = [const("one", [1]), const("three", [3]), const("w", [1, 2], np.float32)]
    plan, x = memplan.plan(model(nodes, [value("x", [4])], [value("y", None)], weights)), np.ones(4, np.float32)
    for given, kind, message in [
        ({"v": x}, TypeError, "the model has no weight 'v'; the weights are 'one', 'three', 'w'"),
        ({"w": x}, ValueError, r"weight 'w' must be float32\[2\], got float32\[4\]"),
        ({"one": np.array([2])}, ValueError, r"'one' is a constant that shapes and slices depend on.* must stay \[1\]"),
    ]:
        with pytest.raises(kind, match=message):
            plan.run(x, weights=given)
    assert plan.run(x, weights={"one": np.array([1])}).outputs["y"].tolist() == [1, 2]


def test_operators_that_nobody_has():
    nodes = [node("Mystery", ["x"], ["y"], domain="mine", name="what")]
    source = model(nodes, [value("x", [2])], [value("y", [2])], domains=["mine"])
    with pytest.raises(SourceError, match=r"node 'what' \(Mystery\) cannot be run; onnx's reference: .*ONNX Runtime: "):
        memplan.plan(source).run(np.ones(2, np.float32))


def test_a_kernel_that_fails_is_named():
    nodes = [node("Gather", ["x", "i"], ["y"], name="look")]
    source = model(nodes, [value("x", [2]), value("i", [1], I64)], [value("y", None)])
    with pytest.raises(SourceError, match=r"node 'look' \(Gather\) fails on x float32\[2\], i int64\[1\]: .*index 9"):
        memplan.plan(source).run(np.ones(2, np.float32), np.array([9]))


def test_another_size_than_was_planned_is_refused():
    source = model([node("Neg", ["x"], ["y"], name="n")], [value("x", [2])], [value("y", None)])
    plan = memplan.plan(source)
    step = next(iter(plans.program_of(plan).steps.values()))
    step.run = lambda inputs, scope: [np.zeros(3, np.float32)]
    with pytest.raises(SourceError, match=r"op 'n' \(Neg\) must give 'y' as float32\[2\], got float32\[3\]"):
        plan.run(np.ones(2, np.float32))


def test_a_plan_that_leaves_its_arena_is_refused_before_it_runs():
    plan = memplan.plan(residual(), dims={"n": 4})
    program = plans.program_of(plan)
    for offsets, peak in ((plan.offsets + 8, plan.peak), (plan.offsets - 8, plan.peak), (plan.offsets, plan.peak - 1)):
        with pytest.raises(InvalidPlanError, match=r"tensor '\w+' lies at the bytes \[.*in the arena of \d+ bytes"):
            program.bind(replace(plan, offsets=offsets, peak=peak))
    buffers = SimpleNamespace(**{name: getattr(plan.buffers, name) for name in dir(plan.buffers) if name[0] != "_"})
    buffers.offset_in_buffer = buffers.offset_in_buffer + 4
    with pytest.raises(InvalidPlanError, match="not all in its buffer"):
        program.bind(replace(plan, buffers=buffers))


def test_an_unknown_engine():
    plan = memplan.plan(residual(), dims={"n": 4})
    with pytest.raises(ValueError, match="engine must be 'reference' or 'onnxruntime', got 'tensorrt'"):
        plan.run(reals(4, 8), engine="tensorrt")
    module = torch.nn.Linear(2, 2)
    with pytest.raises(TypeError, match=r"option engine applies to onnx, .onnx, got 'reference' for a .* torch"):
        memplan.plan(module, args=(torch.zeros(1, 2),)).run(torch.zeros(1, 2), engine="reference")
    with pytest.raises(TypeError, match="holds no network"):
        memplan.plan(([1], [0], [1])).run(engine="onnxruntime")


def test_engines_give_the_same_but_for_rounding(monkeypatch):
    pytest.importorskip("onnxruntime")
    plan, x = memplan.plan(residual(), dims={"n": 4}, alignment=64), reals(4, 8)
    found = [plan.run(x, engine=engine, check=True).outputs["y"] for engine in ("reference", "onnxruntime", None)]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)
    assert found[0].tolist() == found[2].tolist()
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    needed = r"engine='onnxruntime' needs ONNX Runtime: pip install 'memplan\[onnxruntime\]'"
    with pytest.raises(MissingDependencyError, match=needed):
        memplan.plan(residual(), dims={"n": 4}).run(x, engine="onnxruntime")


# Plans from files


def test_a_plan_from_a_file_with_its_model(tmp_path):
    source, x = residual(), reals(4, 8)
    memplan.plan(source, dims={"n": 4}).to_json(tmp_path / "plan.json")
    onnx.save(source, tmp_path / "m.onnx")
    plan = memplan.read_plan(tmp_path / "plan.json")
    for given in (source, tmp_path / "m.onnx"):
        same(plan.run(x, source=given, dims={"n": 4}, check=True).outputs, expected(source, {"x": x}))
    with pytest.raises(SourceError, match="not the one that was planned"):
        plan.run(reals(5, 8), source=source, dims={"n": 5})


# A wrong plan is seen


def test_bytes_that_die_too_soon_are_poison():
    source, x = residual(), reals(4, 8)
    plan = memplan.plan(source, dims={"n": 4})
    buffer = plan.buffer_of("b")
    last = plan.problem.last.copy()
    last[buffer] -= 1
    problem = plan.problem
    wrong = replace(plan, problem=memplan.Problem(problem.size, problem.first, last, 1, problem.names))
    program = plans.program_of(plan)
    assert np.isnan(program.bind(wrong).run([x], check=True).outputs["y"]).all()
    same(program.bind(wrong).run([x]).outputs, expected(source, {"x": x}))  # nobody has taken the bytes


def test_a_slice_that_is_none_is_told():
    nodes = [
        node("Relu", ["x"], ["r"], name="first"),
        node("Slice", ["r", "two", "four"], ["s"], name="cut"),
        node("Neg", ["s"], ["y"]),
    ]
    source = model(nodes, [value("x", [4])], [value("y", None)], [const("two", [2]), const("four", [4])])
    spec = memplan.capture(source).graph.to_dict()
    spec["ops"][1]["slice"][0]["offset"] = 4
    plan = memplan.plan(spec)
    program = program_of(Source(source, MODEL))
    bound = program.bind(plan)
    x = np.arange(4, dtype=np.float32)
    assert bound.run([x], check=True).outputs["y"].tolist() == [-2, -3]  # what the model says is no slice is copied
    program.steps["cut"].op = plan.graph.ops[1]  # as if the importer were wrong
    assert bound.run([x]).outputs["y"].tolist() == [-1, -2]
    with pytest.raises(SourceError, match=r"op 'cut' \(Slice\) computes another value of 's' than lies in the bytes"):
        bound.run([x], check=True)
