"""Several snapshots on one axis: the ranks of one job, or a program before and after a change."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...errors import SourceError
from ...files import replacing, write_text
from . import walked_of
from .post_mortem import Ints, PostMortem, post_mortem_of
from .recorded import Snapshot
from .what_if import chosen

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class OneOfSeveral:
    """One device of one snapshot.

    Attributes
    ----------
    source : str
        The file, or "snapshot 1", "snapshot 2" and so on.
    device : int
        The device.
    reserved, allocated : int
        The most bytes in segments, and in blocks.
    asked : int or None
        Bytes for which memory did not suffice, if it ran out.
    steps : int
        Steps that the trace has, as far as they are alike.
    live : array of int64, [allocations + 1]
        The bytes in use after each allocation.
    """

    source: str
    device: int
    reserved: int
    allocated: int
    asked: int | None
    steps: int
    live: Ints = field(repr=False)


@dataclass(frozen=True)
class HeldInSeveral:
    """Blocks of one kind, or of one line of the program: the bytes in use in each snapshot when that holds most."""

    name: str
    bytes: tuple[int, ...]

    @property
    def differs(self) -> int:
        """The most bytes minus the least."""
        return max(self.bytes) - min(self.bytes)


@dataclass(frozen=True, eq=False)
class SideBySide:
    """Several snapshots beside each other. Printed, they are tables.

    Attributes
    ----------
    snapshots : tuple of OneOfSeveral
        In the order in which they were given.
    kinds, lines : tuple of HeldInSeveral
        What each snapshot holds when it holds most, by kind and by line of the program; what differs most first.
    """

    snapshots: tuple[OneOfSeveral, ...]
    kinds: tuple[HeldInSeveral, ...]
    lines: tuple[HeldInSeveral, ...]

    def plot(self) -> Figure:
        """The bytes in blocks of all, over the allocations."""
        from .side_by_side_picture import figure_of

        return figure_of(self)

    def save_picture(self, path: str | os.PathLike[str]) -> None:
        """Write the picture: .png, .svg or .pdf."""
        with replacing(path) as beside:
            self.plot().savefig(beside)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write the tables and the picture as a page."""
        from .side_by_side_text import page_of

        write_text(path, page_of(self))

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write all figures as JSON."""
        columns = ("source", "device", "reserved", "allocated", "asked", "steps")
        data = {
            "snapshots": [{name: getattr(one, name) for name in columns} for one in self.snapshots],
            **{
                name: [{"name": row.name, "bytes": row.bytes} for row in rows]
                for name, rows in (("kinds", self.kinds), ("lines", self.lines))
            },
        }
        write_text(path, json.dumps(data, indent=1) + "\n")

    def __str__(self) -> str:
        from .side_by_side_text import side_by_side_text

        return side_by_side_text(self)

    def _repr_html_(self) -> str:
        from .side_by_side_text import html_of

        return html_of(self)


def side_by_side(
    sources: Sequence[str | os.PathLike[str] | Mapping[str, Any]], *, device: int | None = None
) -> SideBySide:
    """Compare memory snapshots of torch: what each reserves and holds, and by which lines they differ.

    O(n log n) for the n events of each.

    Parameters
    ----------
    sources
        Files that ``torch.cuda.memory._dump_snapshot`` wrote, or what ``torch.cuda.memory._snapshot()`` returned.
    device
        The device in each; by default all that have events.

    Raises
    ------
    TypeError
        A source is neither a path nor a dict.
    SourceError
        A file is no such snapshot, it has no trace, or there are not two to compare; the message says which.
    """
    found: list[tuple[OneOfSeveral, PostMortem]] = []
    for k, source in enumerate(sources):
        _, where, devices = walked_of(source)
        where = f"{where} {k + 1}" if isinstance(source, Mapping) else where
        traced = [walk for walk in devices if walk.events]
        for walk in traced if device is None and traced else [chosen(devices, device, where)]:
            held = post_mortem_of(where, walk)
            one = OneOfSeveral(
                where,
                walk.device,
                Snapshot.of(where, [walk]).reserved,
                held.allocated,
                held.asked,
                held.steps,
                held.live,
            )
            found.append((one, held))
    if len(found) < 2:
        raise SourceError(f"expected snapshots of two devices or more to compare, got {len(found)}")
    count = len(found)
    by: tuple[dict[str, list[int]], dict[str, list[int]]] = ({}, {})
    for k, (_, held) in enumerate(found):
        lines: Counter[str] = Counter()
        for row in held.lines:
            lines[row.line] += row.bytes
        for rows, own in zip(by, ({row.kind: row.bytes for row in held.kinds}, lines), strict=True):
            for name, size in own.items():
                rows.setdefault(name, [0] * count)[k] = size
    kinds, of_lines = (
        tuple(
            sorted(
                (HeldInSeveral(name, tuple(sizes)) for name, sizes in rows.items()),
                key=lambda row: (-row.differs, -max(row.bytes)),
            )
        )
        for rows in by
    )
    return SideBySide(tuple(one for one, _ in found), kinds, of_lines)


__all__ = ["HeldInSeveral", "OneOfSeveral", "SideBySide", "side_by_side"]
