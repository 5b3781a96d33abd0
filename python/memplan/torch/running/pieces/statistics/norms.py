"""Norms, forwards and backwards. Channels lie along axis 1; groups of them have one mean for each sample, if any."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ..calls import Composed, Part, Piece
from .two_passes import TwoPasses, alone, moments_of, of_rows, wide


def _groups(piece: Piece) -> int | None:
    groups = piece["group"]
    return None if groups is None else int(groups)


def _count(piece: Piece) -> int:
    """The elements of a channel that a mean is taken of; with groups, in each sample."""
    sizes: tuple[int, ...] = piece["input"].sizes
    return math.prod(sizes[2:]) * (1 if _groups(piece) else sizes[0])


def _pairs_of_channels(piece: Piece) -> list[int]:
    samples, channels = piece["input"].sizes[:2]
    return [samples, channels, 2] if _groups(piece) else [channels, 2]


def _moments(piece: Piece) -> Part:
    """Of each channel, mean and sum of squared differences."""
    rows = piece.read("input")
    assert rows is not None
    before = _count(piece) * rows.begin // rows.whole
    axes = _reduced(bool(_groups(piece)), len(piece["input"].sizes))
    return of_rows(piece, moments_of, (axes, before), piece["input"])


def _reduced(each_sample: bool, rank: int) -> list[int]:
    return [*([] if each_sample else [0]), *range(2, rank)]


def _mean_and_inverse(groups: int | None, count: int, eps: float, statistics: Tensor) -> tuple[Tensor, Tensor]:
    """Of each channel, the mean, and the inverse of the standard deviation."""
    mean, squares = statistics.unbind(-1)
    if groups is None:
        return mean, (squares / count + eps).rsqrt()
    of_channels = mean.reshape(mean.shape[0], groups, -1)
    each = of_channels.shape[2]
    of_group = of_channels.mean(-1, keepdim=True)
    squares = squares.reshape(of_channels.shape).sum(-1, keepdim=True)
    squares = squares + (of_channels - of_group).square().sum(-1, keepdim=True) * count
    inverse = (squares / (count * each) + eps).rsqrt()
    return of_group.expand_as(of_channels).reshape(mean.shape), inverse.expand_as(of_channels).reshape(mean.shape)


def _mean_or_inverse(piece: Piece, place: int) -> Part:
    result = piece.results[place]
    assert result is not None
    bound = (place - 1, list(result.sizes), result.dtype, _groups(piece), _count(piece), piece["eps"])
    return Part(Composed(_one_of_mean, *bound), (piece.statistics,), {})


def _one_of_mean(
    which: int, sizes: list[int], dtype: torch.dtype, groups: int | None, count: int, eps: float, statistics: Tensor
) -> Tensor:
    found = _mean_and_inverse(groups, count, eps, statistics)[which]
    return _first_of_groups(groups, found).reshape(sizes).to(dtype)


def _first_of_groups(groups: int | None, numbers: Tensor) -> Tensor:
    return numbers if groups is None else numbers.reshape(numbers.shape[0], groups, -1)[..., 0]


def _normed(piece: Piece) -> Part:
    weight, bias = piece["weight"], piece["bias"]
    bound = (_groups(piece), _count(piece), piece["eps"], weight is not None)
    given = [leaf for leaf in (weight, bias) if leaf is not None]
    return alone(piece, _normed_rows, bound, piece["input"], *given)


def _normed_rows(
    groups: int | None, count: int, eps: float, weighted: bool, statistics: Tensor, x: Tensor, *affine: Tensor
) -> Tensor:
    mean, scale = _mean_and_inverse(groups, count, eps, statistics)
    scale = scale * affine[0].double() if weighted else scale
    shift = -mean * scale
    shift = shift + affine[-1].double() if len(affine) > weighted else shift
    return torch.addcmul(_by_channel(shift, x), wide(x), _by_channel(scale, x)).to(x.dtype)


def _by_channel(numbers: Tensor, x: Tensor) -> Tensor:
    samples = [1] if numbers.dim() == 1 else [x.shape[0]]
    return numbers.to(wide(x).dtype).reshape([*samples, x.shape[1], *[1] * (x.dim() - 2)])


# Their gradients: sums of the gradient, and of the gradient times what its element differs from the mean


def _gradient_sums(piece: Piece) -> Part:
    given = (piece["grad_out"], piece["input"], _kept_mean(piece))
    return of_rows(piece, _gradient_sums_of, (_groups(piece),), *given)


def _kept_mean(piece: Piece) -> Any:
    return piece["mean"] if _groups(piece) else piece["save_mean"]


def _gradient_sums_of(groups: int | None, grad: Tensor, x: Tensor, mean: Tensor, *known: Tensor) -> Tensor:
    apart = wide(x) - _by_channel(_of_channels(groups, mean, x), x)
    axes = _reduced(groups is not None, x.dim())
    sums = torch.stack((grad.sum(axes, dtype=torch.float64), (wide(grad) * apart).sum(axes, dtype=torch.float64)), -1)
    for earlier in known:
        sums = sums + earlier
    return sums


def _of_channels(groups: int | None, numbers: Tensor, x: Tensor) -> Tensor:
    """Numbers of groups, for each channel."""
    numbers = numbers.double()
    if groups is None:
        return numbers
    samples, channels = x.shape[:2]
    return numbers.reshape(samples, groups, 1).expand(samples, groups, channels // groups).reshape(samples, channels)


def _input_gradient(piece: Piece) -> Part:
    groups, weight = _groups(piece), piece["weight"]
    inverse = piece["rstd"] if groups else piece["save_invstd"]
    given = (piece["grad_out"], piece["input"], _kept_mean(piece), inverse, *([] if weight is None else [weight]))
    return alone(piece, _input_gradient_rows, (groups, _count(piece)), *given)


def _input_gradient_rows(
    groups: int | None,
    count: int,
    statistics: Tensor,
    grad: Tensor,
    x: Tensor,
    mean: Tensor,
    inverse: Tensor,
    *weight: Tensor,
) -> Tensor:
    mean, inverse = (_of_channels(groups, number, x) for number in (mean, inverse))
    weighted = statistics * weight[0].double()[..., None] if weight else statistics
    if groups is not None:
        of_groups = weighted.reshape(x.shape[0], groups, -1, 2)
        count *= of_groups.shape[2]
        weighted = of_groups.sum(2, keepdim=True).expand_as(of_groups).reshape(weighted.shape)
    by_input = weighted[..., 1] * inverse**3 / -count
    shift = weighted[..., 0] * inverse / -count - mean * by_input
    by_grad = inverse * weight[0].double() if weight else inverse
    made = torch.addcmul(_by_channel(shift, x), wide(x), _by_channel(by_input, x))
    return made.addcmul_(wide(grad), _by_channel(by_grad, x)).to(x.dtype)


def _affine_gradient(piece: Piece, place: int) -> Part:
    result, groups = piece.results[place], _groups(piece)
    assert result is not None
    inverse = piece["rstd"] if groups else piece["save_invstd"]
    given = (piece.statistics, *([inverse] if place == 1 else []))
    return Part(Composed(_affine_gradient_of, groups, result.dtype), given, {})


def _affine_gradient_of(groups: int | None, dtype: torch.dtype, statistics: Tensor, *inverse: Tensor) -> Tensor:
    sums = statistics[..., 1 if inverse else 0]
    for numbers in inverse:
        each = numbers.double()
        sums = sums * (each if groups is None else each.repeat_interleave(sums.shape[1] // groups, 1))
    return (sums if groups is None else sums.sum(0)).to(dtype)


_NORM = TwoPasses(_pairs_of_channels, _moments, _normed, _mean_or_inverse)
_GRADIENT = TwoPasses(_pairs_of_channels, _gradient_sums, _input_gradient, _affine_gradient)

RULES: Mapping[str, TwoPasses] = {
    **dict.fromkeys(("native_group_norm", "native_batch_norm", "_native_batch_norm_legit"), _NORM),
    **dict.fromkeys(("native_group_norm_backward", "native_batch_norm_backward"), _GRADIENT),
}
