"""What a step needs, as a table with bars."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..printing.tables import Table
from ..printing.units import counted, format_bytes, with_bytes

if TYPE_CHECKING:
    from .result import Estimate, Largest

_BAR = 30  # characters of a bar that is all
_EIGHTHS = "▏▎▍▌▋▊▉█"
_RIGHT = frozenset({"bytes", "share"})


def estimate_table(found: Estimate) -> Table:
    """A row for each part that there is, and their sum."""
    rows = [(name, *_cells(size, found.total)) for name, size in found.parts.items() if size]
    rows.append(("total", *_cells(found.total, found.total)))
    notes = [f"at the worst moment: {found.phase}, {found.at}"] if found.at else []
    if found.reserved is not None:
        reserved = with_bytes(found.reserved)
        notes.append(f"reserved by torch's caching allocator, what it only caches included: {reserved}")
    if found.suffices is not None:
        notes.append(f"a device suffices that has, besides the CUDA context: {with_bytes(found.suffices)}")
    header = ("", "bytes", "share", "of the total")
    return Table(f"A step on {found.device}", header, tuple(rows), _RIGHT, (*notes, *found.notes))


def largest_text(found: Largest) -> str:
    """The size, and what it and the next one need; where none fits, what the smallest needs."""
    budget = f"{with_bytes(found.budget)}{', weights, states and inputs left out' if found.besides else ''}"
    if not found.size:
        known = {size: total for size, total in found.tried.items() if total is not None}
        least = f"\n{min(known)} needs {with_bytes(known[min(known)])}" if known else "\nno schedule was found"
        return f"no size fits {budget}{least}"
    lines = [f"{found.size} is the largest size that fits {budget}"]
    if found.total is not None:
        lines.append(f"it needs {with_bytes(found.total)}")
    more = found.limit or "no schedule was found"
    if found.next_total is not None:
        more = f"it needs {with_bytes(found.next_total)}"
    lines.append(f"one more: {more}")
    if found.changes:
        lines.append(
            f"{counted(len(found.changes), 'changes')} to fit add {found.added_cost:.1%} of the cost of all ops"
        )
    return "\n".join(lines)


def _cells(size: int, total: int) -> tuple[str, str, str]:
    share = size / max(total, 1)
    return format_bytes(size), f"{share:.1%}", _bar(share)


def _bar(share: float) -> str:
    eighths = round(share * _BAR * 8)
    return "█" * (eighths // 8) + (_EIGHTHS[eighths % 8 - 1] if eighths % 8 else "")
