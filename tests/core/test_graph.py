"""Graphs: the dict, the rules, storages and lifetimes."""

from __future__ import annotations

import copy
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memplan
from builders import graphs
from memplan import _core
from oracles import plain as oracle

Dict = dict[str, Any]


def small() -> Dict:
    """x -> conv -> t -> view -> v -> relu -> y, with a weight; every op and tensor has its part in some test."""
    return graphs.graph(
        "x 16 input, w 8 weight, t 32, v 16, y 16",
        graphs.op("conv", "x w", "t", type="Conv", workspace=64),
        graphs.op("view", "t", "v", alias=["v t 8"]),
        graphs.op("relu", "v", "y", inplace=["y v"]),
        outputs="y",
    )


def changed(path: str, value: Any) -> Dict:
    """`small` with one entry replaced, or added; the path is like "ops.1.inputs"."""
    graph = small()
    at: Any = graph
    *parents, last = path.split(".")
    for key in parents:
        at = at[int(key) if isinstance(at, list) else key]
    at[int(last) if isinstance(at, list) else last] = value
    return graph


def without(path: str) -> Dict:
    graph = small()
    at: Any = graph
    *parents, last = path.split(".")
    for key in parents:
        at = at[int(key) if isinstance(at, list) else key]
    del at[last]
    return graph


def with_op(op: Dict, *tensors: Dict, outputs: tuple[str, ...] = ("y",)) -> Dict:
    graph = small()
    graph["tensors"] += tensors
    graph["ops"].append(op)
    graph["outputs"] = list(outputs)
    return graph


def lifetimes(graph: Dict, place: tuple[str, ...] = ("input", "weight", "intermediate", "output", "workspace")) -> Dict:
    plan = memplan.plan(graph, place=place, inplace=False)
    assert [(s.name, s.bytes, s.first, s.last) for s in plan] == oracle.buffers_of(graph, place)
    return {slot.name: (slot.first, slot.last) for slot in plan}


# The dict


def test_capture_keeps_everything() -> None:
    graph = memplan.capture(small()).graph
    assert [(t.name, t.bytes, t.kind) for t in graph.tensors] == [
        ("x", 16, "input"),
        ("w", 8, "weight"),
        ("t", 32, "intermediate"),
        ("v", 16, "intermediate"),
        ("y", 16, "output"),
    ]
    conv, view, relu = graph.ops
    assert (conv.name, conv.type, conv.inputs, conv.outputs) == ("conv", "Conv", ["x", "w"], ["t"])
    assert (conv.workspace, conv.stream) == (64, 0)
    assert view.aliases == [("v", "t", 8)]
    assert relu.inplace == [("y", "v", 0)]
    assert graph.outputs == ["y"]
    assert memplan.capture(graph).graph is graph


def test_to_dict_round_trip() -> None:
    spec = small()
    spec["tensors"][2] |= {"shape": [2, 4], "dtype": "float32"}
    spec["ops"][0]["stream"] = 0
    graph = memplan.capture(spec).graph
    assert memplan.capture(graph.to_dict()).graph == graph
    assert graph.to_dict()["tensors"][2] == {
        "name": "t",
        "bytes": 32,
        "kind": "intermediate",
        "shape": [2, 4],
        "dtype": "float32",
    }


def test_bytes_of_shape_and_dtype() -> None:
    shapes = {"a": ([2, 3], "float32", 24), "b": ([], "float64", 8), "c": ([0, 9], "int8", 0), "d": ([3], "int4", 2)}
    tensors = [{"name": n, "shape": s, "dtype": d, "kind": "input"} for n, (s, d, _) in shapes.items()]
    graph = memplan.capture({"tensors": tensors, "ops": [], "outputs": []}).graph
    assert [t.bytes for t in graph.tensors] == [expected for _, _, expected in shapes.values()]
    assert [t.shape for t in graph.tensors] == [[2, 3], [], [0, 9], [3]]


def test_bytes_win_over_shape() -> None:
    graph = memplan.capture(
        changed("tensors.0", {"name": "x", "bytes": 5, "shape": [2], "dtype": "int8", "kind": "input"})
    ).graph
    assert graph.tensors[0].bytes == 5


