"""Calls of a recording that make pieces of what a call makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ...private import pytree
from ..recording import CallRecord, View
from .calls import Composed, Part

_aten = torch.ops.aten
_LARGE = 2**20  # bytes
_ADDED = {_aten.mm.default: _aten.addmm_.default, _aten.bmm.default: _aten.baddbmm_.default}  # over what was there


def record(call: CallRecord, part: Part, made: Sequence[View | None], shown: Mapping[View, View]) -> CallRecord:
    """A call that makes some of its results, the others are None."""
    args, kwargs = showing((part.args, dict(part.kwargs)), shown)
    outputs = tuple(view for view in made if view is not None)
    function = part.func
    if len(outputs) < sum(result is not None for result in results_of(call)) and len(made) > 1:
        function = Composed(_picked, [place for place, view in enumerate(made) if view is not None], function)
    return changed(call, function, args, kwargs, outputs, frozenset(), shown)


def adding(
    call: CallRecord, part: Part, made: Sequence[View | None], shown: Mapping[View, View], sums: Sequence[int]
) -> CallRecord:
    """A call that adds to what earlier ones have made."""
    args, kwargs = showing((part.args, dict(part.kwargs)), shown)
    totals = tuple(view for place in sums if (view := made[place]) is not None)
    written = frozenset(total.storage for total in totals)
    if part.func in _ADDED:
        [total] = totals
        return changed(call, _ADDED[part.func], (total, *args), kwargs, (), written, shown)
    rest = [place for place, view in enumerate(made) if view is not None and place not in sums]
    function = Composed(_added, list(sums), rest, part.func)
    outputs = tuple(view for place in rest if (view := made[place]) is not None)
    return changed(call, function, (totals, *args), kwargs, outputs, written, shown)


def changed(
    call: CallRecord,
    function: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    outputs: tuple[View, ...],
    written: frozenset[int],
    shown: Mapping[View, View],
) -> CallRecord:
    """A call in the place of another, which writes its outputs, and to what is `written` among its inputs."""
    inputs = tuple(leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, View))
    leaves = frozenset(shown.get(view, view) for view in call.leaves)
    fresh = tuple(True for _ in outputs)
    where = (bool(written), range(0), leaves, call.grad, None, outputs)
    return CallRecord(function, args, kwargs, inputs, outputs, fresh, *where, written, True)


def showing(value: Any, shown: Mapping[View, Any]) -> Any:
    """Arguments with other tensors."""
    return pytree.tree_map(lambda leaf: shown.get(leaf, leaf) if isinstance(leaf, View) else leaf, value)


def results_of(call: CallRecord) -> list[View | None]:
    """What a call returns, with None for what is no tensor."""
    parts = call.result if isinstance(call.result, (tuple, list)) else [call.result]
    return [part if isinstance(part, View) else None for part in parts]


def moved(place: View, rows: View) -> CallRecord:
    """A call that copies rows to another place, which may meet theirs."""
    function = Composed(_moved)
    views = (place, rows)
    return CallRecord(
        function, views, {}, views, (), (), True, range(0), written=frozenset({place.storage}), piece=True
    )


def copied(place: View, rows: View) -> CallRecord:
    """A call that copies rows to another place, which may be the first of its storage."""
    where = (False, range(0), frozenset[View](), False, None, place)
    return CallRecord(_aten.clone.default, (rows,), {}, (rows,), (place,), (True,), *where, frozenset(), True)


# Functions that calls are made of


def _moved(place: Tensor, rows: Tensor) -> None:
    """Few rows go by way of a copy; of many, as many at a time as lie clear of their places."""
    axis, clear = _clear(place, rows)
    if not clear or rows.numel() * rows.itemsize < _LARGE:
        place.copy_(rows.clone())
        return
    for here, there in zip(torch.split(place, clear, axis), torch.split(rows, clear, axis), strict=True):
        here.copy_(there)


def _clear(place: Tensor, rows: Tensor) -> tuple[int, int]:
    """An axis, and how many rows of it lie clear of the places before them; 0 if nothing is known."""
    steps, sizes = rows.stride(), rows.shape
    shift = rows.storage_offset() - place.storage_offset()
    if place.stride() != steps or shift <= 0 or rows.data_ptr() - place.data_ptr() != shift * rows.itemsize:
        return 0, 0
    for axis, step in enumerate(steps):
        wider = [other for other, size in zip(steps, sizes, strict=True) if other > step and size > 1]
        if 0 < step <= shift and shift % step == 0 and all(shift + sizes[axis] * step <= other for other in wider):
            return axis, shift // step
    return 0, 0


def written_over(func: Any, total: Tensor, *args: Any) -> None:
    """A total is replaced by what a function makes of arguments, of which it is the last."""
    total.copy_(func(*args))


def _picked(places: Sequence[int], func: Any, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
    result = func(*args, **kwargs)
    results = result if isinstance(result, (tuple, list)) else (result,)
    return tuple(results[place] for place in places)


def _added(
    sums: Sequence[int], rest: Sequence[int], func: Any, totals: Sequence[Tensor], *args: Any, **kwargs: Any
) -> tuple[Tensor, ...]:
    result = func(*args, **kwargs)
    results = result if isinstance(result, (tuple, list)) else (result,)
    for place, total in zip(sums, totals, strict=True):
        total.add_(results[place])
    return tuple(results[place] for place in rest)
