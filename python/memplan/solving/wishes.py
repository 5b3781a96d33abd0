"""Where an earlier plan had what is planned now: from plans and names to buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .. import _core
from ..plans.placed import offsets_of
from ..plans.plan import Plan
from ..sizes import in_bytes
from ..text import offer


@dataclass(frozen=True)
class Wishes:
    """Where buffers should begin: as in an earlier plan, or by name."""

    earlier: Plan | Mapping[str, int]
    named_by: str | None = None  # the option whose names must be those of buffers; None: they may be gone

    def __bool__(self) -> bool:
        return len(self.earlier) > 0

    def targets(self, problem: _core.Problem) -> npt.NDArray[np.int64]:
        """Where each buffer should begin; -1 where it does not matter.

        ValueError: a name is that of no buffer. What an earlier plan had may be gone.
        """
        if isinstance(self.earlier, Plan) and (found := self._by_position(problem)) is not None:
            return found
        wished = self.by_name()
        targets: npt.NDArray[np.int64]
        targets, all_known = _core.targets_of(problem, wished)
        if self.named_by is not None and not all_known:
            names = problem.names or [f"#{b}" for b in range(len(problem))]
            known = set(names)
            name = next(name for name in wished if name not in known)
            raise ValueError(f"{self.named_by} must name buffers, got {name!r}; {offer(str(name), names, 'buffers')}")
        return targets

    def by_name(self) -> dict[str, int]:
        return offsets_of(self.earlier) if isinstance(self.earlier, Plan) else dict(self.earlier)

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


def wishes(keep: Plan | Mapping[str, int | str] | None) -> Wishes:
    """What `keep` asks for, checked; the names are looked up when there is a problem."""
    return _wishes("keep", {} if keep is None else keep)


def starting(start: Plan | Mapping[str, int | str] | None) -> Wishes | None:
    """From where a search begins, checked; None: from nothing."""
    return None if start is None else _wishes("start", start)


def _wishes(option: str, given: Plan | Mapping[str, int | str]) -> Wishes:
    if not isinstance(given, (Plan, Mapping)):
        raise TypeError(f"{option} must be a plan or a mapping from names to offsets, got {type(given).__name__}")
    if isinstance(given, Plan):
        return Wishes(given)
    named_by = "keep" if option == "keep" else None
    return Wishes({name: in_bytes(offset, f"{option}[{name!r}]") for name, offset in given.items()}, named_by)