def test_tuples_and_numpy_integers_are_taken() -> None:
    graph = changed("tensors.0.bytes", np.int64(16)) | {"outputs": ("y",)}
    graph["ops"] = tuple(graph["ops"])
    assert memplan.capture(graph).graph == memplan.capture(small()).graph


def test_ops_without_a_name_get_one() -> None:
    assert [op.name for op in memplan.capture(without("ops.1.name")).graph.ops] == ["conv", "op1", "relu"]


def test_the_dict_is_left_alone() -> None:
    spec = small()
    memplan.plan(spec)
    assert spec == small()


BIG = 2**63 - 1

MALFORMED = [
    (without("tensors"), "graph has no 'tensors'; expected tensors, ops, outputs"),
    (without("ops"), "graph has no 'ops'"),
    (without("outputs"), "graph has no 'outputs'"),
    (
        small() | {"nodes": []},
        "graph has an unknown key 'nodes'; known are apart, barriers, contiguous, exclude, exclusive, ops, outputs",
    ),
    (changed("tensors", {}), "tensors must be a list, got dict"),
    (changed("tensors.1", "w"), "tensors[1] must be a dict with bytes, dtype, kind, name, permuted, shape, got str"),
    (without("tensors.1.name"), "tensors[1] has no 'name'"),
    (changed("tensors.1.size", 4), "tensors[1] has an unknown key 'size'"),
    (changed("tensors.1.name", 4), "tensors[1].name must be a string, got 4"),
    (without("tensors.1.bytes"), "tensors[1] ('w') needs bytes, or shape and dtype"),
    (changed("tensors.1.bytes", 1.5), "tensors[1].bytes must be an integer, got 1.5"),
    (changed("tensors.1.bytes", "8"), "tensors[1].bytes must be an integer, got '8'"),
    (changed("tensors.1.bytes", True), "tensors[1].bytes must be an integer, got True"),
    (changed("tensors.1.bytes", None), "tensors[1].bytes must be an integer, got None"),
    (changed("tensors.1.bytes", 2**63), f"tensors[1].bytes must be at most {BIG}, got {2**63}"),
    (changed("tensors.1.bytes", -8), "tensor 'w': bytes must be >= 0, got -8"),
    (changed("tensors.1.kind", "parameter"), "kind must be one of input, weight, intermediate, output, workspace"),
    (changed("tensors.1.shape", 4), "tensors[1].shape must be a list, got int"),
    (
        changed("tensors.1", {"name": "w", "shape": [-1], "dtype": "int8"}),
        "tensors[1].shape[0] must be >= 0, got -1",
    ),
    (
        changed("tensors.1", {"name": "w", "shape": [2**62, 4], "bytes": 4}),
        "tensors[1].shape: shape [4611686018427387904, 4] has more elements than int64 holds",
    ),
    (
        changed("tensors.1", {"name": "w", "shape": [2**32] * 3000, "bytes": 4}),
        "tensors[1].shape: shape [4294967296, 4294967296, 4294967296, 4294967296, 4294967296, 4294967296, ...] has",
    ),
    (changed("tensors.1.bytes", 10**5000), f"must be at most {BIG}, got an integer of 16610 bits"),
    (changed("tensors.1.shape", [-(10**5000)]), f"must be at most {BIG}, got an integer of 16610 bits"),
    (
        changed("tensors.1", {"name": "w", "shape": [2, 3], "dtype": "float32", "bytes": 23}),
        "tensors[1] ('w'): bytes must be the 24 of float32 [2, 3], or more (padding), got 23",
    ),
    (
        changed("tensors.1", {"name": "w", "shape": [2], "dtype": "int7"}),
        "tensors[1] ('w'): dtype must be one of bool, int2",
    ),
    (
        changed("tensors.1", {"name": "w", "shape": [2**40, 2**40], "dtype": "int8"}),
        "has more elements than int64 holds",
    ),
    (changed("ops.1", 3), "ops[1] must be a dict with after, alias, body, branch, concat"),
    (without("ops.1.inputs"), "ops[1] has no 'inputs'; expected inputs, outputs"),
    (changed("ops.1.inputs", "t"), "ops[1].inputs must be a list, got str"),
    (changed("ops.1.inputs", ["t", None]), "ops[1].inputs[1] must be a string, got None"),
    (changed("ops.1.aliases", []), "ops[1] has an unknown key 'aliases'"),
    (changed("ops.1.workspace", "1"), "ops[1].workspace must be an integer, got '1'"),
    (changed("ops.1.stream", 2**31), "ops[1].stream must be at most 2147483647, got 2147483648"),
    (changed("ops.1.alias", [{"output": "v"}]), "ops[1].alias[0] has no 'input'; expected output, input"),
    (changed("ops.1.alias.0.offset", 0.5), "ops[1].alias[0].offset must be an integer, got 0.5"),
    (changed("outputs", "y"), "outputs must be a list, got str"),
    (changed("outputs", [0]), "outputs[0] must be a string, got 0"),
]


