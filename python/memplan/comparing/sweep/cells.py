"""The cells of a sweep, its sources and options as workers and files take them, and what a worker makes of a cell."""

from __future__ import annotations

import hashlib
import json
import operator
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from ... import _core
from ...errors import GraphError, MissingDependencyError, ProblemError, SourceError, UnsupportedError
from ...importers import Network, read_once
from ...options.declaring import options_of
from ...options.taking import CALLBACKS, RECORDS, request, without
from ...sizes import in_bytes
from ..comparison import name_of, planned_row
from ..ordered import Ordered, in_order
from ..row import ComparisonRow, digest, refused

Source: TypeAlias = "str | Network | _core.Problem"  # a path, or what was captured
_UNREADABLE = (SourceError, GraphError, ProblemError, UnsupportedError, MissingDependencyError)
_last: dict[tuple[str, str, str], Ordered] = {}  # what this worker has read and ordered last
_CAPTURE_FIRST = "capture the source with it first"
_LOCAL = (
    {"args": _CAPTURE_FIRST, "kwargs": _CAPTURE_FIRST}
    | {"order": "give orders, a list"}
    | dict.fromkeys((*CALLBACKS, "on_interrupt", "on_row"), "see memplan.compare")
)  # options that cannot be sent to workers


def options_as_json(options: Mapping[str, Any]) -> str:
    """What options say beyond the defaults, as text, for workers and files."""
    defaults = {one.name: one.default for one in options_of(*RECORDS)}
    said = {}
    for name, value in options.items():
        if name in _LOCAL:
            raise TypeError(f"option {name} does not apply to sweeps; {_LOCAL[name]}")
        if name not in defaults:
            raise TypeError(f"sweep takes the options of plan, got {name!r}")
        if name == "capacity" and value is not None:
            value = in_bytes(value, name)  # one for all sources, so no share of a peak
        checked = request("plan", {name: value})
        value = next(getattr(record, name) for record in checked if name in record.names())
        if value != defaults[name] and (value or defaults[name]):
            said[name] = value
    try:
        return json.dumps(said, sort_keys=True, default=_plain)
    except TypeError:
        raise TypeError(f"options of a sweep must be numbers, names or collections of them, got {said}") from None


def _plain(value: Any) -> Any:
    """What JSON has no word for: sets, other mappings, integers of NumPy."""
    if isinstance(value, Mapping):
        return dict(value)
    return sorted(value) if isinstance(value, Collection) else operator.index(value)


def read_sources(
    sources: Sequence[Any] | Mapping[str, Any], capturing: dict[str, Any]
) -> list[tuple[str, Source, str]]:
    """Name, what is sent to workers, and a digest of what it holds, per source."""
    models = []
    seen: dict[str, Any] = {}
    for name, source in _named(sources):
        if name in seen:
            raise ValueError(
                f"two sources are called {name!r}: {seen[name]} and {source}; give other names, as in {{name: source}}"
            )
        if not name.isprintable():
            raise ValueError(f"the name of a source must be printable, got {name!r}")
        seen[name] = source
        models.append((name, *_sent(source, capturing)))
    if not models:
        raise ValueError("sources must hold one source at least, got none")
    return models


def _named(sources: Sequence[Any] | Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    is_one = isinstance(sources, (str, os.PathLike, Network, _core.Graph, _core.Problem))
    if is_one or (isinstance(sources, Mapping) and {"tensors", "ops"} <= set(sources)):
        raise TypeError(
            "sources must be a list of sources or a dict {name: source}, got one source; see memplan.compare"
        )
    if isinstance(sources, Mapping):
        for name, source in sources.items():
            if not isinstance(name, str):
                raise TypeError(f"the name of a source must be a string, got {name!r}")
            yield name, source
        return
    for i, source in enumerate(sources):
        found = name_of(source)
        if found is None:
            raise TypeError(
                f"sources[{i}] is a {type(source).__name__} and has no name: give sources as a dict {{name: source}}"
            )
        yield found, source


def _sent(source: Any, capturing: dict[str, Any]) -> tuple[Source, str]:
    if isinstance(source, (str, os.PathLike)) and not str(source).startswith("example:"):
        path = os.path.abspath(source)
        hashed = hashlib.sha256()
        with open(path, "rb") as file:
            while piece := file.read(2**20):
                hashed.update(piece)
        return path, hashed.hexdigest()[:16]
    captured = read_once(source, capturing)
    if isinstance(captured, _core.Problem):
        return captured, digest(captured)
    text = json.dumps(captured.graph.to_dict(), sort_keys=True)
    return captured, hashlib.sha256(text.encode()).hexdigest()[:16]


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
