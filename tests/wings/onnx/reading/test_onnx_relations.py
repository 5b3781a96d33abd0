"""What ONNX nodes may share: outputs written over inputs, runs of bytes cut out and joined, copies of nothing."""

from __future__ import annotations

import re

import numpy as np
import pytest

import memplan
from builders.onnx_models import BOOL, F32, I64, TensorProto, const, graph, model, node, value
from builders.onnx_package_models import DATA, LIGHT

INT4, F16, I32 = TensorProto.INT4, TensorProto.FLOAT16, TensorProto.INT32


def captured(nodes, inputs, outputs, weights=(), **options):
    source = model(nodes, inputs, [value(name, None) for name in outputs], weights, **options)
    return memplan.capture(source).graph.ops


def single(op_type, shapes, dtype=F32, dtypes=None, weights=(), outputs=1, domain="", opset=21, **attributes):
    """The op of one node that reads tensors of these shapes, x0, x1, ..., and then the weights."""
    names = [f"x{position}" for position in range(len(shapes))]
    inputs = [value(n, s, d) for n, s, d in zip(names, shapes, dtypes or [dtype] * len(shapes), strict=True)]
    results = ["y"] if outputs == 1 else [f"y{position}" for position in range(outputs)]
    one = node(op_type, names + [w.name for w in weights], results, domain=domain, **attributes)
    domains = [domain] if domain else []
    infos = [value("y", shapes[0], dtype)] if domain else []
    return captured([one], inputs, results, weights, opset=opset, domains=domains, infos=infos)[0]


def over(op):
    return [source for output, source, offset in op.inplace if (output, offset) == (op.outputs[0], 0)]


# Written over


@pytest.mark.parametrize("op_type", ["Relu", "Sigmoid", "Tanh", "Erf", "Gelu", "LeakyRelu", "HardSwish", "Sqrt", "Neg"])
def test_unary(op_type):
    assert over(single(op_type, [(2, 3)])) == ["x0"]


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Div", "Pow", "PRelu"])
def test_binary_on_either_side_unless_broadcast(op_type):
    assert over(single(op_type, [(2, 3), (2, 3)])) == ["x0", "x1"]
    assert over(single(op_type, [(2, 3), (3,)])) == ["x0"]
    assert over(single(op_type, [(2, 3), (1, 3)])) == ["x0"]
    assert over(single(op_type, [(2, 3), ()])) == ["x0"]


def test_an_output_larger_than_each_input_is_written_over_none():
    assert over(single("Add", [(2, 1), (1, 3)])) == []
    assert over(single("Add", [(3,), (2, 3)])) == ["x1"]


def test_a_dimension_of_one_element_in_front_moves_no_element():
    assert over(single("Add", [(2, 3), (1, 2, 3)])) == ["x0", "x1"]
    assert over(single("Add", [(2, 3), (2, 1, 3)])) == []
    assert over(single("Add", [(3, 1), (1, 3, 1)])) == ["x0", "x1"]


def test_one_input_twice():
    x = value("x", [4])
    assert over(captured([node("Mul", ["x", "x"], ["y"])], [x], ["y"])[0]) == ["x"]


def test_widths_of_elements_have_to_agree():
    assert over(single("Cast", [(4,)], to=I32)) == ["x0"]
    assert over(single("Cast", [(4,)], to=F16)) == []
    assert over(single("Less", [(4,), (4,)])) == []
    assert over(single("Equal", [(4,), (4,)], TensorProto.UINT8)) == ["x0", "x1"]
    assert over(single("And", [(4,), (4,)], BOOL)) == ["x0", "x1"]
    assert over(single("Where", [(4,), (4,), (4,)], dtypes=[BOOL, F32, F32])) == ["x1", "x2"]
    assert over(single("Cast", [(3,)], INT4, to=TensorProto.UINT8)) == []  # 2 bytes and 3


def test_parameters_are_not_written_over():
    assert over(single("Clip", [(), (), ()])) == ["x0"]
    assert over(single("CastLike", [(4,), (4,)], dtypes=[F32, I32])) == ["x0"]
    assert over(single("Dropout", [(), ()])) == ["x0"]


def test_what_keeps_an_input_but_for_some_places_is_written_over_it():
    assert over(single("ScatterElements", [(4,), (2,), (2,)], dtypes=[F32, I64, F32])) == ["x0"]
    assert over(single("ScatterND", [(4, 3), (2, 1), (2, 3)], dtypes=[F32, I64, F32])) == ["x0"]
    assert over(single("Scatter", [(4,), (4,), (4,)], dtypes=[F32, I64, F32], opset=10)) == ["x0"]
    assert over(single("TensorScatter", [(1, 8, 4), (1, 2, 4), (1,)], dtypes=[F32, F32, I64], opset=24)) == ["x0"]


