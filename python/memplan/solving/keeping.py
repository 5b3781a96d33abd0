"""Plans that lie as an earlier plan did, or where hints say, wherever that costs nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
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


@dataclass(frozen=True)
class Wishes:
    """Where buffers should begin: as in an earlier plan, or by name; hints come before that."""

    earlier: Plan | Mapping[str, int]
    hints: Mapping[str, int]

    def __bool__(self) -> bool:
        return len(self.earlier) > 0 or bool(self.hints)

    def targets(self, problem: _core.Problem) -> npt.NDArray[np.int64]:
        """Where each buffer should begin; -1 where it does not matter.

        Raises
        ------
        ValueError
            A hint names no buffer. What an earlier plan had may be gone.
        """
        if isinstance(self.earlier, Plan) and not self.hints and (found := self._by_position(problem)) is not None:
            return found
        names = problem.names or [f"#{b}" for b in range(len(problem))]
        known = set(names) if self.hints else set()
        for name in self.hints:
            if name not in known:
                raise ValueError(f"hint must name buffers, got {name!r}; {offer(str(name), names, 'buffers')}")
        wished = {**(offsets_of(self.earlier) if isinstance(self.earlier, Plan) else self.earlier), **self.hints}
        return np.fromiter((wished.get(name, -1) for name in names), np.int64, len(names))

    def _by_position(self, problem: _core.Problem) -> npt.NDArray[np.int64] | None:
        """As a plan of a problem with the same names has them, which is quick."""
        plan = self.earlier
        assert isinstance(plan, Plan)
        if plan.graph is not None or plan.placed is not None or plan.problem.names != problem.names:
            return None
        shared = min(len(problem), len(plan.problem))
        if problem.names and shared != len(problem):
            return None
        target = np.full(len(problem), -1, dtype=np.int64)
        target[:shared] = plan.offsets[:shared]
        return target


def wishes(keep: Plan | Mapping[str, int] | None, hint: Mapping[str, int | str] | None) -> Wishes:
    """What is asked for, checked; the names are looked up when there is a problem."""
    if keep is not None and not isinstance(keep, (Plan, Mapping)):
        raise TypeError(f"keep must be a plan or a mapping from names to offsets, got {type(keep).__name__}")
    if hint is not None and not isinstance(hint, Mapping):
        raise TypeError(f"hint must be a mapping from names to offsets, got {type(hint).__name__}")
    if not isinstance(keep, Plan):
        keep = {name: in_bytes(offset, f"keep[{name!r}]") for name, offset in (keep or {}).items()}
    return Wishes(keep, {name: in_bytes(offset, f"hint[{name!r}]") for name, offset in (hint or {}).items()})


def starting(start: Plan | Mapping[str, int] | None) -> dict[str, int] | None:
    """From where a search begins, by name; None: from nothing."""
    if start is None:
        return None
    if not isinstance(start, (Plan, Mapping)):
        raise TypeError(f"start must be a plan or a mapping from names to offsets, got {type(start).__name__}")
    earlier: Mapping[str, Any] = offsets_of(start) if isinstance(start, Plan) else start
    return {name: in_bytes(offset, f"start[{name!r}]") for name, offset in earlier.items()}


def settled(plan: Plan, wished: Wishes, solver: Solver, left: float | None) -> Plan:
    """A plan in which fewer buffers lie elsewhere than they should, no higher than this one or the capacity."""
    problem = plan.problem
    target = wished.targets(problem)
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
        moved=tuple(problem.name(b) for b in moved),
        moved_bound=bound,
        interrupted=plan.interrupted or interrupted,
        seconds=plan.seconds + seconds,
    )
    if plan.graph is not None:
        found.verify()  # replays it; the core has verified the problem
    return found
