"""Plans of ONNX with ops in pieces, run: results are those of the model."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

import memplan
from builders.onnx_models import const, model, node, onnx, value
from builders.onnx_nodes import NODES
from builders.onnx_random import Maker
from builders.onnx_running import fed, wanted
from builders.splitting import in_blocks, in_random_pieces
from memplan.errors import UnsupportedError


def convolutions(rows: int = 32, count: int = 3) -> Any:
    """Convolutions with windows of three rows, one after another, whose results are added up with their input."""
    chance = np.random.default_rng(0)
    nodes = [node("Conv", [f"t{k}" if k else "x", f"w{k}"], [f"t{k + 1}"], pads=[1] * 4) for k in range(count)]
    nodes.append(node("Add", [f"t{count}", "x"], ["y"]))
    widths = [3, *[8] * (count - 1), 3]
    weights = [
        const(f"w{k}", chance.uniform(-1, 1, (widths[k + 1], widths[k], 3, 3)), np.float32) for k in range(count)
    ]
    return model(nodes, [value("x", [1, 3, rows, 8])], [value("y", [None] * 4)], weights)


def head() -> Any:
    """Products whose parts add up, and a mean of rows."""
    chance = np.random.default_rng(0)
    source = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        head (float[2, 8, 16] x) => (float[2, 8, 4] y, float[2, 1, 4] mean)
        <float[64, 4] b, float[16, 64] a, float[4] c, int64[2] flat = {16, 64}, int64[3] back = {2, 8, 4},
         int64[1] axis = {1}> {
            h = MatMul(x, a)
            r = Relu(h)
            v = Reshape(r, flat)
            z = Gemm(v, b, c)
            w = Reshape(z, back)
            y = Tanh(w)
            mean = ReduceMean<keepdims=1>(y, axis)
        }""")
    shapes = {"a": (16, 64), "b": (64, 4), "c": (4,)}
    known = [tensor for tensor in source.graph.initializer if tensor.name not in shapes]
    del source.graph.initializer[:]
    source.graph.initializer.extend(known)
    source.graph.initializer.extend(const(name, chance.standard_normal(s), np.float32) for name, s in shapes.items())
    return source


def close(found: Any, expected: Any) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        if array.dtype.kind != "f":
            assert found[name].tobytes() == array.tobytes()
        else:
            near = 2e-2 if array.dtype == np.float16 else 1e-4
            np.testing.assert_allclose(found[name].astype(float), array.astype(float), rtol=near, atol=near / 10)


@pytest.mark.few(3)
@pytest.mark.parametrize("source", [convolutions(), head()], ids=["convolutions", "head"])
@pytest.mark.parametrize(
    ("capacity", "allow"),
    [
        ("least", ("split",)),
        ("60%", ("split",)),
        ("50%", ("split", "recompute", "order")),
        ("least", ("split", "offload")),
    ],
)
def test_what_fit_gives_runs(source: Any, capacity: str, allow: tuple[str, ...]) -> None:
    plan = memplan.fit(source, capacity, allow=allow)
    assert any(change.kind == "split" for change in plan.changes)
    feeds = fed(source)
    run = plan.run(feeds, check=True)
    close(run.outputs, wanted(source, feeds))
    assert run.arena_bytes == plan.peak < memplan.plan(source).peak
    close(plan.run(feeds).outputs, run.outputs)


def test_a_plan_of_a_file_runs_in_pieces(tmp_path: Path) -> None:
    source, feeds = convolutions(), fed(convolutions())
    memplan.fit(source, "least", allow=("split",)).to_json(tmp_path / "plan.json")
    plan = memplan.read_plan(tmp_path / "plan.json")
    close(plan.run(feeds, source=source, check=True).outputs, wanted(source, feeds))


def test_pieces_are_no_program_and_take_other_weights() -> None:
    source, feeds = convolutions(), fed(convolutions())
    plan = memplan.fit(source, "least", allow=("split",))
    with pytest.raises(UnsupportedError, match="ops of the plan run in pieces"):
        _ = plan.program
    other = {"w1": np.full((8, 8, 3, 3), 0.25, np.float32)}
    whole = memplan.plan(source).run(feeds, weights=other).outputs
    close(plan.run(feeds, weights=other, check=True).outputs, whole)


def test_bytes_that_die_too_soon_are_poison() -> None:
    """The rows that a piece keeps for the next one."""
    source, feeds = convolutions(), fed(convolutions())
    plan = memplan.fit(source, "least", allow=("split",))
    graph, pieces = plan.graph, plan.fitting.pieces
    assert graph is not None
    kept = [k for k, piece in enumerate(pieces.does) if piece.does == "keep"]
    assert kept
    begin = np.array(plan.offsets, copy=True)
    buffer = plan.buffers.buffer_of_tensor[graph.index(graph.ops[kept[0]].outputs[0])]
    other = plan.buffers.buffer_of_tensor[graph.index("y")]
    begin[buffer] = begin[other]
    broken = replace(plan, offsets=begin)
    expected = wanted(source, feeds)
    assert not np.allclose(broken.run(feeds, check=True).outputs["y"], expected["y"], atol=1e-3)


def test_rows_are_gathered_from_blocks() -> None:
    source, feeds = convolutions(), fed(convolutions())
    plan = in_blocks(memplan.plan(source), 2, random.Random(1))
    assert plan is not None
    assert any(piece.does == "gather" for piece in plan.fitting.pieces.does)
    close(plan.run(feeds, check=True).outputs, wanted(source, feeds))


@pytest.mark.few(1)
@pytest.mark.parametrize("part", range(4))
def test_random_models_in_random_pieces(part: int) -> None:
    ran = 0
    for seed in range(8 * part, 8 * part + 8):
        source, chance = Maker(seed).model(), random.Random(seed)
        feeds = fed(source, seed)
        plan = memplan.plan(source, "first_fit")
        expected = wanted(source, feeds)
        for _ in range(3):
            made = in_random_pieces(plan, chance, whole=0.1)
            if made is not None:
                close(made.run(feeds, check=True).outputs, expected)
                ran += 1
    assert ran > 8


@pytest.mark.parametrize("op_type", [name for name in NODES if name != "LRN"])  # ONNX Runtime has none of even sizes
def test_every_operator_in_pieces(op_type: str) -> None:
    """By ONNX Runtime: onnx's reference lacks many of the operators, and is wrong for some paddings."""
    pytest.importorskip("onnxruntime")
    numbers, chance, ran = np.random.default_rng(len(op_type)), random.Random(len(op_type)), 0
    for _ in range(6):
        drawn = NODES[op_type](numbers)
        plan = memplan.plan(drawn.model(), "first_fit")
        made = in_random_pieces(plan, chance, 1, 1)
        if made is not None:
            whole = plan.run(drawn.feeds(), engine="onnxruntime")
            close(made.run(drawn.feeds(), engine="onnxruntime", check=True).outputs, whole.outputs)
            ran += 1
    assert ran
