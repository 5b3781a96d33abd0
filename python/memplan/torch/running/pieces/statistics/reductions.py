"""Variances, and the largest and smallest elements, along axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from ..calls import Composed, Part, Piece
from .two_passes import TwoPasses, moments_of, of_rows, wide


def _axes(piece: Piece) -> list[int]:
    """The axes that go; all if none are named."""
    rank, dim = len(piece["self"].sizes), piece["dim"]
    named = [dim] if isinstance(dim, int) else list(dim or [])
    return sorted(axis % rank for axis in named) if named else list(range(rank))


def _kept(numbers: int) -> Callable[[Piece], list[int]]:
    """The sizes of the axes that stay, and so many numbers for each element."""

    def shape(piece: Piece) -> list[int]:
        gone = _axes(piece)
        return [*(size for axis, size in enumerate(piece["self"].sizes) if axis not in gone), numbers]

    return shape


def _elements(piece: Piece) -> int:
    return math.prod(piece["self"].sizes[axis] for axis in _axes(piece))


def _spread(piece: Piece) -> Part:
    rows = piece.read("self")
    assert rows is not None
    before = _elements(piece) * rows.begin // rows.whole
    return of_rows(piece, moments_of, (_axes(piece), before), piece["self"])


def _spread_result(which: Sequence[str]) -> Callable[[Piece, int], Part]:
    """The means and variances, or roots of these, of all elements."""

    def early(piece: Piece, place: int) -> Part:
        result = piece.results[place]
        assert result is not None
        unbiased, correction = piece["unbiased"], piece["correction"]
        less = correction if unbiased is None else int(unbiased)
        count = _elements(piece) - (1 if less is None else less)
        bound = (which[place], list(result.sizes), result.dtype, max(0, count))
        return Part(Composed(_one_of_spread, *bound), (piece.statistics,), {})

    return early


def _one_of_spread(which: str, sizes: list[int], dtype: torch.dtype, count: float, statistics: Tensor) -> Tensor:
    mean, squares = statistics.unbind(-1)
    variance = squares / count
    found = {"mean": mean, "var": variance, "std": variance.sqrt()}[which]
    return found.reshape(sizes).to(dtype)


def _extreme(largest: bool) -> Callable[[Piece], Part]:
    def of(piece: Piece) -> Part:
        return of_rows(piece, _extreme_of, (largest, _axes(piece)), piece["self"])

    return of


def _extreme_of(largest: bool, axes: list[int], x: Tensor, *known: Tensor) -> Tensor:
    found = (x.amax(axes) if largest else x.amin(axes)).double()[..., None]
    for earlier in known:
        found = torch.maximum(found, earlier) if largest else torch.minimum(found, earlier)
    return found


def _extreme_result(piece: Piece, place: int) -> Part:
    result = piece.results[place]
    assert result is not None
    return Part(Composed(_extreme_element, list(result.sizes), result.dtype), (piece.statistics,), {})


def _extreme_element(sizes: list[int], dtype: torch.dtype, statistics: Tensor) -> Tensor:
    return statistics.reshape(sizes).to(dtype)


def _spreading(*which: str) -> TwoPasses:
    return TwoPasses(_kept(2), _spread, None, _spread_result(which))


def _powers(piece: Piece) -> Part:
    return of_rows(piece, _powers_of, (float(piece["ord"]), _axes(piece)), piece["self"])


def _powers_of(order: float, axes: list[int], x: Tensor, *known: Tensor) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(wide(x), order, axes)
    found = length.double().pow(order)[..., None]
    for earlier in known:
        found = found + earlier
    return found


def _length(piece: Piece, place: int) -> Part:
    result = piece.results[place]
    assert result is not None
    bound = (list(result.sizes), result.dtype, float(piece["ord"]))
    return Part(Composed(_length_of, *bound), (piece.statistics,), {})


def _length_of(sizes: list[int], dtype: torch.dtype, order: float, statistics: Tensor) -> Tensor:
    return statistics.pow(1 / order).reshape(sizes).to(dtype)


RULES: Mapping[str, TwoPasses] = {
    "var": _spreading("var"),
    "std": _spreading("std"),
    "var_mean": _spreading("var", "mean"),
    "std_mean": _spreading("std", "mean"),
    "linalg_vector_norm": TwoPasses(_kept(1), _powers, None, _length),
    "amax": TwoPasses(_kept(1), _extreme(True), None, _extreme_result),
    "amin": TwoPasses(_kept(1), _extreme(False), None, _extreme_result),
}
