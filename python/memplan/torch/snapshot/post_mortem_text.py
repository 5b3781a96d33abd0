"""What a program held when it held most, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import sizes
from ...printing import tables

if TYPE_CHECKING:
    from .post_mortem import PostMortem

_LINES = 12


def post_mortem_text(found: PostMortem) -> str:
    """The moment, what is in use by kind and by line, and what grows."""
    size = sizes.format_bytes
    sentences = [f"Device {found.device} holds most with {size(found.allocated)} in blocks."]
    if found.asked is not None:
        sentences.append(f"Memory ran out when {size(found.asked)} more were asked for.")
    if found.steps:
        sentences.append(f"The trace has {found.steps:,} steps that are alike.")
    else:
        sentences.append("The trace has no steps that are alike, so it is taken for one.")
    return tables.report_text(
        tables.Report(found.source, tuple(sentences), (_kinds(found), _lines(found), _growing(found)))
    )


def _kinds(found: PostMortem) -> tables.Table:
    header = ("kind", "blocks", "bytes", "share")
    rows = tuple(
        (row.kind, f"{row.blocks:,}", sizes.format_bytes(row.bytes), f"{row.bytes / max(found.allocated, 1):.1%}")
        for row in found.kinds
    )
    return tables.Table("In use then", header, rows, frozenset(header[1:]))


def _lines(found: PostMortem) -> tables.Table:
    header = ("line", "kind", "blocks", "bytes")
    rows = tuple((row.line, row.kind, f"{row.blocks:,}", sizes.format_bytes(row.bytes)) for row in found.lines[:_LINES])
    left = len(found.lines) - _LINES
    notes = [f"and {left:,} lines more"] if left > 0 else []
    return tables.Table(
        "By line", header, rows, frozenset(header[2:]), (*notes, *(f"note: {note}" for note in found.notes))
    )


def _growing(found: PostMortem) -> tables.Table:
    header = ("line", "bytes more in each step", "blocks")
    rows = tuple((row.line, sizes.format_bytes(round(row.bytes)), f"{row.blocks:,.1f}") for row in found.growing)
    return tables.Table("Grows from step to step: a leak, if it is not meant", header, rows, frozenset(header[1:]))
