"""Pairs that may share bytes at a price: from names to a call of the core, and back."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from .. import _core
from ..facts.plan import Plan
from ..facts.pricing import Pricing
from ..options.checks import integer
from ..text import offer
from .solver import Solver

_FOR_THE_PEAK = 0.4  # of a time limit, what looks for the lowest peak first, where there is no capacity

_BY_POSITION = re.compile(r"#(0|[1-9][0-9]{0,9})", re.ASCII)

Row = tuple[str, str, int]


def prices_of(rows: Any) -> list[Row]:
    """Rows (name, name, price), checked; the names are looked up when there is a problem."""
    if isinstance(rows, str) or not isinstance(rows, Sequence):
        raise TypeError(f"price must be rows such as ('a', 'b', 3), got {rows!r}")
    found = []
    for k, row in enumerate(rows):
        if isinstance(row, str) or not isinstance(row, Sequence) or len(row) != 3:
            raise TypeError(f"price[{k}] must be (a, b, price), got {row!r}")
        for name in row[:2]:
            if not isinstance(name, str):
                raise TypeError(f"price[{k}] must name two tensors or buffers, got {name!r}")
        found.append((row[0], row[1], integer(row[2], f"price[{k}] price", 0, 2**53)))
    return found


def before_prices(solver: Solver) -> Solver:
    """The solver of the plan from which the search for a price begins.

    A plan has to fit the capacity first. Without one, to lower the peak takes a part of the time only.
    """
    limit = solver.time_limit
    if limit is not None and solver.capacity is None:
        limit *= _FOR_THE_PEAK
    return replace(solver, time_limit=limit, on_improvement=None)


def priced(plan: Plan, rows: Sequence[Row], solver: Solver, begin: float) -> Plan:
    """A plan of the least price that is found, and of those the lowest; never above the capacity.

    For a graph, of the sharing by choice that the plan has. The time limit counts from `begin`.

    Raises
    ------
    ValueError
        A row names what has no place in the arena, or two tensors of one buffer.
    """
    pairs = _pairs(plan, rows)
    used = time.perf_counter() - begin
    limit = None if solver.time_limit is None else max(solver.time_limit - used, 1e-3)
    found = _core.price_plan(
        plan.problem,
        pairs,
        plan.offsets,
        time_limit=1e-3 if plan.interrupted else limit,
        seed=solver.seed,
        capacity=solver.capacity,
        lower_bound=plan.placement_bound,
        tell=_teller(plan, pairs, used, solver.on_improvement),
        interruptible=True,
    )
    return _plan_of(plan, pairs, used, found)


def _pairs(plan: Plan, rows: Sequence[Row]) -> list[tuple[int, int, int]]:
    """The rows, with buffers by position."""
    position = _positions(plan, rows)
    what = "buffers" if plan.graph is None else "tensors"
    pairs = []
    for k, (a, b, price) in enumerate(rows):
        for name in (a, b):
            if name not in position:
                near = offer(name, list(_names(plan)), what)
                raise ValueError(f"price[{k}] must name {what} in the arena, got {name!r}; {near}")
        x, y = position[a], position[b]
        if x == y:
            raise ValueError(f"price[{k}]: {a!r} and {b!r} both lie in {plan.problem.name(x)!r}")
        pairs.append((x, y, price))
    return pairs


def _positions(plan: Plan, rows: Sequence[Row]) -> dict[str, int]:
    """Where the buffers of all names are, or, where buffers are called by position, those of the rows."""
    if plan.graph is not None or plan.problem.names:
        return _names(plan)
    count = len(plan.problem)
    called = (name for row in rows for name in row[:2] if _BY_POSITION.fullmatch(name))
    return {name: position for name in called if (position := int(name[1:])) < count}


def _names(plan: Plan) -> dict[str, int]:
    problem = plan.problem
    position = {name: b for b, name in enumerate(problem.names or (f"#{b}" for b in range(len(problem))))}
    if plan.graph is not None and plan.buffers is not None:
        inside = plan.buffers.buffer_of_tensor.tolist()
        position |= {t.name: b for t, b in zip(plan.graph.tensors, inside, strict=True) if b >= 0}
    return position


def _teller(
    plan: Plan, pairs: Sequence[tuple[int, int, int]], used: float, tell: Callable[[Plan], object] | None
) -> Callable[[_core.PricedPlan], None] | None:
    if tell is None:
        return None

    def told(found: _core.PricedPlan) -> None:
        tell(_plan_of(plan, pairs, used, found))

    return told


def _plan_of(plan: Plan, pairs: Sequence[tuple[int, int, int]], used: float, found: _core.PricedPlan) -> Plan:
    problem = plan.problem
    begin, end = found.offsets.tolist(), (found.offsets + problem.size).tolist()
    meet = {(min(a, b), max(a, b)) for a, b, price in pairs if price > 0}
    sharing = sorted((a, b) for a, b in meet if max(begin[a], begin[b]) < min(end[a], end[b]))
    return replace(
        plan,
        offsets=found.offsets,
        peak=found.peak,
        optimal=found.peak == plan.lower_bound,
        seconds=used + found.seconds,
        found_after=used + found.found_after if found.found_after else plan.found_after,
        pricing=Pricing(
            found.price,
            found.price_bound,
            found.peak_bound,
            tuple((problem.name(a), problem.name(b)) for a, b in sharing),
        ),
        interrupted=plan.interrupted or found.interrupted,
    )
