"""Models of ONNX with ops in pieces: ordinary models with equal results."""

from __future__ import annotations

import numpy as np
import pytest

import memplan
from builders.onnx_models import const, graph, helper, model, node, onnx, value
from memplan.onnx.reading import imported
from memplan.onnx.running.held import estimate
from memplan.onnx.running.lean import MORE_WORK, lean_regions
from memplan.onnx.running.regions import Network, Pull, Region
from memplan.onnx.running.split import Splitter

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
    found = {}
    for k, op in enumerate(graph.ops):
        loop = next((i for i, loop in enumerate(op.loops) if [(w[1], w[2]) for w in loop.writes] == [(2, 2)]), None)
        if loop is not None:
            found[k] = loop
    return found


def in_regions(source, *regions):
    """The model with regions in pieces, along rows: (first op, end, pieces) each."""
    graph = memplan.capture(source).graph
    loops = along_rows(graph)
    found = [Region({k: loops[k] for k in range(first, end) if k in loops}, count) for first, end, count in regions]
    return Splitter(imported(source), source, graph).model(found)


def convolutions(count=3, rows=64, channels=4, **attributes):
    """Convolutions with windows of three rows, one after another."""
    chance = np.random.default_rng(0)
    attributes = {"pads": [1] * 4, **attributes}
    nodes = [node("Conv", [f"t{k}" if k else "x", f"w{k}"], [f"t{k + 1}"], **attributes) for k in range(count)]
    widths = [3, *[channels] * (count - 1), 3]
    weights = [
        const(f"w{k}", chance.uniform(-1, 1, (widths[k + 1], widths[k], 3, 3)), np.float32) for k in range(count)
    ]
    return model(nodes, [value("x", [1, 3, rows, 8])], [value(f"t{count}", [None] * 4)], weights)


def run(source, x):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return ort.InferenceSession(source.SerializeToString(), options).run(None, {"x": x})[0]


@pytest.mark.parametrize("seed", range(20))
def test_a_model_in_pieces_computes_the_same(seed):
    chance = np.random.default_rng(seed)
    source = network(chance)
    ops = len(memplan.capture(source).graph.ops)
    cut = int(chance.integers(1, ops)) if ops > 1 else 0
    regions = [(0, cut, int(chance.integers(2, 5))), (cut, ops, int(chance.integers(2, 5)))]
    found = in_regions(source, *[region for region in regions if region[0] < region[1]])
    onnx.checker.check_model(found, full_check=True)
    x = chance.standard_normal((1, 3, 16, 8)).astype(np.float32)
    np.testing.assert_allclose(run(found, x), run(source, x), rtol=1e-5, atol=1e-5)
    assert len(found.graph.node) > len(source.graph.node)


def test_rows_that_are_in_no_proportion_are_made_as_needed():
    weight = const("w", np.random.default_rng(0).uniform(-1, 1, (3, 3, 33, 1)), np.float32)
    high = model([node("Conv", ["x", "w"], ["y"])], [value("x", [1, 3, 64, 8])], [value("y", [None] * 4)], [weight])
    for source, rows, ops in ((convolutions(pads=[0] * 4, rows=23), 23, 3), (high, 64, 1)):
        found = in_regions(source, (0, ops, 3))
        x = np.random.default_rng(0).standard_normal((1, 3, rows, 8)).astype(np.float32)
        np.testing.assert_allclose(run(found, x), run(source, x), rtol=1e-5, atol=1e-5)


def test_what_adds_up_counts_each_iteration_once():
    weight = const("w", np.random.default_rng(0).uniform(-1, 1, (9, 5)), np.float32)
    nodes = [node("Exp", ["x"], ["t"]), node("MatMul", ["t", "w"], ["y"])]
    source = model(nodes, [value("x", [4, 9])], [value("y", [None] * 2)], [weight])
    graph = memplan.capture(source).graph
    columns = next(k for k, loop in enumerate(graph.ops[0].loops) if loop.writes[0][1] == 1)
    added = next(k for k, loop in enumerate(graph.ops[1].loops) if loop.sums)
    found = Splitter(imported(source), source, graph).model([Region({0: columns, 1: added}, 2)])
    x = np.random.default_rng(0).standard_normal((4, 9)).astype(np.float32)
    np.testing.assert_allclose(run(found, x), run(source, x), rtol=1e-5, atol=1e-5)


