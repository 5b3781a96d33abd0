"""The tensors of a plan for people."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from ..printing.tables import Table
from ..printing.units import format_bytes

if TYPE_CHECKING:
    from .tensors import Tensors


def tensors_table(tensors: Tensors, limit: int) -> Table:
    """A row per tensor, at most `limit`, and a line that counts the others."""
    rows = tuple(
        (name, f"{offset:,}", format_bytes(size), f"{first:,}", f"{last:,}", str(buffer), kind, *map(str, in_pool))
        for name, offset, size, first, last, buffer, kind, *in_pool in islice(tensors.rows(), limit)
    )
    hidden = len(tensors) - len(rows)
    notes = (f"and {hidden:,} more",) if hidden > 0 else ()
    right = frozenset(("offset", "bytes", "first", "last", "buffer", "address"))
    return Table(f"{len(tensors):,} tensors", tensors.header, rows, right, notes, {"name": 48})
