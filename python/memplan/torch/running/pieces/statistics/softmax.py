"""Softmax along an axis, forwards and backwards.

By Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from ..calls import Part, Piece
from .two_passes import TwoPasses, alone, of_rows, wide


def _of_slices(numbers: int) -> Callable[[Piece], list[int]]:
    def shape(piece: Piece) -> list[int]:
        result, axis = piece.results[0], piece["dim"]
        assert result is not None
        sizes = list(result.sizes)
        sizes[axis] = 1
        return [*sizes, numbers]

    return shape


def _largest(piece: Piece) -> Part:
    """The largest element, and the sum of exponentials less that."""
    return of_rows(piece, _largest_of, (piece["dim"],), piece["self"])


def _largest_of(axis: int, x: Tensor, *known: Tensor) -> Tensor:
    x = wide(x)
    most = x.amax(axis, keepdim=True).double()
    for earlier in known:
        most = torch.maximum(most, earlier[..., 0])
    finite = torch.where(most == -math.inf, 0.0, most)  # rows of minus infinity add nothing
    total = (x - finite.to(x.dtype)).exp_().sum(axis, keepdim=True, dtype=torch.float64)
    for earlier in known:
        total = total + earlier[..., 1] * (earlier[..., 0] - finite).exp()
    return torch.stack((most, total), -1)


def _softmax(piece: Piece) -> Part:
    result = piece.results[0]
    assert result is not None
    return alone(piece, _softmax_rows, (result.dtype,), piece["self"])


def _softmax_rows(dtype: torch.dtype, statistics: Tensor, x: Tensor) -> Tensor:
    most, total = (number.to(wide(x).dtype) for number in statistics.unbind(-1))
    return (wide(x) - most).exp_().div_(total).to(dtype)


def _log_softmax(piece: Piece) -> Part:
    result = piece.results[0]
    assert result is not None
    return alone(piece, _log_softmax_rows, (result.dtype,), piece["self"])


def _log_softmax_rows(dtype: torch.dtype, statistics: Tensor, x: Tensor) -> Tensor:
    most, total = statistics.unbind(-1)
    return ((wide(x) - most.to(wide(x).dtype)) - total.log().to(wide(x).dtype)).to(dtype)


def _softmax_sums(piece: Piece) -> Part:
    return of_rows(piece, _softmax_sums_of, (piece["dim"],), piece["grad_output"], piece["output"])


def _softmax_sums_of(axis: int, grad: Tensor, output: Tensor, *known: Tensor) -> Tensor:
    return _summed((wide(grad) * wide(output)), axis, known)


def _log_softmax_sums(piece: Piece) -> Part:
    return of_rows(piece, _log_softmax_sums_of, (piece["dim"],), piece["grad_output"])


def _log_softmax_sums_of(axis: int, grad: Tensor, *known: Tensor) -> Tensor:
    return _summed(grad, axis, known)


def _summed(x: Tensor, axis: int, known: tuple[Tensor, ...]) -> Tensor:
    total = x.sum(axis, keepdim=True, dtype=torch.float64)[..., None]
    for earlier in known:
        total = total + earlier
    return total


def _softmax_gradient(piece: Piece) -> Part:
    return alone(piece, _softmax_gradient_rows, (piece["input_dtype"],), piece["grad_output"], piece["output"])


def _softmax_gradient_rows(dtype: torch.dtype, statistics: Tensor, grad: Tensor, output: Tensor) -> Tensor:
    total = statistics[..., 0].to(wide(grad).dtype)
    return ((wide(grad) - total) * output).to(dtype)


def _log_softmax_gradient(piece: Piece) -> Part:
    return alone(piece, _log_softmax_gradient_rows, (piece["input_dtype"],), piece["grad_output"], piece["output"])


def _log_softmax_gradient_rows(dtype: torch.dtype, statistics: Tensor, grad: Tensor, output: Tensor) -> Tensor:
    total = statistics[..., 0].to(wide(grad).dtype)
    return (wide(grad) - wide(output).exp() * total).to(dtype)


RULES: Mapping[str, TwoPasses] = {
    "_softmax": TwoPasses(_of_slices(2), _largest, _softmax),
    "_log_softmax": TwoPasses(_of_slices(2), _largest, _log_softmax),
    "_softmax_backward_data": TwoPasses(_of_slices(1), _softmax_sums, _softmax_gradient),
    "_log_softmax_backward_data": TwoPasses(_of_slices(1), _log_softmax_sums, _log_softmax_gradient),
}