@pytest.mark.parametrize(
    ("nodes", "updates", "named", "taken"),
    [
        ([], "x", [], []),
        ([node("Flatten", ["x"], ["f"], axis=0), node("Reshape", ["f", "shape"], ["u"])], "u", ["x"], []),
        ([node("Slice", ["x", "zero", "four"], ["u"])], "u", ["x"], []),
        ([node("Concat", ["x"], ["u"], axis=0)], "u", ["x"], ["x"]),  # a copy: x is given
    ],
)
def test_unless_what_is_written_may_lie_in_the_same_bytes(nodes, updates, named, taken):
    """By another name than that over which it may be written, which no plan allows."""
    inputs = [value("x", [4]), value("i", [4], I64), value("z", [4])]
    weights = [const("shape", [4]), const("zero", [0]), const("four", [4])]
    both = [
        node("ScatterElements", ["x", "i", updates], ["y"]),
        node("ScatterElements", ["z", "i", updates], ["w"]),
    ]
    graph = model([*nodes, *both], inputs, [value(name, [4]) for name in "yw"], weights)
    assert [over(op) for op in memplan.capture(graph).graph.ops[-2:]] == [named, ["z"]]
    sharing = memplan.plan(graph, donate=["x", "z"]).sharing
    assert [s.input for s in sharing if s.how == "inplace"] == [*taken, "z"]


def test_of_more_than_two_the_first():
    assert over(single("Sum", [(4,), (4,)])) == ["x0", "x1"]
    assert over(single("Max", [(4,), (4,), (4,)])) == ["x0"]
    assert over(single("Sum", [(1,), (4,), (4,)])) == []


@pytest.mark.parametrize(
    ("op_type", "shapes"), [("Softmax", [(2, 3)]), ("CumSum", [(4,), ()]), ("LpNormalization", [(2, 3)])]
)
def test_what_reads_more_than_one_element_is_left_alone(op_type, shapes):
    assert over(single(op_type, shapes, dtypes=[F32, I64][: len(shapes)])) == []


def test_activations_of_onnx_runtime():
    for op_type in ("Gelu", "FastGelu", "QuickGelu"):
        assert over(single(op_type, [(2, 3)], domain="com.microsoft")) == ["x0"]
    assert over(single("BiasGelu", [(3,), (3,)], domain="com.microsoft")) == ["x0"]
    assert over(single("SkipLayerNormalization", [(3,), (3,)], domain="com.microsoft")) == []
    assert over(single("Gelu", [(3,)], domain="somebody.else")) == []


def test_empty_tensors_share_nothing():
    assert over(single("Relu", [(0, 4)])) == []
    assert single("Concat", [(0, 4), (0, 4)], axis=0).concats == []


def test_an_output_that_is_left_out():
    op = captured([node("Dropout", ["x"], ["", "mask"])], [value("x", [4])], ["mask"])[0]
    assert (op.inplace, op.slices) == ([], [])


def test_types_that_the_caller_adds():
    source = model([node("Softmax", ["x"], ["y"])], [value("x", [2, 3])], [value("y", [2, 3])])
    assert over(memplan.capture(source, inplace_ops=["Softmax"]).graph.ops[0]) == ["x"]
    assert over(memplan.capture(source, inplace_ops=["Soft"]).graph.ops[0]) == []
    nodes = [node("Mine", ["x", "b"], ["y"], domain="my.own")]
    infos = [value("y", [2, 3])]
    source = model(
        nodes, [value("x", [2, 3]), value("b", [3, 2])], [value("y", [2, 3])], infos=infos, domains=["my.own"]
    )
    assert over(memplan.capture(source, inplace_ops=["my.own.Mine"]).graph.ops[0]) == ["x"]
    assert over(memplan.capture(source, inplace_ops=["my.own"]).graph.ops[0]) == ["x"]
    assert over(memplan.capture(source).graph.ops[0]) == []


# Joined


def test_concat_on_the_outermost_axis():
    op = single("Concat", [(2, 3), (1, 3), (4, 3)], axis=0)
    assert op.concats == [("y", "x0", 0), ("y", "x1", 24), ("y", "x2", 36)]
    assert (op.slices, op.inplace) == ([], [])


@pytest.mark.parametrize(
    ("shape", "axis", "joined"), [((1, 2, 3), 1, True), ((1, 2, 3), -2, True), ((2, 2, 3), 1, False)]
)
def test_concat_on_an_inner_axis(shape, axis, joined):
    expected = [("y", "x0", 0), ("y", "x1", 24)] if joined else []
    assert single("Concat", [shape, shape], axis=axis).concats == expected


