"""The plan of one size, from that of the whole range."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from .. import _core
from ..errors import UnsupportedError
from ..planning.registry import solve_problem
from ..plans.failing import InfeasibleError
from ..plans.record import PlanRecord
from .graphs import in_order
from .pushing import pushed_down
from .search import Found, holds


@dataclass(frozen=True)
class There:
    """The plan at one size, the sizes whose order it has, and the bytes used with the offsets of the whole range."""

    plan: PlanRecord
    like: tuple[int, ...]
    fixed: int


def at_size(found: Found, graph: _core.Graph) -> There:
    """The plan of one size, in the order in which it needs least."""
    assert found.plan.storage is not None
    _, buffers = found.buffers(graph)
    problem, offsets = buffers.problem, found.plan.offsets
    ends = int((offsets + problem.size).max(initial=0))
    if len(problem) != len(found.plan.problem) or not holds(found.plan, problem):
        raise UnsupportedError("buffers are larger or others than its offsets have room for; plan parts of the range")
    peak, pushed, like = ends, offsets, found.orders[0][0]
    for sizes, order in found.orders:
        lower = pushed_down(order, problem)
        top = int((lower + problem.size).max(initial=0))
        if top < peak and not _core.verify(problem, lower, limit=1):
            peak, pushed, like = top, lower, sizes
    whole = in_order(graph, found.plan)
    bound = int(_core.sharing_bound(whole, found.plan.storage))
    made = replace(
        found.plan,
        problem=problem,
        offsets=pushed,
        peak=peak,
        lower_bound=bound,
        placement_bound=max(bound, problem.load),
        optimal=peak == bound,
        graph=whole,
        buffers=buffers,
        unshared=buffers.unshared,
        proven_of_orders=0,
    )
    made.verify()
    return There(made, like, ends)


def with_order_of(found: Found, key: tuple[int, ...], graph: _core.Graph, options: Mapping[str, Any]) -> Found:
    """With the order of a plan for one size, if those that are known need more there."""
    there = at_size(found, graph).plan
    if there.optimal:
        return found
    try:
        own = solve_problem(there.problem, options["planner"], options["time_limit"], capacity=there.lower_bound)
    except InfeasibleError as error:
        if error.plan is None:
            return found
        own = cast(Any, error.plan)
    return replace(found, orders=(*found.orders, (key, own.offsets))) if own.peak < there.peak else found
