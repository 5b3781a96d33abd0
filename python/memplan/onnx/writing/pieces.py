"""Pieces of ONNX nodes: iterations of a loop of a node, as nodes that read and write rows.

A piece reads tensors that hold the rows that its iterations read, and writes one with the rows that they write. Most
nodes are the same for fewer rows. Windows are padded only at the edges of the whole; what names a shape, a place or a
number of groups names another. What is added once, as a bias, the first piece adds.

    Conv, kernel 3, pads [1, 1], rows 0 to 7 in two pieces       rows 0 to 4, pads [1, 0]; rows 3 to 7, pads [0, 1]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from ..reading.node import Node
from ..reading.parameters import Parameters
from ..reading.products import cut_before, pads_before

Shapes = Mapping[str, Sequence[int]]


class Rows(NamedTuple):
    """Rows [begin, end) along an axis of a tensor that has `whole` of them.

    Reads may be `asked` for where there are no rows, which is padding.
    """

    axis: int
    begin: int
    end: int
    whole: int
    asked: tuple[int, int]


class Written(NamedTuple):
    """Nodes in their order, and the constants that they read besides tensors of the node."""

    nodes: list[NodeProto]
    constants: list[TensorProto]


class Cut:
    """Iterations [first, end) of a loop of an op, as in a graph dict; `shapes` are those of whole tensors."""

    def __init__(self, loop: Mapping[str, Any], first: int, end: int, shapes: Shapes) -> None:
        self.loop, self.first, self.end, self.shapes = loop, first, end, shapes

    def read(self, name: str) -> Rows | None:
        """The rows that are read of an input; None if it is read whole."""
        if name not in self.loop["reads"]:
            return None
        axis, *numbers = self.loop["reads"][name]
        step, window, before = map(Fraction, numbers)
        begin = math.floor(self.first * step - before)
        end = math.ceil((self.end - 1) * step - before + window)
        whole = self.shapes[name][axis]
        low, high = (min(max(row, 0), whole) for row in (begin, end))
        return Rows(axis, low, high, whole, (begin, end))

    def write(self, name: str) -> Rows | None:
        """The rows that are written of an output; None if iterations add to it."""
        if name not in self.loop["writes"]:
            return None
        axis, step = self.loop["writes"][name]
        whole = self.shapes[name][axis]
        begin, end = self.first * step, min(self.end * step, whole)
        return Rows(axis, begin, end, whole, (begin, end))

    def shape(self, name: str) -> list[int]:
        """The shape of what a piece writes of an output."""
        shape, rows = list(self.shapes[name]), self.write(name)
        if rows is not None:
            shape[rows.axis] = rows.end - rows.begin
        return shape

    @property
    def is_simple(self) -> bool:
        """Whether all rows lie along single axes, and each input has some."""
        rows = [*self.loop["reads"].values(), *self.loop["writes"].values()]
        if any(isinstance(axis, (list, tuple)) for axis, *_ in rows):
            return False
        read = [self.read(name) for name in self.loop["reads"]]
        return all(row is not None and row.begin < row.end for row in read)


def piece_of(node: NodeProto, cut: Cut, constants: Mapping[str, TensorProto], opset: int) -> Written | None:
    """The piece of a node that makes these iterations, in tensors of the same names; None if it cannot be written.

    `constants` are the small ones that the node may read: where they name places or shapes, the piece has its own.
    """
    if node.domain not in ("", "ai.onnx", "com.microsoft") or not cut.is_simple or "early" in cut.loop:
        return None
    piece = NodeProto()
    piece.CopyFrom(node)
    inputs, outputs = ([cut.shapes.get(name) for name in names] for names in (node.input, node.output))
    parameters = Parameters(node, constants, opset)
    seen = Node(inputs, outputs, [None] * len(node.input), node.op_type, parameters)
    change = _CHANGES.get(node.op_type, _unchanged)
    return change(_Piece(piece, cut, seen))


class _Piece:
    """A node that becomes a piece."""

    def __init__(self, node: NodeProto, cut: Cut, seen: Node) -> None:
        self.node, self.cut, self.seen = node, cut, seen
        self.constants: list[TensorProto] = []
        self.nodes = [node]

    def read(self, position: int = 0) -> Rows | None:
        return self.cut.read(self.node.input[position])

    @property
    def made(self) -> Rows | None:
        return self.cut.write(self.node.output[0])

    @property
    def adds(self) -> bool:
        return bool(self.cut.loop.get("sums"))

    def set(self, **attributes: Any) -> None:
        kept = [a for a in self.node.attribute if a.name not in attributes]
        del self.node.attribute[:]
        self.node.attribute.extend([*kept, *(helper.make_attribute(*item) for item in attributes.items())])

    def without(self, *names: str) -> None:
        kept = [a for a in self.node.attribute if a.name not in names]
        del self.node.attribute[:]
        self.node.attribute.extend(kept)

    def constant(self, position: int, array: Any) -> None:
        """Another constant as an input."""
        name = f"{self.node.output[0]}:{position}:{self.cut.first}of{self.cut.loop['extent']}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        self.node.input.extend([""] * (position + 1 - len(self.node.input)))
        self.node.input[position] = name

    def then(self, op_type: str, *arrays: Any) -> None:
        """One more node, which reads what the last one made, and constants."""
        output = self.node.output[0]
        self.nodes[-1].output[0] = f"{output}:{self.cut.first}:{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, [self.nodes[-1].output[0]], [output]))
        for position, array in enumerate(arrays, 1):
            name = f"{output}:{self.cut.first}:{op_type}:{position}"
            self.constants.append(numpy_helper.from_array(np.asarray(array), name))
            self.nodes[-1].input.append(name)

    def written(self) -> Written:
        return Written(self.nodes, self.constants)


# What changes, by type of node


def _unchanged(piece: _Piece) -> Written | None:
    return piece.written()


def _once(position: int) -> Callable[[_Piece], Written | None]:
    """The input at this position is added once."""

    def change(piece: _Piece) -> Written | None:
        if piece.adds and piece.cut.first and len(piece.node.input) > position:
            piece.node.input[position] = ""
        return piece.written()

    return change


def _windows(bias: int | None, kernel_of: int | None) -> Callable[[_Piece], Written | None]:
    def change(piece: _Piece) -> Written | None:
        seen, rows, made = piece.seen, piece.read(), piece.made
        if bias is not None:
            _once(bias)(piece)
        groups = seen.attribute("group", 1)
        if groups > 1 and made is not None and made.axis == 1:
            piece.set(group=piece.cut.end - piece.cut.first)
        if made is None or made.axis < 2:
            return piece.written()
        if rows is None or (seen.attribute("ceil_mode", 0) and seen.op_type != "MaxPool"):
            return None
        kernel = seen.attribute("kernel_shape") if kernel_of is None else seen.shape(kernel_of)[2:]
        before = pads_before(seen, kernel)
        after = _pads_after(seen, kernel, before)
        spatial = made.axis - 2
        before[spatial] = max(0, -rows.asked[0])
        after[spatial] = max(0, rows.asked[1] - rows.whole)
        piece.without("auto_pad")
        piece.set(pads=[*before, *after])
        return piece.written()

    return change


def _pads_after(seen: Node, kernel: Sequence[int], before: Sequence[int]) -> list[int]:
    """Rows of padding behind the last, as many as the windows reach over them."""
    if seen.parameters.text("auto_pad", "NOTSET") == "NOTSET":
        return list((seen.attribute("pads") or [0] * 2 * len(kernel))[len(kernel) :])
    found = []
    for axis, size in enumerate(kernel):
        stride = (seen.attribute("strides") or [1] * len(kernel))[axis]
        dilation = (seen.attribute("dilations") or [1] * len(kernel))[axis]
        reach = (seen.made[2 + axis] - 1) * stride + dilation * (size - 1) + 1
        found.append(max(0, reach - before[axis] - seen.shape(0)[2 + axis]))
    return found


def _transposed(piece: _Piece) -> Written | None:
    """Rows of the output before and behind those of the piece are cut off by pads."""
    seen, rows, made = piece.seen, piece.read(), piece.made
    _once(2)(piece)
    if seen.attribute("group", 1) > 1 and made is not None and made.axis == 1:
        piece.set(group=piece.cut.end - piece.cut.first)
    if made is None or (made.axis < 2 and not seen.attribute("output_shape")):
        return piece.written()
    if rows is None:
        return None
    before, after, more = [], [], []
    for axis, size in enumerate(seen.shape(1)[2:]):
        ones = [1] * len(seen.shape(1)[2:])
        stride = (seen.attribute("strides") or ones)[axis]
        dilation = (seen.attribute("dilations") or ones)[axis]
        cut = cut_before(seen, axis, size, stride, dilation)
        here = made.axis == 2 + axis
        begin, end = (rows.begin, rows.end) if here else (0, seen.shape(0)[2 + axis])
        first, last = (made.begin, made.end) if here else (0, seen.made[2 + axis])
        head = first + cut - begin * stride
        tail = (end - begin - 1) * stride + dilation * (size - 1) + 1 - head - (last - first)
        before.append(head)
        after.append(max(0, tail))
        more.append(max(0, -tail))
        if head < 0 or more[-1] >= max(stride, dilation):
            return None
    piece.without("auto_pad", "output_shape")
    piece.set(pads=[*before, *after], output_padding=more)
    return piece.written()


def _mean(piece: _Piece) -> Written | None:
    """A mean of some rows is a part of that of all."""
    if piece.adds:
        share = (piece.cut.end - piece.cut.first) / piece.cut.loop["extent"]
        piece.then("Mul", np.array(share, np.float32))
    return piece.written()


def _view(piece: _Piece) -> Written | None:
    shape = piece.cut.shape(piece.node.output[0])
    piece.node.op_type = "Reshape"
    del piece.node.attribute[:]
    del piece.node.input[1:]
    piece.constant(1, np.array(shape, np.int64))
    return piece.written()


def _shaped(position: int) -> Callable[[_Piece], Written | None]:
    """The input at this position is the shape of the output."""

    def change(piece: _Piece) -> Written | None:
        piece.constant(position, np.array(piece.cut.shape(piece.node.output[0]), np.int64))
        return piece.written()

    return change


def _slice(piece: _Piece) -> Written | None:
    """What is read of the loop's axis is all that there is."""
    shape, made = piece.seen.shape(0), piece.made
    found = piece.seen.parameters.slices(shape)
    if found is None or made is None or piece.seen.parameters.opset < 10 or any(step < 0 for _, step in found):
        return None
    rows = [list(found_axis) for found_axis in found]
    rows[made.axis][0] = 0
    sizes = piece.cut.shape(piece.node.output[0])
    ends = [start + (size - 1) * step + 1 for (start, step), size in zip(rows, sizes, strict=True)]
    arrays = [[start for start, _ in rows], ends, range(len(shape)), [step for _, step in rows]]
    for position, numbers in enumerate(arrays, 1):
        piece.constant(position, np.array(numbers, np.int64))
    return piece.written()


