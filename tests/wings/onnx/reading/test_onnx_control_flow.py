"""If, Loop and Scan in the ONNX importer: what they read, the room their bodies need, the states they keep."""

from __future__ import annotations

import numpy as np
import pytest

import memplan
from builders.onnx_models import BOOL, I64, const, graph, kinds, model, node, ops, sizes, value
from memplan.errors import SourceError
from memplan.onnx.reading import import_onnx


def tensor(name, elements, kind="intermediate"):
    return {"name": name, "bytes": 4 * elements, "kind": kind}


def op(name, inputs, outputs, workspace=0, alias=()):
    return {"name": name, "inputs": inputs, "outputs": outputs, "workspace": workspace, "alias": list(alias)}


def branch(name, sizes_, captured="x"):
    """A chain of Tiles from a captured value of one element, through the sizes, to an output of 4 elements."""
    nodes, weights, last = [], [], captured
    for i, size in enumerate([*sizes_, 4]):
        weights.append(const(f"{name}_to{i}", [size]))
        out = f"{name}_{i}"
        nodes += [
            node("ReduceMax", [last], [f"{out}_max"], keepdims=0),
            node("Expand", [f"{out}_max", weights[-1].name], [out]),
        ]
        last = out
    return graph(nodes, [], [value(last, None)], weights)


def branch_dict(name, sizes_, elements):
    tensors, steps, last = [tensor("x", elements, "input")], [], "x"
    for i, size in enumerate([*sizes_, 4]):
        out = f"{name}_{i}"
        tensors += [
            {"name": f"{name}_to{i}", "bytes": 8, "kind": "weight"},
            tensor(f"{out}_max", 1),
            tensor(out, size),
        ]
        steps += [op(f"m{i}", [last], [f"{out}_max"]), op(f"e{i}", [f"{out}_max", f"{name}_to{i}"], [out])]
        last = out
    return {"tensors": tensors, "ops": steps, "outputs": [last]}


def test_if_reads_what_its_branches_capture_and_has_room_for_the_larger():
    nodes = [
        node("Relu", ["x0"], ["x"]),
        node("If", ["c"], ["y"], then_branch=branch("t", [100, 200]), else_branch=branch("e", [50]), name="if"),
    ]
    result = import_onnx(model(nodes, [value("c", [], BOOL), value("x0", [16])], [value("y", None)]))
    if_op = ops(result)["if"]
    assert if_op["inputs"] == ["c", "x"]
    peaks = [
        memplan.plan(branch_dict("t", [100, 200], 16)).peak,
        memplan.plan(branch_dict("e", [50], 16)).peak,
    ]
    assert peaks[0] > peaks[1] > 0
    assert if_op["workspace"] == peaks[0]
    assert sizes(result)["y"] == 16
    assert set(sizes(result)) == {"c", "x0", "x", "y"}


def test_branches_may_use_the_same_names_and_captured_weights():
    nodes = [
        node(
            "If",
            ["c"],
            ["y"],
            then_branch=branch("b", [8], "w"),
            else_branch=branch("b", [999], "x"),
            name="if",
        )
    ]
    source = model(
        nodes,
        [value("c", [], BOOL), value("x", [2])],
        [value("y", None)],
        [const("w", [1.0], np.float32)],
    )
    result = import_onnx(source)
    assert sorted(ops(result)["if"]["inputs"]) == ["c", "w", "x"]
    assert ops(result)["if"]["workspace"] == memplan.plan(branch_dict("b", [999], 2)).peak


def test_branches_that_only_pass_something_on():
    then = graph([], [], [value("x", [4])])
    other = graph([node("Constant", [], ["k"], value_floats=[0.0] * 4)], [], [value("k", [4])])
    nodes = [node("If", ["c"], ["y"], then_branch=then, else_branch=other, name="if")]
    result = import_onnx(model(nodes, [value("c", [], BOOL), value("x", [4])], [value("y", None)]))
    assert ops(result)["if"]["inputs"] == ["c", "x"]
    assert ops(result)["if"]["workspace"] == 0
    assert sizes(result)["y"] == 16


