"""What each capacity of a pool costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ..importers import read_once
from ..options.taking import request, without
from ..plans.failing import InfeasibleError
from ..plans.plan import Plan
from ..plans.pools import PlannedPools, Pool, exact, number
from ..sizes import Budget
from ..solving.planning import plan
from ..text import offer
from .curve import Pareto, ParetoPoint

_PARTS = 16  # of the capacities that are looked at by default


def pareto_of_pool(
    source: Any,
    capacities: Sequence[Budget] | None,
    planner: str,
    pools: Sequence[Pool],
    pool: str | None,
    on_point: Callable[[ParetoPoint], object] | None,
    options: dict[str, Any],
) -> Pareto:
    """See `memplan.pareto`."""
    if "capacity" in options:
        raise TypeError("pareto takes capacities, a list; option capacity is for plan")
    chosen = _chosen(pools, pool)
    request("plan", {**options, "pools": pools})
    reading, rest = without(options, "capture")
    once = read_once(source, reading)

    def planned(pools: Sequence[Pool]) -> Plan:
        return plan(once, planner, pools=pools, **rest)

    free = planned(_with(pools, chosen, None))
    needed = _pools(free)[chosen.name].peak
    asked = _even(needed, chosen) if capacities is None else in_order(capacities, lambda: needed)

    def point(capacity: int, found: list[ParetoPoint]) -> ParetoPoint:
        return _bounded(_point(capacity, chosen, lambda room: planned(_with(pools, chosen, room))), found)

    found, cut = one_by_one([] if free.interrupted else asked, point, on_point)
    interrupted = free.interrupted or cut
    given = None if chosen.capacity is None else int(chosen.capacity)
    return Pareto(_falling(found), needed, _dearest(_pools(free)), interrupted, chosen.name, given)


def one_by_one(
    asked: Sequence[int],
    point_of: Callable[[int, list[ParetoPoint]], ParetoPoint],
    on_point: Callable[[ParetoPoint], object] | None,
) -> tuple[list[ParetoPoint], bool]:
    """A point for each capacity, made with those before it; and whether Ctrl-C has ended that before its end."""
    found: list[ParetoPoint] = []
    for capacity in asked:
        try:
            found.append(point_of(capacity, found))
        except KeyboardInterrupt:
            if not found:
                raise
            return found, True
        if on_point is not None:
            on_point(found[-1])
        if (made := found[-1].plan) is not None and made.interrupted:
            return found, True
    return found, False


def in_order(capacities: Sequence[Budget], whole: Callable[[], int]) -> list[int]:
    """Capacities in bytes, each once, the largest first; `whole` says what shares are of."""
    of = whole() if any(capacity.share is not None for capacity in capacities) else 0
    return sorted({capacity.of(lambda: of) for capacity in capacities}, reverse=True)


def _chosen(pools: Sequence[Pool], name: str | None) -> Pool:
    for pool in pools:
        if not isinstance(pool, Pool):
            raise TypeError(f"pools must hold memplan.plans.Pool, got {pool!r}")
    names = [pool.name for pool in pools]
    if name is not None and name not in names:
        raise ValueError(f"pool must be the name of one of the pools, got {name!r}; {offer(str(name), names, 'pools')}")
    return pools[0 if name is None else names.index(name)]


def _with(pools: Sequence[Pool], chosen: Pool, capacity: int | None) -> list[Pool]:
    return [replace(pool, capacity=capacity) if pool is chosen else pool for pool in pools]


def _pools(plan: Plan) -> PlannedPools:
    assert plan.pools is not None
    return plan.pools


def _even(needed: int, pool: Pool) -> list[int]:
    """Capacities from what the pool would hold down to 0, and its own, the largest first."""
    steps = {needed - needed * k // _PARTS for k in range(_PARTS + 1)}
    own = set() if pool.capacity is None else {int(pool.capacity)}
    return sorted(steps | own, reverse=True)


def _point(capacity: int, pool: Pool, planned: Callable[[int], Plan]) -> ParetoPoint:
    try:
        found = planned(capacity)
    except InfeasibleError as error:
        return ParetoPoint(capacity, proven=bool(error.proven), why=str(error))
    pools = _pools(found)
    return ParetoPoint(capacity, found, pools.cost, pools.cost_bound, peak=pools[pool.name].peak)


def _same_problem(one: Plan | None, other: Plan | None) -> bool:
    """Whether both are of the same buffers, so that what is known of the one holds for the other."""
    return one is not None and other is not None and (one.problem, one.sharing) == (other.problem, other.sharing)


def _bounded(point: ParetoPoint, larger: Sequence[ParetoPoint]) -> ParetoPoint:
    """With the bounds of larger capacities: what they need, a smaller one needs too."""
    bounds = [other.cost_bound for other in larger if _same_problem(other.plan, point.plan)]
    return replace(point, cost_bound=max([point.cost_bound, *bounds]))


def _falling(points: Sequence[ParetoPoint]) -> tuple[ParetoPoint, ...]:
    """A plan for less room is one for more: where it costs less than what was found there, it is taken."""
    better: list[ParetoPoint] = []
    for point in reversed(points):
        last = better[-1] if better else None
        if last is not None and last.added_cost < point.added_cost and _same_problem(last.plan, point.plan):
            point = replace(point, plan=last.plan, added_cost=last.added_cost, peak=last.peak)
        better.append(point)
    return tuple(reversed(better))


def _dearest(pools: PlannedPools) -> float:
    """The cost of all accesses in the pool whose bytes cost most."""
    accessed = sum(pool.accessed for pool in pools.values())
    return number(max(exact(pool.cost_per_byte) for pool in pools.values()) * accessed)
