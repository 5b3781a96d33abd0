"""In which order the reference kernels of TFLite Micro read and write: the table, from their sources.

A kernel that goes through its loops in ascending order is done with the first rows of its input while it still runs.
The output may begin there. That depends on the kernel, not on the operator: on the order of its loops, on whether it
reads a window again for every channel, on whether it copies. So each entry names the function that shows it.

What is not in the table does not overlap: optimised kernels (CMSIS-NN, Xtensa, Ethos-U), other dtypes, tensors of more
than five axes. Also not in the table are pairs of dtypes for which a compiler may swap reads and writes: in C++, an
`int16` and a `float` never share bytes. Compilers take `int8` and `uint8` for characters, which may share bytes with
anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from ...importers import claims, windows
from ...importers.loops import Axis, Loop
from .loops import RULES, Operator, Rule

_MOST_LOOPS = 2  # that are in order: an output is born in pieces of these
_MOST_AXES = 5


class Kernel(NamedTuple):
    """What is known of the kernels of an operator of TFLite Micro.

    Attributes
    ----------
    operator : str
        As in the schema of TFLite, such as "CONV_2D".
    dtypes : tuple of str
        Those of the first inputs, and that of the output: "int8 int8 -> int8".
    loops : str
        What runs in ascending order, the outermost first; "" if nothing may overlap. memplan uses the first two loops
        of several iterations. Axes that lie in a row, in the output and in all inputs that have them, are one loop.
    unit : str
        What is read and written together: these bytes of the input and of the output may not overlap. It is coarser if
        more than two loops lead to it, as in a batch of several images.
    reads_first : bool
        Whether the unit is an element that is written when all is read for it. It may lie over what it is made of. So
        may a pixel of one channel.
    source : str
        The files and functions that show it, in the repository of TFLite Micro.
    note : str
        What else one should know.
    """

    operator: str
    dtypes: tuple[str, ...]
    loops: str
    unit: str
    reads_first: bool
    source: str
    note: str


class Ordered(NamedTuple):
    """Loops that a kernel runs in ascending order, the outermost first.

    An iteration reads and writes what these say, and everything else of its inputs. `reads_first`: all that it reads
    before it writes anything.
    """

    loops: list[Loop]
    reads_first: bool


def kernels() -> list[Kernel]:
    """What is known of the reference kernels of TFLite Micro. Those of which nothing may overlap come last."""
    known = [
        Kernel(kind, entry.dtypes, entry.loops, entry.unit, entry.unit == "element", entry.source, entry.note)
        for kind, entry in _TABLE.items()
    ]
    return known + [Kernel(kind, (), "", "tensor", False, source, note) for kind, (source, note) in _WHOLE.items()]


def ordered(operator: Operator, inputs: Sequence[str], outputs: Sequence[str]) -> Ordered | None:
    """What the kernel of an operator whose tensors have these names allows; None if nothing is known of it.

    The operator knows the dtype of its output.
    """
    entry = _TABLE.get(operator.kind)
    try:
        if entry is None or not _fits(entry, operator):
            return None
        claim = (entry.rule or RULES[operator.kind])(operator)
        if claim is None:
            return None
        rank = len(operator.made)
        found = claims.nested_of(claim, operator, inputs, outputs, entry.axes(rank))[:_MOST_LOOPS]
    except (AttributeError, IndexError, TypeError, ValueError, ZeroDivisionError):  # not as the operator should be
        return None
    single = math.prod(loop["extent"] for loop in found) == math.prod(operator.made)
    return Ordered(found, entry.finishes and single) if found else None


def in_order(loops: Sequence[Loop], known: Ordered) -> dict[str, Any]:
    """The entries of an op: its loops, with those in order among them, and which they are."""
    every = [*loops, *(loop for loop in known.loops if loop not in loops)]
    entries: dict[str, Any] = {"loops": every, "ordered": [every.index(loop) for loop in known.loops]}
    return entries | ({"reads_first": True} if known.reads_first else {})


class _Entry(NamedTuple):
    """`axes`: of the rank of the output, how many of its first axes the kernel goes through in order.

    `finishes`: it reads all for an element of the output, writes it, and only then reads for the next.
    """

    dtypes: tuple[str, ...]
    axes: Callable[[int], int]
    loops: str
    unit: str
    finishes: bool
    source: str
    note: str
    rule: Rule | None = None
    most_axes: int = _MOST_AXES


def _fits(entry: _Entry, operator: Operator) -> bool:
    shapes = [shape for shape in (*operator.inputs, *operator.outputs) if shape is not None]
    if max(map(len, shapes)) > entry.most_axes:
        return False
    for row in entry.dtypes:
        given, made = (side.split() for side in row.split("->"))
        if [operator.made_dtype] == made and list(operator.dtypes[: len(given)]) == given:
            return True
    return False


def _alike(dtypes: str, inputs: int = 1) -> tuple[str, ...]:
    """Inputs of the dtype of the output."""
    return tuple(f"{' '.join([dtype] * inputs)} -> {dtype}" for dtype in dtypes.split())


# Claims that differ from those of the operator, whoever computes it


def _resized_by_integers(op: Operator) -> claims.Claim | None:
    """Rows and columns of a bilinear resize of integers, whose positions are in units of 1 / 1024, rounded."""
    if op.is_float:
        return RULES["RESIZE_BILINEAR"](op)
    aligned, half = op.option("AlignCorners", False), op.option("HalfPixelCenters", False)
    reads: list[Axis] = ["n", None, None, "c"]
    for axis in (1, 2):
        rows, made = op.shape(0)[axis], op.made[axis]
        scale = (1024 * rows + made // 2) // made
        if aligned and made > 1:
            scale = (1024 * (rows - 1) + (made - 1) // 2) // (made - 1)
        if scale == 0:
            continue
        places = [i * scale + (scale // 2 - 512 if half else 0) for i in range(made)]
        taps = [(max(0, place // 1024), min((place + 1023) // 1024, rows - 1)) for place in places]
        if max(first for first, _ in taps) >= rows:  # the kernel reads behind the input
            return None
        reads[axis] = windows.resized(str(axis), rows, Fraction(scale, 1024), taps)
    return claims.Claim([reads], [["n", "1", "2", "c"]])


def _rows_of_products(op: Operator) -> claims.Claim | None:
    """The kernel takes the input as rows as long as those of the weights, one for each row of the output."""
    as_rows = math.prod(op.shape(0)) == math.prod(op.made[:-1]) * op.shape(1)[-1]
    return RULES["FULLY_CONNECTED"](op) if as_rows else None


# The table

_REFERENCE = "tensorflow/lite/kernels/internal/reference/"
_INTEGER = f"{_REFERENCE}integer_ops/"
_MICRO = "tensorflow/lite/micro/kernels/"
_IMAGE = "batch, rows, columns"
_WEIGHTED = ("float32 float32 -> float32", "int8 int8 -> int8", "int8 int4 -> int8", "int16 int8 -> int16")
_REPEATED = "An input that is broadcast is read again and again, and stays to the end of the loops that repeat it."
_WINDOWS = "It makes a pixel channel by channel, and reads the window of the pixel again for each channel."


def _all(rank: int) -> int:
    return rank


def _all_but_last(rank: int) -> int:
    return rank - 1


def _image(rank: int) -> int:
    return 3


def _pixels(dtypes: tuple[str, ...], source: str, note: str = _WINDOWS, rule: Rule | None = None) -> _Entry:
    return _Entry(dtypes, _image, _IMAGE, "pixel", True, source, note, rule)


def _elements(dtypes: tuple[str, ...], source: str, note: str = "", most_axes: int = _MOST_AXES) -> _Entry:
    note = note or "It reads an element and writes the one that it makes of it, then goes on."
    return _Entry(dtypes, _all, "all axes", "element", True, source, note, most_axes=most_axes)


def _pairs(dtypes: str, source: str) -> _Entry:
    broadcast = "BroadcastBinaryOpSimple of broadcast_loop.h"
    return _elements(_alike(dtypes, 2), f"{source}; for other shapes, {broadcast}", _REPEATED)


_FLOAT_ONLY = {
    **dict.fromkeys(("SIN", "COS", "LOG", "SQRT", "SQUARE"), f"{_MICRO}elementwise.cc: EvalImpl"),
    **{kind: f"{_REFERENCE}{kind.lower()}.h" for kind in ("CEIL", "EXP", "FLOOR", "ROUND")},
    "NEG": f"{_REFERENCE}neg.h: Negate",
}
_TABLE: Mapping[str, _Entry] = {
    "CONV_2D": _pixels(_WEIGHTED, f"{_INTEGER}conv.h: ConvPerChannel; for floats, {_REFERENCE}conv.h: Conv"),
    "DEPTHWISE_CONV_2D": _pixels(
        _WEIGHTED,
        f"{_INTEGER}depthwise_conv.h: DepthwiseConvPerChannel; for floats, {_REFERENCE}depthwiseconv_float.h",
    ),
    **{
        f"{kind}_POOL_2D": _pixels(
            _alike(dtypes), f"{_INTEGER}pooling.h: {name}Pool; for floats, {_REFERENCE}pooling.h: {name}Pool"
        )
        for kind, name, dtypes in (("AVERAGE", "Average", "float32 int8 int16"), ("MAX", "Max", "float32 int8 int16"))
    },
    "L2_POOL_2D": _pixels(_alike("float32"), f"{_REFERENCE}pooling.h: L2Pool"),
    "RESIZE_BILINEAR": _pixels(
        _alike("float32 int8"),
        f"{_REFERENCE}resize_bilinear.h: ResizeBilinear; for int8, ResizeBilinearInteger",
        "It makes a pixel channel by channel, of up to four pixels of the input.",
        _resized_by_integers,
    ),
    "RESIZE_NEAREST_NEIGHBOR": _Entry(
        *(_alike("float32 int8 int16"), _image, _IMAGE, "pixel", False),
        f"{_REFERENCE}resize_nearest_neighbor.h: ResizeNearestNeighbor",
        "It copies a pixel by memcpy, for which the two may not overlap.",
    ),
    "FULLY_CONNECTED": _Entry(
        *(_WEIGHTED, _all_but_last, "all axes but the last", "row", True),
        f"{_INTEGER}fully_connected.h: FullyConnected, FullyConnectedPerChannel; for floats, that of {_REFERENCE}",
        "It reads the row again for each number that it makes: with one row, nothing overlaps.",
        _rows_of_products,
    ),
    "SOFTMAX": _Entry(
        (*_alike("float32 int8 int16"), "int8 -> int16"),
        *(_all_but_last, "all axes but the last", "row", False),
        f"{_REFERENCE}softmax.h: Softmax, SoftmaxInt16",
        "It reads a row two or three times, for its maximum, its sum and its results: with one row, nothing overlaps.",
    ),
    "CONCATENATION": _Entry(
        *(_alike("float32 int8 int16 int32 int64 bool"), _all, "all axes before that of the parts", "row", False),
        f"{_REFERENCE}concatenation.h: Concatenation",
        "It copies a row of each input by memcpy. Parts along the first axis do not overlap.",
    ),
    **{
        kind: _Entry(
            *(_alike("float32 int8 int16 int32"), _all, "all axes", "element", True),
            f"{_REFERENCE}pad.h: PadImpl",
            "It writes element by element, and reads the next of the input where there is no padding.",
        )
        for kind in ("PAD", "PADV2")
    },
    "SLICE": _elements(_alike("float32 int8 int16 int32 bool"), f"{_REFERENCE}slice.h: Slice"),
    "STRIDED_SLICE": _Entry(
        *(_alike("float32 int8 int16 int32 bool"), _all_but_last, "all axes but the last", "row", False),
        f"{_REFERENCE}strided_slice.h: StridedSlice",
        "It copies a row by memcpy, or element by element. Loops end at an axis that is read backwards.",
    ),
    "QUANTIZE": _elements(
        (
            "float32 -> int8",
            *(f"int8 -> {dtype}" for dtype in ("int8", "uint8", "int16", "int32")),
            *("uint8 -> int8", "int16 -> int8", "int16 -> int16", "int32 -> int8"),
        ),
        f"{_REFERENCE}quantize.h: AffineQuantize; from integers, {_REFERENCE}requantize.h: Requantize",
    ),
    "DEQUANTIZE": _elements(("int8 -> float32", "uint8 -> float32"), f"{_REFERENCE}dequantize.h: Dequantize"),
    "ADD": _pairs("float32 int32 int8 int16", f"{_REFERENCE}add.h, {_INTEGER}add.h: Add"),
    "SUB": _pairs("float32 int32 int8 int16", f"{_REFERENCE}sub.h: Sub, SubWithActivation"),
    "MUL": _pairs("float32 int32 int8 int16", f"{_REFERENCE}mul.h, {_INTEGER}mul.h: Mul"),
    "DIV": _pairs("float32 int32 int8", f"{_REFERENCE}div.h: Div, DivElementwise"),
    "MAXIMUM": _pairs("float32 int8 int16 int32 int64", f"{_REFERENCE}maximum_minimum.h: MaximumMinimumBroadcastSlow"),
    "MINIMUM": _pairs("float32 int8 int16 int32 int64", f"{_REFERENCE}maximum_minimum.h: MaximumMinimumBroadcastSlow"),
    "SQUARED_DIFFERENCE": _pairs(
        "float32 int32 int8 int16", f"{_REFERENCE}binary_function.h: BinaryFunction, {_INTEGER}add.h: ElementWise"
    ),
    **{
        kind: _pairs("bool", f"{_MICRO}logical_common.cc: LogicalImpl, {_REFERENCE}binary_function.h: BinaryFunction")
        for kind in ("LOGICAL_AND", "LOGICAL_OR")
    },
    "PRELU": _elements(
        ("float32 float32 -> float32", "int8 int8 -> int8", "int16 int8 -> int16"),
        f"{_MICRO}prelu_common.cc: BroadcastPrelu4DSlowFloat; for integers, {_REFERENCE}prelu.h: BroadcastPrelu4DSlow",
        _REPEATED,
        most_axes=4,
    ),
    "RELU": _elements(_alike("float32 int8 int16"), f"{_MICRO}activations.h: ReluQuantized; for floats, ReluFloat"),
    "RELU6": _elements(_alike("float32 int8 int16"), f"{_MICRO}activations.h: Relu6Quantized; for floats, Relu6Float"),
    "LEAKY_RELU": _elements(_alike("float32 int8 int16"), f"{_REFERENCE}leaky_relu.h: LeakyRelu, QuantizeLeakyRelu"),
    "HARD_SWISH": _elements(_alike("float32 int8"), f"{_REFERENCE}hard_swish.h: HardSwish"),
    "LOGISTIC": _elements(_alike("float32 int8 int16"), f"{_REFERENCE}logistic.h, {_INTEGER}logistic.h: Logistic"),
    "TANH": _elements(_alike("float32 int8 int16"), f"{_REFERENCE}tanh.h, {_INTEGER}tanh.h: Tanh"),
    "ELU": _elements(_alike("float32 int8"), f"{_REFERENCE}elu.h: Elu; for int8, {_MICRO}elu.cc: EvalUsingLookupTable"),
    "ABS": _elements(_alike("float32 int8 int16"), f"{_MICRO}elementwise.cc: EvalImpl, EvalImplQuantized"),
    "RSQRT": _elements(_alike("float32 int8"), f"{_MICRO}elementwise.cc: EvalImpl, EvalImplQuantized"),
    "LOGICAL_NOT": _elements(_alike("bool"), f"{_MICRO}elementwise.cc: EvalImpl"),
    **{kind: _elements(_alike("float32"), source) for kind, source in _FLOAT_ONLY.items()},
}
_FILLS = "It fills the output before it reads."
_WHOLE: Mapping[str, tuple[str, str]] = {
    "MEAN": (
        f"{_REFERENCE}reduce.h: Mean, QuantizedMeanOrSum",
        f"{_FILLS} A mean of floats over rows and columns may read a channel of all of them before it goes on.",
    ),
    "SUM": (f"{_REFERENCE}reduce.h: ReduceGeneric, QuantizedMeanOrSum", _FILLS),
    **dict.fromkeys(("REDUCE_MAX", "REDUCE_MIN"), (f"{_REFERENCE}reduce.h: ReduceGeneric", _FILLS)),
    "TRANSPOSE_CONV": (
        f"{_REFERENCE}transpose_conv.h, {_INTEGER}transpose_conv.h: TransposeConv",
        "It adds each pixel of the input to all pixels that it reaches: floats in the output, integers in scratch.",
    ),
    "RESHAPE": (
        f"{_MICRO}reshape.cc: EvalReshapeReference",
        "It copies all by one memcpy, or nothing where the output lies exactly on the input, as memplan plans it.",
    ),
    "SQUEEZE": (f"{_MICRO}squeeze.cc: SqueezeEval", "It copies all by one memcpy, onto itself too."),
    "EXPAND_DIMS": (f"{_MICRO}expand_dims.cc: memCopyN", "It copies element by element, onto itself too."),
}
