"""From any source to a verified plan: what `memplan.plan` does for sizes that are given."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _core
from ..importers import Captured, captured
from ..inplace_ops import check_types
from ..ops import without_overlap
from ..options.barriers import with_barriers
from ..options.checks import check_donated
from ..options.for_core import time_left
from ..options.layouts import with_layout
from ..options.records import Sharing
from ..options.taking import Request, check_for_problems, request
from ..planning.registry import check_planner
from ..plans.failing import InfeasibleError
from ..plans.plan import Plan
from ..sizes import Budget, budget_of, in_bytes
from .keeping import limit_of_search, settled
from .pools import Pools, pools_of
from .pricing import before_prices, priced, prices_of
from .solver import Solver
from .wishes import starting, wishes

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..options.keywords import PlanOptions

_ALIGNMENT_OF_CUDA = 512  # of all that torch's allocator gives


def plan(source: Any, planner: str = "auto", **options: Unpack[PlanOptions]) -> Plan:
    """See `memplan.plan`."""
    check_planner(planner)
    return solved(source, planner, request("plan", options))


InOrder = Callable[[Solver, _core.Graph, _core.StorageOptions, str], Plan]


def solved(source: Any, planner: str, asked: Request, in_order: InOrder = Solver.in_order) -> Plan:
    """The plan of a source for which this is asked; a graph without pools is planned by `in_order`."""
    search = asked.search
    wished, begin, prices = wishes(search.keep), starting(search.start), prices_of(search.price)
    pools = pools_of(search.pools, search.accesses) if search.pools else None
    budget = None if search.capacity is None else budget_of(search.capacity, "capacity")
    read = captured(source, asked.reading)
    keeps = search.keep is not None
    solver = Solver(planner, search, None if budget is None else budget.bytes, read.source, begin)
    if keeps:
        solver = solver.with_search(time_limit=limit_of_search(planner, search.time_limit))
    begun, priced_by = time.perf_counter(), solver
    if prices:
        solver = before_prices(solver)
    try:
        if isinstance(read.buffers, _core.Graph):
            result = _of_graph(read, solver, budget, pools, asked, in_order)
        else:
            result = _of_problem(read.buffers, solver, budget, pools, asked)
    except InfeasibleError as error:
        if search.on_interrupt == "raise" and error.plan is not None and error.plan.interrupted:
            raise KeyboardInterrupt from error
        raise
    if prices:
        result = priced(result, prices, priced_by, begun)
    if keeps:
        result = settled(result, wished, solver, time_left(search.time_limit, begun))
    if search.on_interrupt == "raise" and result.interrupted:
        raise KeyboardInterrupt
    if not (read.notes or read.scratch):
        return result
    return replace(result, notes=read.notes, scratch=read.above_results)


def storage_of(read: Captured, sharing: Sharing) -> _core.StorageOptions:
    """What may be done with the memory of a graph that was read."""
    assert isinstance(read.buffers, _core.Graph)
    check_donated(read.buffers, sharing.donate)
    check_types(read.buffers, sharing.disable_inplace_ops, "disable_inplace_ops")
    alignment = in_bytes(sharing.alignment, "alignment", 1)
    return _core.StorageOptions(
        list(sharing.place),
        alignment if read.device is None else math.lcm(alignment, _ALIGNMENT_OF_CUDA),
        sharing.inplace,
        list(sharing.disable_inplace_ops),
        list(sharing.donate),
        sharing.zero_copy,
    )


def sharing_of(storage: _core.StorageOptions) -> dict[str, Any]:
    """The options that say so, for a plan of another graph."""
    return {name: getattr(storage, name) for name in Sharing.names()}


def _of_graph(
    read: Captured, solver: Solver, budget: Budget | None, pools: Pools | None, asked: Request, in_order: InOrder
) -> Plan:
    storage = storage_of(read, asked.sharing)
    laid: Any = with_layout(read.buffers, asked.layout)
    graph = with_barriers(laid, asked.search.barrier)
    if pools is not None:
        graph = without_overlap(graph)
    if budget is not None and budget.share is not None:
        solver = solver.within(budget, lambda free: free.graph(graph, storage).peak)
    order = asked.search.order
    if pools is None:
        return in_order(solver, graph, storage, order)
    return pools.graph(solver, graph, storage, order)


def _of_problem(
    problem: _core.Problem,
    solver: Solver,
    budget: Budget | None,
    pools: Pools | None,
    asked: Request,
) -> Plan:
    check_for_problems(asked)
    problem = _aligned(problem, in_bytes(asked.sharing.alignment, "alignment", 1))
    if pools is not None:
        return pools.problem(solver, problem, asked.layout)
    laid: Any = with_layout(problem, asked.layout)
    if budget is not None and budget.share is not None:
        solver = solver.within(budget, lambda free: free.problem(laid).peak)
    return solver.problem(laid)


def _aligned(problem: _core.Problem, alignment: int) -> _core.Problem:
    if alignment == 1:
        return problem
    values, inverse = np.unique(problem.alignment, return_inverse=True)
    stricter = [math.lcm(value, alignment) for value in values.tolist()]
    if max(stricter, default=1) >= 2**63:
        raise ValueError(f"alignment {alignment} and the buffers' own have no common multiple that fits int64")
    return problem.replace(alignment=np.array(stricter, dtype=np.int64)[inverse])
