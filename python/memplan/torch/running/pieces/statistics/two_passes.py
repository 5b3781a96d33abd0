"""How pieces are called where an operator needs statistics of all rows.

Statistics are float64 numbers along a last axis. Those of some rows, and of all rows before them, give those of both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..calls import Composed, Part, Piece


class TwoPasses(NamedTuple):
    """How an operator is called in two passes.

    `shape` is that of the statistics. `of` gives them for a piece's rows and those before, `part` rows of the
    results if it makes any, `early` the result in a place that has no such rows. The last two have the statistics of
    all rows.
    """

    shape: Callable[[Piece], list[int]]
    of: Callable[[Piece], Part]
    part: Callable[[Piece], Part] | None
    early: Callable[[Piece, int], Part] | None = None


def of_rows(piece: Piece, function: Callable[..., Tensor], bound: tuple[Any, ...], *given: Any) -> Part:
    """`function` of what is bound, of tensors, and of the statistics of rows before if there are any."""
    known = () if piece.statistics is None else (piece.statistics,)
    return Part(Composed(function, *bound), (*given, *known), {})


def alone(piece: Piece, function: Callable[..., Tensor], bound: tuple[Any, ...], *given: Any) -> Part:
    """`function` of what is bound, of the statistics and of tensors, as the first of all results."""
    others = len(piece.results) - 1
    if not others:
        return Part(Composed(function, *bound), (piece.statistics, *given), {})
    return Part(Composed(_first, others, Composed(function, *bound)), (piece.statistics, *given), {})


def _first(others: int, func: Callable[..., Tensor], *args: Tensor) -> tuple[Tensor | None, ...]:
    return func(*args), *[None] * others


def wide(x: Tensor) -> Tensor:
    """Numbers that sums may be made of."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def moments_of(axes: list[int], before: int, x: Tensor, *known: Tensor) -> Tensor:
    """Means along axes, and sums of squared differences from them, of rows and of `before` elements before them.

    By Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances" (1979).
    """
    variance, mean = torch.var_mean(wide(x), axes, correction=0)
    count = x.numel() // mean.numel()
    mean, squares = mean.double(), variance.double() * count
    for earlier in known:
        apart = mean - earlier[..., 0]
        squares = squares + earlier[..., 1] + apart.square() * (before * count / (before + count))
        mean = earlier[..., 0] + apart * (count / (before + count))
    return torch.stack((mean, squares), -1)
