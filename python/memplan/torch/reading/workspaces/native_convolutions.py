"""Convolutions without oneDNN: a column for each window, which a product takes; group by group."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .operands import contiguous, nbytes
from .sums import bytes_of_sum

NAMES = ("Slow2d", "SlowDilated2d", "SlowDilated3d", "SlowTranspose2d", "SlowTranspose3d", "Slow3d")
_BY_IMAGE = ("SlowDilated2d", "SlowDilated3d", "SlowTranspose3d")  # columns are those of one image


def forward(name: str, x: Tensor, weight: Tensor, bias: Tensor | None, how: Sequence[Any], made: Tensor) -> int:
    """Bytes above the result."""
    groups = int(how[5])
    columns = _columns(name, x, weight, made, groups)
    if name not in _BY_IMAGE:
        columns *= x.shape[0]
    if name == "SlowTranspose3d" and bias is not None:
        columns += math.prod(made.shape[2:]) * made.dtype.itemsize
    if groups == 1 or name == "Slow3d":
        return columns
    return max(columns + _part(x, groups), nbytes(made))


def backward(name: str, gradient: Tensor, x: Tensor, weight: Tensor, how: Sequence[Any], asked: Sequence[bool]) -> int:
    """Bytes above the gradients."""
    groups = int(how[5])
    of_weight, of_bias = nbytes(weight) * asked[1], int(gradient.shape[1]) * weight.dtype.itemsize
    columns = _columns(name, x, weight, gradient, groups)
    if name in ("Slow2d", "Slow3d"):
        columns *= x.shape[0]
    axes = [0, *range(2, x.dim())]
    added = bytes_of_sum(gradient, gradient.dtype, int(gradient.shape[1]), axes) if asked[2] else 0
    if name == "SlowTranspose3d":
        held = columns + added
    elif name.startswith("SlowDilated"):
        held = columns + (of_bias if asked[2] else 0)
    else:
        held = max(columns, added - of_weight)
    if name == "Slow3d" and not columns:
        held = max(held, nbytes(x) // math.prod(x.shape[2:]) * math.prod(gradient.shape[2:]) - of_weight - of_bias)
    if groups == 1 or name == "Slow3d":
        return held
    results = nbytes(x) * asked[0] + of_weight + of_bias * asked[2]
    return max(held + _part(gradient, groups) + _part(x, groups), results)


def _columns(name: str, x: Tensor, weight: Tensor, made: Tensor, groups: int) -> int:
    """Of one image."""
    windows = math.prod(weight.shape[2:])
    transposed = name.startswith("SlowTranspose")
    if windows == 1 and not transposed:
        return 0
    places = math.prod((x if transposed else made).shape[2:])
    channels = int(x.shape[1]) if name == "Slow3d" else int(weight.shape[1])
    return channels * windows * places * x.dtype.itemsize


def _part(tensor: Tensor, groups: int) -> int:
    """The channels of a group, which lie apart if there are several images."""
    return contiguous(torch.narrow(tensor, 1, 0, tensor.shape[1] // groups))
