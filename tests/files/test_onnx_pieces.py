"""Pieces of ONNX nodes, run one by one: together they are the whole."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from builders.onnx_drawn import Drawn
from builders.onnx_loops import loops_of, session_of
from builders.onnx_models import numpy_helper, onnx
from builders.onnx_nodes import NODES
from memplan.onnx.writing.pieces import Cut, piece_of

pytest.importorskip("onnxruntime")
MAY_LACK = {"Attention", "MultiHeadAttention", "Pad", "Slice", "Resize", "Upsample", "AveragePool", "LpPool"}


def rows_of(array, rows):
    if rows is None:
        return array
    return np.ascontiguousarray(np.take(array, range(rows.begin, rows.end), rows.axis))


def made_by(drawn, written, arrays, outputs):
    """What the nodes of a piece make of these arrays."""
    source = drawn.model()
    constants = {tensor.name for tensor in written.constants}
    read = {name for one in written.nodes for name in one.input} - constants
    given = {name: array for name, array in arrays.items() if name in read}
    types = onnx.helper.np_dtype_to_tensor_dtype
    inputs = [onnx.helper.make_tensor_value_info(n, types(a.dtype), a.shape) for n, a in given.items()]
    results = [onnx.helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = onnx.helper.make_graph(written.nodes, "g", inputs, results, written.constants)
    model = onnx.helper.make_model(graph, opset_imports=source.opset_import, ir_version=10)
    return dict(zip(outputs, session_of(model).run(None, given), strict=True))


def check_pieces(drawn, loop, chance):
    """Whether the pieces of a loop could be written; they are compared with the whole."""
    source = drawn.model()
    (node,) = source.graph.node
    outputs = list(node.output)
    whole = dict(zip(outputs, session_of(source).run(None, drawn.feeds()), strict=True))
    arrays = dict(zip(drawn.names(), drawn.inputs, strict=True))
    shapes = {name: array.shape for name, array in (arrays | whole).items() if array is not None}
    constants = {f"x{k}": numpy_helper.from_array(drawn.inputs[k]) for k in drawn.fixed if drawn.inputs[k] is not None}
    ends = sorted({0, loop["extent"], *(int(end) for end in chance.integers(1, loop["extent"], 2))})
    parts = []
    for first, end in itertools.pairwise(ends):
        cut = Cut(loop, first, end, shapes)
        written = piece_of(node, cut, constants, drawn.opset)
        if written is None:
            return False
        held = {name: rows_of(array, cut.read(name)) for name, array in arrays.items() if array is not None}
        parts.append((cut, made_by(drawn, written, held, outputs)))
    for name in outputs:
        arrays_of = [made[name] for _, made in parts]
        for (cut, _), array in zip(parts, arrays_of, strict=True):
            assert list(array.shape) == cut.shape(name)
        rows = parts[0][0].write(name)
        together = sum(arrays_of) if rows is None else np.concatenate(arrays_of, rows.axis)
        np.testing.assert_allclose(together, whole[name], rtol=1e-4, atol=1e-4)
    return True


@pytest.mark.parametrize("op_type", NODES)
def test_pieces_together_are_the_whole(op_type):
    chance, seen, written = np.random.default_rng(len(op_type)), 0, 0
    for _ in range(6):
        drawn = NODES[op_type](chance)
        try:
            session_of(drawn.model()).run(None, drawn.feeds())
        except Exception:  # ONNX Runtime has no kernel for it
            continue
        for loop in loops_of(drawn):
            rows = [*loop["reads"].values(), *loop["writes"].values()]
            if not any(isinstance(axis, list) for axis, *_ in rows):
                seen += 1
                written += check_pieces(drawn, loop, chance)
    assert written or not seen
    assert written == seen or op_type in MAY_LACK


def test_a_convolution_is_padded_at_the_edges_only():
    x, w = np.zeros((1, 2, 8, 8), np.float32), np.zeros((4, 2, 3, 3), np.float32)
    drawn = Drawn("Conv", [x, w], {"auto_pad": "SAME_UPPER"})
    loop = next(loop for loop in loops_of(drawn) if loop["writes"] == {"y0": [2, 1]})
    shapes = {"x0": x.shape, "x1": w.shape, "y0": (1, 4, 8, 8)}
    pads = []
    for first, end in ((0, 3), (3, 6), (6, 8)):
        written = piece_of(drawn.model().graph.node[0], Cut(loop, first, end, shapes), {}, 21)
        pads.append({a.name: list(a.ints) for a in written.nodes[0].attribute}["pads"])
    assert pads == [[1, 1, 0, 1], [0, 1, 0, 1], [0, 1, 1, 1]]
