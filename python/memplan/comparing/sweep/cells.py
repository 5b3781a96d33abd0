"""One cell of a sweep, a source and a planner in one order, and what a worker makes of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TypeAlias

from ... import _core
from ...errors import GraphError, MissingDependencyError, ProblemError, SourceError, UnsupportedError
from ...importers import Network, read_once
from ...options.taking import without
from ..comparison import planned_row
from ..ordered import Ordered, in_order
from ..row import ComparisonRow, refused

Source: TypeAlias = "str | Network | _core.Problem"  # a path, or what was captured
_UNREADABLE = (SourceError, GraphError, ProblemError, UnsupportedError, MissingDependencyError)
_last: dict[tuple[str, str, str], Ordered] = {}  # what this worker has read and ordered last


@dataclass(frozen=True)
class Cell:
    """One source and one planner, in one order of the ops."""

    source: str  # what the source is called, and a digest of what it holds
    fingerprint: str
    planner: str
    order: str
    time_limit: float | None  # seconds
    options: str  # all other options, as JSON

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells it from the other cells of a sweep."""
        return self.source, self.planner, self.order


def planned_cell(source: Source, cell: Cell) -> ComparisonRow:
    """What a worker does: plans one source with one planner. The row comes without its plan."""
    capturing, options = without(json.loads(cell.options), "capture")
    key = cell.fingerprint, cell.order, cell.options
    if (ordered := _last.get(key)) is None:  # many cells ask for the same, one after the other
        try:
            captured = read_once(source, capturing) if isinstance(source, str) else source
        except _UNREADABLE as error:
            return refused(cell.planner, cell.order, error)
        ordered = in_order(captured, cell.order, options)
        _last.clear()
        if not ordered.interrupted:
            _last[key] = ordered
    return replace(planned_row(ordered, cell.planner, time_limit=cell.time_limit, **options), plan=None)
