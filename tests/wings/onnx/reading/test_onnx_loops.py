"""Loops of ONNX's operators: a row of an input is poisoned, and only what is said to read it may change."""

from __future__ import annotations

import numpy as np
import pytest

import memplan
from builders.arrays import poisoned
from builders.onnx_drawn import Drawn
from builders.onnx_loops import loops_of, session_of
from builders.onnx_models import model, node, value
from builders.onnx_nodes import NODES
from builders.onnx_package_models import DATA
from memplan.onnx.reading import import_onnx
from memplan.onnx.reading.loops import _VIEWS, RULES
from oracles.loops import check_loop

onnxruntime = pytest.importorskip("onnxruntime")  # onnx's reference lacks many of the operators
reference = pytest.importorskip("onnx.reference")


def kernel(drawn):
    """ONNX Runtime, or onnx's reference for what it lacks; names of outputs as in the model."""
    model = drawn.model()
    names = [o.name for o in model.graph.output]
    try:
        session = session_of(model)
        return lambda feeds: dict(zip(names, session.run(None, feeds), strict=True))
    except Exception:  # what has no kernel there
        evaluator = reference.ReferenceEvaluator(model)
        return lambda feeds: dict(zip(names, evaluator.run(None, feeds), strict=True))


def odd(name, array, attempt):
    return np.full(array.shape, (np.inf, np.nan, 1)[attempt % 3], array.dtype)


@pytest.mark.parametrize("op_type", NODES)
def test_poisoned_rows_change_what_reads_them_and_nothing_else(op_type):
    chance, count = np.random.default_rng(len(op_type)), 0
    others = odd if op_type.startswith("Is") else poisoned
    for _ in range(8):
        drawn = NODES[op_type](chance)
        run, idle = kernel(drawn), 0
        if op_type in ("Resize", "Upsample"):  # some rows have weight 0, or are named in case float32 rounds to them
            idle = 2 if drawn.attributes["mode"] == "cubic" else 1
        with np.errstate(all="ignore"):
            for loop in loops_of(drawn):
                assert loop["extent"] >= 2
                check_loop(loop, drawn.feeds(), run, others, idle)
                count += 1
    assert count


def test_every_entry_of_the_table_is_drawn():
    assert set(NODES) == {*RULES, *_VIEWS}


def test_a_convolution_by_hand():
    """Three rows of the input for one of the output, two rows apart; channels by rows of the weight."""
    x, w, b = np.zeros((1, 4, 9, 5), np.float32), np.zeros((6, 4, 3, 3), np.float32), np.zeros(6, np.float32)
    drawn = Drawn("Conv", [x, w, b], {"strides": [2, 1], "pads": [1, 1, 1, 1]})
    assert loops_of(drawn) == [
        {"extent": 6, "reads": {"x1": [0, 1, 1, 0], "x2": [0, 1, 1, 0]}, "writes": {"y0": [1, 1]}},
        {"extent": 5, "reads": {"x0": [2, 2, 3, 1]}, "writes": {"y0": [2, 1]}},
        {"extent": 5, "reads": {"x0": [3, 1, 3, 1]}, "writes": {"y0": [3, 1]}},
        {"extent": 4, "reads": {"x0": [1, 1, 1, 0], "x1": [1, 1, 1, 0]}, "writes": {}, "sums": ["y0"]},
    ]


def test_leading_axes_are_taken_together():
    x, b = np.zeros((2, 3, 4), np.float32), np.zeros(4, np.float32)
    assert loops_of(Drawn("Add", [x, b]))[3] == {
        "extent": 6,
        "reads": {"x0": [[0, 1], 1, 1, 0]},
        "writes": {"y0": [[0, 1], 1]},
    }
    assert len(loops_of(Drawn("Add", [x, np.zeros((2, 1, 4), np.float32)]))) == 3  # it has the axes in part
    assert loops_of(Drawn("Flatten", [x], {"axis": 2})) == [
        {"extent": 2, "reads": {"x0": [0, 1, 1, 0]}, "writes": {"y0": [0, 3]}},
        {"extent": 6, "reads": {"x0": [[0, 1], 1, 1, 0]}, "writes": {"y0": [0, 1]}},
        {"extent": 4, "reads": {"x0": [2, 1, 1, 0]}, "writes": {"y0": [1, 1]}},
        {"extent": 24, "reads": {"x0": [[0, 2], 1, 1, 0]}, "writes": {"y0": [[0, 1], 1]}},
    ]


@pytest.mark.parametrize(("op_type", "rows"), [("Add", 4), ("MatMul", None)])
def test_a_tensor_that_is_read_twice(op_type, rows):
    """In one way: by rows; in two ways: whole."""
    x = value("x", [4, 4])
    loops = import_onnx(model([node(op_type, ["x", "x"], ["y"])], [x], [value("y", [4, 4])]))["ops"][0]["loops"]
    assert [loop["reads"] for loop in loops[:2]] == ([{"x": [0, 1, 1, 0]}, {"x": [1, 1, 1, 0]}] if rows else [{}, {}])
    assert not any(loop.get("sums") for loop in loops)


def test_old_ways_to_broadcast_are_not_split():
    x, b = np.zeros((3, 3, 3), np.float32), np.zeros(3, np.float32)
    assert loops_of(Drawn("Add", [x, b], {"broadcast": 1, "axis": 0}, opset=6)) == []
    assert len(loops_of(Drawn("Add", [x, x], opset=6))) == 5


def test_what_is_not_split():
    x = np.zeros((4, 4, 4, 4), np.float32)
    assert loops_of(Drawn("MaxPool", [x], {"kernel_shape": [2, 2]}, outputs=2)) == []
    train = Drawn("Dropout", [x, np.array(0.5, np.float32), np.array(True)], fixed=(1, 2))
    assert loops_of(train) == []


def test_the_core_takes_them():
    (op,) = memplan.capture(Drawn("Softmax", [np.zeros((4, 3, 2), np.float32)], {"axis": 1}).model()).graph.ops
    assert [loop.extent for loop in op.loops] == [4, 2]


def test_most_nodes_of_networks_may_be_split():
    """A softmax over all that there is may not."""
    names = ("light_densenet121", "light_inception_v1", "light_shufflenet", "light_zfnet512")
    ops = [op for name in names for op in import_onnx(DATA / "light" / f"{name}.onnx")["ops"]]
    assert {op["type"] for op in ops if "loops" not in op} == {"Softmax"}
    assert all(len(op["loops"]) <= 8 for op in ops if "loops" in op)
