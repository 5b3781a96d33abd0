"""Plans that lie as an earlier plan did, or where hints say, wherever that costs nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..facts.plan import Plan
from ..placed import offsets_of
from ..planning.registry import find
from ..sizes import in_bytes
from ..text import offer
from .solver import Solver

_SHARE = 0.5  # of a time limit, for the plan from which offsets are kept
_AFTER_INTERRUPT = 0.1  # seconds


def limit_of_search(planner: str, time_limit: float | None) -> float | None:
    """The time limit of the plan that is to be changed; a planner that does not search gets all it needs."""
    return time_limit if time_limit is None or "start" not in find(planner).supports else _SHARE * time_limit


def wishes(keep: Plan | Mapping[str, int] | None, hint: Mapping[str, int | str] | None) -> dict[str, int]:
    """Where buffers should begin, by name; hints come before an earlier plan."""
    if keep is None and hint is None:
        return {}
    if keep is not None and not isinstance(keep, (Plan, Mapping)):
        raise TypeError(f"keep must be a plan or a mapping from names to offsets, got {type(keep).__name__}")
    if hint is not None and not isinstance(hint, Mapping):
        raise TypeError(f"hint must be a mapping from names to offsets, got {type(hint).__name__}")
    if isinstance(keep, Plan):
        found = offsets_of(keep)
    else:
        found = {name: in_bytes(offset, f"keep[{name!r}]") for name, offset in (keep or {}).items()}
    return found | {name: in_bytes(offset, f"hint[{name!r}]") for name, offset in (hint or {}).items()}


def starting(start: Plan | Mapping[str, int] | None) -> dict[str, int] | None:
    """From where a search begins, by name; None: from nothing."""
    if start is None:
        return None
    if not isinstance(start, (Plan, Mapping)):
        raise TypeError(f"start must be a plan or a mapping from names to offsets, got {type(start).__name__}")
    earlier: Mapping[str, Any] = offsets_of(start) if isinstance(start, Plan) else start
    return {name: in_bytes(offset, f"start[{name!r}]") for name, offset in earlier.items()}


def _targets(problem: _core.Problem, names: list[str], keep: Any, wished: Mapping[str, int]) -> npt.NDArray[np.int64]:
    """Where each buffer should begin; -1 where it does not matter."""
    if isinstance(keep, Plan) and keep.graph is None and keep.placed is None and keep.problem.names == problem.names:
        shared = min(len(problem), len(keep.problem))
        if not problem.names or shared == len(problem):  # position by position, which is quick
            target = np.full(len(problem), -1, dtype=np.int64)
            target[:shared] = keep.offsets[:shared]
            return target
    return np.fromiter((wished.get(name, -1) for name in names), np.int64, len(names))


def settled(
    plan: Plan,
    wished: Mapping[str, int],
    keep: Any,
    hinted: Mapping[str, Any] | None,
    solver: Solver,
    left: float | None,
) -> Plan:
    """A plan in which fewer buffers lie elsewhere than they should, no higher than this one or the capacity.

    Raises
    ------
    ValueError
        A hint names no buffer. What an earlier plan had may be gone.
    """
    problem = plan.problem
    names = problem.names or [f"#{b}" for b in range(len(problem))]
    if hinted:
        known = set(names)
        for name in hinted:
            if name not in known:
                raise ValueError(f"hint must name buffers, got {name!r}; {offer(str(name), names, 'buffers')}")
    target = _targets(problem, names, None if hinted else keep, wished)
    if plan.interrupted:  # whoever waits wants to go on
        left = _AFTER_INTERRUPT if left is None else min(left, _AFTER_INTERRUPT)
    offsets, moved, bound, interrupted, seconds = _core.keep(
        problem, plan.offsets, target, solver.capacity, left, solver.seed, solver.threads
    )
    peak = int((offsets + problem.size).max(initial=0))
    found = replace(
        plan,
        offsets=offsets,
        peak=peak,
        optimal=peak == plan.lower_bound,
        moved=tuple(names[b] for b in moved),
        moved_bound=bound,
        interrupted=plan.interrupted or interrupted,
        seconds=plan.seconds + seconds,
    )
    if plan.graph is not None:
        found.verify()  # replays it; the core has verified the problem
    return found