def test_concat_of_one_tensor_twice_can_hold_it_once():
    x = value("x", [2, 3])
    op = captured([node("Concat", ["x", "x"], ["y"], axis=0)], [x], ["y"])[0]
    assert op.concats == [("y", "x", 0)]


def test_concat_of_shapes_that_do_not_fit_together():
    inputs = [value("a", [1, 3]), value("b", [1, 4])]
    source = model([node("Concat", ["a", "b"], ["y"], axis=0)], inputs, [value("y", [2, 3])])
    assert memplan.capture(source).graph.ops[0].concats == [("y", "a", 0)]


def test_concat_of_half_bytes():
    assert single("Concat", [(2,), (4,), (3,)], INT4, axis=0).concats == [
        ("y", "x0", 0), ("y", "x1", 1), ("y", "x2", 3),
    ]  # fmt: skip
    assert single("Concat", [(3,), (4,)], INT4, axis=0).concats == []
    assert single("Concat", [(2,), (3,), (5,)], INT4, axis=0).concats == [("y", "x0", 0)]


# Cut out


def test_split():
    op = single("Split", [(6, 2)], outputs=3, axis=0, num_outputs=3)
    assert op.slices == [("y0", "x0", 0), ("y1", "x0", 16), ("y2", "x0", 32)]
    sizes = [const("sizes", [1, 4, 1])]
    assert single("Split", [(1, 6)], weights=sizes, outputs=3, axis=1).slices == [
        ("y0", "x0", 0), ("y1", "x0", 4), ("y2", "x0", 20),
    ]  # fmt: skip
    assert single("Split", [(2, 6)], weights=sizes, outputs=3, axis=1).slices == []


def test_split_of_which_not_all_is_wanted():
    nodes = [node("Split", ["x"], ["a", "", "c"], axis=0, num_outputs=3)]
    assert captured(nodes, [value("x", [6])], ["a", "c"])[0].slices == [("a", "x", 0)]


def test_split_of_half_bytes():
    assert single("Split", [(6,)], INT4, weights=[const("s", [2, 4])], outputs=2).slices == [
        ("y0", "x0", 0), ("y1", "x0", 1),
    ]  # fmt: skip
    assert single("Split", [(6,)], INT4, weights=[const("s", [3, 3])], outputs=2).slices == []


def sliced(shape, starts, ends, axes=None, steps=None, **options):
    weights = [const("s", starts), const("e", ends)]
    weights += [const("a", axes)] if axes is not None else []
    weights += [const("t", steps)] if steps is not None else []
    return [offset for _, _, offset in single("Slice", [shape], weights=weights, **options).slices]


def test_slice():
    assert sliced((6, 2), [2], [5]) == [16]
    assert sliced((6, 2), [-3], [2**40], [0]) == [24]
    assert sliced((6, 2), [0], [6]) == [0]
    assert sliced((6, 2), [2, 0], [5, 2], [0, 1], [1, 1]) == [16]
    assert sliced((1, 6, 2), [2], [4], [-2]) == [16]
    assert sliced((5, 6, 2), [3, 2], [4, 4]) == [4 * (36 + 4)]


def test_slice_that_is_no_run_of_bytes():
    assert sliced((6, 2), [0], [1], [1]) == []
    assert sliced((2, 6, 2), [2], [4], [1]) == []
    assert sliced((6, 2), [0], [6], [0], [2]) == []
    assert sliced((6, 2), [5], [0], [0], [-1]) == []
    assert sliced((6, 2), [3], [3]) == []


def test_slice_of_old_opsets():
    op = single("Slice", [(6, 2)], opset=9, starts=[2], ends=[5])
    assert op.slices == [("y", "x0", 16)]
    assert single("Slice", [(6, 2)], opset=9, starts=[1], ends=[2], axes=[1]).slices == []


def test_slice_whose_bounds_are_not_constant():
    nodes = [node("Slice", ["x", "s", "e"], ["y"])]
    infos = [value("y", [3, 2])]
    inputs = [value("x", [6, 2]), value("s", [1], I64), value("e", [1], I64)]
    source = model(nodes, inputs, [value("y", [3, 2])], infos=infos)
    assert memplan.capture(source).graph.ops[0].slices == []
    nodes = [node("Slice", ["x", "b", "b", "a"], ["y"])]
    inputs = [value("x", [6, 2]), value("a", [1], I64)]
    source = model(nodes, inputs, [value("y", [6, 2])], [const("b", [0])], infos=[value("y", [6, 2])])
    assert memplan.capture(source).graph.ops[0].slices == []