def test_branches_of_different_shapes_are_refused():
    nodes = [
        node("If", ["c"], ["y"], name="if",
             then_branch=graph([node("Relu", ["x"], ["a"])], [], [value("a", None)]),
             else_branch=graph([node("Concat", ["x", "x"], ["b"], axis=0)], [], [value("b", None)]))
    ]  # fmt: skip
    with pytest.raises(SourceError, match=r"'y', written by node 'if' \(If\), has no known size"):
        import_onnx(model(nodes, [value("c", [], BOOL), value("x", [4])], [value("y", None)]))


def test_bodies_see_small_constants_from_outside():
    body = graph([node("Reshape", ["x", "to"], ["r"]), node("Relu", ["r"], ["b"])], [], [value("b", None)])
    nodes = [node("If", ["c"], ["y"], then_branch=body, else_branch=body, name="if")]
    source = model(nodes, [value("c", [], BOOL), value("x", [6])], [value("y", None)], [const("to", [2, -1])])
    result = import_onnx(source)
    assert result["tensors"][-1]["shape"] == [2, 3]
    assert ops(result)["if"]["inputs"] == ["c", "x", "to"]
    assert kinds(result)["to"] == "weight"


def loop_body(nodes, state="h", infos=(), collected=()):
    inputs = [value("i", [], I64), value("go", [], BOOL), value(state, None)]
    outputs = [value("go_on", [], BOOL), value("h_next", None), *collected]
    return graph([node("Identity", ["go"], ["go_on"]), *nodes], inputs, outputs, infos=infos)


def loop_model(final="last", trips=5, body=None, opset=21):
    body = body or loop_body(
        [node("MatMul", ["h", "w"], ["m"]), node("Relu", ["m"], ["h_next"]), node("Neg", ["m"], ["item"])],
        collected=[value("item", None)],
    )
    nodes = [
        node("Relu", ["x"], ["first"]),
        node("Loop", ["trips", "", "first"], [final, "all"], body=body, name="loop"),
        node("Relu", ["all"], ["y"]),
    ]
    weights = [const("trips", trips), const("w", np.zeros((6, 6)), np.float32)]
    return model(nodes, [value("x", ["n", 6])], [value("y", None)], weights, opset=opset)


LOOP_BODY = {
    "tensors": [
        tensor("w", 36, "weight"),
        {"name": "i", "bytes": 8, "kind": "input"},
        {"name": "go", "bytes": 1, "kind": "input"},
        tensor("h", 18, "input"),
        {"name": "go_on", "bytes": 1},
        tensor("m", 18),
        tensor("h_next", 18),
        tensor("item", 18),
    ],
    "ops": [
        op("id", ["go"], ["go_on"], alias=[{"output": "go_on", "input": "go", "offset": 0}]),
        op("mm", ["h", "w"], ["m"]),
        op("relu", ["m"], ["h_next"]),
        op("neg", ["m"], ["item"]),
    ],
    "outputs": ["go_on", "h_next", "item"],
}


@pytest.mark.parametrize("opset", [8, 11, 13, 21])
def test_loop_states_keep_their_shape_and_collected_values_have_the_trip_count(opset):
    result = import_onnx(loop_model(opset=opset), dims={"n": 3})
    shapes = {t["name"]: t["shape"] for t in result["tensors"]}
    assert shapes["last"] == [3, 6]
    assert shapes["all"] == shapes["y"] == [5, 3, 6]
    loop = ops(result)["loop"]
    assert loop["inputs"] == ["trips", "first", "w"]
    assert loop["workspace"] == memplan.plan(LOOP_BODY).peak > 0


def test_state_whose_last_value_is_not_asked_for_is_stored():
    result = import_onnx(loop_model(final=""), dims={"n": 3})
    hidden = ops(result)["loop"]["outputs"][0]
    assert hidden not in {"", "all"}
    assert sizes(result)[hidden] == 4 * 18


