"""When an op's ordered loops read each row of an input last, and write each of an output first, by a graph dict alone.

Imports nothing of memplan. Rows that are read last before a row of the output is written there may lie under it. From
this follow the distances at which an output may lie over an input, gaps between rows among them, and so the bytes that
the two may share.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

MOST_ROWS = 1 << 20
MOST_LOOKS = 1 << 24  # at pairs of rows
_MOST_ITERATIONS = 1 << 62
_NEVER, _BEFORE = -2, -1  # read, and before the first iteration

Ints = npt.NDArray[np.int64]
Tensor = Mapping[str, Any]


def most_common(op: Mapping[str, Any], output: str, source: str, tensors: Mapping[str, Tensor], ahead: int) -> int:
    """The bytes that an output and an input of an op share at most, wherever its loops allow the output to lie.

    ``ahead``: by the ends of what is needed and written, the output begins at least so many bytes before the input.
    """
    made, read = tensors[output], tensors[source]
    whole, by_ends = min(made["bytes"], read["bytes"]), min(made["bytes"], read["bytes"], made["bytes"] - ahead)
    loops = [op["loops"][position] for position in op["ordered"]]
    extents = [int(loop["extent"]) for loop in loops]
    if op.get("slice") or op.get("concat") or max(extents) > MOST_ROWS or math.prod(extents) > _MOST_ITERATIONS:
        return int(whole)  # some of what is copied is not written; or it takes too long to find out
    weights = [math.prod(extents[k + 1 :]) for k in range(len(loops))]
    written = _written(loops, weights, output, made)
    positions = [k for k, name in enumerate(op["inputs"]) if name == source]
    reads = [_read(loops, weights, op, position, read) for position in positions]
    if written is None or any(rows is None for rows in reads):
        return int(whole)
    row = math.gcd(*(size for size, _ in (written, *reads)))  # type: ignore[misc]
    if max(made["bytes"], read["bytes"]) // row > MOST_ROWS:
        return int(whole)
    first = np.repeat(written[1], written[0] // row)
    last = np.maximum.reduce([np.repeat(times, size // row) for size, times in reads])  # type: ignore[misc]
    found = _pair(first, last, bool(op.get("reads_first")), 1 - ahead // row)
    if found is None:
        return row * _most_at_once(first, last, bool(op.get("reads_first")))
    return max(0, int(by_ends), row * found)


def _pair(first: Ints, last: Ints, reads_first: bool, begin: int) -> int | None:
    """The rows that both have in common at most, at a distance from `begin` on that is safe; None if not known."""
    harmful = np.less if reads_first else np.less_equal

    def harms(written: Ints, read: Ints) -> npt.NDArray[np.bool_]:
        inside = (written >= 0) & (written < len(first)) & (read >= 0) & (read < len(last))
        return inside & harmful(first[np.where(inside, written, 0)], last[np.where(inside, read, 0)])

    distances = np.arange(begin, len(last))
    begins, ends, needed = int(first.argmin()), _nearest(first, last, reads_first), int(last.argmax())
    seen = harms(begins + 0 * distances, begins + distances) | harms(ends + 0 * distances, ends + distances)
    left = distances[~(seen | harms(needed - distances, needed + 0 * distances))]
    if len(left) > MOST_LOOKS // min(len(first), len(last)):
        return None
    most = 0
    for distance in left.tolist():
        low, high = max(0, -distance), min(len(first), len(last) - distance)
        if not harmful(first[low:high], last[low + distance : high + distance]).any():
            most = max(most, high - low)
    return most


def _nearest(first: Ints, last: Ints, reads_first: bool) -> int:
    """The row that has been written furthest ahead of one that is still needed."""
    by_time = np.argsort(first, kind="stable")
    highest = np.maximum.accumulate(by_time)
    written = np.searchsorted(first[by_time], last, side="left" if reads_first else "right")
    rows = np.flatnonzero(written)
    if not len(rows):
        return 0
    ends = highest[written[rows] - 1]
    return int(ends[(ends - rows).argmax()])


def _most_at_once(first: Ints, last: Ints, reads_first: bool) -> int:
    """What is left of all rows where the most are needed and written at once."""
    writes, reads = np.sort(first), np.sort(last)
    dead = np.searchsorted(reads, writes, side="right" if reads_first else "left")
    there = np.searchsorted(writes, writes, side="right") + len(reads) - dead
    return len(first) + len(last) - max(len(first), len(last), int(there.max()))


def _read(loops: Any, weights: Any, op: Any, position: int, tensor: Tensor) -> tuple[int, Ints] | None:
    """Bytes of a row, and per row when it is read last, of the input at a position."""
    name = op["inputs"][position]
    key = name if op["inputs"].count(name) == 1 else str(position)
    along, start = [], 0
    for loop, weight in zip(loops, weights, strict=True):
        if key not in loop.get("reads", {}):
            start += weight * (loop["extent"] - 1)
            continue
        axes, *numbers = loop["reads"][key]
        fractions = [Fraction(number).limit_denominator(1_000_000) for number in numbers]
        per = math.lcm(*(number.denominator for number in fractions))
        step, window, before = (int(number * per) for number in fractions)
        if (rows := _rows(axes, tensor)) > MOST_ROWS:
            return None
        iterations, row = np.arange(loop["extent"]), np.arange(rows)
        begin, end = (iterations * step - before) // per, -(-(iterations * step - before + window) // per)
        last = np.searchsorted(begin, row, side="right") - 1  # no later iteration begins so low
        is_read = (last >= 0) & (row < end[last])
        along.append((axes, np.where(is_read, weight * last, _NEVER)))
    return _timed(tensor, along, start)


def _written(loops: Any, weights: Any, output: str, tensor: Tensor) -> tuple[int, Ints] | None:
    """Bytes of a row, and per row when it is written first, of an output."""
    along = []
    for loop, weight in zip(loops, weights, strict=True):
        if output not in loop.get("writes", {}):
            return int(tensor["bytes"]), np.array([_BEFORE])
        axes, step = loop["writes"][output]
        if (rows := _rows(axes, tensor)) > MOST_ROWS:
            return None
        along.append((axes, np.arange(rows) // step * weight))
    return _timed(tensor, along, 0)


def _timed(tensor: Tensor, along: list[tuple[Any, Ints]], start: int) -> tuple[int, Ints] | None:
    """Bytes of a row and the times of all, from those of rows along some axes."""
    shape, spans = tensor["shape"], [_span(axes) for axes, _ in along]
    behind = max((last + 1 for _, last in spans), default=0)
    outer = shape[:behind]
    if math.prod(outer) > MOST_ROWS:
        return None
    times = np.full(outer, start, np.int64)
    for (first, last), (_, own) in zip(spans, along, strict=True):
        more = own.reshape([1] * first + shape[first : last + 1] + [1] * (behind - last - 1))
        times = np.where((times == _NEVER) | (more == _NEVER), _NEVER, times + more)
    return int(tensor["bytes"]) // math.prod(outer), times.ravel()


def _span(axes: Any) -> tuple[int, int]:
    first, last = axes if isinstance(axes, (list, tuple)) else (axes, axes)
    return first, last


def _rows(axes: Any, tensor: Tensor) -> int:
    first, last = _span(axes)
    return math.prod(tensor["shape"][first : last + 1])
