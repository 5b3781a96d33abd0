"""Checks what is claimed of a kernel's order against a log of what it read and wrote.

Written apart: nothing here imports memplan. The claim is a list of loops as in a graph dict, the outermost first, and
whether an iteration reads all before it writes. From these alone follows which byte of the output may lie on which
byte of an input: on one that is dead when it is born.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from oracles.loops import window
from oracles.micro_kernels import OUTPUT, Log

Loops = Sequence[Mapping[str, Any]]


class Claim(NamedTuple):
    """What is said of a kernel whose inputs are named "0", "1", and so on, and its output "y"."""

    loops: Loops
    reads_first: bool
    shapes: Sequence[Sequence[int]]
    made: Sequence[int]

    @property
    def iterations(self) -> int:
        return math.prod(loop["extent"] for loop in self.loops)

    def numbers(self, iterations: Any) -> Iterator[Any]:
        """Of iterations, taken together: the number in each loop."""
        for loop, inner in zip(self.loops, self._inner(), strict=True):
            yield iterations // inner % loop["extent"]

    def _inner(self) -> list[int]:
        return [math.prod(loop["extent"] for loop in self.loops[k + 1 :]) for k in range(len(self.loops))]

    def born(self) -> Any:
        """Of each element of the output: the iteration that writes it."""
        elements, found = np.arange(math.prod(self.made)), 0
        for loop, inner in zip(self.loops, self._inner(), strict=True):
            axis, step = loop["writes"]["y"]
            found = found + rows_of(elements, self.made, axis) // step * inner
        return found

    def dead(self, tensor: int) -> Any:
        """Of each element of an input: the last iteration that reads it, -1 if there is none."""
        elements = np.arange(math.prod(self.shapes[tensor]))
        found, never = np.zeros(len(elements), int), np.zeros(len(elements), bool)
        for loop, inner in zip(self.loops, self._inner(), strict=True):
            if str(tensor) not in loop["reads"]:
                found += (loop["extent"] - 1) * inner
                continue
            axis, *numbers = loop["reads"][str(tensor)]
            rows = rows_of(elements, self.shapes[tensor], axis)
            last = np.full(rows.max(initial=0) + 1, -1)
            for i in range(loop["extent"]):
                first, end = window(numbers, i)
                last[max(first, 0) : max(end, 0)] = i
            found += last[rows] * inner
            never |= last[rows] < 0
        found[never] = -1
        return found

    def names(self, tensor: int, elements: Any, iterations: Any) -> Any:
        """Whether these iterations may read these elements."""
        found = np.ones(len(elements), bool)
        for loop, number in zip(self.loops, self.numbers(iterations), strict=True):
            if str(tensor) in loop["reads"]:
                axis, *numbers = loop["reads"][str(tensor)]
                windows = np.array([window(numbers, i) for i in range(loop["extent"])])
                rows = rows_of(elements, self.shapes[tensor], axis)
                found &= (windows[number, 0] <= rows) & (rows < windows[number, 1])
        return found


def rows_of(elements: Any, shape: Sequence[int], axis: Any) -> Any:
    """The rows of elements along an axis, or along axes [first, last] taken together."""
    first, last = axis if isinstance(axis, (list, tuple)) else (axis, axis)
    return elements // math.prod(shape[last + 1 :]) % math.prod(shape[first : last + 1])


def wrong(claim: Claim, log: Log) -> list[str]:
    """What the log shows that the claim does not allow."""
    codes = np.array(log)
    tensors, elements, times = codes % 8, codes // 8, np.arange(len(codes))
    writes = tensors == OUTPUT
    born = claim.born()
    if sorted(set(elements[writes])) != list(range(len(born))):
        return ["not all of the output is written"]
    of_writes = born[elements[writes]]
    before = np.cumsum(writes) - writes  # writes before each event
    iteration = of_writes[np.minimum(before, len(of_writes) - 1)]  # a read belongs to the write that follows it
    found = []
    if (np.diff(of_writes) < 0).any():
        found.append("the kernel writes in another order")
    first_write = np.zeros(len(born), int)
    first_write[elements[writes][::-1]] = times[writes][::-1]
    for tensor in range(len(claim.shapes)):
        of = tensors == tensor
        if not claim.names(tensor, elements[of], iteration[of]).all():
            found.append(f"an iteration reads what is not listed of input {tensor}")
        if claim.reads_first and (of_writes[before[of & (before > 0)] - 1] == iteration[of & (before > 0)]).any():
            found.append(f"an iteration reads of input {tensor} after it has written")
        if not safe(claim, tensor, last_read(tensor, claim, log), first_write):
            found.append(f"input {tensor} is read after the output may have been written over it")
    return found


def last_read(tensor: int, claim: Claim, log: Log) -> Any:
    """When each element of an input is read last, -1 for never."""
    codes = np.array(log)
    found = np.full(math.prod(claim.shapes[tensor]), -1)
    times = np.flatnonzero(codes % 8 == tensor)
    found[codes[times] // 8] = times
    return found


def first_write(claim: Claim, log: Log) -> Any:
    codes = np.array(log)
    times = np.flatnonzero(codes % 8 == OUTPUT)[::-1]
    found = np.zeros(math.prod(claim.made), int)
    found[codes[times] // 8] = times
    return found


def safe(claim: Claim, tensor: int, read: Any, write: Any) -> bool:
    """Whether no element is read after one is written that may lie on it, wherever the two tensors lie."""
    latest = np.full(claim.iterations + 1, -1)  # reads of what is dead before an iteration
    np.maximum.at(latest, claim.dead(tensor) + 1, read)
    latest = np.maximum.accumulate(latest)
    return bool((latest[claim.born() + claim.reads_first] < write).all())


def closest(claim: Claim, tensor: int, sizes: tuple[int, int], direction: int) -> int:
    """How far the output begins before (-1) or behind (1) an input, in bytes, where the claim allows it: the least.

    `sizes` are the bytes of an element of each.
    """
    dead, born = np.repeat(claim.dead(tensor), sizes[0]), np.repeat(claim.born(), sizes[1]) + claim.reads_first
    return nearest_place(dead, born, max(sizes), direction)


def closest_of_log(claim: Claim, tensor: int, sizes: tuple[int, int], direction: int, log: Log) -> int:
    """The same, of what the kernel read and wrote."""
    read, write = np.repeat(last_read(tensor, claim, log), sizes[0]), np.repeat(first_write(claim, log), sizes[1])
    return nearest_place(read, write, max(sizes), direction)


def nearest_place(dead: Any, born: Any, grain: int, direction: int) -> int:
    """The least distance, in grains, at which each byte of the output is born behind the death of that under it."""
    for distance in range(0, max(len(dead), len(born)) + grain, grain):
        at = direction * distance  # byte k of the output lies on byte k + at of the input
        over = dead[max(at, 0) : max(at + len(born), 0)]
        under = born[max(-at, 0) :][: len(over)]
        if (over[: len(under)] < under).all():
            return distance
    raise AssertionError("tensors apart are in each other's way")


def overwritten(log: Log, tensor: int, at: int, sizes: tuple[int, int], elements: int) -> bool:
    """Runs the log byte by byte: whether a byte of the input is read that has been overwritten."""
    lost = [False] * (elements * sizes[0])
    for code in log:
        element, of = divmod(code, 8)
        if of == OUTPUT:
            first = element * sizes[1] + at
            for byte in range(max(first, 0), min(first + sizes[1], len(lost))):
                lost[byte] = True
        elif of == tensor and any(lost[element * sizes[0] : (element + 1) * sizes[0]]):
            return True
    return False