def test_computed_trip_count():
    body = loop_body([node("Relu", ["h"], ["h_next"]), node("Neg", ["h"], ["item"])], collected=[value("item", None)])
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["trips"]),
        node("Loop", ["trips", "", "x"], ["last", "y"], body=body),
    ]
    source = model(nodes, [value("x", ["n", 6])], [value("y", None)], [const("zero", 0)])
    assert sizes(import_onnx(source, dims={"n": 3}))["y"] == 3 * 3 * 6 * 4


@pytest.mark.parametrize("trips", [2**63 - 1, None])
def test_collected_values_of_an_endless_loop_have_no_known_size(trips):
    source = loop_model(trips=trips or 1)
    if trips is None:
        source.graph.node[1].input[0] = ""
    with pytest.raises(SourceError, match=r"'all', written by node 'loop' \(Loop\), has no known size"):
        import_onnx(source, dims={"n": 3})


def test_state_that_grows_is_refused():
    body = loop_body([node("Concat", ["h", "h"], ["h_next"], axis=0)])
    nodes = [node("Loop", ["trips", "", "x"], ["y"], body=body, name="loop")]
    source = model(nodes, [value("x", [2])], [value("y", None)], [const("trips", 3)])
    with pytest.raises(SourceError, match=r"state 'h' of node 'loop' \(Loop\) changes its shape.*\[2\] to \[4\]"):
        import_onnx(source)


def test_loop_state_passed_through_and_given_twice():
    body = graph(
        [],
        [value("i", [], I64), value("go", [], BOOL), value("h", None)],
        [value("go", [], BOOL), value("h", None), value("h", None)],
    )
    nodes = [node("Loop", ["trips", "", "x"], ["y", "z"], body=body)]
    source = model(nodes, [value("x", [2])], [value("y", None), value("z", None)], [const("trips", 3)])
    assert sizes(import_onnx(source)) == {"x": 8, "trips": 8, "y": 8, "z": 24}


def test_chained_loops():
    body = loop_body([node("Relu", ["h"], ["h_next"])])
    nodes = [node("Loop", ["trips", "", f"x{i}"], [f"x{i + 1}"], body=body) for i in range(6)]
    source = model(nodes, [value("x0", [7])], [value("x6", None)], [const("trips", 2)])
    assert sizes(import_onnx(source))["x6"] == 28


def test_if_inside_loop():
    small = graph([node("Relu", ["h"], ["t"])], [], [value("t", None)])
    large = graph([node("MatMul", ["h", "w"], ["e1"]), node("Relu", ["e1"], ["e2"])], [], [value("e2", None)])
    body = loop_body([node("If", ["go"], ["h_next"], then_branch=small, else_branch=large, name="choose")])
    nodes = [node("Loop", ["trips", "", "x"], ["y"], body=body, name="loop")]
    weights = [const("trips", 3), const("w", np.zeros((5, 5)), np.float32)]
    result = import_onnx(model(nodes, [value("x", [4, 5])], [value("y", None)], weights))
    loop = ops(result)["loop"]
    assert loop["inputs"] == ["trips", "x", "w"]
    branch_spec = {
        "tensors": [tensor("h", 20, "input"), tensor("w", 25, "weight"), tensor("e1", 20), tensor("e2", 20)],
        "ops": [op("a", ["h", "w"], ["e1"]), op("b", ["e1"], ["e2"])],
        "outputs": ["e2"],
    }
    body_spec = {
        "tensors": [
            {"name": "go", "bytes": 1, "kind": "input"}, {"name": "go_on", "bytes": 1},
            tensor("h", 20, "input"), tensor("w", 25, "weight"), tensor("h_next", 20),
        ],
        "ops": [
            op("id", ["go"], ["go_on"], alias=[{"output": "go_on", "input": "go", "offset": 0}]),
            op("choose", ["go", "h", "w"], ["h_next"], memplan.plan(branch_spec).peak),
        ],
        "outputs": ["go_on", "h_next"],
    }  # fmt: skip
    assert loop["workspace"] == memplan.plan(body_spec).peak == 80 + 160


