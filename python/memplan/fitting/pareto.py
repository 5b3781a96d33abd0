"""`memplan.pareto`: what each capacity costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from .. import _core
from ..importers import Network, captured, counting_scratch
from ..options.checks import callback
from ..options.taking import request, without
from ..planning.registry import check_planner
from ..plans.failing import InfeasibleError
from ..plans.plan import Plan
from ..plans.pools import Pool
from ..sizes import Budget, budget_of
from ..solving.planning import sharing_of, storage_of
from ..solving.pools import unfixed
from .curve import Pareto, ParetoPoint
from .fit import USUAL, OpCosts, byte_cost, call_cost, check_ways, fit
from .pools import in_order, one_by_one, pareto_of_pool
from .profile import op_costs
from .unchanged import plan_unchanged, whole_of

_POINTS = 8
_OWN = ("allow", "cost", "transfer", "hidden", "call", "max_pieces")  # options of `fit` alone


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
        Bytes, as integers or text such as "8GiB"; "60%" is as for `fit`, or with `pools` of what the pool would
        hold. By default eight, from the load down to what any schedule needs, or where ops may be split, to the
        least that is found. For a pool: the capacity that it
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
    check_planner(planner)
    callback(on_point, "on_point", "a point")
    chosen = None if capacities is None else _checked(capacities)
    if pools:
        return pareto_of_pool(source, chosen, planner, pools, pool, on_point, options)
    if pool is not None:
        raise TypeError(f"pool needs pools: a list of memplan.plans.Pool, of which one is named {pool!r}")
    check_ways(**{name: options[name] for name in _OWN if name in options})
    sharing = request("fit", {name: value for name, value in options.items() if name not in _OWN}).sharing
    reading, options = without(options, "capture")
    own = request("capture", reading).reading
    alone = captured(source, own)
    read = counting_scratch(alone, own)
    graph = read.buffers
    if not isinstance(graph, _core.Graph):
        raise TypeError("pareto takes graphs and networks; a problem says nothing of the ops that make its buffers")
    cost = options.pop("cost", "auto")
    costs = op_costs(graph, cost, read)
    byte = 0.0
    if "split" in options.get("allow", USUAL):
        options["call"], byte = call_cost(graph, cost, options.get("call")), byte_cost(graph, cost)
    options["cost"] = OpCosts(dict(zip(_core.op_names(graph), costs, strict=True)), byte)
    assert isinstance(alone.buffers, _core.Graph)
    network = Network(alone.buffers, *alone[1:])
    storage, barrier = storage_of(read, sharing), options.get("barrier", ())
    given = plan_unchanged(read, planner, storage, barrier, options.get("time_limit"))
    least = None
    if chosen is None:
        asked, least = _even(network, planner, given.load, options)
    else:
        asked = in_order(chosen, lambda: whole_of(read, storage, given)[0])

    def point(capacity: int, _: list[ParetoPoint]) -> ParetoPoint:
        if least is not None and capacity == least.peak:
            return _found(capacity, least, read is not alone)
        return _point(network, capacity, planner, options, read is not alone)

    found, interrupted = one_by_one(asked, point, on_point)
    return Pareto(_falling(found), given.load, sum(costs), interrupted)


def pareto_of(plan: Plan, capacities: Sequence[int | str] | None = None, **options: Any) -> Pareto:
    """See `Plan.pareto`."""
    given: dict[str, Any] = {"planner": plan.planner}
    if plan.storage is not None:
        given |= sharing_of(plan.storage)
    if plan.pools is not None and plan.pools.asked:
        given |= {"pools": plan.pools.asked, "accesses": plan.pools.accesses, **plan.pools.fixed}
        return pareto(unfixed(plan), capacities, **(given | options))
    if plan.graph is None or plan.storage is None or plan.pools is not None:
        raise TypeError("pareto needs the plan of a graph or in pools; this one is of a problem, or from a file")
    return pareto(plan.graph, capacities, **(given | options))


def _checked(capacities: Sequence[int | str]) -> list[Budget]:
    if isinstance(capacities, (str, bytes)) or not isinstance(capacities, Sequence):
        raise TypeError(f"capacities must be a list of bytes, got {capacities!r}")
    return [budget_of(capacity, "capacities") for capacity in capacities]


def _even(network: Network, planner: str, load: int, options: dict[str, Any]) -> tuple[list[int], Plan | None]:
    """Capacities from the load down to what the largest op needs whatever is given up, or to the least in pieces, and
    the plan of that."""
    least = None
    try:
        if "split" in options.get("allow", USUAL):
            least = fit(network, "least", planner, **options)
        floor = (least or fit(network, 0, planner, **options)).peak
    except InfeasibleError as error:
        floor = min(error.lower_bound or 0, load)
    steps = {load - (load - floor) * k // (_POINTS - 1) for k in range(_POINTS)}
    return sorted(steps, reverse=True), least


def _point(network: Network, capacity: int, planner: str, options: dict[str, Any], held: bool) -> ParetoPoint:
    try:
        return _found(capacity, fit(network, capacity, planner, **options), held)
    except InfeasibleError as error:
        return ParetoPoint(capacity, proven=bool(error.proven), why=str(error))


def _found(capacity: int, plan: Plan, held: bool) -> ParetoPoint:
    """The point of a plan; ``held``: the capacity counts what kernels allocate beside the arena."""
    peak = plan.held if held else plan.peak
    return ParetoPoint(capacity, plan, plan.added_cost, plan.cost_bound, peak=peak)


def _falling(points: Sequence[ParetoPoint]) -> tuple[ParetoPoint, ...]:
    """A plan for less room is one for more: where it costs less than what was found there, it is taken."""
    better: list[ParetoPoint] = []
    for point in reversed(points):
        last = better[-1] if better else None
        if last is not None and last.plan is not None and (point.plan is None or last.added_cost < point.added_cost):
            point = replace(last, capacity=point.capacity, cost_bound=point.cost_bound)
        better.append(point)
    return tuple(reversed(better))