def test_pieces_read_nothing_of_each_other():
    found = in_regions(convolutions(), (0, 3, 4))
    maker = {name: k for k, one in enumerate(found.graph.node) for name in one.output}
    behind = []  # convolutions that each node needs
    for one in found.graph.node:
        before = [behind[maker[name]] for name in one.input if name in maker]
        behind.append(set().union(*before) | ({one.output[0]} if one.op_type == "Conv" else set()))
    *parts, (joined,) = [maker[name] for name in found.graph.node[-1].input], [found.graph.node[-1].op_type]
    assert joined == "Concat"
    of_parts = [behind[k] for k in parts[0]]
    assert sorted(map(len, of_parts)) == [3] * 4
    assert len(set().union(*of_parts)) == 12


def test_pieces_have_buffers_of_one_shape():
    """A runtime gives buffers again to outputs of their shape."""
    graph = memplan.capture(convolutions()).graph
    pull = Pull(Network(graph), Region(along_rows(graph), 4))
    assert {one.end - one.first for piece in pull.pieces for one in piece.values()} == {16 + 2 * 3}


def test_an_estimate_counts_buffers_that_wait_for_their_shape():
    graph = memplan.capture(convolutions(pads=[0, 1, 0, 1], rows=70)).graph  # 68 rows of t1, 66 of t2, 64 of t3
    found = estimate(Network(graph), [1.0] * 3, [Region(along_rows(graph), 2)])
    x, t1, t2, t3 = 38 * 96, 36 * 128, 34 * 128, 32 * 96  # bytes of the rows of a piece
    assert found.needs[0] == x + t1 + t2 + t3  # t2 of one piece waits for the other
    assert found.needs[2] == x + t1 + t2 + t3  # and so do x and t1


def test_regions_are_chosen_for_little_more_work():
    graph = memplan.capture(convolutions(count=4, rows=256, channels=16)).graph
    costs = [5e8] * len(graph.ops)
    network = Network(graph)
    plan = Region(along_rows(graph), 512)
    whole = estimate(network, costs, [])
    regions = lean_regions(network, costs, [plan], 0, lambda k, loop: True)
    chosen = estimate(network, costs, regions)
    assert chosen.load < 0.6 * whole.load
    assert chosen.cost <= (1 + MORE_WORK) * whole.cost
    assert lean_regions(network, costs, [plan], whole.load, lambda k, loop: True) == []
    regions = lean_regions(network, costs, [plan], 0, lambda k, loop: k != 0)
    assert regions
    assert all(0 not in region.loop_of for region in regions)


def test_weights_that_are_packed_for_each_piece_count():
    nodes = [node("MatMul", ["x", "w"], ["y"])]
    source = model(nodes, [value("x", [8, 64])], [value("y", [None, None])], [const("w", np.ones((64, 4)), np.float32)])
    graph = memplan.capture(source).graph
    rows = next(i for i, loop in enumerate(graph.ops[0].loops) if [w[1] for w in loop.writes] == [0])
    found = estimate(Network(graph), [1.0], [Region({0: rows}, 4)])
    assert found.packed == 3 * 64 * 4 * 4


def test_a_plan_with_pieces_is_written(tmp_path):
    source = convolutions(count=6, rows=512, channels=16)
    plan = memplan.fit(source, "40%", allow=("split",))
    assert any(change.kind == "split" for change in plan.changes)
    plan.to_onnx(tmp_path / "pieces.onnx")
    found = onnx.load(tmp_path / "pieces.onnx")
    x = np.random.default_rng(0).standard_normal((1, 3, 512, 8)).astype(np.float32)
    np.testing.assert_allclose(run(found, x), run(source, x), rtol=1e-5, atol=1e-5)
    assert len(found.graph.node) > len(source.graph.node)
    with pytest.raises(memplan.errors.SourceError, match="the network is not the one that was planned"):
        plan.to_onnx(tmp_path / "other.onnx", source=network(np.random.default_rng(4)))
    plan.to_json(tmp_path / "plan.json")
    memplan.read_plan(tmp_path / "plan.json").to_onnx(tmp_path / "again.onnx", source=source)
    assert onnx.load(tmp_path / "again.onnx") == found


