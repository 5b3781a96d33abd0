"""How many bytes of an op's output may lie over an input that its kernel is still reading, from a graph dict alone.

Imports nothing of memplan. All iterations of the ordered loops are laid out in a row: what each needs of the input from
then on, and what has been written of the output by then: the ends of both. Of more than `MOST` iterations, only the
outer loops are looked at; of one loop with more, so many iterations as one that no more than `MOST` are left. What is
one lives together. What lies between the ends is looked at row by row: see `row_times`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from .row_times import most_common

MOST = 1 << 20  # iterations
_NOTHING = 1 << 62

Ints = npt.NDArray[np.int64]
Iterations = tuple[Ints, Ints]  # the first of each group, and the last


def overlaps(op: Mapping[str, Any], tensors: Mapping[str, Mapping[str, Any]]) -> dict[tuple[str, str], int]:
    """Per output and input, the bytes that the two may share at most, where they may share any."""
    if not op.get("ordered") or op.get("alias") or op.get("overwrite"):
        return {}
    every = [op["loops"][position] for position in op["ordered"]]
    nest, reads_first = _nest(every, bool(op.get("reads_first")))
    found: dict[tuple[str, str], int] = {}
    for output in op["outputs"]:
        made = tensors[output]
        if not _is_dense(made):
            continue
        if not all(output in loop.get("writes", {}) for loop in every):  # it is there before the first iteration
            for source in filter(lambda name: _is_dense(tensors[name]), dict.fromkeys(op["inputs"])):
                if (most := most_common(op, output, source, tensors, made["bytes"])) > 0:
                    found[output, source] = most
            continue
        last = [_last(loop, iterations, output, made) for loop, iterations in nest]
        inside = made["bytes"] - sum(_row_of(loop["writes"][output][0], made)[2] for loop, _ in nest)
        written = np.maximum.accumulate(_outer(last)) + inside
        for source in filter(lambda name: _is_dense(tensors[name]), dict.fromkeys(op["inputs"])):
            read = tensors[source]
            positions = [k for k, name in enumerate(op["inputs"]) if name == source]
            needs = [_outer([_first(loop, its, op, k, read) for loop, its in nest]) for k in positions]
            needed = np.minimum.accumulate(np.minimum.reduce(needs)[::-1])[::-1]
            before, after = (written[:-1], needed[1:]) if reads_first else (written, needed)
            ahead = max((before - after)[after < read["bytes"]].tolist(), default=-read["bytes"])
            if (most := most_common(op, output, source, tensors, min(ahead, made["bytes"]))) > 0:
                found[output, source] = most
    return found


def _nest(every: list[Any], reads_first: bool) -> tuple[list[tuple[Any, Iterations]], bool]:
    """The loops that are looked at, which iterations of each are one, and whether these read first."""
    loops, count = every[:1], int(every[0]["extent"])
    for loop in every[1:]:
        if count * loop["extent"] > MOST:
            reads_first = False
            break
        count *= loop["extent"]
        loops.append(loop)
    group, nest = -(-count // MOST), []
    for loop in loops:
        size = group if loop is loops[-1] else 1
        first = np.arange(0, loop["extent"], size)
        nest.append((loop, (first, np.minimum(first + size, loop["extent"]) - 1)))
    return nest, reads_first and group == 1


def _outer(columns: list[Ints]) -> Ints:
    """The sums of one entry of each, the last column the fastest; nothing where one has nothing."""
    total = np.zeros(1, np.int64)
    for column in columns:
        total = np.minimum(np.add.outer(total, column).ravel(), _NOTHING)
        total[total >= _NOTHING // 2] = _NOTHING // 2
    return total


def _row_of(axes: Any, tensor: Mapping[str, Any]) -> tuple[int, int, int]:
    """Rows along an axis, or along several as one; bytes from one to the next; and those from the first to the last."""
    first, last = axes if isinstance(axes, (list, tuple)) else (axes, axes)
    shape = tensor["shape"]
    rows = math.prod(shape[first : last + 1])
    row = tensor["bytes"] // math.prod(shape) * math.prod(shape[last + 1 :])
    return rows, row, row * (rows - 1)


def _first(loop: Any, iterations: Iterations, op: Mapping[str, Any], position: int, tensor: Mapping[str, Any]) -> Ints:
    """The first byte, along one loop, that iterations read of an input; a high number where they read none."""
    name = op["inputs"][position]
    key = name if op["inputs"].count(name) == 1 else str(position)
    if key not in loop.get("reads", {}):
        return np.zeros(len(iterations[0]), np.int64)
    axes, *numbers = loop["reads"][key]
    fractions = [Fraction(number).limit_denominator(1_000_000) for number in numbers]
    per = math.lcm(*(number.denominator for number in fractions))
    step, window, before = (int(number * per) for number in fractions)
    rows, row, _ = _row_of(axes, tensor)
    begin = (iterations[0] * step - before) // per
    end = -(-(iterations[1] * step - before + window) // per)
    begin, end = np.clip(begin, 0, rows), np.clip(end, 0, rows)
    found: Ints = np.where(begin < end, begin * row, _NOTHING // 2)
    return found


def _last(loop: Any, iterations: Iterations, output: str, tensor: Mapping[str, Any]) -> Ints:
    """Where the last row begins, along one loop, that iterations write of an output."""
    axes, step = loop["writes"][output]
    rows, row, _ = _row_of(axes, tensor)
    found: Ints = (np.clip((iterations[1] + 1) * step, 0, rows) - 1) * row
    return found


def _is_dense(tensor: Mapping[str, Any]) -> bool:
    """Whether each element of the shape has as many whole bytes."""
    elements = math.prod(tensor.get("shape") or [0])
    return bool(elements > 0 and tensor["bytes"] > 0 and tensor["bytes"] % elements == 0)
