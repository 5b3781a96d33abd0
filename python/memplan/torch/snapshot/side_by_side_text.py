"""Several snapshots beside each other, for people."""

from __future__ import annotations

import os
from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING

from ... import sizes
from ...printing import tables

if TYPE_CHECKING:
    from .side_by_side import HeldInSeveral, SideBySide

_LINES = 15


def side_by_side_text(found: SideBySide) -> str:
    return tables.report_text(report_of(found))


def html_of(found: SideBySide) -> str:
    return tables.report_html(report_of(found), _picture(found))


def page_of(found: SideBySide) -> str:
    return tables.report_page(report_of(found), _picture(found))


def labels_of(found: SideBySide) -> list[str]:
    """A short name for each: the file, its folder if two are called alike, the device if a file has several."""
    names = [os.path.splitext(os.path.basename(one.source))[0] for one in found.snapshots]
    if len(set(names)) < len({one.source for one in found.snapshots}):
        names = [one.source for one in found.snapshots]
    if len(set(names)) == len(names):
        return names
    return [f"{name}, device {one.device}" for name, one in zip(names, found.snapshots, strict=True)]


def report_of(found: SideBySide) -> tables.Report:
    """Who reserves and holds most, and the tables."""
    labels = labels_of(found)
    most = max(range(len(labels)), key=lambda k: found.snapshots[k].allocated)
    least = min(range(len(labels)), key=lambda k: found.snapshots[k].allocated)
    apart = found.snapshots[most].allocated - found.snapshots[least].allocated
    sentences = [
        f"{labels[most]} holds most: {sizes.format_bytes(apart)} more than {labels[least]}."
        if apart
        else "All hold equally much."
    ]
    lines = [row for row in found.lines if row.differs] or list(found.lines)
    return tables.Report(
        f"{len(labels)} snapshots",
        tuple(sentences),
        (
            _totals(found, labels),
            _held("In use when each holds most", "kind", labels, found.kinds, 0),
            _held("By line, what differs most first", "line", labels, lines[:_LINES], len(lines) - _LINES),
        ),
    )


def _totals(found: SideBySide, labels: list[str]) -> tables.Table:
    header = ("snapshot", "reserved", "in blocks", "steps", "ran out, asking for")
    rows = tuple(
        (
            label,
            sizes.format_bytes(one.reserved),
            sizes.format_bytes(one.allocated),
            f"{one.steps:,}",
            "" if one.asked is None else sizes.format_bytes(one.asked),
        )
        for label, one in zip(labels, found.snapshots, strict=True)
    )
    return tables.Table("The most bytes", header, rows, frozenset(header[1:]))


def _held(title: str, name: str, labels: list[str], held: Sequence[HeldInSeveral], left: int) -> tables.Table:
    header = (name, *labels, "differs by")
    rows = tuple((row.name, *map(sizes.format_bytes, row.bytes), sizes.format_bytes(row.differs)) for row in held)
    return tables.Table(title, header, rows, frozenset(header[1:]), (f"and {left:,} lines more",) if left > 0 else ())


def _picture(found: SideBySide) -> str:
    with BytesIO() as file:
        found.plot().savefig(file, format="png", dpi=120)
        return tables.html_image(file.getvalue(), "bytes in blocks over the allocations")
