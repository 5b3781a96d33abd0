"""Where an earlier plan had what is planned now: from plans and names to buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .. import _core
from ..facts.plan import Plan
from ..placed import offsets_of
from ..sizes import in_bytes
from ..text import offer


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
        wished = self.by_name()
        return np.fromiter((wished.get(name, -1) for name in names), np.int64, len(names))

    def by_name(self) -> dict[str, int]:
        return {**(offsets_of(self.earlier) if isinstance(self.earlier, Plan) else self.earlier), **self.hints}

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


def starting(start: Plan | Mapping[str, int] | None) -> Wishes | None:
    """From where a search begins, checked; None: from nothing."""
    if start is None:
        return None
    if not isinstance(start, (Plan, Mapping)):
        raise TypeError(f"start must be a plan or a mapping from names to offsets, got {type(start).__name__}")
    if not isinstance(start, Plan):
        start = {name: in_bytes(offset, f"start[{name!r}]") for name, offset in start.items()}
    return Wishes(start, {})