def test_a_broadcast_shows_few_bytes_in_a_large_shape() -> None:
    tensors = [{"name": "t", "bytes": 4}, {"name": "v", "bytes": 4, "shape": [2, 8], "dtype": "float32"}]
    ops = [
        {"inputs": [], "outputs": ["t"]},
        {"inputs": ["t"], "outputs": ["v"], "alias": [{"output": "v", "input": "t"}]},
    ]
    assert memplan.plan({"tensors": tensors, "ops": ops, "outputs": ["v"]}).peak == 4


@pytest.mark.parametrize(("spec", "message"), MALFORMED, ids=[message[:40] for _, message in MALFORMED])
def test_malformed_dict(spec: Dict, message: str) -> None:
    with pytest.raises(memplan.errors.GraphError, match=re.escape(message)):
        memplan.capture(spec)


@pytest.mark.parametrize("path", ["tensors.0.name", "ops.1.name", "outputs.0"])
def test_a_name_that_is_no_text_is_refused_by_place(path: str) -> None:
    place = re.escape(re.sub(r"\.(\d+)", r"[\1]", path))
    with pytest.raises(memplan.errors.GraphError, match=place):
        memplan.capture(changed(path, "lone surrogate \ud800"))


# The rules. Each message names the op and the tensor.

RULES = {
    "a body that is left": (
        {
            "tensors": [],
            "outputs": [],
            "ops": [{"inputs": [], "outputs": [], "body": body} for body in ("a/b", "a", "", "a")],
        },
        "op 'op3' is of body 'a', between whose ops op 'op2' runs; ops of a body must be listed one after the other",
    ),
    "a body inside that is left": (
        {
            "tensors": [],
            "outputs": [],
            "ops": [{"inputs": [], "outputs": [], "body": body} for body in ("a/b", "a", "a/b")],
        },
        "op 'op2' is of body 'a/b', between whose ops op 'op1' runs",
    ),
    "a body without a name": (changed("ops.1.body", "a//b"), "op 'view': body must be names with / between them"),
    "too many bodies": (changed("ops.1.body", "a/" * 100 + "a"), "op 'view' is in more than 100 bodies"),
    "empty tensor name": (changed("tensors.1.name", ""), "tensor 1 has an empty name"),
    "two tensors of a name": (changed("tensors.1.name", "x"), "two tensors are named 'x'"),
    "empty op name": (changed("ops.1.name", ""), "op 1 has an empty name"),
    "two ops of a name": (changed("ops.1.name", "conv"), "two ops are named 'conv'"),
    "a given name meets a made one": (
        small() | {"ops": [{"inputs": [], "outputs": []}, {"name": "op0", "inputs": [], "outputs": []}]},
        "two ops are named 'op0'",
    ),
    "unknown input": (changed("ops.1.inputs", ["nope"]), "op 'view': input 'nope' is not among the graph's tensors"),
    "unknown output": (changed("ops.1.outputs", ["nope"]), "op 'view': output 'nope' is not among"),
    "unknown view": (changed("ops.1.alias.0.input", "nope"), "op 'view': alias 'nope' is not among"),
    "unknown graph output": (changed("outputs", ["nope"]), "graph output 'nope' is not among the graph's tensors"),
    "input written": (changed("ops.1.outputs", ["v", "x"]), "op 'view' writes tensor 'x', which is an input"),
    "weight written": (changed("ops.1.outputs", ["v", "w"]), "op 'view' writes tensor 'w', which is a weight"),
    "written twice": (
        changed("ops.2.outputs", ["y", "t"]),
        "tensor 't' is written twice, by op 'conv' and by op 'relu'",
    ),
    "written twice by one op": (changed("ops.2.outputs", ["y", "y"]), "tensor 'y' is written twice, by op 'relu'"),
    "never written": (changed("ops.2.outputs", []), "tensor 'y' is an output that no op writes"),
    "intermediate never written": (
        small() | {"tensors": [*small()["tensors"], {"name": "u", "bytes": 1}]},
        "tensor 'u' is an intermediate that no op writes",
    ),
    "workspace never written": (
        small() | {"tensors": [*small()["tensors"], {"name": "u", "bytes": 1, "kind": "workspace"}]},
        "tensor 'u' is a workspace that no op writes",
    ),
    "use before its producer": (
        small() | {"ops": [small()["ops"][k] for k in (0, 2, 1)]},
        "op 'relu' (step 1) reads tensor 'v' before op 'view' (step 2) writes it",
    ),
    "reads its own output": (
        changed("ops.2.inputs", ["v", "y"]),
        "cycle: ops 'relu' -> 'relu'; op 'relu' reads tensor 'y', which op 'relu' writes",
    ),
    "cycle of three": (
        changed("ops.0.inputs", ["x", "y"]),
        "cycle: ops 'conv' -> 'view' -> 'relu' -> 'conv'; op 'conv' reads tensor 'y', which op 'relu' writes",
    ),
    "negative workspace": (changed("ops.0.workspace", -1), "op 'conv': workspace must be >= 0 bytes, got -1"),
    "workspace read": (
        changed("tensors.2.kind", "workspace"),
        "op 'view' reads tensor 't', the workspace of op 'conv'; a workspace lives in its op alone",
    ),
    "workspace as output": (
        changed("tensors.4.kind", "workspace"),
        "tensor 'y' is a workspace and cannot be a graph output",
    ),
    "alias of no input": (
        changed("ops.1.alias.0.input", "x"),
        "op 'view': alias input tensor 'x' is not an input of that op",
    ),
    "alias of no output": (
        changed("ops.1.alias.0.output", "y"),
        "op 'view': alias output tensor 'y' is not an output of that op",
    ),
    "in place of no input": (
        changed("ops.2.inplace.0.input", "t"),
        "op 'relu': inplace input tensor 't' is not an input of that op",
    ),
    "two views of one output": (
        changed("ops.1.alias", [{"output": "v", "input": "t"}, {"output": "v", "input": "t", "offset": 16}]),
        "op 'view': tensor 'v' is placed by two views",
    ),
    "alias and overwrite of one output": (
        changed("ops.1.overwrite", [{"output": "v", "input": "t"}]),
        "op 'view': tensor 'v' is placed by two views",
    ),
    "alias beyond its root": (
        changed("ops.1.alias.0.offset", 17),
        "op 'view': alias puts tensor 'v' at bytes [17, 17 + 16) of tensor 't', outside its 32 bytes",
    ),
    "alias before its root": (changed("ops.1.alias.0.offset", -1), "op 'view': alias puts tensor 'v' at bytes [-1"),
    "alias offset near int64": (changed("ops.1.alias.0.offset", BIG), "op 'view': alias puts tensor 'v'"),
    "alias larger than its root": (changed("tensors.3.bytes", 33), "op 'view': alias puts tensor 'v'"),
}


