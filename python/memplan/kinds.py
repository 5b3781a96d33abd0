"""Kinds of tensors and ops, as the core names them: which are placed, which one a buffer has, what moves tensors."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import _core

KINDS = ("input", "weight", "intermediate", "output", "workspace")
MOVE_OUT, FETCH = "memplan.move_out", "memplan.fetch"  # types of ops that copy a tensor out of the arena, and back
MOVES = (MOVE_OUT, FETCH)
PLACED = ("intermediate", "output", "workspace")  # unless told otherwise


def kind_of(tensor: _core.Tensor, returned: Collection[str]) -> str:
    """The kind of a tensor; what the graph returns is an "output", also where the source calls it an intermediate."""
    return "output" if tensor.kind == "intermediate" and tensor.name in returned else tensor.kind
