"""The reference kernels of TFLite Micro as plain loops that log each element that they read and write, in order.

Written apart: nothing here imports memplan. A kernel gets a `Case` and gives its log: `8 * element + tensor`, where the
output is tensor 7. Weights, biases and other constants are not logged.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

OUTPUT = 7
Log = list[int]


class Case(NamedTuple):
    """An operator: shapes and dtypes of its inputs and its output, options by name, constants by position."""

    kind: str
    inputs: Sequence[Sequence[int]]
    made: Sequence[int]
    dtypes: Sequence[str]
    made_dtype: str
    options: Mapping[str, Any] = {}
    constants: Mapping[int, Any] = {}

    def option(self, name: str, otherwise: Any) -> Any:
        return self.options.get(name, otherwise)


def reads(log: Log, tensor: int, first: int, count: int = 1) -> None:
    log.extend(range(8 * first + tensor, 8 * (first + count) + tensor, 8))


def copy(log: Log, tensor: int, source: int, to: int, count: int) -> None:
    """memcpy: in any order. So what it reads, it may read after all but its last write."""
    reads(log, tensor, source, count)
    if count > 1:
        reads(log, OUTPUT, to, count - 1)
        reads(log, tensor, source, count)
    reads(log, OUTPUT, to + count - 1)


def taps(case: Case, kernel: Sequence[int], dilations: Sequence[int]) -> Callable[[int, int], Iterator[int]]:
    """By a row and a column of the output: the pixels of the input that its window has, in order."""
    rows, columns = case.inputs[0][1:3]
    strides = case.option("StrideH", 1), case.option("StrideW", 1)
    before = []
    for axis in (0, 1):
        size, stride, wide = case.inputs[0][1 + axis], strides[axis], dilations[axis] * (kernel[axis] - 1) + 1
        windows = (size + stride - 1) // stride if case.option("Padding", 0) == 0 else (size + stride - wide) // stride
        before.append(max(0, (windows - 1) * stride + wide - size) // 2)

    def window(row: int, column: int) -> Iterator[int]:
        for k in range(kernel[0]):
            y = row * strides[0] - before[0] + k * dilations[0]
            for m in range(kernel[1]):
                x = column * strides[1] - before[1] + m * dilations[1]
                if 0 <= y < rows and 0 <= x < columns:
                    yield y * columns + x

    return window


def places(case: Case) -> Iterator[tuple[int, int, int]]:
    return itertools.product(*map(range, case.made[:3]))


def convolution(case: Case) -> Log:
    (_, rows, columns, given), filters, made = case.inputs[0], case.inputs[1], case.made[3]
    window = taps(case, filters[1:3], (case.option("DilationHFactor", 1), case.option("DilationWFactor", 1)))
    wide, log, written = filters[3], Log(), 0
    each = made // (given // wide)
    for n, y, x in places(case):
        pixels = [(n * rows * columns + pixel) * given for pixel in window(y, x)]
        for channel in range(made):
            for pixel in pixels:
                reads(log, 0, pixel + channel // each * wide, wide)
            reads(log, OUTPUT, written)
            written += 1
    return log


def by_channel(case: Case, kernel: Sequence[int], dilations: Sequence[int]) -> Log:
    """Each channel of the output from the window of one channel of the input."""
    (_, rows, columns, given), made = case.inputs[0], case.made[3]
    window, log, written = taps(case, kernel, dilations), Log(), 0
    for n, y, x in places(case):
        pixels = [(n * rows * columns + pixel) * given for pixel in window(y, x)]
        for channel in range(made):
            log.extend([8 * (pixel + channel // (made // given)) for pixel in pixels])
            reads(log, OUTPUT, written)
            written += 1
    return log


def depthwise(case: Case) -> Log:
    return by_channel(case, case.inputs[1][1:3], (case.option("DilationHFactor", 1), case.option("DilationWFactor", 1)))


def pooling(case: Case) -> Log:
    return by_channel(case, (case.option("FilterHeight", 1), case.option("FilterWidth", 1)), (1, 1))


def products(case: Case) -> Log:
    wide, made, log = case.inputs[1][-1], case.made[-1], Log()
    for row in range(math.prod(case.made[:-1])):
        for number in range(made):
            reads(log, 0, row * wide, wide)
            reads(log, OUTPUT, row * made + number)
    return log


def softmax(case: Case) -> Log:
    """Maximum, sum, results. Floats: exponentials are written with the sum, and then divided."""
    wide, log = case.made[-1], Log()
    for row in range(math.prod(case.made[:-1])):
        first = row * wide
        reads(log, 0, first, wide)
        if case.dtypes[0] == "int8":
            reads(log, 0, first, wide)
        for number in range(first, first + wide):
            reads(log, 0, number)
            reads(log, OUTPUT, number)
        if case.dtypes[0] != "int8":
            reads(log, OUTPUT, first, wide)
    return log


def nearest_place(case: Case, axis: int, i: int) -> int:
    rows, made = case.inputs[0][axis], case.made[axis]
    aligned, half = case.option("AlignCorners", False), np.float32(0.5 * case.option("HalfPixelCenters", False))
    scale = np.float32(rows - 1) / np.float32(made - 1) if aligned and made > 1 else np.float32(rows) / np.float32(made)
    place = (np.float32(i) + half) * scale
    return int(min(np.floor(place + np.float32(0.5)) if aligned else np.floor(place), rows - 1))


def smooth_places(case: Case, axis: int, i: int) -> tuple[int, int]:
    rows, made = case.inputs[0][axis], case.made[axis]
    aligned, half = case.option("AlignCorners", False) and made > 1, case.option("HalfPixelCenters", False)
    if case.dtypes[0] == "float32":
        scale = np.float32(rows - 1) / np.float32(made - 1) if aligned else np.float32(rows) / np.float32(made)
        middle = np.float32(0.5) if half else np.float32(0)
        place = (np.float32(i) + middle) * scale - middle
        return max(int(np.floor(place)), 0), min(int(np.ceil(place)), rows - 1)
    whole, parts = (rows - 1, made - 1) if aligned else (rows, made)
    units = (1024 * whole + parts // 2) // parts  # a row is 1024 units
    at = i * units + (units // 2 - 512 if half else 0)
    return max(int(at / 1024), 0), min(int((at + 1023) / 1024), rows - 1)


def bilinear(case: Case) -> Log:
    (_, rows, columns, depth), log, written = case.inputs[0], Log(), 0
    across = [[smooth_places(case, axis, i) for i in range(case.made[axis])] for axis in (1, 2)]
    for n, y, x in places(case):
        corners = [((n * rows + b) * columns + a) * depth for a in across[1][x] for b in across[0][y]]
        for channel in range(depth):
            log.extend([8 * (corner + channel) for corner in corners])
            reads(log, OUTPUT, written)
            written += 1
    return log


def nearest(case: Case) -> Log:
    (_, rows, columns, depth), log, written = case.inputs[0], Log(), 0
    across = [[nearest_place(case, axis, i) for i in range(case.made[axis])] for axis in (1, 2)]
    for n, y, x in places(case):
        copy(log, 0, ((n * rows + across[0][y]) * columns + across[1][x]) * depth, written, depth)
        written += depth
    return log


def concatenation(case: Case) -> Log:
    axis, log, written = case.option("Axis", 0) % len(case.made), Log(), 0
    for row in range(math.prod(case.made[:axis])):
        for tensor, shape in enumerate(case.inputs):
            wide = math.prod(shape[axis:])
            copy(log, tensor, row * wide, written, wide)
            written += wide
    return log


def padding(case: Case) -> Log:
    log, read = Log(), 0
    inside = [range(before, size - after) for size, (before, after) in zip(case.made, case.constants[1], strict=True)]
    for written, index in enumerate(itertools.product(*map(range, case.made))):
        if all(i in axis for i, axis in zip(index, inside, strict=True)):
            reads(log, 0, read)
            read += 1
        reads(log, OUTPUT, written)
    return log


def steps_of(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def element(index: Iterable[int], steps: Sequence[int]) -> int:
    return sum(i * step for i, step in zip(index, steps, strict=True))


def cut(case: Case) -> Log:
    log, steps = Log(), steps_of(case.inputs[0])
    ranges = [range(begin, begin + size) for begin, size in zip(case.constants[1], case.made, strict=True)]
    for written, index in enumerate(itertools.product(*ranges)):
        reads(log, 0, element(index, steps))
        reads(log, OUTPUT, written)
    return log


def strided(case: Case) -> Log:
    """Rows whose elements follow one another are copied."""
    (begin, end, strides), shape, ranges = (case.constants[k] for k in (1, 2, 3)), case.inputs[0], list[range]()
    masks = {name: case.option(f"{name}Mask", 0) for name in ("Begin", "End", "ShrinkAxis")}
    for axis, (first, last, step) in enumerate(zip(begin, end, strides, strict=True)):
        free, open_, drop = (bool(masks[name] >> axis & 1) for name in ("Begin", "End", "ShrinkAxis"))
        if drop:
            ranges.append(range(int(first), int(first) + 1))
        else:
            bounds = slice(None if free else int(first), None if open_ else int(last), int(step))
            ranges.append(range(*bounds.indices(shape[axis])))
    log, written, steps = Log(), 0, steps_of(shape)
    for index in itertools.product(*ranges[:-1]):
        base = element((*index, 0), steps)
        if int(strides[-1]) == 1:
            copy(log, 0, base + ranges[-1].start, written, len(ranges[-1]))
            written += len(ranges[-1])
            continue
        for last_one in ranges[-1]:
            reads(log, 0, base + last_one)
            reads(log, OUTPUT, written)
            written += 1
    return log


def one_by_one(case: Case) -> Log:
    count = math.prod(case.made)
    return [code for k in range(count) for code in (8 * k, 8 * k + OUTPUT)]


def pairs(case: Case) -> Log:
    """Of two inputs, one of which may be repeated. What is repeated along all of the innermost loop is read before it.

    Axes are one loop where both inputs go on, or are repeated, as along the axes behind.
    """
    loops: list[list[int]] = []  # how often, and how far each input goes on; the innermost first
    ranked = [[*[1] * (len(case.made) - len(shape)), *shape] for shape in case.inputs[:2]]
    for axis in reversed(range(len(case.made))):
        size = case.made[axis]
        steps = [0 if shape[axis] == 1 != size else math.prod(shape[axis + 1 :]) for shape in ranked]
        if loops and (size == 1 or all((a == 0) == (b == 0) for a, b in zip(steps, loops[-1][1:], strict=True))):
            loops[-1][0] *= size
        else:
            loops.append([size, *steps])
    (count, *inner), log = loops[0] if loops else [1, 1, 1], Log()
    plain = case.kind == "PRELU" and case.dtypes[0] == "float32"
    once = [] if plain else [tensor for tensor in (0, 1) if inner[tensor] == 0]
    outer = loops[1:][::-1]
    for row, index in enumerate(itertools.product(*(range(loop[0]) for loop in outer))):
        bases = [element(index, [loop[1 + tensor] for loop in outer]) for tensor in (0, 1)]
        for tensor in once:
            reads(log, tensor, bases[tensor])
        for k in range(count):
            for tensor in {0, 1} - {*once}:
                reads(log, tensor, bases[tensor] + k * inner[tensor])
            reads(log, OUTPUT, row * count + k)
    return log


_BINARY = "ADD SUB MUL DIV MAXIMUM MINIMUM SQUARED_DIFFERENCE LOGICAL_AND LOGICAL_OR PRELU"
_UNARY = """
    QUANTIZE DEQUANTIZE RELU RELU6 LEAKY_RELU HARD_SWISH LOGISTIC TANH ELU ABS RSQRT LOGICAL_NOT SIN COS LOG SQRT SQUARE
    CEIL EXP FLOOR ROUND NEG
"""
KERNELS: dict[str, Callable[[Case], Log]] = {
    **{"CONV_2D": convolution, "DEPTHWISE_CONV_2D": depthwise, "FULLY_CONNECTED": products, "SOFTMAX": softmax},
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"), pooling),
    **{"RESIZE_BILINEAR": bilinear, "RESIZE_NEAREST_NEIGHBOR": nearest, "CONCATENATION": concatenation},
    **{"PAD": padding, "PADV2": padding, "SLICE": cut, "STRIDED_SLICE": strided},
    **dict.fromkeys(_UNARY.split(), one_by_one),
    **dict.fromkeys(_BINARY.split(), pairs),
}
