"""What `memplan.plan` does for dims with ranges."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .. import _core
from ..errors import SourceError, UnsupportedError
from ..importers import HAVE_PROGRAMS, captured, kind_of
from ..options.source import Source
from ..options.taking import Request
from ..plans.ranged import AtSize, Ranged
from ..plans.record import PlanRecord
from .at_size import at_size, with_order_of
from .graphs import growing, in_order, require_alike
from .search import Search
from .sizes import Sizes, checked_range, key_of, points_of, text_of

_POWERS = 5  # of 2, that are offered as the least size where smaller ones give another network


def plan_range(source: Any, planner: str, asked: Request) -> PlanRecord:
    """What `memplan.plan` gives for `dims` with ranges."""
    begin = time.perf_counter()
    dims = asked.reading.dims or {}
    ranges = {name: checked_range(name, size) for name, size in dims.items() if isinstance(size, (tuple, list))}
    fixed = {name: size for name, size in dims.items() if name not in ranges}
    given = {**asked.sharing.given(), **asked.layout.given(), **asked.search.given()}
    options: dict[str, Any] = {"time_limit": None, **given, "planner": planner}
    points, every = points_of(ranges)

    def captured_at(sizes: Sizes) -> _core.Graph:
        found = captured(source, replace(asked.reading, dims={**fixed, **sizes})).buffers
        if not isinstance(found, _core.Graph):
            raise TypeError("dims in a range are for graphs; a problem has sizes already")
        return found

    def origin(sizes: Sizes) -> Source | None:
        kind = kind_of(source)
        runs = kind in HAVE_PROGRAMS and asked.reading.device is None
        return Source(source, kind, replace(asked.reading, dims={**fixed, **sizes})) if runs else None

    largest = points[-1]
    graphs = _alike(points, captured_at, fixed)
    found = Search(graphs, key_of(largest), options).found()
    for key in reversed(list(graphs)):
        found = with_order_of(found, key, graphs[key], options)
    known = {key: at_size(found, graphs[key]) for key in graphs}

    def at(sizes: Sizes) -> PlanRecord:
        graph = graphs.get(key_of(sizes))
        if graph is None:
            graph = captured_at(sizes)
            require_alike(found.graph, graph, largest, sizes)
        try:
            there = known[key_of(sizes)] if key_of(sizes) in known else at_size(found, graph)
        except UnsupportedError as error:
            raise UnsupportedError(
                f"the plan does not hold at {text_of(sizes)}, which was not looked at: {error}"
            ) from error
        return replace(there.plan, source=origin(sizes))

    rows = {
        key: AtSize(dict(zip(ranges, key, strict=True)), it.plan.peak, it.fixed, it.plan.lower_bound, it.like)
        for key, it in known.items()
    }
    ranged = Ranged(ranges, rows, every, growing(graphs), at)
    whole = replace(found.plan, graph=in_order(found.graph, found.plan))
    whole.verify()
    return replace(whole, source=origin(largest), ranged=ranged, seconds=time.perf_counter() - begin)


def _alike(
    points: Sequence[Sizes], captured_at: Callable[[Sizes], _core.Graph], fixed: Mapping[str, Any]
) -> dict[tuple[int, ...], _core.Graph]:
    """The graphs of all sizes, which are alike. The ends come first, as sizes of 1 often give other ops.

    UnsupportedError: they are not; the message offers a part of the range whose ends are alike.
    """
    largest = points[-1]
    whole = captured_at(largest)
    found = {key_of(largest): whole}
    for sizes in points[:-1]:
        graph = captured_at(sizes)
        try:
            require_alike(whole, graph, largest, sizes)
        except UnsupportedError as error:
            part = _part(sizes, largest, whole, captured_at)
            if part is None:
                raise
            raise UnsupportedError(f"{error}; one can for dims={ ({**fixed, **part})!r}") from None
        found[key_of(sizes)] = graph
    return {key_of(sizes): found[key_of(sizes)] for sizes in points}


def _part(
    least: Sizes, largest: Sizes, whole: _core.Graph, captured_at: Callable[[Sizes], _core.Graph]
) -> dict[str, tuple[int, int]] | None:
    """Ranges up to the largest sizes whose ends are alike: those from 2 on, from 4 on, and so on."""
    for power in range(1, _POWERS):
        from_ = {name: min(max(size, 2**power), largest[name]) for name, size in least.items()}
        if from_ == largest:
            return None
        try:
            require_alike(whole, captured_at(from_), largest, from_)
        except (UnsupportedError, SourceError):
            continue
        return {name: (from_[name], largest[name]) for name in from_}
    return None