@pytest.mark.parametrize("rule", RULES)
def test_rule(rule: str) -> None:
    spec, message = RULES[rule]
    with pytest.raises(memplan.errors.GraphError, match=re.escape(message)):
        memplan.capture(spec)


def test_a_view_of_a_view_stays_inside_both() -> None:
    look = {"name": "again", "inputs": ["v"], "outputs": ["u"], "alias": [{"output": "u", "input": "v", "offset": 8}]}
    inside = memplan.capture(with_op(look, {"name": "u", "bytes": 8})).graph
    assert _core.buffers_of(inside).offset_in_buffer.tolist()[-1] == 16
    look["alias"] = [{"output": "u", "input": "v", "offset": 16}]
    with pytest.raises(
        memplan.errors.GraphError, match=r"of tensor 'v', outside its 16 bytes; to view more .* make tensor 't'"
    ):
        memplan.capture(with_op(look, {"name": "u", "bytes": 8}))


def test_an_acyclic_graph_out_of_order_is_not_called_cyclic() -> None:
    spec = small()
    spec["ops"].reverse()
    with pytest.raises(memplan.errors.GraphError, match="ops must be listed in execution order") as error:
        memplan.capture(spec)
    assert "cycle" not in str(error.value)


def test_a_long_chain_out_of_order_is_no_trouble() -> None:
    count = 50_000
    tensors = [{"name": f"t{k}", "bytes": 1} for k in range(count)]
    ops = [{"name": f"op{k}", "inputs": [f"t{k - 1}"] if k else [], "outputs": [f"t{k}"]} for k in range(count)]
    with pytest.raises(memplan.errors.GraphError, match="execution order"):
        memplan.capture({"tensors": tensors, "ops": ops[::-1], "outputs": []})


