"""Sums and means: what is added up in another dtype is cast as a whole before."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from .called import Called
from .operands import SMALL, is_small, number


def summed(call: Called) -> int:
    """Above the result of a sum."""
    return bytes_of_sum(call.given("self"), call.made.dtype, call.made.numel(), call["dim"])


def summed_without_gaps(call: Called) -> int:
    """Above the result of a sum of the numbers that are some."""
    x, made = call.given("self"), call.made
    return 0 if x.dtype == made.dtype else x.numel() * made.dtype.itemsize


def averaged(call: Called) -> int:
    """Above the result of a mean."""
    return bytes_of_mean(call.given("self"), call.made.dtype, call.made.numel(), call["dim"])


def spread(call: Called) -> int:
    """Above a variance of all numbers: their mean, divided by a number."""
    dtype = call.made.dtype
    return dtype.itemsize + number(0, dtype) if call.made.numel() == 1 and dtype not in SMALL else 0


def bytes_of_sum(x: Tensor, dtype: torch.dtype, count: int, axes: Sequence[int] | None) -> int:
    """Casts, of what has another dtype, or of numbers of 16 bits that do not lie in one row; and then of the result."""
    if x.dtype != dtype:
        return x.numel() * dtype.itemsize
    return 4 * (x.numel() + count) if is_small(x) and _rows(x, axes) > 1 else 0


def bytes_of_mean(x: Tensor, dtype: torch.dtype, count: int, axes: Sequence[int] | None) -> int:
    """A sum, which is divided. Numbers of 16 bits are cast, and added up with 32."""
    if dtype in SMALL:
        return 4 * count + max(4 * x.numel(), number(0, torch.float32))
    return max(bytes_of_sum(x, dtype, count, axes), number(0, dtype))


def _rows(x: Tensor, axes: Sequence[int] | None) -> int:
    """In how many axes a kernel goes through what it adds up, those that lie evenly taken as one."""
    taken = range(x.dim()) if not axes else sorted(axis % x.dim() for axis in axes)
    steps = [(x.stride(axis), x.shape[axis]) for axis in reversed(taken) if x.shape[axis] > 1]
    moving = sorted(step for step in steps if step[0])
    runs = sum(b != a * size for (a, size), (b, _) in pairwise(moving)) + bool(moving)
    still = [step for step in steps if not step[0]]
    return runs + bool(still)
