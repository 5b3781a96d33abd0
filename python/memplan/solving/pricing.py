"""Pairs that may share bytes at a price: from names to a call of the core, and back."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..options.checks import integer
from ..options.for_core import time_left
from ..plans.plan import Plan
from ..plans.pricing import Pricing
from ..text import offer
from .solver import Solver

_MOST = 2**53  # a price

Row = tuple[str, str, int]


def prices_of(rows: Any) -> list[Row]:
    """Rows (name, name, price), checked; the names are looked up when there is a problem."""
    if isinstance(rows, str) or not isinstance(rows, Sequence):
        raise TypeError(f"price must be rows such as ('a', 'b', 3), got {rows!r}")
    return list(rows) if _all_plain(rows) else [_row(k, row) for k, row in enumerate(rows)]


def _all_plain(rows: Sequence[Any]) -> bool:
    """Whether nothing is wrong with any: of a million rows one by one, that takes a second."""
    if set(map(type, rows)) != {tuple} or set(map(len, rows)) != {3}:
        return False
    types = [set(map(type, map(itemgetter(column), rows))) for column in range(3)]
    if types != [{str}, {str}, {int}]:
        return False
    price: list[int] = list(map(itemgetter(2), rows))
    return min(price) >= 0 and max(price) <= _MOST


def _row(k: int, row: Any) -> Row:
    if (type(row) is not tuple and (isinstance(row, str) or not isinstance(row, Sequence))) or len(row) != 3:
        raise TypeError(f"price[{k}] must be (a, b, price), got {row!r}")
    a, b, price = row
    if type(price) is not int or not 0 <= price <= _MOST:
        price = integer(price, f"price[{k}] price", 0, _MOST)
    if not (isinstance(a, str) and isinstance(b, str)):
        raise TypeError(f"price[{k}] must name two tensors or buffers, got {(b if isinstance(a, str) else a)!r}")
    return a, b, price


def before_prices(solver: Solver) -> Solver:
    """The solver of the plan from which the search for a price begins.

    A plan has to fit the capacity first. Without one, to lower the peak takes a part of the time only.
    """
    limit = solver.search.time_limit
    if limit is not None and solver.capacity is None:
        limit *= _core.PART_BEFORE_PRICES
    return solver.with_search(time_limit=limit, on_improvement=None)


def priced(plan: Plan, rows: Sequence[Row], solver: Solver, begin: float) -> Plan:
    """A plan of the least price that is found, and of those the lowest; never above the capacity.

    For a graph, of the sharing by choice that the plan has. The time limit counts from `begin`.

    ValueError: a row names what has no place in the arena, or two tensors of one buffer.
    """
    pairs = _pairs(plan, rows)
    used = time.perf_counter() - begin
    search = solver.search
    left = time_left(search.time_limit, begin)
    options = solver.with_search(time_limit=1e-3 if plan.interrupted else left).options(
        tell=_teller(plan, pairs, used, search.on_improvement), lower_bound=plan.placement_bound
    )
    found = _core.price_plan(plan.problem, pairs, plan.offsets, options)
    return _plan_of(plan, pairs, used, found)


def _pairs(plan: Plan, rows: Sequence[Row]) -> npt.NDArray[np.int64]:
    """The rows, with buffers by position."""
    columns = ([row[0] for row in rows], [row[1] for row in rows])
    tensors = () if plan.graph is None or plan.buffers is None else (plan.graph, plan.buffers)
    found = [_core.positions_of(column, plan.problem, *tensors) for column in columns]
    pairs = np.array([*found, [row[2] for row in rows]], np.int64).T
    for k in np.flatnonzero((pairs[:, 0] == pairs[:, 1]) | (pairs[:, :2] < 0).any(1))[:1]:
        _refuse(plan, rows[k], int(k), pairs[k])
    return pairs


def _refuse(plan: Plan, row: Row, k: int, positions: npt.NDArray[np.int64]) -> None:
    what = "buffers" if plan.graph is None else "tensors"
    for name, position in zip(row[:2], positions[:2].tolist(), strict=True):
        if position < 0:
            near = offer(name, list(_names(plan)), what)
            raise ValueError(f"price[{k}] must name {what} in the arena, got {name!r}; {near}")
    raise ValueError(f"price[{k}]: {row[0]!r} and {row[1]!r} both lie in {plan.problem.name(int(positions[0]))!r}")


def _names(plan: Plan) -> dict[str, int]:
    problem = plan.problem
    position = {name: b for b, name in enumerate(problem.names or (f"#{b}" for b in range(len(problem))))}
    if plan.graph is not None and plan.buffers is not None:
        inside = plan.buffers.buffer_of_tensor.tolist()
        position |= {t.name: b for t, b in zip(plan.graph.tensors, inside, strict=True) if b >= 0}
    return position


def _teller(
    plan: Plan, pairs: npt.NDArray[np.int64], used: float, tell: Callable[[Plan], object] | None
) -> Callable[[_core.PricedPlan], None] | None:
    if tell is None:
        return None

    def told(found: _core.PricedPlan) -> None:
        tell(_plan_of(plan, pairs, used, found))

    return told


def _plan_of(plan: Plan, pairs: npt.NDArray[np.int64], used: float, found: _core.PricedPlan) -> Plan:
    problem = plan.problem
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
            tuple(_core.paying_pairs(problem, pairs, found.offsets)),
        ),
        interrupted=plan.interrupted or found.interrupted,
    )
