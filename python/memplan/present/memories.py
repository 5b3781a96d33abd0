"""The pools of a plan for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .tables import Table
from .units import format_bytes

if TYPE_CHECKING:
    from ..facts.memories import Memories


def memories_table(memories: Memories) -> Table:
    """A row per pool: what it holds, how good that is, and what it costs."""
    rows = tuple(
        (
            pool.name,
            "" if pool.capacity is None else format_bytes(pool.capacity),
            format_bytes(pool.peak),
            "optimal" if pool.optimal else f"{pool.gap:.3%}",
            f"{pool.buffers:,}",
            format_bytes(pool.accessed),
            f"{pool.cost:,}",
        )
        for pool in memories.values()
    )
    header = ("pool", "capacity", "peak", "gap", "buffers", "accessed", "cost")
    return Table(f"{len(memories)} pools", header, rows, frozenset(header[1:]), (cost_text(memories),), {"pool": None})


def cost_text(memories: Memories) -> str:
    """What all accesses cost, and what is proven of it."""
    if memories.cost_optimal:
        return f"cost {memories.cost:,}, proven to be the least"
    return f"cost {memories.cost:,}, of which {memories.cost_bound:,} are proven to be needed"
