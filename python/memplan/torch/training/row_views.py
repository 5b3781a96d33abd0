"""Rows that are not computed yet, with the shape in which they lie, and views of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..private import disable_current_modes
from .row_values import Made, Value, moved


class Rows(NamedTuple):
    """Rows of a value, in the shape `lead`. ``behind``: in shape (a, *trail, b), with `lead` (a, b)."""

    value: Value
    lead: torch.Size
    behind: bool = False

    def shape(self) -> torch.Size:
        """The shape of a tensor of these rows."""
        if self.behind:
            return torch.Size((self.lead[0], *self.value.trail, self.lead[1]))
        return torch.Size((*self.lead, *self.value.trail))


def viewed(func: Any, args: Sequence[Any], kwargs: dict[str, Any], rows: Rows) -> Rows | None:
    """What a view shows whose first argument these rows are, without it in `args`; None if it is no view of rows."""
    if rows.behind:
        return None
    if func is Tensor.__getitem__:
        return _taken(rows, *args)
    if func in _TURNED:
        return _turned(func, args, kwargs, rows)
    return _reshaped(func, args, kwargs, rows) if func in _RESHAPED else None


def _reshaped(func: Any, args: Sequence[Any], kwargs: dict[str, Any], rows: Rows) -> Rows | None:
    """The same rows in another shape."""
    shows = _shown(func, args, kwargs, rows)
    if shows is None or shows.numel() != prod(rows.shape()):
        return None
    trail = rows.value.trail
    front = len(shows.shape) - len(trail)
    if front > 0 and shows.shape[front:] == trail:
        return Rows(rows.value, shows.shape[:front])
    if prod(trail) != 1 or not shows.dim():
        return None
    flat = torch.empty(1, dtype=rows.value.dtype, device="meta", requires_grad=rows.value.trained)
    return Rows(Made(torch.reshape, (rows.value, (-1,)), {}, 1, flat), shows.shape)


def _turned(func: Any, args: Sequence[Any], kwargs: dict[str, Any], rows: Rows) -> Rows | None:
    """Rows in another order, or the rows of a matrix as its columns."""
    shows = _shown(func, args, kwargs, rows, torch.float32)
    size, rank = rows.shape(), len(rows.lead)
    whole = _without_data(size, torch.float32)
    orders = [] if shows is None else _orders(len(size), rank)
    for axes in orders:
        turned = whole.permute(axes)
        if shows is not None and (turned.shape, turned.stride()) == (shows.shape, shows.stride()):
            if axes == (0, 2, 1) and rank == 2 and len(size) == 3:
                return Rows(rows.value, rows.lead, True)
            return turned_rows(rows, axes[:rank])
    return None


def turned_rows(rows: Rows, axes: Sequence[int] = (1, 0)) -> Rows:
    """Rows in another order of their axes."""
    return _selected(rows, lambda tensor: tensor.permute(*axes, *range(len(axes), tensor.dim())))


def _orders(dims: int, rank: int) -> list[tuple[int, ...]]:
    """Orders of axes: two axes of rows in turn, and the last of rows with that of classes."""
    found = []
    for first in range(rank):
        for second in range(first + 1, rank):
            axes = [*range(dims)]
            axes[first], axes[second] = second, first
            found.append(tuple(axes))
    return [*found, (0, 2, 1)] if (dims, rank) == (3, 2) else found


def _taken(rows: Rows, index: Any) -> Rows | None:
    """Some of the rows."""
    parts = index if isinstance(index, tuple) else (index,)
    taken = [_axes_of(part) for part in parts]
    if None in taken:
        return None
    size = sum(count or 0 for count in taken)
    if any(part is Ellipsis for part in parts):
        place = next(k for k, part in enumerate(parts) if part is Ellipsis)
        missing = len(rows.lead) + len(rows.value.trail) - size
        parts = (*parts[:place], *[slice(None)] * missing, *parts[place + 1 :])
        taken = [_axes_of(part) for part in parts]
    front: list[Any] = []
    while parts and sum(_axes_of(part) or 0 for part in front) < len(rows.lead):
        front.append(parts[0])
        parts = parts[1:]
    if sum(_axes_of(part) or 0 for part in front) > len(rows.lead) or not all(
        isinstance(part, slice) and part == slice(None) for part in parts
    ):
        return None
    if all(isinstance(part, slice) and part == slice(None) for part in front):
        return rows
    chosen = _selected(rows, lambda tensor: tensor[tuple(front)])
    return chosen if prod(chosen.lead) and chosen.lead else None


def _axes_of(part: Any) -> int | None:
    """How many axes a part of an index takes; None if it may make new ones."""
    if part is Ellipsis:
        return 0
    if isinstance(part, slice) or (isinstance(part, int) and not isinstance(part, bool)):
        return 1
    if isinstance(part, Tensor) and part.dim():
        return part.dim() if part.dtype == torch.bool else 1
    return None


def _selected(rows: Rows, take: Callable[[Tensor], Tensor]) -> Rows:
    """The rows that a function takes of tensors (*lead, ...)."""
    leads = []

    def move(tensor: Tensor) -> Tensor:
        trail = tensor.shape[1:]
        taken = take(tensor.reshape(*rows.lead, *trail))
        leads.append(taken.shape[: taken.dim() - len(trail)])
        return taken.reshape(-1, *trail)

    value = moved(rows.value, move)
    return Rows(value, leads[0])


def _shown(
    func: Any, args: Sequence[Any], kwargs: dict[str, Any], rows: Rows, dtype: torch.dtype | None = None
) -> Tensor | None:
    """A tensor without data in the place of what a function returns; None if it returns an error, or no tensor."""
    try:
        with disable_current_modes():
            found = func(_without_data(rows.shape(), dtype or rows.value.dtype), *args, **kwargs)
    except (RuntimeError, IndexError, TypeError):
        return None  # the error is that of whole logits
    return found if isinstance(found, Tensor) else None


def _without_data(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    with disable_current_modes():
        return torch.empty(tuple(shape), dtype=dtype, device="meta")


def _attributes(names: str) -> set[Any]:
    return {getattr(Tensor, name).__get__ for name in names.split()}


_TURNED = {Tensor.transpose, torch.transpose, Tensor.permute, torch.permute, Tensor.swapaxes} | _attributes("mT")
_RESHAPED = {
    *(Tensor.view, Tensor.reshape, torch.reshape, Tensor.flatten, torch.flatten, Tensor.unflatten, torch.unflatten),
    *(Tensor.squeeze, torch.squeeze, Tensor.unsqueeze, torch.unsqueeze, Tensor.contiguous),
}
