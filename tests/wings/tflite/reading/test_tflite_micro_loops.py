"""TFLite Micro computes what the kernels of the tests of loops compute, and its files have the same loops."""

from __future__ import annotations

import runpy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builders.paths import DATA
from builders.tflite_loops import feeds_of, loops_of, run_of
from builders.tflite_ops import OPERATORS, Drawn
from memplan.tflite.reading import import_tflite

pytest.importorskip("tflite_micro")
flatbuffers = pytest.importorskip("flatbuffers")

OPTIONS = {  # those of a kind, None if it has none
    **{"CONV_2D": "Conv2D", "DEPTHWISE_CONV_2D": "DepthwiseConv2D", "TRANSPOSE_CONV": "TransposeConv"},
    **{"AVERAGE_POOL_2D": "Pool2D", "MAX_POOL_2D": "Pool2D", "FULLY_CONNECTED": "FullyConnected"},
    **{"BATCH_MATMUL": "BatchMatMul", "MEAN": "Reducer", "SUM": "Reducer", "REDUCE_MAX": "Reducer"},
    **{"RESIZE_BILINEAR": "ResizeBilinear", "RESIZE_NEAREST_NEIGHBOR": "ResizeNearestNeighbor"},
    **{"CONCATENATION": "Concatenation", "PACK": "Pack", "UNPACK": "Unpack", "MIRROR_PAD": "MirrorPad"},
    "STRIDED_SLICE": "StridedSlice",
    **{"DEPTH_TO_SPACE": "DepthToSpace", "SPACE_TO_DEPTH": "SpaceToDepth", "ADD": "Add", "MUL": "Mul"},
    **dict.fromkeys(("PAD", "PADV2", "SLICE", "TRANSPOSE", "RESHAPE", "EXPAND_DIMS", "LOGISTIC", "PRELU")),
}
KINDS = {"float32": "FLOAT32", "int32": "INT32", "bool": "BOOL"}


@cache
def make() -> dict[str, Any]:
    return runpy.run_path(str(DATA / "tflite" / "make.py"))


def write(kind: str, drawn: Drawn, made: Any, path: Path) -> None:
    """A model of one operator."""
    net, schema = make()["Builder"](), make()["schema"]
    inputs = []
    for k, array in enumerate(drawn.inputs):
        data = array if k in drawn.fixed else None
        inputs.append(net.tensor(f"x{k}", *array.shape, data=data, kind=KINDS[str(array.dtype)]))
    options = getattr(schema, f"{OPTIONS[kind]}OptionsT")() if OPTIONS[kind] else None
    for name, value in drawn.options.items() if options else ():
        setattr(options, name[0].lower() + name[1:], value)
    y = net.op(kind, inputs, "y", *made.shape, options=options)
    net.graph.inputs = [t for k, t in enumerate(inputs) if k not in drawn.fixed]
    net.graph.outputs = [y]
    builder = flatbuffers.Builder(1024)
    builder.Finish(net.model.Pack(builder), b"TFL3")
    path.write_bytes(bytes(builder.Output()))


def computed(path: Path, feeds: dict[str, Any]) -> Any:
    """None if TFLite Micro has no kernel for such sizes."""
    from tflite_micro import runtime

    try:
        interpreter = runtime.Interpreter.from_bytes(path.read_bytes(), arena_size=1 << 16)
        for k, array in enumerate(feeds.values()):
            interpreter.set_input(array, k)
        interpreter.invoke()
    except RuntimeError:
        return None
    return interpreter.get_output(0)


@pytest.mark.parametrize("kind", OPTIONS)
def test_kernels_and_loops_are_those_of_files(kind: str, tmp_path: Path) -> None:
    chance, ran = np.random.default_rng(len(kind)), 0
    for _ in range(8):
        drawn = OPERATORS[kind](chance)
        made = run_of(kind, drawn)(feeds_of(drawn))["y"]
        write(kind, drawn, made, tmp_path / "m.tflite")
        (op,) = import_tflite(tmp_path / "m.tflite").graph["ops"]
        assert op.get("loops", []) == loops_of(kind, drawn)
        found = computed(tmp_path / "m.tflite", feeds_of(drawn))
        if found is not None:
            np.testing.assert_allclose(found, made, rtol=1e-5, atol=1e-5)
            ran += 1
    assert ran
