"""Who has the bytes of a tensor or buffer when, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..plans.verdict import SHARES
from ..printing.tables import Report, Table, report_text
from ..printing.units import format_bytes

if TYPE_CHECKING:
    from ..plans.slots import Slot
    from .reuse import Reuse


def reuse_text(reuse: Reuse) -> str:
    """Who has the bytes of a tensor or buffer when, as a table."""
    slot = reuse.slot
    title = f"{slot.name}: {format_bytes(slot.bytes)} at {slot.offset:,}, steps {slot.first}-{slot.last - 1}"
    order = [("before", s) for s in reversed(reuse.before)] + [("itself", slot)] + [("after", s) for s in reuse.after]
    rows = [
        (when, s.name, f"{s.first}-{s.last - 1}", f"{s.offset:,}", f"{s.end:,}", format_bytes(_common(slot, s)))
        for when, s in order
    ]
    columns = ("when", "buffer", "steps", "from byte", "to byte", "in common")
    table = Table(title, columns, tuple(rows), frozenset(columns[2:]))
    shares = [f"{s.inner} is {SHARES[s.how]} {s.outer} ({s.op})" for s in reuse.sharing]
    choice = Table("by choice", notes=("; ".join(shares),) if shares else ())
    return report_text(Report("", (), (table, choice)))


def _common(slot: Slot, other: Slot) -> int:
    return min(slot.end, other.end) - max(slot.offset, other.offset)