# Overwrites


def overwriting(*more_ops: Dict, outputs: tuple[str, ...] = (), **tensors: int) -> Dict:
    """`write` makes t (16 bytes), `set` overwrites bytes [4, 8) of it with z; then more ops."""
    return {
        "tensors": [
            {"name": "t", "bytes": 16},
            {"name": "z", "bytes": 4},
            *({"name": name, "bytes": size} for name, size in tensors.items()),
        ],
        "ops": [
            {"name": "write", "inputs": [], "outputs": ["t"]},
            graphs.op("set", "t", "z", overwrite=["z t 4"]),
            *more_ops,
        ],
        "outputs": list(outputs),
    }


def test_reading_an_overwritten_value_is_refused() -> None:
    spec = overwriting({"name": "late", "inputs": ["t"], "outputs": ["y"]}, y=1)
    with pytest.raises(
        memplan.errors.GraphError, match="op 'late' reads tensor 't' after op 'set' has overwritten its bytes"
    ):
        memplan.capture(spec)


def test_an_overwritten_output_is_refused() -> None:
    with pytest.raises(memplan.errors.GraphError, match="output tensor 't' after op 'set' has overwritten its bytes"):
        memplan.capture(overwriting(outputs=("t",)))


def test_an_old_view_of_overwritten_bytes_is_refused() -> None:
    spec = overwriting({"name": "late", "inputs": ["v"], "outputs": ["y"]}, v=8, y=1)
    look = {"name": "look", "inputs": ["t"], "outputs": ["v"], "alias": [{"output": "v", "input": "t"}]}
    spec["ops"].insert(1, look)
    with pytest.raises(
        memplan.errors.GraphError, match="op 'late' reads tensor 'v' after op 'set' has overwritten its bytes"
    ):
        memplan.capture(spec)
    look["alias"][0]["offset"] = 8  # beside the bytes that are overwritten
    memplan.plan(spec).verify()


def test_a_tensor_without_bytes_is_never_overwritten() -> None:
    spec = overwriting({"name": "late", "inputs": ["v"], "outputs": ["y"]}, v=0, y=1)
    look = {"name": "look", "inputs": ["t"], "outputs": ["v"], "alias": [{"output": "v", "input": "t", "offset": 6}]}
    spec["ops"].insert(1, look)
    memplan.plan(spec).verify()


def test_an_overwrite_of_no_bytes_destroys_nothing() -> None:
    spec = overwriting({"name": "late", "inputs": ["t"], "outputs": ["y"]}, y=1)
    spec["tensors"][1]["bytes"] = 0
    memplan.plan(spec).verify()


def test_the_new_value_may_be_read_and_overwritten_again() -> None:
    again = graphs.op("again", "z", "u", overwrite=["u z 1"])
    spec = overwriting(again, outputs=("u",), u=2)
    plan = memplan.plan(spec)
    assert [(slot.name, slot.first, slot.last) for slot in plan] == [("t", 0, 3)]
    assert plan["u"].offset == plan["t"].offset + 5