def test_a_model_with_functions_and_branches_is_written_in_pieces(tmp_path):
    """They stand inline in the file: a branch that is never taken would read what is no longer whole."""
    source = convolutions(count=6, rows=512, channels=16)
    for weight in source.graph.initializer:  # results of about 1
        weight.CopyFrom(const(weight.name, 0.15 * onnx.numpy_helper.to_array(weight), np.float32))
    widths, nodes = [3, *[16] * 5, 3], source.graph.node
    gelu = [node("Sigmoid", ["i"], ["s"]), node("Mul", ["i", "s"], ["o"])]
    function = helper.make_function("mine", "Silu", ["i"], ["o"], gelu, [helper.make_opsetid("", 21)])
    called = node("Silu", ["t1"], ["a"], domain="mine")
    k = const("k", np.ones((widths[3], 1, 1)), np.float32)
    then = graph([node("Add", ["t3", "k"], ["b1"])], [], [value("b1", None)], [k])
    other = graph([node("Neg", ["t2"], ["b2"])], [], [value("b2", None)])
    branch = node("If", ["c"], ["b"], then_branch=then, else_branch=other)
    nodes[1].input[0], nodes[3].input[0] = "a", "b"
    ordered = [nodes[0], called, nodes[1], nodes[2], branch, *nodes[3:]]
    whole = model(
        ordered, list(source.graph.input), list(source.graph.output),
        [*source.graph.initializer, const("c", True, np.bool_)], functions=[function], domains=["mine"],
    )  # fmt: skip
    onnx.save(whole, tmp_path / "m.onnx", save_as_external_data=True, location="m.bin", size_threshold=0)
    whole = onnx.load(tmp_path / "m.onnx")
    plan = memplan.fit(tmp_path / "m.onnx", "40%", allow=("split",))
    plan.to_onnx(tmp_path / "pieces.onnx")
    found = onnx.load(tmp_path / "pieces.onnx")
    onnx.checker.check_model(found, full_check=True)
    types = [one.op_type for one in found.graph.node]
    assert types.count("Conv") > 6
    assert not {"If", "Silu"} & {*types}
    x = np.random.default_rng(0).standard_normal((1, 3, 512, 8)).astype(np.float32)
    np.testing.assert_allclose(run(found, x), run(whole, x), rtol=1e-4, atol=1e-4)
    alone = memplan.plan(whole).run(x).outputs["t6"]
    np.testing.assert_allclose(plan.run(x, check=True).outputs["t6"], alone, rtol=1e-4, atol=1e-4)


def test_a_model_of_which_no_piece_is_worth_it_stays_as_it_was(tmp_path):
    source = convolutions(rows=16)
    plan = memplan.fit(source, "least", allow=("split",))
    assert any(change.kind == "split" for change in plan.changes)
    with pytest.warns(RuntimeWarning, match="no pieces lower what a runtime holds") as warned:
        plan.to_onnx(tmp_path / "pieces.onnx")
    assert warned[0].filename == __file__
    assert len(onnx.load(tmp_path / "pieces.onnx").graph.node) == 3


def test_a_plan_that_found_no_pieces_is_written_as_any(tmp_path):
    weights = [const("w", np.ones((4, 4)), np.float32)]
    path, written = tmp_path / "model.onnx", tmp_path / "written.onnx"
    onnx.save(model([node("MatMul", ["x", "w"], ["y"])], [value("x", [4, 4])], [value("y", [4, 4])], weights), path)
    plan = memplan.fit(path, "least", allow=("split",))
    assert plan.changes == ()
    plan.to_onnx(written)
    assert [each.op_type for each in onnx.load(written).graph.node] == ["MatMul"]
