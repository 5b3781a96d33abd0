"""What kernels allocate for a piece of a call: the rules of whole calls say it of a call with fewer rows."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...private import disable_current_modes
from ..loops import Loop, Rows, Written
from .called import Called
from .elementwise import elementwise
from .table import RULES, room


class Needs(NamedTuple):
    """Bytes that a piece needs whole, and inputs of which it copies rows that lie scattered."""

    whole: int = 0
    copied: Sequence[Tensor] = ()


NO_NEEDS = Needs()


def needs_of(call: Called, loops: Sequence[Loop]) -> list[Needs]:
    """What pieces along each loop need of the memory of a call's kernel.

    A piece is taken to need some bytes whole, and its share of the others. So much is whole that neither a piece of one
    iteration nor one of half of them needs more. Shares are the largest of all rows that a piece reads or writes.
    """
    if RULES.get(call.name, elementwise) is elementwise:
        return [NO_NEEDS] * len(loops)  # it reads rows where they lie
    with disable_current_modes():  # nobody is to hear of the tensors that stand for rows
        return [_needs(call, loop) for loop in loops]


def _needs(call: Called, loop: Loop) -> Needs:
    most, whole = room(call), 0
    for count in {1, loop.extent // 2}:
        piece, share = _piece(call, loop, count)
        if share < 1:
            whole = max(whole, math.ceil((room(piece) - most * share) / (1 - share)))
    return Needs(min(max(whole, 0), most), _copied(call, loop))


def _copied(call: Called, loop: Loop) -> list[Tensor]:
    """Inputs whose rows are copied, since a kernel cannot read them among others."""
    piece, _ = _piece(call, loop, max(1, loop.extent // 2))
    usual, found = room(piece), list[Tensor]()
    for at, (tensor, rows) in enumerate(loop.inputs):
        if rows is None:
            continue
        rest = piece.inputs[at]
        piece.inputs[at] = torch.empty_strided(rest.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
        if room(piece) >= usual + rest.nbytes:
            found.append(tensor)
        piece.inputs[at] = rest
    return found


def _piece(call: Called, loop: Loop, count: int) -> tuple[Called, float]:
    """The call for so many iterations, on tensors that have no other rows; and their share of all."""
    piece, share = copy.copy(call), count / loop.extent
    piece.whole, piece.inputs = call, []
    for tensor, rows in loop.inputs:
        part = 0
        if rows is not None:
            every = math.prod(tensor.shape[rows.axes[0] : rows.axes[1] + 1])
            part = min(every, math.ceil((count - 1) * rows.step + rows.window))
            share = max(share, part / max(1, every))
        piece.inputs.append(_rows_of(tensor, rows, part))
    written = {id(tensor): rows for tensor, rows in loop.writes}
    piece.results = [
        _rows_of(result, written.get(id(result)), count * written[id(result)].step if id(result) in written else 0)
        if isinstance(result, Tensor)
        else result
        for result in call.results
    ]
    piece.outputs = [result for result in piece.results if isinstance(result, Tensor)]
    return piece, share


def _rows_of(tensor: Tensor, rows: Rows | Written | None, count: int) -> Tensor:
    """A tensor without bytes that has so many rows, or some more if they lie along several axes, and no others."""
    shape, inner = list(tensor.shape), 1
    for axis in range(rows.axes[1], rows.axes[0] - 1, -1) if rows is not None else ():
        shape[axis] = min(shape[axis], max(1, -(-count // inner)))
        inner *= tensor.shape[axis]
    how: dict[str, Any] = {"dtype": tensor.dtype, "device": "meta"}
    if shape == list(tensor.shape):
        return torch.empty_strided(shape, tensor.stride(), **how)
    order, strides, stride = sorted(range(len(shape)), key=tensor.stride), [0] * len(shape), 1
    for axis in order:  # dense, in the same order
        strides[axis] = stride
        stride *= shape[axis]
    return torch.empty_strided(shape, strides, **how)