def test_two_overwrites_of_the_same_bytes_in_one_op_are_refused() -> None:
    spec = overwriting(z2=4)
    spec["ops"][1]["outputs"].append("z2")
    spec["ops"][1]["overwrite"].append({"output": "z2", "input": "t", "offset": 6})
    with pytest.raises(memplan.errors.GraphError, match=r"op 'set'.*tensor 'z"):
        memplan.capture(spec)


def test_an_op_that_overwrites_what_it_also_returns_as_a_view_is_refused() -> None:
    spec = overwriting(v=8)
    spec["ops"][1]["outputs"].append("v")
    spec["ops"][1]["alias"] = [{"output": "v", "input": "t", "offset": 0}]
    with pytest.raises(memplan.errors.GraphError, match=r"op 'set'.*tensor 'v'"):
        memplan.capture(spec)


# Storages


def test_roots_and_offsets_add_up_along_views() -> None:
    again = {"name": "again", "inputs": ["v"], "outputs": ["u"], "alias": [{"output": "u", "input": "v", "offset": 3}]}
    graph = memplan.capture(with_op(again, {"name": "u", "bytes": 2})).graph
    buffers = _core.buffers_of(graph, _core.StorageOptions(inplace=False))
    roots, offsets = buffers.root_of_tensor, buffers.offset_in_buffer
    assert (roots.dtype, offsets.dtype) == (np.int32, np.int64)
    assert roots.tolist() == [0, 1, 2, 2, 4, 2]
    assert offsets.tolist() == [0, 0, 0, 8, 0, 11]


def test_views_get_no_buffer_and_lie_inside_their_root() -> None:
    plan = memplan.plan(small(), inplace=False)
    assert [slot.name for slot in plan] == ["t", "y", "conv.workspace"]
    assert plan["v"].offset == plan["t"].offset + 8
    assert plan["v"].bytes == 16


def test_inplace_takes_the_input_unless_it_is_switched_off() -> None:
    plan = memplan.plan(small())
    assert plan["y"].offset == plan["v"].offset == plan["t"].offset + 8
    apart = memplan.plan(small(), inplace=False)
    assert not apart["t"].offset < apart["y"].end <= apart["t"].end


# Lifetimes


def test_lifetimes_of_all_kinds() -> None:
    assert lifetimes(small()) == {"x": (0, 1), "w": (0, 3), "t": (0, 3), "y": (2, 3), "conv.workspace": (0, 1)}


def test_only_the_placed_kinds_get_buffers() -> None:
    assert list(lifetimes(small(), ())) == []
    assert list(lifetimes(small(), ("weight",))) == ["w"]
    assert list(lifetimes(small(), ("output", "input"))) == ["x", "y"]
    assert [slot.name for slot in memplan.plan(small(), inplace=False)] == ["t", "y", "conv.workspace"]


def test_outputs_live_to_the_end() -> None:
    assert lifetimes(changed("outputs", ["t", "y"]))["t"] == (0, 3)
    more = with_op({"name": "last", "inputs": [], "outputs": ["u"]}, {"name": "u", "bytes": 1})
    assert lifetimes(more)["y"] == (2, 4)


def test_a_view_that_is_an_output_keeps_its_root_alive() -> None:
    more = with_op({"name": "last", "inputs": [], "outputs": ["u"]}, {"name": "u", "bytes": 1}, outputs=("v", "y"))
    assert lifetimes(more)["t"] == (0, 4)
    assert "t" in lifetimes(more, ("output",))


def test_an_output_that_is_an_input_stays_an_input() -> None:
    spec = changed("outputs", ["y", "x"])
    assert lifetimes(spec, ("input",)) == {"x": (0, 3)}
    assert memplan.capture(spec).graph.tensors[0].kind == "input"


def test_what_is_never_read_lives_in_its_op() -> None:
    spec = with_op({"name": "last", "inputs": [], "outputs": []})
    spec["tensors"].append({"name": "u", "bytes": 1})
    spec["ops"][1]["outputs"].append("u")
    assert lifetimes(spec)["u"] == (1, 2)