def _pad(piece: _Piece) -> Written | None:
    made, rows, rank = piece.made, piece.read(), len(piece.seen.made)
    amounts, axes = piece.seen.parameters.integers(1), piece.seen.parameters.integers(3)
    if amounts is None or made is None or rows is None or piece.seen.parameters.opset < 11:
        return None
    pads = [0] * (2 * rank)
    for position, axis in enumerate(range(rank) if axes is None else axes):
        pads[axis % rank], pads[rank + axis % rank] = amounts[position], amounts[position + len(amounts) // 2]
    pads[made.axis] = max(0, -rows.asked[0])
    pads[rank + made.axis] = max(0, rows.asked[1] - rows.whole)
    del piece.node.input[3:]
    piece.constant(1, np.array(pads, np.int64))
    return piece.written()


def _groups(piece: _Piece) -> Written | None:
    if piece.made is not None and piece.made.axis == 1:
        piece.set(num_groups=piece.cut.end - piece.cut.first)
    return piece.written()


def _resize(piece: _Piece) -> Written | None:
    """Along an axis that keeps its rows; or by whole factors, more rows than the piece has, of which some are cut."""
    seen, made, rows = piece.seen, piece.made, piece.read()
    parameters = seen.parameters
    if made is None or rows is None or (parameters.has(3) and parameters.opset < 13):
        return None
    x, y = list(seen.shape(0)), list(seen.made)
    kept = x[made.axis] == y[made.axis]
    factor = Fraction(y[made.axis], x[made.axis])
    old = seen.op_type == "Upsample" or parameters.opset < 11
    kind = "asymmetric" if old else parameters.text("coordinate_transformation_mode", "half_pixel")
    shifts = kind in ("asymmetric", "half_pixel", "pytorch_half_pixel") and parameters.opset >= 10
    if not kept and (factor.denominator > 1 or not shifts):
        return None
    if parameters.has(3):
        sizes = parameters.integers(3)
        if sizes is None or seen.attribute("axes") or len(sizes) != len(y):
            return None
        resized = [(rows.end - rows.begin) * int(factor) if axis == made.axis else size for axis, size in enumerate(y)]
        piece.constant(3, np.array(resized, np.int64))
    if not kept:
        first = made.begin - rows.begin * int(factor)
        ends = first + made.end - made.begin
        piece.then("Slice", np.array([first]), np.array([ends]), np.array([made.axis]))
    return piece.written()


def _attention(piece: _Piece) -> Written | None:
    """Rows of a causal query, and those that a mask has rows for, are not the first of fewer."""
    made = piece.made
    rows_of_query = made is not None and made.axis == len(piece.seen.made) - 2
    masked = any(piece.seen.has(position) for position in range(3, len(piece.node.input)))
    if masked or (
        rows_of_query and (piece.seen.attribute("is_causal", 0) or piece.seen.attribute("unidirectional", 0))
    ):
        return None
    return piece.written()


_VIEWS = ("Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze")
_CHANGES: Mapping[str, Callable[[_Piece], Written | None]] = {
    **dict.fromkeys(("Conv", "FusedConv"), _windows(2, 1)),
    "ConvInteger": _windows(None, 1),
    "QLinearConv": _windows(None, 3),
    **dict.fromkeys(("AveragePool", "MaxPool", "LpPool"), _windows(None, None)),
    "ConvTranspose": _transposed,
    **dict.fromkeys(("Gemm", "FusedGemm"), _once(2)),
    **dict.fromkeys(("ReduceMean", "GlobalAveragePool"), _mean),
    **dict.fromkeys(_VIEWS, _view),
    **{"Expand": _shaped(1), "ConstantOfShape": _shaped(0), "Slice": _slice, "Pad": _pad},
    "GroupNormalization": _groups,
    **dict.fromkeys(("Resize", "Upsample"), _resize),
    **dict.fromkeys(("Attention", "MultiHeadAttention"), _attention),
}
