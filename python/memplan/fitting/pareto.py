"""`memplan.pareto`: what each capacity costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from .. import _core
from ..api import capture
from ..api import plan as planned
from ..options.checks import SHARING, callback
from ..options.early import check_early
from ..plans.failing import InfeasibleError
from ..plans.later import does
from ..plans.plan import Plan
from ..plans.pools import Pool
from ..sizes import Budget, budget_of
from ..solving.pools import unfixed
from .costs import named_costs
from .curve import Pareto, ParetoPoint
from .fit import check_ways, fit
from .pools import in_order, pareto_of_pool

_READING = ("args", "kwargs", "train", "dims", "inplace_ops", "trust", "device", "optimizer", "keep_gradients")
_POINTS = 8


def pareto(
    source: Any,
    capacities: Sequence[int | str] | None = None,
    planner: str = "auto",
    *,
    pools: Sequence[Pool] = (),
    pool: str | None = None,
    on_point: Callable[[ParetoPoint], object] | None = None,
    **options: Any,
) -> Pareto:
    """Cost over capacity: a network made to fit several capacities, or planned with several sizes of a pool.

    Parameters
    ----------
    source
        As for `fit`; with `pools`, as for `plan`.
    capacities
        Bytes, as integers or text such as "8GiB"; "60%" is of the peak of the network as it is, or of what the pool
        would hold. By default eight, from the load down to what any schedule needs. For a pool: the capacity that it
        was given, and 17 others, from what it would hold without a limit down to 0.
    planner
        As for `fit`.
    pools
        As for `plan`. The curve then has what all accesses cost, and the bound of that, over the capacity of one pool.
    pool
        The name of that pool. By default, the first.
    on_point
        Is called with each point as soon as it is known: what it cost, and the plan.
    options
        Other options of `fit`, or with `pools` of `plan`; `time_limit` is for each point.

    Returns
    -------
    Pareto
        A point for each capacity, the largest first. Ctrl-C ends it with the points so far.

    Raises
    ------
    TypeError, ValueError, UnsupportedError
        As `fit`, or as `plan`.
    InfeasibleError
        With `pools`: nothing fits, however large the pool is.
    """
    check_early({**options, "planner": planner})
    callback(on_point, "on_point", "a point")
    chosen = None if capacities is None else _checked(capacities)
    if pools:
        return pareto_of_pool(source, chosen, planner, pools, pool, on_point, options)
    if pool is not None:
        raise TypeError(f"pool needs pools: a list of memplan.Pool, of which one is named {pool!r}")
    check_ways(**{name: options[name] for name in ("allow", "cost", "transfer", "overlap") if name in options})
    reading = {name: options.pop(name) for name in _READING if name in options}
    graph = capture(source, **reading)
    if not isinstance(graph, _core.Graph):
        raise TypeError("pareto takes graphs and networks; a problem says nothing of the ops that make its buffers")
    options["cost"] = costs = named_costs(graph, options.pop("cost", "auto"), source, reading)
    sharing = {name: options[name] for name in SHARING if name in options}
    given = _given_load(graph, sharing)
    asked = (
        _even(graph, planner, given, options)
        if chosen is None
        else in_order(chosen, lambda: _peak(graph, planner, options))
    )
    found: list[ParetoPoint] = []
    interrupted = False
    for capacity in asked:
        try:
            point = _point(graph, capacity, planner, options)
        except KeyboardInterrupt:
            if not found:
                raise
            interrupted = True
            break
        found.append(point)
        if on_point is not None:
            on_point(point)
        if point.plan is not None and point.plan.interrupted:
            interrupted = True
            break
    return Pareto(tuple(found), given, sum(costs.values()), interrupted)


@does("pareto")
def pareto_of(plan: Plan, capacities: Sequence[int | str] | None = None, **options: Any) -> Pareto:
    """See `Plan.pareto`."""
    given: dict[str, Any] = {"planner": plan.planner}
    if plan.storage is not None:
        given |= {name: getattr(plan.storage, name) for name in SHARING}
    if plan.memories is not None and plan.memories.asked:
        given |= {"pools": plan.memories.asked, "accesses": plan.memories.accesses, **plan.memories.fixed}
        return pareto(unfixed(plan), capacities, **(given | options))
    if plan.graph is None or plan.storage is None or plan.memories is not None:
        raise TypeError("pareto needs the plan of a graph or in pools; this one is of a problem, or from a file")
    return pareto(plan.graph, capacities, **(given | options))


def _checked(capacities: Sequence[int | str]) -> list[Budget]:
    if isinstance(capacities, (str, bytes)) or not isinstance(capacities, Sequence):
        raise TypeError(f"capacities must be a list of bytes, got {capacities!r}")
    return [budget_of(capacity, "capacities") for capacity in capacities]


def _peak(graph: _core.Graph, planner: str, options: dict[str, Any]) -> int:
    """The peak of the graph as it is."""
    given = {name: options[name] for name in (*SHARING, "time_limit") if name in options}
    return planned(graph, planner, **given).peak


def _given_load(graph: _core.Graph, sharing: dict[str, Any]) -> int:
    return int(_core.buffers_of(graph, _core.StorageOptions(**sharing)).problem.load)


def _even(graph: _core.Graph, planner: str, load: int, options: dict[str, Any]) -> list[int]:
    """Capacities from the load down to what the largest op needs whatever is given up."""
    try:
        floor = fit(graph, 0, planner, **options).peak
    except InfeasibleError as error:
        floor = min(error.lower_bound or 0, load)
    steps = {load - (load - floor) * k // (_POINTS - 1) for k in range(_POINTS)}
    return sorted(steps, reverse=True)


def _point(graph: _core.Graph, capacity: int, planner: str, options: dict[str, Any]) -> ParetoPoint:
    try:
        found = fit(graph, capacity, planner, **options)
    except InfeasibleError as error:
        return ParetoPoint(capacity, proven=bool(error.proven), why=str(error))
    return ParetoPoint(capacity, replace(found), found.added_cost, found.cost_bound, peak=found.peak)
