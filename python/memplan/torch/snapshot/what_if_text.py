"""The settings of an allocator and what each reserves, for people."""

from __future__ import annotations

import shlex
from io import BytesIO
from typing import TYPE_CHECKING

from ... import sizes
from ...printing import tables

if TYPE_CHECKING:
    from .what_if import WhatIf

_LINES = 8


def what_if_text(found: WhatIf) -> str:
    return tables.report_text(report_of(found))


def what_if_html(found: WhatIf) -> str:
    with BytesIO() as file:
        found.plot().savefig(file, format="png", dpi=120)
        return tables.report_html(report_of(found), tables.html_image(file.getvalue(), "bytes over the trace"))


def report_of(found: WhatIf) -> tables.Report:
    """The replay, the best setting as a line for the environment, and the tables."""
    replay, best, first = found.replay, found.best, found.rows[0]
    equal = "" if replay.equal_addresses == replay.allocations else f"{replay.equal_addresses:,} of "
    segments = f", and {replay.equal_segments:,} of {replay.segments:,} changes of segments" if replay.segments else ""
    sentences = [
        f"{len(replay.reserved_after):,} events of device {found.device}: the replay gives {equal}"
        f"{replay.allocations:,} addresses as the GPU did{segments}.",
        f"Reserved at most: {sizes.format_bytes(replay.reserved)} by the replay, "
        f"{sizes.format_bytes(replay.recorded_reserved)} by the trace. "
        f"In blocks at most: {sizes.format_bytes(replay.allocated)}.",
    ]
    if best is first:
        sentences.append("No setting here reserves less than that of the snapshot.")
    else:
        saved = first.reserved - best.reserved
        sentences.append(f"The best setting here reserves {sizes.format_bytes(saved)} less:")
        sentences.append(f"export PYTORCH_ALLOC_CONF={shlex.quote(best.setting)}")
    return tables.Report(f"What if: {found.source}", tuple(sentences), (_settings(found), _lines(found)))


def _settings(found: WhatIf) -> tables.Table:
    fits = f"fits {sizes.format_bytes(found.capacity)}" if found.capacity is not None else ""
    header = ("setting", "reserved", "lost", *([fits] if fits else []))

    def row(name: str, reserved: int, lost: int, does: bool | None) -> tuple[str, ...]:
        known = {True: "yes", False: "no", None: ""}[does]
        return (name, sizes.format_bytes(reserved), sizes.format_bytes(max(lost, 0)), *([known] if fits else []))

    rows = [
        row(
            (s.setting or "torch's defaults") + (" (of the snapshot)" if s.recorded else ""), s.reserved, s.lost, s.fits
        )
        for s in found.rows
    ]
    size, reserved = found.preallocated
    within = None if found.capacity is None else reserved <= found.capacity
    rows.append(
        row(f"one block of {sizes.format_bytes(size)} first", reserved, reserved - found.replay.allocated, within)
    )
    if found.planned is not None:
        fit = None if found.capacity is None else found.planned <= found.capacity
        rows.append(row("a static plan", found.planned, 0, fit))
    return tables.Table(
        "Settings", header, tuple(rows), frozenset(header[1:3]), tuple(f"note: {n}" for n in found.notes)
    )


def _lines(found: WhatIf) -> tables.Table:
    header = ("line", "blocks", "bytes", "free beside them")
    rows = tuple(
        (pin.line, f"{pin.blocks:,}", sizes.format_bytes(pin.bytes), sizes.format_bytes(pin.free))
        for pin in found.pinned[:_LINES]
    )
    left = len(found.pinned) - _LINES
    notes = (f"and {left:,} lines more",) if left > 0 else ()
    title = "Blocks that keep free bytes from the device, when most is reserved"
    return tables.Table(title, header, rows, frozenset(header[1:]), notes)
