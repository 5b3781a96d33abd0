"""Calls of one form have the same loops: what was found for one is kept for the others, as layers of a network repeat.

The form of a call is the operator, the shapes, strides and dtypes of its tensors, and its other arguments.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..effects import flat_tensors
from .calls import Loop, Rows, Statistics, Written

_PLAIN = (int, float, bool, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)
_MOST = 20_000  # forms that are kept


class Shape(NamedTuple):
    """A loop by the places of tensors among those given and those returned."""

    extent: int
    reads: Sequence[Rows | None]
    writes: Sequence[tuple[int, Written]]
    sums: Sequence[int]
    early: Sequence[tuple[int, Sequence[int]]]
    statistics: tuple[Sequence[int], int] | None


Shapes = Sequence[Shape]
known: dict[Hashable, Shapes] = {}


def keep(form: Hashable, shapes: Shapes) -> None:
    if len(known) >= _MOST:
        known.clear()
    known[form] = shapes


def form_of_call(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> Hashable | None:
    """The form; None if an argument is neither a tensor nor plain, or if a tensor is given twice."""
    given = [id(tensor) for tensor in flat_tensors([args, kwargs])]
    if len(set(given)) < len(given):
        return None
    try:
        return func, _form(args), tuple(kwargs), _form(tuple(kwargs.values())), _form(result)
    except TypeError:
        return None


def _form(value: Any) -> Hashable:
    if isinstance(value, Tensor):
        return value.shape, value.stride(), value.dtype
    if isinstance(value, (list, tuple)):
        return tuple(map(_form, value))
    if type(value) in _PLAIN:
        return value  # type: ignore[no-any-return]
    raise TypeError


def shape_of(loop: Loop, outputs: Sequence[Tensor]) -> Shape:
    given = {id(tensor): place for place, (tensor, _) in enumerate(loop.inputs)}
    made = {id(tensor): place for place, tensor in enumerate(outputs)}
    return Shape(
        loop.extent,
        [rows for _, rows in loop.inputs],
        [(made[id(tensor)], written) for tensor, written in loop.writes],
        [made[id(tensor)] for tensor in loop.sums],
        [(made[id(tensor)], [given[id(t)] for t in inputs]) for tensor, inputs in loop.early],
        loop.statistics and ([given[id(t)] for t in loop.statistics.inputs], loop.statistics.nbytes),
    )


def loop_of(shape: Shape, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Loop:
    counted = shape.statistics and Statistics([inputs[k] for k in shape.statistics[0]], shape.statistics[1])
    return Loop(
        shape.extent,
        list(zip(inputs, shape.reads, strict=True)),
        [(outputs[place], written) for place, written in shape.writes],
        [outputs[place] for place in shape.sums],
        [(outputs[place], [inputs[k] for k in given]) for place, given in shape.early],
        counted,
    )
