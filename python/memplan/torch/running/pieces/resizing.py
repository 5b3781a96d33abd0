"""Pieces of operators that change the size of a picture: each row of a result is a sum of rows, weighted.

The other axes are resized by the operator itself. Along the axis of the rows, its weights are what it makes of rows of
which one is one and all others are zero. Results are equal up to rounding; rows with a weight of 1 alone are copied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from .calls import Composed, Part, Piece, Rows


def _resized(piece: Piece) -> Part | None:
    """`upsample_*` and `_adaptive_avg_pool*`, and the gradients of the first."""
    made, count = piece.made(), len(piece["output_size"])
    assert made is not None
    first = len(piece.sizes()) - count
    name = "self" if piece["grad_output"] is None else "grad_output"
    if made.axis < first:
        return piece.part(**({"input_size": piece.sizes()} if piece["input_size"] else {}))
    rows = piece.rows(name, made.axis)
    place = made.axis - first
    weights, sized = _weights(piece, name, place, made, rows), _sized(piece, place, rows.size)
    nearest = made.begin, made.end, rows.whole, made.whole, rows.begin
    places = _nearest(*nearest)[:, None]
    if torch.equal(weights, (places == torch.arange(rows.size)).to(weights.dtype)):
        return piece.after(_copied, made.axis, *nearest, **sized)
    return piece.after(_combined, made.axis, weights, **sized)


def _sized(piece: Piece, place: int, rows: int) -> dict[str, Any]:
    """Arguments with which the axis of the rows keeps its size."""
    asked = list(piece["output_size"])
    asked[place] = rows
    changed: dict[str, Any] = {"output_size": asked, **dict.fromkeys(_scales(piece, place, len(asked)))}
    if piece["input_size"]:
        changed["input_size"] = piece.sizes()
        changed["input_size"][2 + place] = rows
    return changed


def _scales(piece: Piece, place: int, count: int) -> list[str]:
    """The name of the scale of an axis, if it is given."""
    name = "scales" if count == 1 else ["scales_d", "scales_h", "scales_w"][3 - count + place]
    return [name] if piece[name] is not None else []


def _weights(piece: Piece, name: str, place: int, made: Rows, rows: Rows) -> Tensor:
    """The weight of each row that is read (columns) in each row that is made (rows)."""
    count, source = len(piece["output_size"]), piece[name]
    basis = torch.zeros(rows.size, rows.whole, dtype=source.dtype)
    basis[torch.arange(rows.size), torch.arange(rows.begin, rows.end)] = 1
    shape, sizes = [1] * (count + 2), [1] * count
    shape[1], shape[2 + place], sizes[place] = rows.size, rows.whole, piece["output_size"][place]
    others = [other for k in range(count) if k != place for other in _scales(piece, k, count)]
    changed: dict[str, Any] = {"output_size": sizes, **dict.fromkeys(others)}
    if piece["input_size"]:
        changed["input_size"] = list(shape)
        changed["input_size"][2 + place] = made.whole
    part = piece.part(**changed)
    found = part.func(*(basis.view(shape) if arg is source else arg for arg in part.args), **part.kwargs)
    return found.reshape(rows.size, made.whole)[:, made.begin : made.end].t().contiguous()  # type: ignore[no-any-return]


def _nearest(begin: int, end: int, before: int, after: int, first: int, device: Any = None) -> Tensor:
    """The rows, of those from a first one on, that lie nearest to some of as many rows as are made."""
    return (torch.arange(begin, end, device=device) * before).div(after, rounding_mode="floor") - first


def _copied(
    axis: int, begin: int, end: int, before: int, after: int, first: int, func: Any, *args: Any, **kwargs: Any
) -> Tensor:
    found = func(*args, **kwargs)
    return torch.index_select(found, axis, _nearest(begin, end, before, after, first, found.device))


def _combined(axis: int, weights: Tensor, func: Any, *args: Any, **kwargs: Any) -> Tensor:
    found = func(*args, **kwargs)
    if axis == found.dim() - 1:
        return torch.matmul(found, weights.t())
    return torch.matmul(weights, found.movedim(axis, -2)).movedim(-2, axis)


def _with_places(piece: Piece) -> Part | None:
    """Adaptive pooling: rows are not of one kind."""
    made, count = piece.made(), len(piece["output_size"])
    return piece.part() if made is None or made.axis < len(piece.sizes()) - count else None


def _adaptive_back(count: int) -> Callable[[Piece], Part | None]:
    def rule(piece: Piece) -> Part | None:
        """Of what was pooled, only the shape counts."""
        made = piece.made()
        if made is None or made.axis >= len(piece.sizes()) - count:
            return None
        given = (piece["grad_output"], *(() if piece["indices"] is None else (piece["indices"],)))
        return Part(Composed(_shaped, piece.sizes(), piece.call.func), given, {})

    return rule


def _shaped(sizes: list[int], func: Any, grad: Tensor, *indices: Tensor) -> Tensor:
    contiguous = (tensor.contiguous() for tensor in (grad, *indices))
    grad = next(contiguous)
    return func(grad, torch.empty(1, dtype=grad.dtype).expand(sizes), *contiguous)  # type: ignore[no-any-return]


_UPSAMPLED = ("nearest1d", "nearest2d", "nearest3d", "linear1d", "bilinear2d", "trilinear3d")
RULES: Mapping[str, Callable[[Piece], Part | None]] = {
    **{f"upsample_{kind}": _resized for kind in _UPSAMPLED},
    **{f"upsample_{kind}_backward": _resized for kind in _UPSAMPLED},
    **dict.fromkeys(("_adaptive_avg_pool2d", "_adaptive_avg_pool3d"), _resized),
    **dict.fromkeys(("adaptive_max_pool2d", "adaptive_max_pool3d"), _with_places),
    **dict.fromkeys(("_adaptive_avg_pool2d_backward", "adaptive_max_pool2d_backward"), _adaptive_back(2)),
    **dict.fromkeys(("_adaptive_avg_pool3d_backward", "adaptive_max_pool3d_backward"), _adaptive_back(3)),
}
