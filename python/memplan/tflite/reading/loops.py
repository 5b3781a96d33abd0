"""Along which loops an operator of TFLite may be split: the table. An operator that is not in it is not split.

Tensors of images are batch, rows, columns, channels. Sums of parts are of floats alone: integers are rounded to the
output's scale. So are products of floats by integer weights, whose inputs are scaled by all of their rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ...importers import claims
from ...importers.loops import Axis, Loop, Rows, broadcast, reshaped
from ...importers.windows import (
    between,
    float32_slack,
    grouped,
    nearest,
    resized,
    same_padding,
    transposed,
    window,
)

_VIEWS = ("RESHAPE", "SQUEEZE", "EXPAND_DIMS")


@dataclass(frozen=True)
class Operator(claims.Seen):
    """An operator: its options by name, its inputs that are constants, by position, and the dtype of its output."""

    kind: str
    option: Callable[[str, Any], Any]
    constant: Callable[[int], Any]
    made_dtype: str | None = None

    def axes(self, position: int) -> list[int]:
        return [int(axis) for axis in self.constant(position).ravel()]

    @property
    def is_whole(self) -> bool:
        """Whether parts of the inner axis may be added up."""
        return self.is_float and not self.option("FusedActivationFunction", 0)


Rule = Callable[[Operator], claims.Claim | None]


def loops(operator: Operator, inputs: Sequence[str], outputs: Sequence[str]) -> list[Loop]:
    """Those of an operator whose tensors have these names; an input that is left out has any name."""
    rule = RULES.get(operator.kind)
    try:
        if operator.kind in _VIEWS:
            return reshaped(inputs[0], operator.shape(0), outputs[0], operator.made)
        claim = None if rule is None else rule(operator)
        return [] if claim is None else claims.loops_of(claim, operator, inputs, outputs)
    except (AttributeError, IndexError, TypeError, ValueError, ZeroDivisionError):  # not as the operator should be
        return []


# Rules


def elementwise(op: Operator) -> claims.Claim:
    return claims.as_made(op, claims.each(len(op.made)))


def _is_mixed(op: Operator) -> bool:
    """Floats by integer weights."""
    return op.is_float and op.dtypes[0] != op.dtypes[1]


def _windows(op: Operator, kernel: Sequence[int], dilations: Sequence[int]) -> list[Axis]:
    found: list[Axis] = []
    strides = op.option("StrideH", 1), op.option("StrideW", 1)
    for axis, geometry in enumerate(zip(kernel, strides, dilations, strict=True)):
        before = 0 if op.option("Padding", 0) else same_padding(op.shape(0)[1 + axis], *geometry) // 2
        found.append(window(str(axis), *geometry, before))
    return found


def convolution(op: Operator) -> claims.Claim | None:
    x, w = op.shape(0), op.shape(1)
    if _is_mixed(op):
        return None
    groups = x[3] // w[3]
    made, given = ("m", "c") if groups == 1 else grouped("g", groups, w[0], x[3])
    windows = _windows(op, w[1:3], (op.option("DilationHFactor", 1), op.option("DilationWFactor", 1)))
    weight: claims.Axes = [made, None, None, "c" if groups == 1 else None]
    sums = "c" if groups == 1 and op.is_whole else ""
    return claims.Claim([["n", *windows, given], weight, [made]], [["n", "0", "1", made]], sums)


def depthwise_convolution(op: Operator) -> claims.Claim | None:
    x, w = op.shape(0), op.shape(1)
    if _is_mixed(op):
        return None
    (made,) = grouped("g", x[3], w[3])
    windows = _windows(op, w[1:3], (op.option("DilationHFactor", 1), op.option("DilationWFactor", 1)))
    return claims.Claim([["n", *windows, "g"], [None, None, None, made], [made]], [["n", "0", "1", made]])


def transposed_convolution(op: Operator) -> claims.Claim | None:
    """Inputs are the shape of the output, the weight, what is convolved, and a bias."""
    w = op.shape(1)
    if op.dtypes[1] != op.dtypes[2]:
        return None
    reads, writes = list[Axis](), list[Axis]()
    for axis, stride in enumerate((op.option("StrideH", 1), op.option("StrideW", 1))):
        kernel, rows = w[1 + axis], op.made[1 + axis]
        before = 0 if op.option("Padding", 0) else same_padding(rows, kernel, stride, 1) // 2
        read, write = transposed(str(axis), kernel, stride, 1, before)
        reads.append(read)
        writes.append(write)
    return claims.Claim([None, ["m", None, None, None], ["n", *reads, None], ["m"]], [["n", *writes, "m"]])


def pooling(op: Operator) -> claims.Claim:
    windows = _windows(op, (op.option("FilterHeight", 1), op.option("FilterWidth", 1)), (1, 1))
    return claims.Claim([["n", *windows, "c"]], [["n", "0", "1", "c"]])


def fully_connected(op: Operator) -> claims.Claim | None:
    """Of inputs of several axes, the last is that of the weights where the output keeps the others."""
    x, made = op.shape(0), op.made
    if _is_mixed(op) or op.option("WeightsFormat", 0):
        return None
    if list(x[:-1]) == list(made[:-1]):
        rows = claims.each(len(made) - 1)
        return claims.Claim([[*rows, "k"], ["n", "k"], ["n"]], [[*rows, "n"]], "k" if op.is_whole else "")
    row = "0" if len(made) == 2 and x[0] == made[0] else None
    rest: claims.Axes = [None] * (len(x) - 1)
    return claims.Claim([[row, *rest], ["n", None], ["n"]], [[*[None] * (len(made) - 2), row, "n"]])


def batch_product(op: Operator) -> claims.Claim | None:
    made = op.made
    if _is_mixed(op):
        return None
    batch = claims.each(len(made) - 2)
    reads = []
    for position, (letters, adjoint) in enumerate((("mk", "AdjX"), ("kn", "AdjY"))):
        shape = op.shape(position)
        rows = letters[::-1] if op.option(adjoint, False) else letters
        reads.append([*broadcast(shape[:-2], made[:-2], batch), *rows])
    return claims.Claim(reads, [[*batch, "m", "n"]], "k" if op.is_float else "")


def reduction(adds: bool) -> Rule:
    """Over the axes of the second input. Means of integers are rounded."""

    def rule(op: Operator) -> claims.Claim:
        rank = len(op.shape(0))
        gone = {axis % max(1, rank) for axis in op.axes(1)}
        keeps = len(op.made) == rank
        writes = [None if axis in gone else str(axis) for axis in range(rank) if keeps or axis not in gone]
        sums = [str(axis) for axis in sorted(gone)] if adds and op.is_float else []
        return claims.Claim([claims.each(rank)], [writes], sums)

    return rule


def all_but_last(op: Operator) -> claims.Claim:
    axes = claims.each(len(op.made), [-1])
    return claims.Claim([axes], [axes])


def concatenation(op: Operator) -> claims.Claim:
    axes = claims.each(len(op.made), [op.option("Axis", 0)])
    return claims.Claim([axes] * len(op.inputs), [axes])


def pack(op: Operator) -> claims.Claim:
    rank = len(op.made)
    axis = op.option("Axis", 0) % rank
    axes = claims.each(rank, [axis])
    return claims.Claim([[*axes[:axis], *axes[axis + 1 :]]] * len(op.inputs), [axes])


def unpack(op: Operator) -> claims.Claim:
    rank = len(op.shape(0))
    axis = op.option("Axis", 0) % rank
    axes = claims.each(rank, [axis])
    return claims.Claim([axes], [[*axes[:axis], *axes[axis + 1 :]]] * len(op.outputs))


def split(position: int, axis: int) -> Rule:
    """What is split and the axis are at these positions."""

    def rule(op: Operator) -> claims.Claim:
        axes = claims.each(len(op.shape(position)), op.axes(axis))
        reads: list[claims.Axes | None] = [None] * len(op.inputs)
        reads[position] = axes
        return claims.Claim(reads, [axes] * len(op.outputs))

    return rule


def pad(op: Operator) -> claims.Claim:
    before = [int(rows) for rows in op.constant(1)[:, 0]]
    return claims.Claim([[Rows(str(axis), 1, 1, rows) for axis, rows in enumerate(before)]], [claims.each(len(before))])


def mirror_pad(op: Operator) -> claims.Claim:
    padded = [axis for axis, rows in enumerate(op.constant(1)) if rows.any()]
    axes = claims.each(len(op.made), padded)
    return claims.Claim([axes], [axes])


def slices(op: Operator) -> claims.Claim:
    starts = [int(start) for start in op.constant(1)]
    return claims.Claim(
        [[Rows(str(axis), 1, 1, -start) for axis, start in enumerate(starts)]], [claims.each(len(starts))]
    )


def strided_slice(op: Operator) -> claims.Claim | None:
    """Axes that are dropped have one row; backwards, no rows are read from the first to the last."""
    if op.option("EllipsisMask", 0) or op.option("NewAxisMask", 0) or op.option("Offset", False):
        return None
    masks = [op.option(name, 0) for name in ("BeginMask", "ShrinkAxisMask")]
    reads, writes = list[Axis](), list[Axis]()
    for axis, (rows, start, step) in enumerate(zip(op.shape(0), op.constant(1), op.constant(3), strict=True)):
        free, dropped = (bool(mask >> axis & 1) for mask in masks)
        begin = 0 if free and step > 0 else slice(int(start), None, int(step)).indices(rows)[0]
        reads.append(Rows(str(axis), int(step), 1, -begin) if step > 0 and not dropped else None)
        if not dropped:
            writes.append(str(axis) if step > 0 else None)
    return claims.Claim([reads], [writes])


def transpose(op: Operator) -> claims.Claim:
    return claims.Claim([claims.each(len(op.made))], [[str(axis) for axis in op.axes(1)]])


def tile(op: Operator) -> claims.Claim:
    axes = [str(k) if a == b else None for k, (a, b) in enumerate(zip(op.shape(0), op.made, strict=True))]
    return claims.Claim([axes], [axes])


def gather(op: Operator) -> claims.Claim | None:
    rank = len(op.shape(0))
    axis = op.option("Axis", 0) % rank
    if op.option("BatchDims", 0):
        return None
    data, indices = claims.each(rank, [axis]), [f"i{k}" for k in range(len(op.shape(1)))]
    return claims.Claim([data, indices], [[*data[:axis], *indices, *data[axis + 1 :]]])


def depth_to_space(op: Operator) -> claims.Claim:
    block = op.option("BlockSize", 1)
    return claims.Claim([["n", "h", "w", None]], [["n", Rows("h", block), Rows("w", block), None]])


def space_to_depth(op: Operator) -> claims.Claim:
    block = op.option("BlockSize", 1)
    return claims.Claim([["n", Rows("h", block, block), Rows("w", block, block), None]], [["n", "h", "w", None]])


def resize(op: Operator) -> claims.Claim:
    """Rows and columns; TFLite finds positions in float32."""
    aligned, half = op.option("AlignCorners", False), Fraction(int(op.option("HalfPixelCenters", False)), 2)
    reads: list[Axis] = ["n", None, None, "c"]
    for axis in (1, 2):
        rows, made = op.shape(0)[axis], op.made[axis]
        ratio = Fraction(rows - 1, made - 1) if aligned and made > 1 else Fraction(rows, made)
        if ratio == 0:
            continue
        slack = float32_slack(ratio, rows)
        if op.kind == "RESIZE_BILINEAR":
            taps = [between((i + half) * ratio - half, slack) for i in range(made)]
        else:
            rounding = "round_prefer_ceil" if aligned else "floor"
            taps = [nearest((i + half) * ratio, slack, rounding) for i in range(made)]
        reads[axis] = resized(str(axis), rows, ratio, taps)
    return claims.Claim([reads], [["n", "1", "2", "c"]])


_ELEMENTWISE = """
    ABS ADD CAST CEIL COS DEQUANTIZE DIV ELU EQUAL EXP FLOOR FLOOR_DIV FLOOR_MOD GELU GREATER GREATER_EQUAL HARD_SWISH
    LEAKY_RELU LESS LESS_EQUAL LOG LOGICAL_AND LOGICAL_NOT LOGICAL_OR LOGISTIC MAXIMUM MINIMUM MUL NEG NOT_EQUAL POW
    PRELU QUANTIZE RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1 ROUND RSQRT SELECT_V2 SIN SQRT SQUARE SQUARED_DIFFERENCE SUB TANH
