"""Operators of TFLite at random, of every kind of the table of TFLite Micro's kernels: `draw(kind, dtypes, chance)`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np

from oracles.micro_kernels import Case

Drawn = tuple[list[list[int]], list[int], dict[str, Any], dict[int, Any]]  # inputs, output, options, constants
Draw = Callable[[Random], Drawn]


def draw(kind: str, dtypes: str, chance: Random) -> Case:
    """An operator of a kind with these dtypes: "int8 int8 -> int8"."""
    inputs, made, options, constants = DRAWS[kind](chance)
    given, result = (side.split() for side in dtypes.split("->"))
    further = given[-1:] if kind == "CONCATENATION" else ["int32"]
    every = [*given, *further * (len(inputs) - len(given))]
    return Case(kind, inputs, made, every, result[0], options, constants)


def batch(chance: Random) -> int:
    return chance.choice((1, 1, 1, 2, 3))


def image(chance: Random) -> list[int]:
    return [batch(chance), chance.randint(1, 8), chance.randint(1, 8), chance.randint(1, 4)]


def shape(chance: Random) -> list[int]:
    return [chance.randint(1, 4) for _ in range(chance.randint(1, 4))]


def windows(chance: Random, x: Sequence[int], dilates: bool = True) -> tuple[list[int], list[int], dict[str, Any]]:
    """A kernel, rows and columns that are made, and options."""
    valid, kernel, made, options = chance.random() < 0.4, list[int](), list[int](), dict[str, Any]()
    for axis, letter in enumerate("HW"):
        size, dilation, stride = x[1 + axis], chance.choice((1, 1, 2, 3)) if dilates else 1, chance.randint(1, 3)
        most = (size - 1) // dilation + 1 if valid else 4
        kernel.append(chance.randint(1, min(most, 5)))
        wide = dilation * (kernel[-1] - 1) + 1
        made.append((size - wide) // stride + 1 if valid else -(-size // stride))
        options[f"Stride{letter}"] = stride
        if dilates:
            options[f"Dilation{letter}Factor"] = dilation
    return kernel, made, options | {"Padding": int(valid)}


def convolution(chance: Random) -> Drawn:
    x, groups, wide = image(chance), chance.choice((1, 1, 1, 2)), chance.randint(1, 3)
    x[3], channels = groups * wide, groups * chance.randint(1, 3)
    kernel, made, options = windows(chance, x)
    return [x, [channels, *kernel, wide], [channels]], [x[0], *made, channels], options, {}


def depthwise(chance: Random) -> Drawn:
    x = image(chance)
    kernel, made, options = windows(chance, x)
    channels = x[3] * chance.choice((1, 1, 2))
    options["DepthMultiplier"] = channels // x[3]
    return [x, [1, *kernel, channels], [channels]], [x[0], *made, channels], options, {}


def pooling(chance: Random) -> Drawn:
    x = image(chance)
    kernel, made, options = windows(chance, x, dilates=False)
    options |= {"FilterHeight": kernel[0], "FilterWidth": kernel[1]}
    return [x], [x[0], *made, x[3]], options, {}


def resize(chance: Random) -> Drawn:
    x = image(chance)
    made = [chance.choice((1, 2, n - 1, n, n + 1, 2 * n, 3 * n, 17)) or 1 for n in x[1:3]]
    options = chance.choice(({}, {"AlignCorners": True}, {"HalfPixelCenters": True}))
    return [x, [2]], [x[0], *made, x[3]], options, {}


def products(chance: Random) -> Drawn:
    rows, wide, made = shape(chance), chance.randint(1, 8), chance.randint(1, 6)
    kept = chance.random() < 0.5
    lead = rows if kept else [math.prod(rows)]
    return [[*rows, wide], [made, wide], [made]], [*lead, made], {"KeepNumDims": kept}, {}


def rows(chance: Random) -> Drawn:
    x = [*shape(chance), chance.randint(1, 6)]
    return [x], x, {}, {}


def concatenation(chance: Random) -> Drawn:
    whole = shape(chance)
    axis = chance.randrange(len(whole))
    sizes = [chance.randint(1, 3) for _ in range(chance.randint(1, 4))]
    inputs = [[size if k == axis else n for k, n in enumerate(whole)] for size in sizes]
    whole[axis] = sum(sizes)
    return inputs, whole, {"Axis": axis - chance.choice((0, len(whole)))}, {}


def padding(chance: Random) -> Drawn:
    x = image(chance) if chance.random() < 0.5 else shape(chance)
    amounts = [[chance.choice((0, 0, 1, 2)), chance.choice((0, 0, 1, 3))] for _ in x]
    return [x, [len(x), 2]], [n + sum(amount) for n, amount in zip(x, amounts, strict=True)], {}, {1: np.array(amounts)}


def cut(chance: Random) -> Drawn:
    x = [chance.randint(1, 6) for _ in range(chance.randint(1, 4))]
    begin = [chance.randrange(n) for n in x]
    size = [chance.randint(1, n - b) for n, b in zip(x, begin, strict=True)]
    return [x, [len(x)], [len(x)]], size, {}, {1: np.array(begin), 2: np.array(size)}


def strided(chance: Random) -> Drawn:
    x = [chance.randint(1, 7) for _ in range(chance.randint(1, 4))]
    begin, end, steps, masks, made = list[int](), list[int](), list[int](), dict.fromkeys("BES", 0), list[int]()
    for axis, size in enumerate(x):
        free, open_, drop = (chance.random() < p for p in (0.3, 0.3, 0.15))
        back = chance.random() < 0.1 and not drop
        first, last = sorted(chance.sample(range(size + 1), 2))
        begin.append(last - 1 if back else first)
        end.append(first if back else last)
        steps.append(-1 if back else 1 if drop else chance.choice((1, 1, 2, 3)))
        masks = {"B": masks["B"] | (free and not drop) << axis, "E": masks["E"] | (open_ and not drop) << axis} | {
            "S": masks["S"] | drop << axis
        }
        bounds = slice(None if free else begin[-1], None if open_ else end[-1], steps[-1])
        if not drop:
            made.append(len(range(*bounds.indices(size))))
    if not made or 0 in made:
        return strided(chance)
    options = {"BeginMask": masks["B"], "EndMask": masks["E"], "ShrinkAxisMask": masks["S"]}
    constants = {1: np.array(begin), 2: np.array(end), 3: np.array(steps)}
    return [x, *[[len(x)]] * 3], made, options, constants


def alone(chance: Random) -> Drawn:
    x = shape(chance)
    return [x], x, {}, {}


def smaller(chance: Random, whole: Sequence[int]) -> list[int]:
    """A shape that is broadcast to another."""
    return [n if chance.random() < 0.7 else 1 for n in whole][chance.choice((0, 0, 0, 1, len(whole))) :]


def pairs(chance: Random) -> Drawn:
    whole = shape(chance)
    inputs = [whole, whole if chance.random() < 0.3 else smaller(chance, whole)]
    if chance.random() < 0.5:
        inputs.reverse()
    return inputs, whole, {}, {}


def slopes(chance: Random) -> Drawn:
    whole = shape(chance)
    return [whole, smaller(chance, whole)], whole, {}, {}


_ALONE = """
    QUANTIZE DEQUANTIZE RELU RELU6 LEAKY_RELU HARD_SWISH LOGISTIC TANH ELU ABS RSQRT LOGICAL_NOT SIN COS LOG SQRT SQUARE
    CEIL EXP FLOOR ROUND NEG
"""
_PAIRS = "ADD SUB MUL DIV MAXIMUM MINIMUM SQUARED_DIFFERENCE LOGICAL_AND LOGICAL_OR"
DRAWS: dict[str, Draw] = {
    **{"CONV_2D": convolution, "DEPTHWISE_CONV_2D": depthwise, "FULLY_CONNECTED": products, "SOFTMAX": rows},
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"), pooling),
    **dict.fromkeys(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"), resize),
    **{"CONCATENATION": concatenation, "PAD": padding, "PADV2": padding, "SLICE": cut, "STRIDED_SLICE": strided},
    **dict.fromkeys(_ALONE.split(), alone),
    **dict.fromkeys(_PAIRS.split(), pairs),
    "PRELU": slopes,
}
