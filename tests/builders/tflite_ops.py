"""Single operators of TFLite at random, of every kind that may be split: `OPERATORS` by kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from builders.arrays import floats, integers, pick, places, scalars, shape_of, smaller
from oracles.tflite import BINARY, UNARY


class Drawn(NamedTuple):
    """An operator of this kind: inputs, `fixed` of which are constants, options, and the shape that it makes.

    None: the shape is that which the kernel makes.
    """

    inputs: list[Any]
    options: Mapping[str, Any] = {}
    fixed: tuple[int, ...] = ()
    made: list[int] | None = None


Draw = Callable[[Any], Drawn]


def numbers(*values: int) -> Any:
    return np.array(values, np.int32)


def elementwise(count: int, dtypes: list[Any] | None = None) -> Draw:
    def draw(rng: Any) -> Drawn:
        shape = shape_of(rng)
        whole = int(rng.integers(count))
        shapes = [shape if k == whole else smaller(rng, shape) for k in range(count)]
        return Drawn([scalars(rng, d, s) for d, s in zip(dtypes or [np.float32] * count, shapes, strict=True)])

    return draw


def prelu(rng: Any) -> Drawn:
    shape = shape_of(rng)
    return Drawn([floats(rng, *shape), floats(rng, *smaller(rng, shape))])


def windows(rng: Any) -> tuple[list[int], list[int], dict[str, Any], list[int]]:
    """Rows, kernel, options and rows that are made."""
    kernel, strides, dilations = ([int(n) for n in rng.integers(1, most, 2)] for most in (4, 4, 3))
    wide = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
    rows = [int(w + rng.integers(0, 5)) for w in wide]
    valid = int(rng.integers(2))
    options = {"Padding": valid, "StrideH": strides[0], "StrideW": strides[1]}
    options |= {"DilationHFactor": dilations[0], "DilationWFactor": dilations[1]}
    made = [-(-(n - (w - 1) * valid) // s) for n, w, s in zip(rows, wide, strides, strict=True)]
    return rows, kernel, options, made


def conv(rng: Any) -> Drawn:
    rows, kernel, options, made = windows(rng)
    groups, wide, each = pick(rng, 1, 1, 2), int(rng.integers(1, 3)), int(rng.integers(1, 3))
    batch, channels = int(rng.integers(1, 3)), groups * each
    inputs = [floats(rng, batch, *rows, groups * wide), floats(rng, channels, *kernel, wide), floats(rng, channels)]
    options["FusedActivationFunction"] = int(rng.integers(2))
    return Drawn(inputs, options, made=[batch, *made, channels])


def depthwise(rng: Any) -> Drawn:
    rows, kernel, options, made = windows(rng)
    given = int(rng.integers(1, 4))
    channels = given * pick(rng, 1, 2)
    inputs = [floats(rng, 2, *rows, given), floats(rng, 1, *kernel, channels), floats(rng, channels)]
    return Drawn(inputs, {**options, "DepthMultiplier": channels // given}, made=[2, *made, channels])


def transposed(rng: Any) -> Drawn:
    kernel, strides, rows = ([int(n) for n in rng.integers(1, most, 2)] for most in (4, 4, 4))
    valid = int(rng.integers(2))
    more = [max(0, k - s) * valid for k, s in zip(kernel, strides, strict=True)]
    made = [2, *(n * s + m for n, s, m in zip(rows, strides, more, strict=True)), 3]
    options = {"Padding": valid, "StrideH": strides[0], "StrideW": strides[1]}
    return Drawn([numbers(*made), floats(rng, 3, *kernel, 2), floats(rng, 2, *rows, 2)], options, (0,), made)


def pool(rng: Any) -> Drawn:
    rows, kernel, options, made = windows(rng)
    if options["DilationHFactor"] > 1 or options["DilationWFactor"] > 1:
        return pool(rng)
    options = {name: value for name, value in options.items() if not name.startswith("Dilation")}
    options |= {"FilterHeight": kernel[0], "FilterWidth": kernel[1]}
    return Drawn([floats(rng, 2, *rows, 2)], options, made=[2, *made, 2])


def dense(rng: Any) -> Drawn:
    x = floats(rng, *rng.integers(1, 4, 3))
    keep = bool(rng.integers(2))
    wide = x.shape[2] if keep or rng.random() < 0.5 else x.shape[1] * x.shape[2]
    made = [*x.shape[:2], 3] if keep else [x.size // wide, 3]
    options = {"KeepNumDims": keep, "FusedActivationFunction": int(rng.integers(2))}
    return Drawn([x, floats(rng, 3, wide), floats(rng, 3)], options, made=made)


def matmul(rng: Any) -> Drawn:
    batch, m, k, n = (int(s) for s in rng.integers(1, 4, 4))
    a, b = bool(rng.integers(2)), bool(rng.integers(2))
    left, right = ((k, m) if a else (m, k)), ((n, k) if b else (k, n))
    return Drawn([floats(rng, batch, *left), floats(rng, batch, *right)], {"AdjX": a, "AdjY": b})


def reduction(booleans: bool = False) -> Draw:
    def draw(rng: Any) -> Drawn:
        shape = shape_of(rng)
        x = rng.random(shape) < 0.5 if booleans else floats(rng, *shape)
        axes = [a for a in range(len(shape)) if rng.random() < 0.5] or [0]
        keep = bool(rng.integers(2))
        made = [1 if a in axes else s for a, s in enumerate(shape) if keep or a not in axes]
        return Drawn([x, numbers(*axes)], {"KeepDims": keep}, (1,), made)

    return draw


def extreme(rng: Any) -> Drawn:
    shape = shape_of(rng)
    axis = int(rng.integers(len(shape)))
    shape[axis] += 1
    return Drawn([floats(rng, *shape), numbers(axis)], fixed=(1,))


def last(rng: Any) -> Drawn:
    return Drawn([floats(rng, *shape_of(rng, 1, 3), 3)])


def parts(rng: Any) -> Drawn:
    shape = shape_of(rng)
    axis = int(rng.integers(len(shape)))
    sizes = [[int(rng.integers(1, 3)) if k == axis else s for k, s in enumerate(shape)] for _ in range(2)]
    return Drawn([floats(rng, *size) for size in sizes], {"Axis": axis - pick(rng, 0, len(shape))})


def pack(rng: Any) -> Drawn:
    shape = shape_of(rng, 1, 3)
    axis = int(rng.integers(len(shape) + 1))
    return Drawn([floats(rng, *shape) for _ in range(2)], {"Axis": axis, "ValuesCount": 2})


def unpack(rng: Any) -> Drawn:
    shape = shape_of(rng, 2)
    axis = int(rng.integers(len(shape)))
    shape[axis] = 1
    return Drawn([floats(rng, *shape)], {"Axis": axis, "Num": 1})


def split(rng: Any) -> Drawn:
    shape = shape_of(rng, 2)
    axis = int(rng.integers(len(shape)))
    shape[axis] = 2
    return Drawn([numbers(axis), floats(rng, *shape)], {"NumSplits": 1}, (0,))


def split_v(rng: Any) -> Drawn:
    shape = shape_of(rng, 2)
    axis = int(rng.integers(len(shape)))
    shape[axis] = 3
    return Drawn([floats(rng, *shape), numbers(2, 1), numbers(axis)], {"NumSplits": 1}, (1, 2))


def pad(mirror: bool = False, value: bool = False) -> Draw:
    def draw(rng: Any) -> Drawn:
        shape = [int(s) for s in rng.integers(2, 5, rng.integers(1, 5))]
        amounts = rng.integers(0, 2, (len(shape), 2)).astype(np.int32) * (rng.random((len(shape), 1)) < 0.6)
        more = [np.array(7, np.float32)] if value else []
        fixed = (1, 2) if value else (1,)
        return Drawn([floats(rng, *shape), amounts.astype(np.int32), *more], {"Mode": 0} if mirror else {}, fixed)

    return draw


def cut(rng: Any) -> Drawn:
    shape = [int(s) for s in rng.integers(1, 6, rng.integers(1, 4))]
    begin = [int(rng.integers(s)) for s in shape]
    size = [int(rng.integers(1, s - b + 1)) for s, b in zip(shape, begin, strict=True)]
    return Drawn([floats(rng, *shape), numbers(*begin), numbers(*size)], fixed=(1, 2), made=size)


def strided(rng: Any) -> Drawn:
    shape = [int(s) for s in rng.integers(2, 8, rng.integers(2, 4))]
    begin = [int(rng.integers(s)) for s in shape]
    end = [int(rng.integers(b + 1, s + 1)) for s, b in zip(shape, begin, strict=True)]
    steps = [pick(rng, 1, 1, 2, 3) for _ in shape]
    masks = {name: int(rng.integers(2 ** len(shape))) for name in ("BeginMask", "EndMask")}
    drops = pick(rng, 0, 0, 1, 2)
    options = {name: mask & ~drops for name, mask in masks.items()} | {"ShrinkAxisMask": drops}
    steps = [1 if drops >> k & 1 else step for k, step in enumerate(steps)]
    if rng.random() < 0.2:  # backwards
        begin[-1], end[-1], steps[-1] = shape[-1] - 1, 0, -1
        options |= {name: options[name] & ~(1 << len(shape) - 1) for name in options}
    return Drawn([floats(rng, *shape), numbers(*begin), numbers(*end), numbers(*steps)], options, (1, 2, 3))


def transpose(rng: Any) -> Drawn:
    shape = shape_of(rng)
    return Drawn([floats(rng, *shape), numbers(*rng.permutation(len(shape)))], fixed=(1,))


def tile(rng: Any) -> Drawn:
    shape = shape_of(rng)
    return Drawn([floats(rng, *shape), numbers(*(pick(rng, 1, 1, 2) for _ in shape))], fixed=(1,))


def broadcast(rng: Any) -> Drawn:
    shape = shape_of(rng)
    return Drawn([floats(rng, *smaller(rng, shape)), numbers(*shape)], fixed=(1,))


def gather(rng: Any) -> Drawn:
    shape = shape_of(rng)
    axis = int(rng.integers(len(shape)))
    shape[axis] += 1
    return Drawn([floats(rng, *shape), places(rng, shape[axis], *rng.integers(1, 4, 2))], {"Axis": axis})


def depth_to_space(rng: Any) -> Drawn:
    x = floats(rng, 2, *rng.integers(1, 4, 2), 8)
    return Drawn([x], {"BlockSize": 2}, made=[2, 2 * x.shape[1], 2 * x.shape[2], 2])


def space_to_depth(rng: Any) -> Drawn:
    rows = [int(n) for n in rng.integers(1, 4, 2)]
    return Drawn([floats(rng, 2, 2 * rows[0], 2 * rows[1], 2)], {"BlockSize": 2}, made=[2, *rows, 8])


def resize(rng: Any) -> Drawn:
    rows, made = ([int(n) for n in rng.integers(low, 8, 2)] for low in (2, 1))
    made = [pick(rng, 2 * rows[0], made[0]), pick(rng, 3 * rows[1], rows[1], made[1])]
    kind = int(rng.integers(3))
    options = {"AlignCorners": kind == 1, "HalfPixelCenters": kind == 2}
    return Drawn([floats(rng, 2, *rows, 2), numbers(*made)], options, (1,), [2, *made, 2])


def reshape(rng: Any) -> Drawn:
    to = pick(rng, (2, 6, 2), (12, 2), (2, 3, 2, 2), (1, 6, 4, 1), (4, 6), (24,))
    return Drawn([floats(rng, *pick(rng, (2, 6, 2), (12, 2), (6, 4))), numbers(*to)], fixed=(1,), made=list(to))


F, I8, BOOLEAN = np.float32, np.int8, np.bool_
_LOGICAL = ("LOGICAL_AND", "LOGICAL_OR", "EQUAL", "NOT_EQUAL")
OPERATORS: dict[str, Draw] = {
    **{kind: elementwise(1) for kind in UNARY},
    "DEQUANTIZE": lambda rng: Drawn([integers(rng, 100, *shape_of(rng), dtype=np.int8)]),
    "LOGICAL_NOT": elementwise(1, [np.bool_]),
    **{kind: elementwise(2, [np.bool_] * 2 if kind in _LOGICAL else None) for kind in BINARY},
    "PRELU": prelu,
    "SELECT_V2": elementwise(3, [np.bool_, np.float32, np.float32]),
    **{"CONV_2D": conv, "DEPTHWISE_CONV_2D": depthwise, "TRANSPOSE_CONV": transposed},
    **{"FULLY_CONNECTED": dense, "BATCH_MATMUL": matmul},
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"), pool),
    **dict.fromkeys(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"), resize),
    **{kind: reduction() for kind in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")},
    **{kind: reduction(booleans=True) for kind in ("REDUCE_ANY", "REDUCE_ALL")},
    **dict.fromkeys(("ARG_MAX", "ARG_MIN"), extreme),
    **dict.fromkeys(("SOFTMAX", "LOG_SOFTMAX", "L2_NORMALIZATION"), last),
    **{"CONCATENATION": parts, "PACK": pack, "UNPACK": unpack, "SPLIT": split, "SPLIT_V": split_v},
    **{"PAD": pad(), "PADV2": pad(value=True), "MIRROR_PAD": pad(mirror=True), "SLICE": cut, "STRIDED_SLICE": strided},
    **{"TRANSPOSE": transpose, "TILE": tile, "BROADCAST_TO": broadcast, "GATHER": gather},
    **{"DEPTH_TO_SPACE": depth_to_space, "SPACE_TO_DEPTH": space_to_depth},
    "EMBEDDING_LOOKUP": lambda rng: Drawn([places(rng, 4, int(rng.integers(1, 4))), floats(rng, 4, 3)]),
    "RESHAPE": reshape,
    "SQUEEZE": lambda rng: Drawn([floats(rng, 3, 1, 2)]),
    "EXPAND_DIMS": lambda rng: Drawn([floats(rng, 3, 2), np.array(rng.integers(0, 3), np.int32)], fixed=(1,)),
}
