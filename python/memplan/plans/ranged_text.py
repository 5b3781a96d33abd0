"""What a plan for a range of sizes needs at each of them, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..printing.tables import Table
from ..printing.units import format_bytes, percent

if TYPE_CHECKING:
    from .ranged import Ranged


def ranged_table(ranged: Ranged) -> Table:
    """A row per size that was looked at."""
    rows = tuple(
        (
            *(f"{size:,}" for size in sizes),
            format_bytes(row.lower_bound),
            format_bytes(row.peak),
            percent(row.gap) if row.gap else "optimal",
            ", ".join(map(str, row.like)),
            format_bytes(row.fixed),
        )
        for sizes, row in ranged.items()
    )
    header = (*ranged.dims, "at least", "plan.at", "gap", "in the order of", "fixed offsets")
    which = "every size of the range" if ranged.every else "these sizes; plan.at verifies any other"
    ranges = ", ".join(f"{name} {least} to {most}" for name, (least, most) in ranged.dims.items())
    return Table(f"one plan for {ranges}", header, rows, frozenset(header), (f"verified for {which}",))
