"""What was reserved, in use, and planned, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..printing.tables import Table, text
from ..printing.units import counted, format_bytes, with_bytes

if TYPE_CHECKING:
    from .fragmentation import Fragmentation

_UNKNOWN = "unknown: the snapshot has no segments"


def fragmentation_text(found: Fragmentation) -> str:
    """A line for each figure, a table of the pools if there are several, and the notes."""
    lines = [f"{label:<13} {value}" for label, value in _rows(found)]
    if len(found.pools) > 1:
        lines.append(text(_pools(found)).rstrip("\n"))
    return "\n".join([*lines, *(f"note: {note}" for note in found.notes)])


def _rows(found: Fragmentation) -> list[tuple[str, str]]:
    blocks = counted(sum(pool.blocks for pool in found.pools), "blocks")
    rows = [
        (
            "reserved",
            f"{with_bytes(found.reserved)}: the most that segments held at once" if found.reserved else _UNKNOWN,
        ),
        ("allocated", f"{with_bytes(found.allocated)}: the most in use at once, of {blocks}"),
        ("requested", f"{with_bytes(found.requested)}: the same without rounding"),
    ]
    if found.planned is not None:
        rows.append(("static plan", with_bytes(found.planned)))
    if found.lost is not None:
        rows.append(("fragmentation", _cost(found.lost, found.reserved)))
    return rows


def _cost(lost: int, reserved: int) -> str:
    if lost < 0:
        return f"none: the plan needs {with_bytes(-lost)} more"
    return f"{with_bytes(lost)}, {lost / reserved:.1%} of what was reserved"


def _pools(found: Fragmentation) -> Table:
    header = ("pool", "blocks", "reserved", "allocated", "planned")
    rows = tuple(
        (
            pool.name,
            f"{pool.blocks:,}",
            format_bytes(pool.reserved),
            format_bytes(pool.allocated),
            "" if pool.planned is None else format_bytes(pool.planned),
        )
        for pool in found.pools
    )
    table = Table("By stream and pool", header, rows, frozenset(header[1:]))
    return table.only(range(4)) if found.planned is None else table
