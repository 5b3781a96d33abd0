"""Where a tensor lies: which storage it is in, which bytes of that it shows, and how."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from ...errors import SourceError
from ..private import storage_key
from .relations import extent

Geometry = tuple[int, tuple[int, ...], tuple[int, ...], torch.dtype, bool]


def address(tensor: Tensor) -> int:
    """What tensors of one storage have in common."""
    return int(storage_key(tensor.untyped_storage()))


def dense_address(tensor: Tensor, what: str) -> int:
    """The same. SourceError if a tensor, which it calls `what`, has no storage of its own, as sparse ones."""
    if tensor.layout != torch.strided:
        raise SourceError(f"{what}: expected a dense (strided) tensor, got {tensor.layout}")
    return address(tensor)


def geometry(tensor: Tensor) -> Geometry:
    """How a tensor shows its storage."""
    lazy = tensor.is_conj() or tensor.is_neg()
    return int(tensor.storage_offset()), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype, lazy


def span(tensor: Tensor) -> tuple[int, int]:
    """The bytes of its storage that a tensor lies in, from the first to the one after the last."""
    begin = int(tensor.storage_offset()) * tensor.dtype.itemsize
    return begin, begin + extent(tensor)


def distinct(tensors: Iterable[Tensor], what: str) -> list[Tensor]:
    """The tensors without those that show the same bytes in the same way as an earlier one."""
    first: dict[tuple[int, Geometry], Tensor] = {}
    for tensor in tensors:
        first.setdefault((dense_address(tensor, what), geometry(tensor)), tensor)
    return list(first.values())


def without(operands: list[Tensor], tensor: Tensor) -> list[Tensor]:
    """The operands but for the first that is this tensor."""
    place = next((place for place, operand in enumerate(operands) if operand is tensor), len(operands))
    return operands[:place] + operands[place + 1 :]
