"""Loops of operators that change the size of a picture by a ratio of rows: adaptive pooling, and interpolation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from math import ceil, floor
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .calls import Call, Loop, Rows, Written
from .spans import spans
from .spread import _given
from .window_ops import _front

_FINEST = 1 << 20  # the largest denominator of a scale that is given as a number


def adaptive_pooling(call: Call) -> Iterator[Loop]:
    """Of H rows to O: row i of the result reads rows from i * H / O to (i + 1) * H / O."""
    source, out = _given(call, "self"), call.outputs[0]
    count = len(call["output_size"])
    front = _front(out, count)
    places = range(len(call.results))
    yield from spans(call, {"self": front}, dict.fromkeys(places, front), front)
    for axis in range(out.dim() - count, out.dim()):
        ratio = Fraction(source.shape[axis], out.shape[axis])
        writes = {place: Written((axis, axis)) for place in places}
        yield from call.loop(out.shape[axis], {"self": Rows((axis, axis), ratio, ratio)}, writes)


def _adaptive_backward(count: int) -> Callable[[Call], Iterator[Loop]]:
    def rule(call: Call) -> Iterator[Loop]:
        """The same ratio, turned round. Of what was pooled, only the shape counts."""
        given, out = _given(call, "grad_output"), call.outputs[0]
        front = _front(out, count)
        yield from spans(call, {"grad_output": front, "indices": front}, {0: front}, front)
        for axis in range(out.dim() - count, out.dim()):
            ratio = Fraction(given.shape[axis], out.shape[axis])
            rows = Rows((axis, axis), ratio, ratio)
            yield from call.loop(out.shape[axis], {"grad_output": rows, "indices": rows}, {0: Written((axis, axis))})

    return rule


adaptive_backward_2d = _adaptive_backward(2)
adaptive_backward_3d = _adaptive_backward(3)


def nearest(call: Call) -> Iterator[Loop]:
    """Row i of the result is a copy of row floor(i * ratio)."""
    return _resized(call, _given(call, "self"), call.outputs[0], smooth=False, back=False)


def nearest_backward(call: Call) -> Iterator[Loop]:
    return _resized(call, call.outputs[0], _given(call, "grad_output"), smooth=False, back=True)


def linear(call: Call) -> Iterator[Loop]:
    """Row i of the result is made of the two rows around (i + 1/2) * ratio - 1/2, or i * ratio if corners are aligned.

    A row of weight zero does not count.
    """
    return _resized(call, _given(call, "self"), call.outputs[0], smooth=True, back=False)


def linear_backward(call: Call) -> Iterator[Loop]:
    return _resized(call, call.outputs[0], _given(call, "grad_output"), smooth=True, back=True)


def _resized(call: Call, small: Tensor, large: Tensor, smooth: bool, back: bool) -> Iterator[Loop]:
    """Loops from the picture before to that after, or back; an axis whose rows rounding puts elsewhere has none."""
    slot = "grad_output" if back else "self"
    front = _front(large, large.dim() - 2)
    yield from spans(call, {slot: front}, {0: front}, front)
    for axis in range(2, large.dim()):
        rows, others = small.shape[axis], large.shape[axis]
        ratio = _ratio(call, axis, rows, others)
        if ratio is None or ratio <= 0:
            continue
        shift = Fraction(0) if not smooth or call["align_corners"] else (ratio - 1) / 2
        read = _rows_back(ratio, shift, smooth) if back else _rows(ratio, shift, smooth)
        if read is None:
            continue
        read = read._replace(axes=(axis, axis))
        used = _used(_step(call, axis, ratio), bool(call["align_corners"]), rows, others, smooth, large.dtype)
        pairs = [(o, h) for o, found in enumerate(used) for h in found]
        iterations = rows if back else others
        named = [_range(read, i) for i in range(iterations)]
        if all(named[i][0] <= r < named[i][1] for i, r in ((h, o) if back else (o, h) for o, h in pairs)):
            yield from call.loop(iterations, {slot: read}, {0: Written((axis, axis))})


def _rows(ratio: Fraction, shift: Fraction, smooth: bool) -> Rows:
    """Rows that a row reads: what lies around a place, or the one in which it lies."""
    return Rows((0, 0), ratio, 1 if smooth else Fraction(1, ratio.denominator), -shift)


def _rows_back(ratio: Fraction, shift: Fraction, smooth: bool) -> Rows | None:
    """Rows that read a row; None if some are read by none."""
    if smooth:  # those whose place is less than one row away
        before, window = (1 + shift) / ratio - 1, 2 / ratio - 1
    else:
        before = -Fraction(ratio.numerator - 1, ratio.numerator)
        window = 1 / ratio + before
    return Rows((0, 0), 1 / ratio, window, before) if window > 0 else None


def _range(rows: Rows, i: int) -> tuple[int, int]:
    first = i * rows.step - rows.before
    return floor(first), ceil(first + rows.window)


def _ratio(call: Call, axis: int, rows: int, others: int) -> Fraction | None:
    """Rows of the picture before for one of that after."""
    if call["align_corners"]:
        return Fraction(rows - 1, others - 1) if min(rows, others) > 1 else None
    scale = _scale(call, axis)
    return Fraction(rows, others) if scale is None else 1 / Fraction(scale).limit_denominator(_FINEST)


def _scale(call: Call, axis: int) -> float | None:
    """The scale that a call names, which counts more than the sizes."""
    if call["scale_factors"] is not None:
        return float(call["scale_factors"][axis - 2])
    rank = call.outputs[0].dim()
    names = ["scales_d", "scales_h", "scales_w"][-(rank - 2) :]
    value = call[names[axis - 2]] if rank > 3 else call["scales"]
    return None if value is None else float(value)


def _step(call: Call, axis: int, ratio: Fraction) -> float:
    """The ratio as kernels have it."""
    scale = None if call["align_corners"] else _scale(call, axis)
    return float(ratio) if scale is None else 1 / scale


def _used(step: float, aligned: bool, rows: int, others: int, smooth: bool, dtype: torch.dtype) -> list[list[int]]:
    """The rows that count for each row, as kernels compute them: in floating point."""
    real: Any = np.float64 if dtype == torch.float64 else np.float32
    places, half = np.arange(others, dtype=real), real(0 if aligned else 0.5)
    if not smooth:
        return [[int(k)] for k in np.minimum(np.floor(places * real(step)), rows - 1)]
    found = np.maximum((places + half) * real(step) - half, real(0))
    low = np.minimum(np.floor(found), rows - 1)
    pairs = zip(low, found - low, strict=True)
    return [[int(k), *([int(min(k + 1, rows - 1))] if weight > 0 else [])] for k, weight in pairs]