def test_trouble_in_a_body_says_where():
    body = loop_body([node("NonZero", ["h"], ["nz"], name="find"), node("Relu", ["h"], ["h_next"])])
    nodes = [node("Loop", ["trips", "", "x"], ["y"], body=body, name="loop")]
    source = model(nodes, [value("x", [4])], [value("y", None)], [const("trips", 3)])
    with pytest.raises(SourceError, match=r"in body of node 'loop' \(Loop\): tensor 'nz', written by node 'find'"):
        import_onnx(source)


def scan_model(final="last", next_state=None):
    body = graph(
        [node("Add", ["h", "step"], ["sum"]), next_state or node("Mul", ["sum", "w"], ["h_next"])],
        [value("h", None), value("step", None)],
        [value("h_next", None), value("sum", None)],
    )
    nodes = [
        node(
            "Scan",
            ["x0", "steps"],
            [final, "all"],
            body=body,
            num_scan_inputs=1,
            scan_input_axes=[1],
            name="scan",
        )
    ]
    inputs = [value("x0", ["n"]), value("steps", ["n", "t"])]
    return model(nodes, inputs, [value("all", None)], [const("w", 2.0, np.float32)])


def test_scan():
    result = import_onnx(scan_model(), dims={"n": 4, "t": 9})
    shapes = {t["name"]: t["shape"] for t in result["tensors"]}
    assert (shapes["last"], shapes["all"]) == ([4], [9, 4])
    body = {
        "tensors": [
            tensor("w", 1, "weight"), tensor("h", 4, "input"), tensor("step", 4, "input"),
            tensor("sum", 4), tensor("h_next", 4),
        ],
        "ops": [op("add", ["h", "step"], ["sum"]), op("mul", ["sum", "w"], ["h_next"])],
        "outputs": ["h_next", "sum"],
    }  # fmt: skip
    assert ops(result)["scan"]["inputs"] == ["x0", "steps", "w"]
    assert ops(result)["scan"]["workspace"] == memplan.plan(body).peak == 32


def test_scan_state_whose_last_value_is_not_asked_for_is_stored():
    result = import_onnx(scan_model(final=""), dims={"n": 4, "t": 9})
    assert [sizes(result)[name] for name in ops(result)["scan"]["outputs"]] == [16, 144]


def test_scan_state_that_grows_is_refused():
    source = scan_model(next_state=node("Concat", ["sum", "sum"], ["h_next"], axis=0))
    with pytest.raises(SourceError, match=r"'scan' \(Scan\)"):
        import_onnx(source, dims={"n": 4, "t": 9})


def test_graphs_of_other_operators_are_refused():
    body = graph([node("Relu", ["x"], ["b"])], [], [value("b", None)])
    nodes = [node("BeamSearch", ["x"], ["y"], domain="com.microsoft", decoder=body, name="beam")]
    source = model(nodes, [value("x", [1])], [value("y", [1])], domains=["com.microsoft"])
    with pytest.raises(SourceError, match=r"'beam' \(BeamSearch\) holds the graphs \[decoder\]"):
        import_onnx(source)


def test_body_that_does_not_fit_its_node():
    source = loop_model()
    del source.graph.node[1].input[2]
    with pytest.raises(SourceError, match=r"'loop' \(Loop\) has 2 inputs and 2 outputs, which does not fit"):
        import_onnx(source, dims={"n": 3})


def test_dims_bind_inside_bodies():
    body = loop_body([node("Magic", ["h"], ["h_next"], domain="mine")], infos=[])
    body.output[1].CopyFrom(value("h_next", ["n", 6]))
    nodes = [node("Loop", ["trips", "", "x"], ["y"], body=body)]
    source = model(nodes, [value("x", ["n", 6])], [value("y", None)], [const("trips", 2)], domains=["mine"])
    assert sizes(import_onnx(source, dims={"n": 3}))["y"] == 72


def test_plan_of_a_model_with_control_flow():
    plan = memplan.plan(loop_model(), dims={"n": 3})
    assert plan.peak >= plan.lower_bound > 0
    plan.verify()
