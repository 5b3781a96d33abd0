"""Normalization: copies, sums of gradients, and factors and shifts of the channels."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .called import Called
from .operands import contiguous, has_channels_last, is_small, nbytes, number, opmath
from .sums import bytes_of_mean, bytes_of_sum

_MANY = 1024  # points of an image that threads share


def layer_norm(call: Called) -> int:
    return sum(contiguous(call.tensor(name)) for name in ("input", "weight", "bias"))


def layer_norm_backward(call: Called) -> int:
    """Copies, and sums of the gradients of weight and bias of each thread."""
    copies = sum(contiguous(call.tensor(name)) for name in ("grad_out", "input", "weight", "bias"))
    x = call.given("input")
    inner = math.prod(call["normalized_shape"])
    asked = call["output_mask"]
    return copies + (torch.get_num_threads() * 2 * inner * x.dtype.itemsize if asked[1] or asked[2] else 0)


def group_norm(call: Called) -> int:
    """Sums of channels that lie beside each other."""
    x = call.given("input")
    if x.is_contiguous() or not has_channels_last(x):
        return 0
    many = call["HxW"] >= _MANY
    images, channels, groups = int(call["N"]), int(call["C"]), int(call["group"])
    sums = 2 * channels * images * (torch.get_num_threads() if many else 1)
    return opmath(x.dtype) * (sums + (2 * images * groups if many else 0))


def group_norm_backward(call: Called) -> int:
    """Sums of the gradient, and of its products with the input, of each channel."""
    return 2 * int(call["N"]) * int(call["C"]) * opmath(call.given("input").dtype)


def batch_norm(call: Called) -> int:
    """With statistics of its own, or with those that it is given."""
    x, made = call.given("input"), call.made
    channels = int(x.shape[1])
    trains = call["training"] or (call["training"] is None and call.tensor("running_mean") is None)
    kept = call.tensor("weight") if call.tensor("running_mean") is None else call.tensor("running_mean")
    line = channels * (x if kept is None else kept).dtype.itemsize
    given = [call.tensor(name) for name in ("weight", "bias", "running_mean", "running_var")]
    factors = 2 * channels * opmath(x.dtype)
    if _is_plain(x) and all(t is None or t.is_contiguous() for t in given):
        return max(2 * line + _of_threads(x), factors) if trains else factors
    if trains:
        return bytes_of_mean(x, made.dtype, channels, [0, *range(2, x.dim())]) - line
    return max(3 * line, line + number(0.0, made.dtype))


def batch_norm_backward(call: Called) -> int:
    """Where both lie alike, torch makes the gradient of the input twice, and drops the first."""
    gradient, x, asked = call.given("grad_out"), call.given("input"), call["output_mask"]
    channels = int(x.shape[1])
    if _is_plain(x) and _is_plain(gradient) and has_channels_last(x) == has_channels_last(gradient):
        sums = _of_threads(x)
        if sums and is_small(x):
            sums += 3 * channels * 4
        return max(nbytes(x) if asked[0] else 0, 2 * sums if not is_small(x) else sums + _of_threads(x))
    weight = call.tensor("weight")
    line = channels * (x if weight is None else weight).dtype.itemsize
    return line + bytes_of_sum(gradient, gradient.dtype, channels, [0, *range(2, x.dim())])


def _is_plain(x: Tensor) -> bool:
    return x.numel() == 1 or x.is_contiguous() or has_channels_last(x)


def _of_threads(x: Tensor) -> int:
    """Sums of each channel and thread, if channels lie beside each other."""
    points = x.numel() // max(1, x.shape[0] * x.shape[1])
    last = points == 1 if x.is_contiguous() else has_channels_last(x)
    return torch.get_num_threads() * int(x.shape[1]) * opmath(x.dtype) if last else 0
