"""Along which loops a node may be split: the table of ONNX's operators. An operator that is not in it is not split.

A row of the table is a rule, or its loops along the axes of inputs and outputs in letters (see `claims.like`):
"nc*, c, c -> nc*" may be split along the axes 0 and 1 of its first input; along the second of these, it reads rows of
the other inputs too. What is not said to be read by rows is read whole.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from onnx import NodeProto, TensorProto

from ...importers import claims, loops
from ...inplace_ops import ONNX_ELEMENTWISE
from . import products, resizing
from .node import Node, Rule
from .parameters import Parameters

Tensor = Mapping[str, Any]
_VIEWS = frozenset({"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze"})
_DOMAINS = ("", "ai.onnx", "com.microsoft")


class Loops:
    """The loops of the nodes of a graph, whose constants with known payload are given."""

    def __init__(self, constants: Mapping[str, TensorProto], opset: int) -> None:
        self._constants, self._opset = constants, opset

    def of(self, node: NodeProto, tensors: Mapping[str, Tensor]) -> list[loops.Loop]:
        """Those of a node; `tensors` are those that it reads and writes, by name."""
        if node.domain not in _DOMAINS:
            return []
        if node.op_type in _VIEWS:
            source, view = tensors[node.input[0]], tensors[node.output[0]]
            return loops.reshaped(source["name"], source["shape"], view["name"], view["shape"])
        rule = RULES.get(node.op_type)
        if rule is None:
            return []
        inputs, outputs = ([tensors.get(name) for name in names] for names in (node.input, node.output))
        shapes, made = ([None if t is None else t["shape"] for t in row] for row in (inputs, outputs))
        dtypes = [None if t is None else t["dtype"] for t in inputs]
        seen = Node(shapes, made, dtypes, node.op_type, Parameters(node, self._constants, self._opset))
        try:
            claim = rule(seen)
            return [] if claim is None else claims.loops_of(claim, seen, list(node.input), list(node.output))
        except (IndexError, KeyError, TypeError, ValueError):  # it lacks an input, or one lacks a dimension
            return []


# Rules


def elementwise(node: Node) -> claims.Claim | None:
    """Before opset 7, a smaller input may lie along other axes than the last."""
    smaller = any(s is not None and math.prod(s) > 1 and list(s) != list(node.made) for s in node.inputs)
    if node.parameters.drops() or (smaller and node.parameters.opset < 7):
        return None
    return claims.as_made(node, claims.each(len(node.made)))


def all_but(axis: int) -> Rule:
    """Every axis but one, which the node may name."""

    def rule(node: Node) -> claims.Claim:
        rank = len(node.shape(0))
        axes = claims.each(rank, [node.axis(rank, axis)])
        return claims.Claim([axes], [axes] * len(node.outputs))

    return rule


def cumulation(node: Node) -> claims.Claim | None:
    axis = node.parameters.integers(1)
    if axis is None:
        return None
    axes = claims.each(len(node.made), axis)
    return claims.Claim([axes], [axes])


def softmax(node: Node) -> claims.Claim:
    """Before opset 13, all axes from the given one on are one."""
    rank, old = len(node.made), node.parameters.opset < 13
    axis = node.axis(rank, 1 if old else -1)
    axes = claims.each(rank, range(axis, rank) if old else [axis])
    return claims.Claim([axes], [axes])


def batch_normalization(node: Node) -> claims.Claim | None:
    """In training, statistics are of all rows of a channel."""
    by_attribute = node.parameters.opset < 7 and not node.attribute("is_test", 0)
    training = by_attribute or bool(node.attribute("training_mode", 0)) or any(node.outputs[1:])
    return claims.like("_c*, c, c, c, c -> _c*, c, c, c, c" if training else "nc+, c, c, c, c -> nc+")(node)


def group_normalization(node: Node) -> claims.Claim:
    """Before opset 21, scale and bias are of groups."""
    groups, channels = node.attribute("num_groups"), node.shape(0)[1]
    spatial: list[loops.Axis] = [None] * (len(node.made) - 2)
    of_channels = loops.Rows("g", channels // groups, channels // groups)
    scale: list[loops.Axis] = ["g" if node.shape(1)[0] == groups else of_channels]
    axes = ["n", of_channels, *spatial]
    return claims.Claim([axes, scale, scale], [axes])


def layer_normalization(node: Node) -> claims.Claim:
    rank = len(node.made)
    return claims.as_made(node, claims.each(rank, range(node.axis(rank, -1), rank)))


def skip_layer_normalization(node: Node) -> claims.Claim:
    return claims.as_made(node, claims.each(len(node.made), [-1]))


def mean_variance_normalization(node: Node) -> claims.Claim:
    axes = claims.each(len(node.made), node.attribute("axes", (0, 2, 3)))
    return claims.Claim([axes], [axes])


def concat(node: Node) -> claims.Claim:
    axes = claims.each(len(node.made), [node.axis(len(node.made), 1)])
    return claims.Claim([axes] * len(node.inputs), [axes])


def split(node: Node) -> claims.Claim:
    axes = claims.each(len(node.shape(0)), [node.attribute("axis", 0)])
    return claims.Claim([axes], [axes] * len(node.outputs))


def slices(node: Node) -> claims.Claim | None:
    """Backwards, no rows are read from the first to the last."""
    found = node.parameters.slices(node.shape(0))
    if found is None:
        return None
    axes = [loops.Rows(str(axis), step, 1, -start) if step > 0 else None for axis, (start, step) in enumerate(found)]
    return claims.Claim([axes], [[None if row is None else row.loop for row in axes]])


def pad(node: Node) -> claims.Claim | None:
    """What is not constant is read from other rows near an edge."""
    rank, opset = len(node.made), node.parameters.opset
    amounts = node.attribute("pads") or node.attribute("paddings") if opset < 11 else node.parameters.integers(1)
    axes = node.parameters.integers(3) if node.has(3) else list(range(rank))
    if amounts is None or axes is None:
        return None
    before, after = [0] * rank, [0] * rank
    for position, axis in enumerate(axes):
        before[axis], after[axis] = amounts[position], amounts[position + len(axes)]
    free = node.parameters.text("mode", "constant") == "constant"
    kept = [axis for axis in range(rank) if free or before[axis] == after[axis] == 0]
    reads: list[loops.Axis] = [
        loops.Rows(str(axis), 1, 1, before[axis]) if axis in kept else None for axis in range(rank)
    ]
    return claims.Claim([reads], [claims.each(rank, set(range(rank)).difference(kept))])


def transpose(node: Node) -> claims.Claim:
    rank = len(node.made)
    order = node.attribute("perm") or list(range(rank))[::-1]
    return claims.Claim([claims.each(rank)], [[str(axis) for axis in order]])


def tile(node: Node) -> claims.Claim:
    """What is repeated is read many times."""
    axes = [str(k) if a == b else None for k, (a, b) in enumerate(zip(node.shape(0), node.made, strict=True))]
    return claims.Claim([axes], [axes])


def resize(node: Node) -> claims.Claim:
    reads = resizing.axes_of(node.parameters, node.op_type, node.shape(0), node.made)
    return claims.Claim([reads], [claims.each(len(node.made))])


def gather(node: Node) -> claims.Claim:
    """By indices, and along the other axes of the data."""
    rank = len(node.shape(0))
    axis = node.axis(rank, 0)
    data, indices = claims.each(rank, [axis]), [f"i{k}" for k in range(len(node.shape(1)))]
    return claims.Claim([data, indices], [[*data[:axis], *indices, *data[axis + 1 :]]])


def gather_elements(node: Node) -> claims.Claim:
    rank = len(node.made)
    axis = node.axis(rank, 0)
    return claims.Claim([claims.each(rank, [axis]), claims.each(rank)], [claims.each(rank)])


def gather_nd(node: Node) -> claims.Claim:
    data, indices, batch = node.shape(0), node.shape(1), node.attribute("batch_dims", 0)
    taken = batch + indices[-1]
    rows: claims.Axes = [f"i{k}" for k in range(len(indices) - 1)]
    rest: claims.Axes = [str(axis) for axis in range(taken, len(data))]
    reads: claims.Axes = [*rows[:batch], *[None] * indices[-1], *rest]
    return claims.Claim([reads, [*rows, None]], [[*rows, *rest]])


def one_hot(node: Node) -> claims.Claim:
    rank = len(node.made)
    axis = node.axis(rank, -1)
    axes = claims.each(rank, [axis])
    return claims.Claim([[*axes[:axis], *axes[axis + 1 :]]], [axes])


def depth_to_space(node: Node) -> claims.Claim:
    """Channels lie together in the mode CRD alone."""
    block = node.attribute("blocksize")
    together = node.parameters.text("mode", "DCR") == "CRD"
    channels = loops.Rows("c", block**2, block**2) if together else None
    return claims.Claim(
        [["n", channels, "h", "w"]], [["n", "c" if together else None, loops.Rows("h", block), loops.Rows("w", block)]]
    )


def space_to_depth(node: Node) -> claims.Claim:
    block = node.attribute("blocksize")
    return claims.Claim(
        [["n", None, loops.Rows("h", block, block), loops.Rows("w", block, block)]], [["n", None, "h", "w"]]
    )


def quantization(node: Node) -> claims.Claim | None:
    """Scales are one, or one for each row of an axis, but not for blocks."""
    rank = len(node.made)
    axes, axis = claims.each(rank), node.axis(rank, 1)
    if node.attribute("block_size", 0):
        return None
    scales = [None if s is None else [axes[axis] if size > 1 else None for size in s] for s in node.inputs[1:]]
    return claims.Claim([axes, *scales], [axes])


def recurrent(node: Node) -> claims.Claim | None:
    """The batch, in the layout that has it second."""
    if node.attribute("layout", 0):
        return None
    return claims.like("_n_, ___, ___, __, n, _n_, _n_, __ -> __n_, _n_, _n_")(node)


_SPATIAL = "0123456789"
RULES: Mapping[str, Rule] = {
    **dict.fromkeys((*ONNX_ELEMENTWISE, "BiasGelu", "FastGelu", "QuickGelu"), elementwise),
    "Expand": elementwise,
    "CastLike": claims.like("+ -> +"),
    # Products
    "Conv": products.convolution(),
    "FusedConv": products.convolution(adds=False),
    "ConvInteger": products.convolution(like_weight=(3,)),
    "QLinearConv": products.convolution(weight=3, bias=8, like_weight=(4, 5), adds=False),
    "ConvTranspose": products.transposed_convolution,
    "MatMul": products.product(),
    "FusedMatMul": products.product(),
    "MatMulInteger": products.product(),
    "QLinearMatMul": products.product(right=3, adds=False),
    "Gemm": products.gemm(),
    "FusedGemm": products.gemm(adds=False),
    "Einsum": products.einsum,
    **dict.fromkeys(("Attention", "MultiHeadAttention"), products.attention),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), recurrent),
    # Windows
    **dict.fromkeys(("AveragePool", "MaxPool", "LpPool"), products.pooling),
    "GlobalAveragePool": claims.like("nc+ -> nc*", sums=_SPATIAL),
    **dict.fromkeys(("GlobalMaxPool", "GlobalLpPool"), claims.like("nc* -> nc*")),
    **dict.fromkeys(("Resize", "Upsample"), resize),
    "LRN": claims.like("n_+ -> n_+"),  # sums over channels may be kept from one to the next
    "GridSample": claims.like("nc__, nhw_ -> nchw"),
    "RoiAlign": claims.like("_c__, r_, r -> rc__"),
    # Reductions and normalizations
    **dict.fromkeys(("ReduceSum", "ReduceMean", "ReduceSumSquare", "ReduceL1"), products.reduction(adds=True)),
    **dict.fromkeys(
        ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMin", "ReduceProd", "ArgMax", "ArgMin"),
        products.reduction(adds=False),
    ),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), softmax),
    "BatchNormalization": batch_normalization,
    "InstanceNormalization": claims.like("nc*, c, c -> nc*"),
    "GroupNormalization": group_normalization,
    **dict.fromkeys(("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"), layer_normalization),
    **dict.fromkeys(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), skip_layer_normalization),
    "MeanVarianceNormalization": mean_variance_normalization,
    **dict.fromkeys(("LpNormalization", "TopK"), all_but(-1)),
    **dict.fromkeys(("CumSum", "CumProd"), cumulation),
    # Elements that move
    "Concat": concat,
    "Split": split,
    "Slice": slices,
    "Pad": pad,
    "Transpose": transpose,
    "Tile": tile,
    "Trilu": lambda node: claims.as_made(node, claims.each(len(node.made), [-2, -1])),
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "OneHot": one_hot,
    "ConstantOfShape": lambda node: claims.Claim([], [claims.each(len(node.made))]),
    "DepthToSpace": depth_to_space,
    "SpaceToDepth": space_to_depth,
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), quantization),
}