def test_inputs_live_from_the_beginning_even_unread() -> None:
    spec = small()
    spec["tensors"].append({"name": "unread", "bytes": 1, "kind": "input"})
    spec["ops"][2]["inputs"].append("x")
    assert lifetimes(spec) == {
        "x": (0, 3),
        "w": (0, 3),
        "t": (0, 3),
        "y": (2, 3),
        "unread": (0, 1),
        "conv.workspace": (0, 1),
    }


def test_a_workspace_tensor_lives_in_its_op() -> None:
    spec = small()
    spec["tensors"].append({"name": "scratch", "bytes": 5, "kind": "workspace"})
    spec["ops"][1]["outputs"].append("scratch")
    assert lifetimes(spec, ("workspace",)) == {"scratch": (1, 2), "conv.workspace": (0, 1)}


def test_graphs_without_ops() -> None:
    spec = {"tensors": [{"name": "x", "bytes": 3, "kind": "input"}], "ops": [], "outputs": ["x"]}
    assert lifetimes(spec) == {"x": (0, 1)}
    assert len(memplan.plan({"tensors": [], "ops": [], "outputs": []})) == 0


def test_a_workspace_keeps_clear_of_a_tensor_of_its_name() -> None:
    spec = with_op(
        {"name": "last", "inputs": [], "outputs": ["conv.workspace"]}, {"name": "conv.workspace", "bytes": 1}
    )
    assert [slot.name for slot in memplan.plan(spec, inplace=False)] == ["t", "y", "conv.workspace", "conv.workspace_"]


def test_planners_of_lifetimes_refuse_several_streams() -> None:
    """Two branches on two streams, whose tensors do not live together in the order of the list."""
    branch = {"name": "side", "inputs": ["x"], "outputs": ["u"], "stream": 3}
    spec = with_op(branch, {"name": "u", "bytes": 8})
    assert memplan.capture(spec).graph.ops[3].stream == 3
    with pytest.raises(memplan.errors.UnsupportedError, match="planner 'first_fit' does not support conflicts"):
        memplan.plan(spec, "first_fit")
    memplan.plan(spec).verify()


def test_streams_whose_ops_wait_for_each_other_are_as_one() -> None:
    spec = changed("ops.1.stream", 3)
    assert memplan.plan(spec).problem.conflicts is None
    memplan.plan(spec, "first_fit").verify()


def test_one_stream_of_any_number_is_fine() -> None:
    spec = small()
    for op in spec["ops"]:
        op["stream"] = 7
    memplan.plan(spec).verify()


def test_sizes_whose_sum_overflows_are_refused() -> None:
    spec = changed("tensors.2.bytes", 2**62)
    spec["tensors"][4]["bytes"] = 2**62
    with pytest.raises(memplan.errors.ProblemError, match=r"add up to at most 2\^63 - 1 bytes.*\(buffer 'y'\)"):
        memplan.plan(spec)


