"""From a problem or a graph to a plan in several pools of memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from .. import _core
from ..errors import GraphError
from ..inplace_ops import matches
from ..kinds import KINDS
from ..options.accesses import counts_of_graph, counts_of_problem
from ..options.layouts import layout_of_problem, left_of, problem_with
from ..options.records import Layout
from ..plans.plan import Plan
from ..plans.pools import PlannedPool, PlannedPools, Pool, exact, number
from ..text import offer
from .solver import Solver

_MOST_PARTS = 10**9  # of a unit of cost
_MOST_COST = 2**63


@dataclass(frozen=True)
class Pools:
    """Pools, and how often buffers are accessed: what `memplan.plan` is given, checked."""

    pools: tuple[Pool, ...]
    accesses: Mapping[str, int] | Sequence[int] | None = None

    def problem(self, solver: Solver, problem: _core.Problem, asked: Layout) -> Plan:
        """The plan of a problem, of which this is asked besides."""
        problem, asked = left_of(problem, asked)
        _check_names(self.pools, problem)
        counts = counts_of_problem(problem, self.accesses)
        plain, fixed = _fixed(problem, asked)
        rows = self._rows(lambda item: item if isinstance(item, str) else problem.name(int(item)))
        found = _core.plan_pools(plain, rows, fixed, counts, solver.options())
        return self._plan(found, Plan.of(found.plan, found.problem, source=solver.source))

    def graph(self, solver: Solver, graph: _core.Graph, storage: _core.StorageOptions, order: str = "given") -> Plan:
        """The plan of a graph, its ops in the order of a rule or search; "best" never costs more than given."""
        _check_terms(self.pools, graph)
        counts = counts_of_graph(graph, self.accesses)
        found = _core.plan_graph_pools(graph, order, self._rows(str), storage, counts, solver.options())
        plan = Plan.of(found.found.plan, found.found.problem, found.graph, found.buffers, storage, solver.source)
        if order != "given":
            plan = replace(plan, ordered_by=order, proven_of_orders=found.order_bound)
        return self._plan(found.found, plan)

    def _rows(self, name: Callable[[Any], str]) -> list[tuple[Any, ...]]:
        """What the core is told of pools; costs as integers."""
        costs, parts = [exact(cost) for cost in _costs(self.pools)], _parts(self.pools)
        if max(costs) * parts >= _MOST_COST:
            raise ValueError("costs of pools are too large: bytes accessed x cost must add up to less than 2**63")
        return [
            (
                *(pool.name, pool.capacity, pool.alignment, pool.base, int(cost * parts)),
                None if pool.accepts is None else list(map(name, pool.accepts)),
                list(pool.reserved),
            )
            for pool, cost in zip(self.pools, costs, strict=True)
        ]

    def _plan(self, found: _core.PlanInPools, plan: Plan) -> Plan:
        pools = [
            PlannedPool(
                name=pool.name,
                capacity=_capacity(pool),
                alignment=int(pool.alignment),
                base=int(pool.base),
                cost_per_byte=cost,
                begin=used.begin,
                peak=used.peak,
                lower_bound=used.lower_bound,
                buffers=used.buffers,
                accessed=used.accessed,
            )
            for pool, used, cost in zip(self.pools, found.pools, _costs(self.pools), strict=True)
        ]
        bound = number(Fraction(found.cost_bound, _parts(self.pools)))
        again = self._asked(plan.problem, found)
        of_buffer = found.pool.astype(np.int64)
        args = (found.takes, self.pools, self.accesses, found.accessed, again)
        return replace(plan, pools=PlannedPools(pools, of_buffer, bound, *args))

    def _asked(self, problem: _core.Problem, found: _core.PlanInPools) -> dict[str, Any]:
        """What is fixed as options of `memplan.plan`, but for what pools say themselves."""
        if not found.pins and not found.reserved:
            return {}
        own = sum(len(pool.reserved) for pool in self.pools)
        return {
            "pin": {problem.name(b): (self.pools[p].name, offset) for b, p, offset in found.pins},
            "reserved": [(self.pools[p].name, *row) for p, *row in found.reserved[: len(found.reserved) - own]],
        }


def unfixed(plan: Plan) -> _core.Graph | _core.Problem:
    """What a plan is of, without pins and reserved bytes."""
    if plan.graph is None:
        return plan.problem.with_pins(None, None)
    old = plan.graph.layout
    layout = _core.Layout(together=old.together, apart=old.apart, exclude=old.exclude)
    return _core.Graph(plan.graph.tensors, plan.graph.ops, plan.graph.outputs, layout)


def pools_of(pools: Any, accesses: Any) -> Pools:
    """What was given as pools, checked; see `memplan.plan`."""
    if isinstance(pools, (str, Pool)) or not isinstance(pools, Collection) or not pools:
        raise TypeError(f"pools must be a list of memplan.plans.Pool, got {pools!r}")
    for pool in pools:
        if not isinstance(pool, Pool):
            raise TypeError(f"pools must hold memplan.plans.Pool, got {pool!r}")
    names = [pool.name for pool in pools]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"pools must have different names, got {name!r} {names.count(name)} times")
    priced = [pool.name for pool in pools if pool.cost is not None]
    if priced and len(priced) < len(names):
        free = next(name for name in names if name not in priced)
        raise ValueError(f"pools must all have a cost, or none: pool {priced[0]!r} has one, and {free!r} has none")
    for pool in pools:
        if pool.cost is not None and exact(pool.cost).denominator > _MOST_PARTS:
            raise ValueError(f"pool {pool.name!r}: cost must have at most nine decimals, got {pool.cost!r}")
    if accesses is not None and isinstance(accesses, (str, bytes)):
        raise TypeError(f"accesses must be counts by name, or one per buffer, got {accesses!r}")
    return Pools(tuple(pools), accesses)


def _capacity(pool: Pool) -> int | None:
    return None if pool.capacity is None else int(pool.capacity)


def _costs(pools: Sequence[Pool]) -> list[float]:
    return [k if pool.cost is None else pool.cost for k, pool in enumerate(pools)]


def _parts(pools: Sequence[Pool]) -> int:
    """Into so many parts a unit of cost is cut, so that all costs are integers."""
    return math.lcm(*(exact(cost).denominator for cost in _costs(pools)))


def _fixed(problem: _core.Problem, asked: Layout) -> tuple[_core.Problem, _core.Layout]:
    """The problem without pins and reserved bytes, and these by name."""
    new = layout_of_problem(problem, asked)
    pins = [] if problem.pins is None else problem.pins.tolist()
    reserved = [] if problem.reserved is None else problem.reserved.tolist()
    pinned = {name for name, _ in new.pins} | {name for name, *_ in new.pool_pins}
    own = [(problem.name(b), pin) for b, pin in enumerate(pins) if pin >= 0 and problem.name(b) not in pinned]
    fixed = _core.Layout(
        own + new.pins,
        [tuple(row) for row in reserved] + new.reserved,
        pool_pins=new.pool_pins,
        pool_reserved=new.pool_reserved,
    )
    plain = problem_with(problem.with_pins(None, None), _core.Layout(together=new.together, apart=new.apart))
    return plain, fixed


def _check_names(pools: Sequence[Pool], problem: _core.Problem) -> None:
    named = any(isinstance(item, str) for pool in pools for item in pool.accepts or ())
    names = dict.fromkeys(problem.name(b) for b in range(len(problem))) if named else {}
    for pool in pools:
        for item in pool.accepts or ():
            if isinstance(item, str) and item not in names:
                near = offer(item, list(names), "buffers")
                raise ValueError(f"pool {pool.name!r}: accepts must name buffers of the problem, got {item!r}; {near}")
            if isinstance(item, int) and not 0 <= item < len(problem):
                raise ValueError(f"pool {pool.name!r}: accepts must hold 0 to {len(problem) - 1}, got {item}")


def _check_terms(pools: Sequence[Pool], graph: _core.Graph) -> None:
    types, names = {op.type for op in graph.ops}, {tensor.name for tensor in graph.tensors}
    names |= {f"{op.name}.workspace" for op in graph.ops}
    for pool in pools:
        for item in pool.accepts or ():
            if not isinstance(item, str):
                raise TypeError(f"pool {pool.name!r}: accepts must hold kinds, types of ops and names, got {item!r}")
            if item not in KINDS and item not in names and not any(matches(of, [item]) for of in types):
                near = offer(item, sorted({*KINDS, *types, *names}), "kinds, types and names")
                raise GraphError(
                    f"pool {pool.name!r}: accepts must hold kinds, types of ops and names of the graph, got {item!r}; "
                    f"{near}"
                )
