"""Pieces of the loss of classes: iterations add what their targets lose, over the number of all that count."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from .calls import Composed, Part, Piece

_aten = torch.ops.aten
_NONE, _MEAN, _SUM = 0, 1, 2  # reductions


def _lost(piece: Piece) -> Part:
    if piece["reduction"] != _MEAN:
        return piece.part()
    [total] = piece.early
    args = (total, piece["self"], piece["target"], piece["weight"], _SUM, piece["ignore_index"])
    return Part(Composed(_over, piece.call.func), args, {})


def _over(func: Callable[..., tuple[Tensor, Tensor]], total: Tensor, *args: Any) -> tuple[Tensor, None]:
    return func(*args)[0].div_(total), None


def weight_of_targets(piece: Piece) -> Part:
    """What the targets that count weigh together, which the loss is divided by."""
    if piece["reduction"] == _NONE:
        return Part(_aten.zeros.default, ([],), {"dtype": _dtype(piece)})
    given = (piece["target"], *(() if piece["weight"] is None else (piece["weight"],)))
    return Part(Composed(_weight_of, piece["ignore_index"], _dtype(piece)), given, {})


def _dtype(piece: Piece) -> torch.dtype:
    assert piece.results[1] is not None
    return piece.results[1].dtype


def _weight_of(ignored: int, dtype: torch.dtype, target: Tensor, weight: Tensor | None = None) -> Tensor:
    counts = target != ignored
    if weight is None:
        return counts.sum().to(dtype)
    return torch.where(counts, weight[torch.where(counts, target, 0)], 0).sum()


def _lost_backward(piece: Piece) -> Part:
    """Of what the loss was computed from, only the shape counts."""
    args = (piece["grad_output"], piece["target"], piece["weight"], piece["total_weight"])
    made = piece.results[0]
    assert made is not None
    how = (piece["reduction"], piece["ignore_index"], piece.sizes(), made.dtype)
    return Part(Composed(_placed, piece.call.func, *how), args, {})


def _placed(
    func: Callable[..., Tensor],
    reduction: int,
    ignored: int,
    sizes: list[int],
    dtype: torch.dtype,
    grad: Tensor,
    target: Tensor,
    weight: Tensor | None,
    total: Tensor,
) -> Tensor:
    shape = torch.empty(1, dtype=dtype).expand(sizes)
    return func(grad, shape, target, weight, reduction, ignored, total)


RULES: Mapping[str, Callable[[Piece], Part | None]] = {
    **dict.fromkeys(("nll_loss_forward", "nll_loss2d_forward"), _lost),
    **dict.fromkeys(("nll_loss_backward", "nll_loss2d_backward"), _lost_backward),
}
EARLY: Mapping[str, Callable[[Piece], Part]] = dict.fromkeys(
    ("nll_loss_forward", "nll_loss2d_forward"), weight_of_targets
)