@pytest.mark.parametrize(
    ("shape", "axis", "index", "expected"),
    [
        ((6, 2), 0, 3, [24]),
        ((6, 2), 0, -1, [40]),
        ((6, 2), 0, [4], [32]),
        ((6, 2), 0, [1, 2], []),
        ((6, 2), 1, 1, []),
        ((1, 6, 2), 1, 2, [16]),
    ],
)
def test_gather_of_one_element(shape, axis, index, expected):
    op = single("Gather", [shape], weights=[const("i", index)], axis=axis)
    assert [offset for _, _, offset in op.slices] == expected


def test_gather_of_what_is_not_constant():
    inputs = [value("x", [6, 2]), value("i", [], I64)]
    assert captured([node("Gather", ["x", "i"], ["y"])], inputs, ["y"])[0].slices == []


# Passed on


def test_casts_and_expansions_that_change_nothing():
    assert single("Cast", [(4,)], to=F32).slices == [("y", "x0", 0)]
    assert single("Cast", [(4,)], to=I32).slices == []
    assert single("CastLike", [(4,), (2,)]).slices == [("y", "x0", 0)]
    assert single("Expand", [(2, 3)], weights=[const("s", [2, 3])]).slices == [("y", "x0", 0)]
    assert single("Expand", [(1, 3)], weights=[const("s", [2, 3])]).slices == []


@pytest.mark.parametrize(
    ("shape", "perm", "expected"),
    [
        ((1, 4, 3), [1, 0, 2], True),
        ((2, 1, 3), [0, 2, 1], True),
        ((2, 4, 3), [1, 0, 2], False),
        ((4, 1), None, True),
        ((4, 3), None, False),
    ],
)
def test_transposes_that_move_no_element(shape, perm, expected):
    op = single("Transpose", [shape], **({} if perm is None else {"perm": perm}))
    assert op.slices == ([("y", "x0", 0)] if expected else [])
    assert op.inplace == []


@pytest.mark.parametrize(
    ("opset", "training", "attributes", "expected"),
    [
        (21, None, {}, True),
        (21, False, {}, True),
        (21, True, {}, False),
        (10, None, {"ratio": 0.5}, True),
        (6, None, {"is_test": 1}, True),
        (6, None, {}, False),
    ],
)
def test_dropout(opset, training, attributes, expected):
    weights = [] if training is None else [const("r", 0.5, np.float32), const("t", training, np.bool_)]
    op = single("Dropout", [(4,)], weights=weights, opset=opset, **attributes)
    assert op.slices == ([("y", "x0", 0)] if expected else [])
    assert over(op) == ["x0"]


def test_dropout_whose_mode_is_not_known():
    inputs = [value("x", [4]), value("t", [], BOOL)]
    assert captured([node("Dropout", ["x", "", "t"], ["y"])], inputs, ["y"])[0].slices == []


def test_aliases_have_no_other_relation():
    for op in (single("Identity", [(4,)]), single("Flatten", [(4,)])):
        assert len(op.aliases) == 1
        assert (op.inplace, op.slices, op.concats) == ([], [], [])


def test_bodies_are_planned_without():
    """The workspace of an If holds whatever the plan of the graph around it makes use of."""
    body = graph([node("Relu", ["x"], ["b"]), node("Neg", ["b"], ["c"])], [], [value("c", None)])
    nodes = [node("If", ["k"], ["y"], then_branch=body, else_branch=body)]
    op = captured(nodes, [value("x", [4]), value("k", [], BOOL)], ["y"])[0]
    assert op.workspace == 32


# Models

#                          inplace, slice, concat
COUNTS = {
    "light_bvlc_alexnet.onnx": (9, 2, 0),
    "light_densenet121.onnx": (363, 0, 116),
    "light_inception_v1.onnx": (58, 1, 36),
    "light_inception_v2.onnx": (207, 0, 38),
    "light_resnet50.onnx": (81, 0, 0),
    "light_shufflenet.onnx": (59, 0, 6),
    "light_squeezenet.onnx": (27, 1, 16),
    "light_vgg19.onnx": (20, 2, 0),
    "light_zfnet512.onnx": (7, 0, 0),
}


@pytest.mark.few(4)
@pytest.mark.parametrize("name", LIGHT)
def test_light_models(name):
    ops = memplan.capture(DATA / "light" / name).graph.ops
    counted = tuple(sum(len(getattr(op, relation)) for op in ops) for relation in ("inplace", "slices", "concats"))
    assert counted == COUNTS[name]
    elementwise = [op for op in ops if re.fullmatch("Relu|Dropout|Sum|Add|Mul", op.type)]
    assert all(op.inplace for op in elementwise)
    assert all(len(op.concats) == len(op.inputs) for op in ops if op.type == "Concat")
