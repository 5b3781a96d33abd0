"""Kinds of tensors, as the core names them: what they are called, which are placed, and which one a buffer has."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import _core

KINDS = ("input", "weight", "intermediate", "output", "workspace")
PLACED = ("intermediate", "output", "workspace")  # unless told otherwise


def kind_of(tensor: _core.Tensor, returned: Collection[str]) -> str:
    """The kind of a tensor; what the graph returns is an "output", also where the source calls it an intermediate."""
    return "output" if tensor.kind == "intermediate" and tensor.name in returned else tensor.kind
