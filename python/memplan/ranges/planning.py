"""What `memplan.plan` does for dims with ranges."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .. import _core
from ..errors import SourceError, UnsupportedError
from ..importers import Captured, Network, captured
from ..options.records import Reading
from ..options.taking import Request
from ..plans.plan import Plan
from ..plans.ranged import AtSize, Ranged
from ..solving.planning import solved
from ..solving.solver import Solver
from .sizes import Sizes, checked_range, growing, key_of, points_of, text_of

_POWERS = 5  # of 2, that are offered as the least size where smaller ones give another network


def plan_range(source: Any, planner: str, asked: Request) -> Plan:
    """What `memplan.plan` gives for `dims` with ranges."""
    begin = time.perf_counter()
    dims = asked.reading.dims or {}
    ranges = {name: checked_range(name, size) for name, size in dims.items() if isinstance(size, (tuple, list))}
    fixed = {name: size for name, size in dims.items() if name not in ranges}
    points, every = points_of(ranges)

    def captured_at(sizes: Sizes) -> Captured:
        found = captured(source, replace(asked.reading, dims={**fixed, **sizes}))
        if not isinstance(found.buffers, _core.Graph):
            raise TypeError("dims in a range are for graphs; a problem has sizes already")
        return found

    read = _alike(points, captured_at, fixed)
    found: Any = None

    def in_order(solver: Solver, graph: _core.Graph, storage: _core.StorageOptions, order: str) -> Plan:
        nonlocal found
        graphs = [*map(_row, points[:-1], read.values()), (text_of(points[-1]), graph)]
        plan, found = solver.at_sizes(graphs, storage, order)
        return plan

    largest: Any = read[key_of(points[-1])]
    plan = solved(Network(*largest), planner, asked._replace(reading=Reading()), in_order)

    def at_size(sizes: Sizes, there: Captured) -> tuple[Plan, AtSize]:
        graph, buffers, solution, bytes_, like = _core.at_size(found, _row(sizes, there))
        of_size = Plan.of(solution, buffers.problem, graph, buffers, plan.storage, there.source)
        return of_size, AtSize(sizes, of_size.peak, bytes_, of_size.lower_bound, key_of(points[like]))

    known = {key_of(sizes): at_size(sizes, read[key_of(sizes)]) for sizes in points}

    def at(sizes: Sizes) -> Plan:
        if key_of(sizes) in known:
            return known[key_of(sizes)][0]
        try:
            return at_size(sizes, captured_at(sizes))[0]
        except UnsupportedError as error:
            where = f"the plan does not hold at {text_of(sizes)}, which was not looked at"
            raise UnsupportedError(f"{where}: {error}") from error

    rows = {key: row for key, (_, row) in known.items()}
    grows = growing({key: _row({}, each)[1] for key, each in read.items()})
    return replace(plan, ranged=Ranged(ranges, rows, every, grows, at), seconds=time.perf_counter() - begin)


def _row(sizes: Sizes, read: Captured) -> tuple[str, _core.Graph]:
    """A graph at some sizes, as the core takes it."""
    assert isinstance(read.buffers, _core.Graph)
    return text_of(sizes), read.buffers


def _alike(
    points: Sequence[Sizes], captured_at: Callable[[Sizes], Captured], fixed: Mapping[str, Any]
) -> dict[tuple[int, ...], Captured]:
    """The graphs of all sizes, which are alike. The ends come first, as sizes of 1 often give other ops.

    UnsupportedError: they are not; the message offers a part of the range whose ends are alike.
    """
    largest = captured_at(points[-1])
    whole = _row(points[-1], largest)
    found = {}
    for sizes in points[:-1]:
        read = captured_at(sizes)
        try:
            _core.require_alike(whole, _row(sizes, read))
        except UnsupportedError as error:
            part = _part(sizes, points[-1], whole, captured_at)
            if part is None:
                raise
            raise UnsupportedError(f"{error}; one can for dims={ ({**fixed, **part})!r}") from None
        found[key_of(sizes)] = read
    return {**found, key_of(points[-1]): largest}


def _part(
    least: Sizes, largest: Sizes, whole: tuple[str, _core.Graph], captured_at: Callable[[Sizes], Captured]
) -> dict[str, tuple[int, int]] | None:
    """Ranges up to the largest sizes whose ends are alike: those from 2 on, from 4 on, and so on."""
    for power in range(1, _POWERS):
        from_ = {name: min(max(size, 2**power), largest[name]) for name, size in least.items()}
        if from_ == largest:
            return None
        try:
            _core.require_alike(whole, _row(from_, captured_at(from_)))
        except (UnsupportedError, SourceError):
            continue
        return {name: (from_[name], largest[name]) for name in from_}
    return None
