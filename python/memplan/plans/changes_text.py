"""What was given up so that a graph fits, and what that costs, as a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..printing.tables import Table, html, text
from ..printing.units import counted, format_bytes, percent, shortened, with_bytes
from ..text import printable
from .verdict import changes_text

if TYPE_CHECKING:
    from .changes import Change, Fitting

_SHOWN = 20  # changes, the dearest first
_NAMED = 3  # tensors of a change
_RIGHT = frozenset({"free", "cost"})


def fitting_text(fitting: Fitting) -> str:
    """The sum, and a row for each change."""
    return text(fitting_table(fitting))


def fitting_html(fitting: Fitting) -> str:
    """The same for notebooks."""
    return html(fitting_table(fitting))


def fitting_table(fitting: Fitting) -> Table:
    """A row for each of the dearest changes, and what all of a kind free and cost."""
    dearest = sorted(fitting.changes, key=lambda change: (-change.cost, -change.bytes))
    rows = [_row(change, fitting) for change in dearest[:_SHOWN]]
    notes = [_sum(kind, fitting) for kind in dict.fromkeys(change.kind for change in dearest)]
    if len(dearest) > _SHOWN:
        notes.insert(0, f"and {counted(len(dearest) - _SHOWN, 'changes')} more, which cost less")
    if fitting.least:
        notes.append(least_text(fitting))
    title = f"{asked_text(fitting)}: {changes_text(fitting)}"
    return Table(title, ("change", "tensors", "free", "after", "until", "cost"), tuple(rows), _RIGHT, tuple(notes))


def asked_text(fitting: Fitting) -> str:
    """What was asked for: "To fit 2.00 GiB", and what that is a share of."""
    what = "The least that is reached," if fitting.least else "To fit"
    share = f" ({fitting.share})" if fitting.share else ""
    return f"{what} {format_bytes(fitting.capacity)}{share}"


def least_text(fitting: Fitting) -> str:
    """How far what is reached is from what is proven."""
    if fitting.load_bound >= fitting.capacity:
        return "no schedule needs less in this order of the ops"
    bound = f"any schedule needs {with_bytes(fitting.load_bound)} at least, in this order of the ops"
    if fitting.load_bound <= 0:
        return "nothing less was found"
    gain = 1 - fitting.load_bound / fitting.capacity
    return f"nothing less was found, at most {percent(gain)} of it is to be gained: {bound}"


def _row(change: Change, fitting: Fitting) -> tuple[str, ...]:
    free = format_bytes(change.bytes) if change.bytes else ""
    ends = (shortened(change.after, 30), shortened(change.before, 30))
    return change.kind, _names(change.tensors), free, *ends, percent(change.cost / (fitting.cost or 1.0))


def _names(tensors: tuple[str, ...]) -> str:
    more = f" and {len(tensors) - _NAMED} more" if len(tensors) > _NAMED else ""
    return printable(", ".join(shortened(name, 30) for name in tensors[:_NAMED])) + more


def _sum(kind: str, fitting: Fitting) -> str:
    found = [change for change in fitting.changes if change.kind == kind]
    if kind == "order":
        return f"order: {found[0].why}"
    tensors = counted(_count(change.tensors for change in found), "tensors")
    cost = sum(change.cost for change in found) / (fitting.cost or 1.0)
    return f"{kind}: {tensors}, {percent(cost) or '0%'} of the cost"


def _count(tensors: Iterable[tuple[str, ...]]) -> int:
    return len({name for names in tensors for name in names})
