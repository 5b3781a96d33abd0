"""The table of operators that may write over an input: against torch's kernels and onnx's reference, and by hand."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.defs
import pytest
import torch
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from torch import Tensor

import memplan
from memplan.inplace_ops import _ATEN_SCATTERS, _ONNX_SCATTERS, _aten, matches, permitted, reusable

SCATTERS = sorted([*_ONNX_SCATTERS.split(), *_aten(_ATEN_SCATTERS)])
ATEN = sorted(name for name in memplan.inplace_ops.INPLACE_OPS if name.startswith("aten.") and name not in SCATTERS)
ONNX = sorted(name for name in memplan.inplace_ops.INPLACE_OPS if "." not in name and name not in SCATTERS)
# Operators of aten that have no variant which writes to a given tensor.
WITHOUT_OUT = [
    "aten._prelu_kernel.default",
    "aten._to_copy.default",
    "aten.dropout.default",
    "aten.mish_backward.default",
    "aten.relu6.default",
    "aten.selu.default",
    "aten.where.ScalarOther",
    "aten.where.ScalarSelf",
]
SHAPE = (37, 41)  # more than one vector, and a rest


# torch


def overload(name: str) -> Any:
    _, operator, variant = name.split(".")
    return getattr(getattr(torch.ops.aten, operator), variant)


def out_variant(func: Any) -> Any:
    """The variant with the same parameters that writes to a given tensor."""
    packet = getattr(torch.ops.aten, func._schema.name.rpartition("::")[2])
    parameters = [(argument.name, str(argument.type)) for argument in func._schema.arguments]
    for variant in (getattr(packet, name) for name in packet.overloads()):
        taken = [(a.name, str(a.type)) for a in variant._schema.arguments if not a.is_out]
        if len(taken) < len(variant._schema.arguments) and sorted(taken) == sorted(parameters):
            return variant
    raise LookupError(func)


def values(func: Any, dtype: torch.dtype) -> dict[str, Any]:
    """Arguments by name: tensors of SHAPE with different numbers, and something for each parameter without default."""
    generator = torch.Generator().manual_seed(1)
    named: dict[str, Any] = {}
    for argument in func._schema.arguments:
        kind = str(argument.type)
        if kind in ("Tensor", "Optional[Tensor]"):
            numbers = torch.rand(SHAPE, generator=generator) * 0.8 + 0.1
            named[argument.name] = (numbers * 3).to(dtype)
        elif argument.name == "rounding_mode":
            named[argument.name] = "floor"
        elif argument.name == "train" and dtype == torch.float32:
            named[argument.name] = False
        elif argument.name in ("min", "max"):
            named[argument.name] = 1
        elif not argument.has_default_value():
            named[argument.name] = {"bool": True, "int": 1}.get(kind, 2 if dtype != torch.float32 else 0.5)
    if "mask" in named:
        named["mask"] = named["mask"] > 1
    if "condition" in named:
        named["condition"] = named["condition"] > 1
    if func._schema.name == "aten::masked_fill" and "value" in named:
        named["value"] = torch.tensor(2, dtype=dtype) if func._overloadname == "Tensor" else 2
    return named


def works(func: Any, dtype: torch.dtype) -> Tensor | None:
    """What the operator makes of these values; None if it does not take the dtype."""
    try:
        torch.manual_seed(0)
        result = func(**values(func, dtype))
    except (RuntimeError, NotImplementedError):
        return None
    return result[0] if isinstance(result, tuple) else result


@pytest.mark.parametrize("name", [name for name in ATEN if name not in WITHOUT_OUT])
def test_torchs_kernels_may_write_over_what_the_table_allows(name: str) -> None:
    func = overload(name)
    tried = 0
    for dtype in (torch.float32, torch.int32, torch.bool):
        expected = works(func, dtype)
        tensors = [key for key, value in values(func, dtype).items() if isinstance(value, Tensor)]
        for over in reusable(name, tensors) if expected is not None else ():
            given = values(func, dtype)
            if given[over].dtype != expected.dtype or given[over].shape != expected.shape:
                continue
            variant = out_variant(func)
            first, *more = [argument.name for argument in variant._schema.arguments if argument.is_out]
            torch.manual_seed(0)
            variant(**given, **{first: given[over]}, **{mask: torch.empty(SHAPE, dtype=torch.bool) for mask in more})
            torch.testing.assert_close(given[over], expected, equal_nan=True)
            tried += 1
    assert tried > 0


@pytest.mark.parametrize("name", WITHOUT_OUT)
def test_an_element_of_an_aten_output_depends_on_the_same_element_of_the_inputs(name: str) -> None:
    func = overload(name)
    given = values(func, torch.float32)
    order = torch.randperm(SHAPE[0] * SHAPE[1], generator=torch.Generator().manual_seed(2))

    def shuffled(value: Any) -> Any:
        return value.reshape(-1)[order].reshape(SHAPE) if isinstance(value, Tensor) else value

    after = func(**{key: shuffled(value) for key, value in given.items()})
    torch.testing.assert_close(after, shuffled(func(**given)))
    with pytest.raises(LookupError):
        out_variant(func)


# ONNX


def opset_sample(op_type: str) -> tuple[list[np.ndarray[Any, Any]], dict[str, Any]]:
    generator = np.random.default_rng(1)
    real = [(generator.random((3, 5)) * 0.8 + 0.1).astype(np.float32) for _ in range(3)]
    whole = [generator.integers(1, 5, (3, 5)).astype(np.uint8) for _ in range(2)]
    truth = [value > 2 for value in whole]
    special: dict[str, tuple[list[Any], dict[str, Any]]] = {
        "Cast": (real[:1], {"to": TensorProto.INT32}),
        "CastLike": ([real[0], whole[0].astype(np.int32)], {}),
        "BitShift": (whole, {"direction": "LEFT"}),
        "BitwiseNot": (whole[:1], {}),
        "Clip": ([real[0], np.float32(0.3), np.float32(0.6)], {}),
        "Dropout": (real[:1], {}),
        "Not": (truth[:1], {}),
        "Where": ([truth[0], *real[:2]], {}),
        "Acosh": ([real[0] + 1], {}),
        "Mod": (real[:2], {"fmod": 1}),
        **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor"), (whole, {})),
        **dict.fromkeys(("And", "Or", "Xor"), (truth, {})),
        **dict.fromkeys(("Max", "Mean", "Min", "Sum"), (real, {})),
    }
    inputs = onnx.defs.get_schema(op_type).min_input
    return special.get(op_type, (real[:inputs], {}))


@pytest.mark.parametrize("op_type", ONNX)
def test_an_element_of_an_onnx_output_depends_on_the_same_element_of_the_inputs(op_type: str) -> None:
    inputs, attributes = opset_sample(op_type)
    names = [f"x{position}" for position in range(len(inputs))]
    node = helper.make_node(op_type, names, ["y"], **attributes)
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.asarray(value).dtype), value.shape)
        for name, value in zip(names, inputs, strict=True)
    ]
    graph = helper.make_graph([node], "g", infos, [helper.make_empty_tensor_value_info("y")])
    run = ReferenceEvaluator(helper.make_model(graph)).run
    before = run(None, dict(zip(names, inputs, strict=True)))[0]
    order = np.random.default_rng(2).permutation(15)

    def shuffled(value: Any) -> Any:
        return value.reshape(-1)[order].reshape(3, 5) if value.shape == (3, 5) else value

    after = run(None, {name: shuffled(value) for name, value in zip(names, inputs, strict=True)})[0]
    np.testing.assert_array_equal(after, shuffled(before))
    assert list(reusable(op_type, names))


def test_what_is_left_to_the_kernel_is_not_in_the_table() -> None:
    kernels = (
        "Softmax LogSoftmax LayerNormalization BatchNormalization CumSum ReduceSum Conv MatMul Gemm Transpose Gather"
    )
    aten = "_softmax native_layer_norm native_batch_norm cumsum sum.dim_IntList clone _softmax_backward_data glu"
    for name in [*kernels.split(), *(f"aten.{part}" for part in aten.split())]:
        assert not matches(name, memplan.inplace_ops.INPLACE_OPS)
        assert not matches(f"{name}.default", memplan.inplace_ops.INPLACE_OPS)


# What keeps an input but for some places


X, ROWS, TWO = torch.arange(20.0).reshape(4, 5), torch.tensor([2, 0]), torch.full((2, 5), 7.0)
AT = torch.tensor([[0, 3, 1, 2, 2]])
ATEN_CALLS: dict[str, tuple[Any, ...]] = {
    "_unsafe_index_put.default": ([ROWS], TWO),
    "as_strided_scatter.default": (TWO, [2, 5], [5, 1], 5),
    "copy.default": (X + 1,),
    "diagonal_scatter.default": (torch.ones(4),),
    "fill.Scalar": (3.0,),
    "fill.Tensor": (torch.tensor(3.0),),
    "index_add.default": (0, ROWS, TWO),
    "index_copy.default": (0, ROWS, TWO),
    "index_fill.int_Scalar": (0, ROWS, 3.0),
    "index_fill.int_Tensor": (0, ROWS, torch.tensor(3.0)),
    "index_put.default": ([ROWS], TWO),
    "index_reduce.default": (0, ROWS, TWO, "prod"),
    "masked_scatter.default": (X > 8, X + 1),
    "put.default": (ROWS, torch.ones(2)),
    "scatter.reduce": (0, AT, TWO),
    "scatter.src": (0, AT, TWO),
    "scatter.value": (0, AT, 3.0),
    "scatter.value_reduce": (0, AT, 3.0),
    "scatter_add.default": (0, AT, TWO),
    "scatter_reduce.two": (0, AT, TWO, "sum"),
    "select_scatter.default": (torch.ones(5), 0, 1),
    "slice_scatter.default": (TWO, 0, 1, 3),
}


def others_that_change(before: Any, after: Any, place: int) -> list[int]:
    changed = (np.asarray(before) != np.asarray(after)).reshape(-1).nonzero()[0]
    return [int(other) for other in changed if other != place]


@pytest.mark.parametrize("name", [name for name in SCATTERS if name.startswith("aten.")])
def test_an_element_of_what_is_written_to_shows_in_the_same_place_alone(name: str) -> None:
    func, args = overload(name), ATEN_CALLS[name.removeprefix("aten.")]
    reduce = {"reduce": "add"} if any(a.name == "reduce" and a.kwarg_only for a in func._schema.arguments) else {}
    expected = func(X, *args, **reduce)
    assert expected.shape == X.shape
    for place in range(X.numel()):
        given = X.clone()
        given.view(-1)[place] += 100
        assert others_that_change(expected, func(given, *args, **reduce), place) == []


@pytest.mark.parametrize(
    ("op_type", "indices", "updates", "attributes"),
    [
        ("ScatterElements", AT.numpy(), TWO.numpy()[:1], {"reduction": "add"}),
        ("ScatterND", np.array([[2], [0]]), TWO.numpy(), {}),
        ("TensorScatter", np.array([1]), TWO.numpy().reshape(1, 2, 5), {}),
    ],
)
def test_an_element_of_a_scatters_data_shows_in_the_same_place_alone(
    op_type: str, indices: Any, updates: Any, attributes: dict[str, Any]
) -> None:
    assert op_type in SCATTERS
    data = X.numpy().reshape(1, 4, 5) if op_type == "TensorScatter" else X.numpy()
    order = [updates, indices] if op_type == "TensorScatter" else [indices, updates]
    feeds = dict(zip("xab", [data, *order], strict=True))
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in feeds.items()
    ]
    node = helper.make_node(op_type, list("xab"), ["y"], **attributes)
    graph = helper.make_graph([node], "g", infos, [helper.make_empty_tensor_value_info("y")])
    run = ReferenceEvaluator(helper.make_model(graph)).run
    before = run(None, feeds)[0]
    for place in range(20):
        given = data.copy()
        given.reshape(-1)[place] += 100
        assert others_that_change(before, run(None, feeds | {"x": given})[0], place) == []


# Which inputs


@pytest.mark.parametrize(
    ("type", "inputs", "more", "expected"),
    [
        ("Relu", "x", (), "x"),
        ("Add", "ab", (), "ab"),
        ("Where", "cxy", (), "cxy"),
        ("Clip", "xlh", (), "x"),
        ("Sum", "ab", (), "ab"),
        ("Sum", "abc", (), "a"),
        ("com.microsoft.BiasGelu", "xb", (), "x"),
        ("other.Gelu", "x", (), ""),
        ("aten.gelu_backward.default", "gx", (), "gx"),
        ("aten.masked_fill.Tensor", "xmv", (), "x"),
        ("aten.masked_fill.Tensor", "xmv", ("aten.masked_fill",), "x"),
        ("ScatterND", "xiu", (), "x"),
        ("aten.index_copy.default", "xis", ("aten.index_copy",), "x"),
        ("Softmax", "x", (), ""),
        ("Softmax", "xy", ("Softmax",), "xy"),
        ("aten._softmax.default", "x", ("aten._softmax",), "x"),
        ("aten._softmax.default", "x", ("aten._soft",), ""),
        ("aten._softmax.default", "x", ("aten._softmax.default",), "x"),
    ],
)
def test_reusable(type: str, inputs: str, more: Sequence[str], expected: str) -> None:
    assert "".join(reusable(type, list(inputs), more)) == expected


@pytest.mark.parametrize(
    ("type", "inputs", "expected"),
    [
        ("Add", "aa", "a"),
        ("Where", "aba", "ab"),
        ("Sum", "ab", "ab"),
        ("Sum", "aba", ""),  # a is added once more when the first sum is in its bytes
        ("Sum", "abc", "a"),
        ("ScatterND", "aia", ""),
        ("ScatterND", "aiu", "a"),
    ],
)
def test_what_is_read_again_is_not_written_over(type: str, inputs: str, expected: str) -> None:
    assert "".join(permitted(type, list(inputs))) == expected


# Graphs


def spec(type: str, **op: Any) -> dict[str, Any]:
    sizes = {"a": 8, "b": 8, "c": 4, "y": 8, "z": 8}
    tensors = [
        {"name": name, "bytes": size, "kind": "input" if name < "y" else "intermediate"} for name, size in sizes.items()
    ]
    return {
        "tensors": tensors,
        "ops": [{"name": "op", "type": type, "inputs": ["c", "a", "b"], "outputs": ["y", "z"], **op}],
        "outputs": ["y", "z"],
    }


def entries(source: Any, inplace_ops: Any) -> list[tuple[str, str, int]]:
    graph = memplan.capture(source, inplace_ops=inplace_ops).graph
    assert isinstance(graph, memplan.Graph)
    return list(graph.ops[0].inplace)


def test_a_graph_dict_has_its_own_entries_only() -> None:
    assert entries(spec("Add"), ()) == []
    assert entries(spec("Add", inplace=[{"output": "z", "input": "a"}]), ()) == [("z", "a", 0)]


def test_types_that_are_named_get_an_entry_for_each_input_of_the_first_outputs_size() -> None:
    for source in (spec("Mine"), memplan.capture(spec("Mine")).graph):
        assert entries(source, ["Mine"]) == [("y", "a", 0), ("y", "b", 0)]
        assert entries(source, memplan.inplace_ops.INPLACE_OPS) == []
    assert entries(spec("aten.add.Tensor"), memplan.inplace_ops.INPLACE_OPS) == [("y", "a", 0), ("y", "b", 0)]
    assert entries(spec("aten.add.Tensor"), {"aten.add"}) == [("y", "a", 0), ("y", "b", 0)]
    assert entries(spec("Clip"), memplan.inplace_ops.INPLACE_OPS) == []  # its first input is smaller


def test_a_scatter_of_a_graph_dict_is_written_over_its_first_input_if_it_is_read_once() -> None:
    def over(inputs: list[str]) -> list[tuple[str, str, int]]:
        graph = memplan.capture(spec("ScatterND", inputs=inputs), inplace_ops=memplan.inplace_ops.INPLACE_OPS).graph
        assert isinstance(graph, memplan.Graph)
        return list(graph.ops[0].inplace)

    assert over(["a", "b"]) == [("y", "a", 0)]
    assert over(["a", "b", "b"]) == [("y", "a", 0)]
    assert over(["a", "b", "a"]) == []


def test_entries_and_places_of_the_ops_own_stay() -> None:
    own = [{"output": "z", "input": "b"}]
    assert entries(spec("Add", inplace=own), ["Add"]) == [("z", "b", 0)]
    assert entries(spec("Add", alias=[{"output": "y", "input": "a"}]), ["Add"]) == []
    assert entries(spec("Add", overwrite=[{"output": "y", "input": "a"}]), ["Add"]) == []


def test_everything_else_of_an_op_stays() -> None:
    everything = spec(
        "Add",
        workspace=3,
        alias=[{"output": "z", "input": "a", "offset": 0}],
        slice=[{"output": "y", "input": "b", "offset": 0}],
        concat=[{"output": "y", "input": "c", "offset": 4}],
    )
    everything["ops"].insert(0, {"name": "before", "inputs": [], "outputs": []})
    everything["ops"][1]["after"] = ["before"]
    expected = memplan.capture(everything).graph.to_dict()
    expected["ops"][1]["inplace"] = [{"output": "y", "input": name, "offset": 0} for name in "ab"]
    assert memplan.capture(everything, inplace_ops=["Add"]).graph.to_dict() == expected


def test_outputs_without_bytes_and_ops_without_outputs() -> None:
    empty = spec("Add")
    for tensor in empty["tensors"]:
        tensor["bytes"] = 0
    assert entries(empty, ["Add"]) == []
    assert entries({"tensors": [], "ops": [{"type": "Add", "inputs": [], "outputs": []}], "outputs": []}, ["Add"]) == []


@pytest.mark.parametrize("wrong", ["Relu", 3, None, [1], {"Relu": 1, 2: 3}])
def test_inplace_ops_of_another_kind(wrong: Any) -> None:
    with pytest.raises(
        TypeError, match=r"inplace_ops must be a collection of types of ops, such as \['Softmax'\], got"
    ):
        memplan.plan(spec("Add"), inplace_ops=wrong)


def typed(*types: str) -> dict[str, Any]:
    """A chain of ops of these types."""
    tensors = [{"name": f"t{k}", "bytes": 4} for k in range(len(types))]
    ops = [
        {"name": f"op{k}", "type": type, "inputs": [f"t{k - 1}"] if k else [], "outputs": [f"t{k}"]}
        for k, type in enumerate(types)
    ]
    return {"tensors": tensors, "ops": ops, "outputs": [f"t{len(types) - 1}"]}


MISSPELT = [
    ("Gelo", "Gelu"),
    ("gelu", "Gelu"),
    ("softmax", "Softmax"),
    ("LayerNormalisation", "LayerNormalization"),
    ("relu", "aten.relu.default"),
    ("aten.relu.defalt", "aten.relu.default"),
    ("MyOps", "MyOp"),
]


@pytest.mark.parametrize(("wrong", "meant"), MISSPELT)
@pytest.mark.parametrize("option", ["inplace_ops", "disable_inplace_ops"])
def test_types_that_are_misspelt_are_refused(option: str, wrong: str, meant: str) -> None:
    graph = typed("Gelu", "Softmax", "LayerNormalization", "aten.relu.default", "MyOp")
    with pytest.raises(ValueError, match=f"^{option} names '{wrong}', which no op of the graph is of; .*'{meant}'$"):
        memplan.plan(graph, **{option: ["Gelu", wrong]})


@pytest.mark.parametrize("option", ["inplace_ops", "disable_inplace_ops"])
def test_types_for_other_graphs_pass(option: str) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("torch")
    graph = typed("BatchNormalization", "ReduceMax", "aten.sum.default", "aten.add", "Relu")
    meant = ["InstanceNormalization", "ReduceMin", "aten.cumsum.default", "aten.cumsum", "Elu", "Mine", "mine.Op"]
    memplan.plan(graph, **{option: [*meant, "aten", *memplan.inplace_ops.INPLACE_OPS]})


def test_without_onnx_and_torch_other_types_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("onnx", "onnx.defs", "torch"):
        monkeypatch.setitem(sys.modules, package, None)
    for wrong, own in (("ReduceMin", "ReduceMax"), ("aten.cumsum.default", "aten.cumprod.default")):
        with pytest.raises(ValueError, match=f"names '{wrong}'.*'{own}'"):
            memplan.plan(typed(own), disable_inplace_ops=[wrong])


def sources_without_ops(tmp_path: Any) -> Iterator[Any]:
    path = tmp_path / "lifetimes.csv"
    path.write_text("id,lower,upper,size\na,0,1,4\n")
    yield path
    yield ([4], [0], [1])
    yield memplan.Problem([4], [0], [1])


def test_a_problem_takes_no_inplace_ops(tmp_path: Any) -> None:
    for source in sources_without_ops(tmp_path):
        with pytest.raises(TypeError, match="option inplace_ops does not apply"):
            memplan.plan(source, inplace_ops=["Add"])


def test_plan_hands_them_on() -> None:
    graph = memplan.plan(spec("Mine"), inplace_ops=["Mine"]).graph
    assert graph is not None
    assert list(graph.ops[0].inplace) == [("y", "a", 0), ("y", "b", 0)]


def test_a_workspace_is_never_in_place() -> None:
    tensors = [("x", "input"), ("scratch", "workspace"), ("y", "intermediate")]
    source = {
        "tensors": [{"name": name, "bytes": 8, "kind": kind} for name, kind in tensors],
        "ops": [{"name": "f", "type": "F", "inputs": ["x"], "outputs": ["scratch", "y"]}],
        "outputs": ["y"],
    }
    plan = memplan.plan(source, inplace_ops=["F"], donate=["x"])
    assert plan.sharing == ()
    assert plan.peak == memplan.plan(source).peak
