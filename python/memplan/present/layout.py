"""The layout of a plan as text: which tensor is where, when, and who takes its place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from itertools import islice
from typing import TYPE_CHECKING, Literal

import numpy as np

from .. import _core
from .units import format_bytes, printable

if TYPE_CHECKING:
    from ..plan import Plan

HEADER = ("Tensor", "Size", "Start", "End", "Address", "Note")


@dataclass(frozen=True)
class Row:
    """A buffer, or a tensor that is a view of one: bytes, half-open steps, address, and a note."""

    name: str
    size: int
    first: int
    last: int
    address: int
    note: str

    def cells(self) -> tuple[str, ...]:
        """The row as text; the address is hexadecimal, as in a debugger."""
        return (
            printable(self.name),
            str(self.size),
            str(self.first),
            str(self.last),
            f"0x{self.address:08x}",
            printable(self.note),
        )


def layout_rows(plan: Plan) -> Iterator[Row]:
    """The rows of the layout: buffers by birth, then by address, each followed by its views."""
    views = _views_by_buffer(plan)
    successor = _core.reused_by(plan.problem, plan.offsets).tolist()
    names = plan.problem.name
    for b in np.lexsort((plan.offsets, plan.problem.first)).tolist():
        slot = plan[b]
        note = f"reused by {names(successor[b])}" if successor[b] >= 0 else ""
        yield Row(slot.name, slot.bytes, slot.first, slot.last, slot.offset, note)
        for name, size, inside, view_note in views.get(b, []):
            yield Row(name, size, slot.first, slot.last, slot.offset + inside, view_note)


def _views_by_buffer(plan: Plan) -> dict[int, list[tuple[str, int, int, str]]]:
    """Per buffer, the tensors that live in another's bytes: name, bytes, offset inside, and why they are there."""
    views: dict[int, list[tuple[str, int, int, str]]] = {}
    if plan.graph is None or plan.buffers is None:
        return views
    tensors, buffers = plan.graph.tensors, plan.buffers
    why: dict[int, str] = {}
    for how, _, output, source, _ in buffers.shared:
        if how == "concat":
            why[source] = f"part of {tensors[output].name}"
        else:
            why[output] = f"{'in place of' if how == 'inplace' else 'slice of'} {tensors[source].name}"
    columns = (buffers.buffer_of_tensor, buffers.root_of_tensor, buffers.offset_in_buffer)
    for t, (buffer, root, offset) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        if buffer >= 0 and root != t:
            note = why.get(t, f"alias of {tensors[root].name}")
            views.setdefault(buffer, []).append((tensors[t].name, tensors[t].bytes, offset, note))
    return views


def layout_text(plan: Plan, limit: int | None = None) -> str:
    """The layout as a table; with a `limit`, that many rows and a line that counts the others."""
    if limit is not None and limit < 0:
        raise ValueError(f"limit must be >= 0 or None, got {limit}")
    if limit is None:
        return _aligned([HEADER, *(row.cells() for row in layout_rows(plan))])
    total = len(plan) + sum(map(len, _views_by_buffer(plan).values()))
    return _shown(list(islice(layout_rows(plan), limit)), total - limit)


def _aligned(table: list[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    name, numbers, address = widths[0], widths[1:4], widths[4]
    lines = (
        f"{row[0]:<{name}}  {row[1]:>{numbers[0]}}  {row[2]:>{numbers[1]}}  {row[3]:>{numbers[2]}}  "
        f"{row[4]:<{address}}  {row[5]}".rstrip()
        for row in table
    )
    return "\n".join(lines)


def _shown(rows: list[Row], hidden: int) -> str:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, caption=f"… and {hidden} more" if hidden > 0 else None)
    for title in HEADER:
        right = title in ("Size", "Start", "End")
        width = {"Tensor": 44, "Note": 44}.get(title)
        side: Literal["left", "right"] = "right" if right else "left"
        table.add_column(title, justify=side, no_wrap=True, overflow="ellipsis", max_width=width)
    for row in rows:
        name, _, *others = row.cells()
        table.add_row(name, format_bytes(row.size), *others)
    buffer = StringIO()
    Console(file=buffer, width=120, color_system=None, markup=False, highlight=False, emoji=False).print(table)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()).strip("\n")


def summary_rows(plan: Plan) -> list[tuple[str, str]]:
    """The figures of a plan, each with its label."""
    proof = "optimal: the peak equals the load" if plan.optimal else f"gap {plan.gap:.3%} at most, not proven optimal"
    saved = 1 - plan.peak / plan.naive if plan.naive else 0.0
    winner = plan.planner if plan.winner == plan.planner else f"{plan.planner} ({plan.winner} won)"
    return [
        ("buffers", f"{len(plan):,}"),
        ("naive", f"{format_bytes(plan.naive)} ({plan.naive:,} bytes)"),
        ("load", f"{format_bytes(plan.load)} ({plan.load:,} bytes)"),
        ("peak", f"{format_bytes(plan.peak)} ({plan.peak:,} bytes), {saved:.1%} below naive"),
        ("proof", proof),
        ("planner", f"{winner}, {plan.seconds:.3g} s"),
    ]


def summary_text(plan: Plan) -> str:
    """The figures of a plan, a line each."""
    return "\n".join(f"{label:<8} {value}" for label, value in summary_rows(plan))