"""
RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_ELEMENTWISE.split(), elementwise),
    "CONV_2D": convolution,
    "DEPTHWISE_CONV_2D": depthwise_convolution,
    "TRANSPOSE_CONV": transposed_convolution,
    "FULLY_CONNECTED": fully_connected,
    "BATCH_MATMUL": batch_product,
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"), pooling),
    **dict.fromkeys(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"), resize),
    **dict.fromkeys(("MEAN", "SUM"), reduction(adds=True)),
    **dict.fromkeys(("REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "REDUCE_ANY", "REDUCE_ALL"), reduction(adds=False)),
    **dict.fromkeys(("SOFTMAX", "LOG_SOFTMAX", "L2_NORMALIZATION"), all_but_last),
    **{"CONCATENATION": concatenation, "PACK": pack, "UNPACK": unpack, "SPLIT": split(1, 0), "SPLIT_V": split(0, 2)},
    **{"PAD": pad, "PADV2": pad, "MIRROR_PAD": mirror_pad, "SLICE": slices, "STRIDED_SLICE": strided_slice},
    **{"TRANSPOSE": transpose, "TILE": tile, "BROADCAST_TO": elementwise, "GATHER": gather},
    **{"DEPTH_TO_SPACE": depth_to_space, "SPACE_TO_DEPTH": space_to_depth},
    **{"ARG_MAX": reduction(adds=False), "ARG_MIN": reduction(adds=False)},
    "EMBEDDING_LOOKUP": claims.like("i, _* -> i*"),
}