def test_more_bytes_than_the_shape_takes_are_padding() -> None:
    for dtype in ("float32", "a dtype of its own"):
        graph = memplan.capture(
            changed("tensors.1", {"name": "w", "kind": "weight", "bytes": 32, "shape": [3], "dtype": dtype})
        ).graph
        assert graph.tensors[1].bytes == 32


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('{"tensors": [], "ops": [], "outputs": [], "ops": []}', "the file has the key 'ops' more than once"),
        ('{"tensors": [{"name": "x"}, {"name": "y", "bytes": 1, "bytes": 2}]}', r"tensors\[1\] has the key 'bytes'"),
        ('{"ops": [{"alias": [{"output": 1, "output": 1}]}]}', r"ops\[0\]\.alias\[0\] has the key 'output'"),
        ('{"ops": {"a": 1, "a": 2}, "ops": 3}', "the file has the key 'ops'"),
        ('{"a\\u001b": 1, "a\\u001b": 1}', r"the file has the key 'a\\x1b'"),
        ('[{"a": 1, "a": 2}]', r"\[0\] has the key 'a'"),
    ],
)
@pytest.mark.parametrize("read", [memplan.capture, memplan.read_plan, memplan.proofs.Refutation.from_json])
def test_keys_that_come_twice(text: str, where: str, read: Any, tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_text(text)
    with pytest.raises(memplan.errors.SourceError, match=f"file.json: {where}"):
        read(path)


@pytest.mark.parametrize("offset", [-1, 1, 16, 2**62])
def test_in_place_outside_the_input(offset: int) -> None:
    tensors = [{"name": "x", "bytes": 16, "kind": "input"}, {"name": "y", "bytes": 16}]
    inplace = [{"output": "y", "input": "x", "offset": offset}]
    ops = [{"name": "f", "inputs": ["x"], "outputs": ["y"], "inplace": inplace}]
    message = f"op 'f': inplace puts tensor 'y' at bytes [{offset}, {offset} + 16) of tensor 'x', outside its 16 bytes"
    with pytest.raises(memplan.errors.GraphError, match=re.escape(message)):
        memplan.capture({"tensors": tensors, "ops": ops, "outputs": ["y"]})


# The objects


def test_graphs_pickle_compare_and_show() -> None:
    graph = memplan.capture(small()).graph
    for other in (pickle.loads(pickle.dumps(graph)), copy.deepcopy(graph), memplan.capture(small()).graph):
        assert other == graph
    assert graph != memplan.capture(changed("tensors.0.bytes", 17)).graph
    assert graph != memplan.capture(changed("ops.1.alias.0.offset", 7)).graph
    assert graph != "graph"
    assert repr(graph) == "<memplan.Graph: 5 tensors, 3 ops, 1 outputs>"


def test_tensors_and_ops_pickle_compare_and_show() -> None:
    graph = memplan.capture(small()).graph
    for thing in (*graph.tensors, *graph.ops):
        assert pickle.loads(pickle.dumps(thing)) == thing
        assert thing != 3
    assert graph.tensors[0] != graph.tensors[1]
    assert graph.ops[0] != graph.ops[1]
    assert repr(graph.tensors[1]) == "Tensor('w', bytes=8, kind='weight')"
    assert repr(graph.ops[0]) == "Op('conv', type='Conv')"


def test_graph_from_objects() -> None:
    tensors = [memplan.Tensor("x", 4, "input"), memplan.Tensor("y", 4)]
    graph = memplan.Graph(tensors, [memplan.Op("relu", "Relu", ["x"], ["y"])], ["y"])
    assert graph.index("y") == 1
    assert graph.index("nope") is None
    assert memplan.plan(graph).peak == 4


def test_graphs_cannot_be_changed() -> None:
    graph = memplan.capture(small()).graph
    graph.tensors.clear()
    graph.ops.clear()
    graph.outputs.clear()
    assert graph == memplan.capture(small()).graph
    with pytest.raises(AttributeError):
        graph.tensors[0].bytes = 1


@pytest.mark.parametrize(
    "error",
    [
        memplan.errors.GraphError,
        memplan.errors.ProblemError,
        memplan.errors.UnsupportedError,
        memplan.errors.InvalidPlanError,
    ],
)
def test_errors_are_value_errors_that_pickle(error: type[Exception]) -> None:
    assert issubclass(error, ValueError)
    assert str(pickle.loads(pickle.dumps(error("why")))) == "why"


def test_a_long_cycle_is_shortened() -> None:
    count = 1000
    tensors = [{"name": f"t{k}", "bytes": 1} for k in range(count)]
    ops = [{"name": f"op{k}", "inputs": [f"t{k - 1}"], "outputs": [f"t{k}"]} for k in range(count)]
    ops[0]["inputs"] = [f"t{count - 1}"]
    with pytest.raises(memplan.errors.GraphError, match=r"'op0' -> 'op1' -> .* -> \(989 more\) -> 'op0'") as caught:
        memplan.capture({"tensors": tensors, "ops": ops, "outputs": []})
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("relation", ["alias", "overwrite"])
def test_a_workspace_is_no_view(relation: str) -> None:
    look = {"name": "look", "inputs": ["t"], "outputs": ["u"], relation: [{"output": "u", "input": "t", "offset": 0}]}
    with pytest.raises(memplan.errors.GraphError, match=f"workspace tensor 'u' cannot be an {relation} of tensor 't'"):
        memplan.capture(with_op(look, {"name": "u", "bytes": 8, "kind": "workspace"}))
