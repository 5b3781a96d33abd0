"""Windows of rows: what a row of the output of a convolution, a pooling or a resize reads of an axis of the input."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction

from .loops import Axis, Rows, covering


def window(loop: str, kernel: int, stride: int, dilation: int, before: int) -> Rows:
    """What a convolution or pooling reads, with so many rows of padding before the first."""
    return Rows(loop, stride, dilation * (kernel - 1) + 1, before)


def transposed(loop: str, kernel: int, stride: int, dilation: int, before: int) -> tuple[Rows, Rows]:
    """What a transposed convolution reads for `stride` rows of the output, and these; it cuts `before` rows off.

    Row j of the input adds to rows `j * stride - before + dilation * k` of the output, for k < `kernel`.
    """
    earlier = (dilation * (kernel - 1) - before) // stride
    return Rows(loop, 1, earlier + 1 + -(-before // stride), earlier), Rows(loop, stride)


def same_padding(rows: int, kernel: int, stride: int, dilation: int) -> int:
    """Rows of padding, before and after, with which there are `rows / stride` windows, rounded up."""
    return max(0, (-(-rows // stride) - 1) * stride + dilation * (kernel - 1) + 1 - rows)


def grouped(loop: str, groups: int, *channels: int) -> list[Axis]:
    """Channels of several tensors, as many groups in each."""
    return [loop if size == groups else Rows(loop, size // groups, size // groups) for size in channels]


def resized(loop: str, rows: int, step: Fraction, taps: Iterable[tuple[int, int]]) -> Axis:
    """An axis of a resize, whose output has rows of input `taps[i]`, first and last; what is outside is at the edge."""
    found = [(min(max(first, 0), rows - 1), min(max(last, 0), rows - 1)) for first, last in taps]
    wide, before = covering(step, found)
    return Rows(loop, step, wide, before)


def float32_slack(step: Fraction, rows: int) -> Fraction:
    """How far off a runtime may find a position among so many rows, in float32; steps in powers of two are exact."""
    return Fraction(0) if step.denominator & (step.denominator - 1) == 0 else Fraction(rows + 1, 10**6)


def nearest(position: Fraction, slack: Fraction, rounding: str) -> tuple[int, int]:
    """The row nearest to a position, or both that may be."""
    half = Fraction(1, 2)
    kinds: dict[str, Callable[[Fraction], int]] = {
        "floor": math.floor,
        "ceil": math.ceil,
        "round_prefer_floor": lambda x: math.ceil(x - half),
        "round_prefer_ceil": lambda x: math.floor(x + half),
    }
    return kinds[rounding](position - slack), kinds[rounding](position + slack)


def between(position: Fraction, slack: Fraction, reach: int = 0) -> tuple[int, int]:
    """The rows between which a position lies, and `reach` more on each side."""
    return math.floor(position - slack) - reach, math.ceil(position + slack) + reach
