"""Plans that lie as an earlier plan did, wherever that costs nothing."""

from __future__ import annotations

from dataclasses import replace

from .. import _core
from ..planning.registry import find
from ..plans.plan import Plan
from .solver import Solver
from .wishes import Wishes

_AFTER_INTERRUPT = 0.1  # seconds


def limit_of_search(planner: str, time_limit: float | None) -> float | None:
    """The time limit of the plan that is to be changed; a planner that does not search gets all it needs."""
    return (
        time_limit
        if time_limit is None or "start" not in find(planner).supports
        else _core.PART_BEFORE_KEEP * time_limit
    )


def settled(plan: Plan, wished: Wishes, solver: Solver, left: float | None) -> Plan:
    """A plan in which fewer buffers lie elsewhere than they should, no higher than this one or the capacity."""
    problem = plan.problem
    target = wished.targets(problem)
    if plan.interrupted:  # whoever waits wants to go on
        left = _AFTER_INTERRUPT if left is None else min(left, _AFTER_INTERRUPT)
    options = solver.with_search(time_limit=left).options()
    offsets, moved, bound, interrupted, seconds = _core.keep(problem, plan.offsets, target, options)
    peak = int((offsets + problem.size).max(initial=0))
    found = replace(
        plan,
        offsets=offsets,
        peak=peak,
        optimal=peak == plan.lower_bound,
        moved=tuple(problem.name(b) for b in moved),
        moved_bound=bound,
        interrupted=plan.interrupted or interrupted,
        seconds=plan.seconds + seconds,
    )
    if plan.graph is not None:
        found.verify()  # replays it; the core has verified the problem
    return found
