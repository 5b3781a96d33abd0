"""Plans that lie as an earlier plan did, or where hints say, wherever that costs nothing."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import InfeasibleError
from ..facts.plan import Plan
from ..placed import offsets_of
from ..planning.registry import solve_problem
from ..sizes import in_bytes
from ..text import offer

_RULE, _SEARCH = "greedy_by_size", "auto:effort=2000000"  # planners of what is not kept
_MOST_TRIES = {_RULE: 200, _SEARCH: 200}
_FEW = 16  # buffers: searches are for problems of no more, and for as many that have moved
_LAST_TRIES = 8  # of searches, in large problems


def wishes(keep: Plan | Mapping[str, int] | None, hint: Mapping[str, int | str] | None) -> dict[str, int]:
    """Where buffers should begin, by name; hints come before an earlier plan."""
    if keep is None and hint is None:
        return {}
    if keep is not None and not isinstance(keep, (Plan, Mapping)):
        raise TypeError(f"keep must be a plan or a mapping from names to offsets, got {type(keep).__name__}")
    if hint is not None and not isinstance(hint, Mapping):
        raise TypeError(f"hint must be a mapping from names to offsets, got {type(hint).__name__}")
    earlier: Mapping[str, Any] = offsets_of(keep) if isinstance(keep, Plan) else keep or {}
    found = {name: in_bytes(offset, f"keep[{name!r}]") for name, offset in earlier.items()}
    return found | {name: in_bytes(offset, f"hint[{name!r}]") for name, offset in (hint or {}).items()}


def starting(start: Plan | Mapping[str, int] | None) -> dict[str, int] | None:
    """From where a search begins, by name; None: from nothing."""
    if start is None:
        return None
    if not isinstance(start, (Plan, Mapping)):
        raise TypeError(f"start must be a plan or a mapping from names to offsets, got {type(start).__name__}")
    earlier: Mapping[str, Any] = offsets_of(start) if isinstance(start, Plan) else start
    return {name: in_bytes(offset, f"start[{name!r}]") for name, offset in earlier.items()}


def settled(
    plan: Plan, wished: Mapping[str, int], hinted: Mapping[str, Any] | None, time_limit: float | None = None
) -> Plan:
    """A plan of the same peak, in which more buffers lie where they should; `moved` names those that do not.

    Raises
    ------
    ValueError
        A hint names no buffer. What an earlier plan had may be gone.
    """
    problem = plan.problem
    names = [problem.name(b) for b in range(len(problem))]
    for name in hinted or ():
        if name not in names:
            raise ValueError(f"hint must name buffers, got {name!r}; {offer(str(name), names, 'buffers')}")
    target = np.array([wished.get(name, -1) for name in names], dtype=np.int64)
    offsets = _Settling(plan, target, time_limit).run()
    moved = tuple(names[b] for b in np.flatnonzero((target >= 0) & (offsets != target) & (problem.size > 0)))
    found = replace(plan, offsets=offsets, moved=moved)
    found.verify()
    return found


class _Settling:
    """What is kept grows: whatever of the rest can be pinned besides, with a plan at or below the peak.

    What has grown pushes up what lies on it. Then a rule places what is not kept, which costs little, and searches do
    where that is few.
    """

    def __init__(self, plan: Plan, target: npt.NDArray[np.int64], time_limit: float | None) -> None:
        self._end = None if time_limit is None else time.perf_counter() + time_limit - plan.seconds
        self._problem, self._peak, self._target = plan.problem, plan.peak, target
        self._offsets, self._tries = plan.offsets, dict(_MOST_TRIES)
        self._own = np.full(len(target), -1, dtype=np.int64) if plan.problem.pins is None else plan.problem.pins

    def run(self) -> npt.NDArray[np.int64]:
        size, alignment = self._problem.size, self._problem.alignment
        may = (self._target >= 0) & (self._target <= self._peak - size) & (self._target % alignment == 0)
        may &= (size > 0) & (self._own < 0)
        everything = np.flatnonzero(may)
        self._push(np.where(may, self._target, self._own))
        planner = _SEARCH if len(size) <= _FEW else _RULE
        kept, rest = self._split(everything)
        if not rest or self._try(kept + rest, planner):
            return self._offsets
        self._grown(kept, rest, planner)
        kept, rest = self._split(everything)
        if len(rest) > 1:  # one has to move, for not all can stay
            self._grown([], rest + kept, planner)
            kept, rest = self._split(everything)
        if planner is _RULE and 1 < len(rest) <= _FEW:
            self._tries[_SEARCH] = min(self._tries[_SEARCH], _LAST_TRIES)
            self._grown(kept, rest, _SEARCH)
        return self._offsets

    def _push(self, wishes: npt.NDArray[np.int64]) -> None:
        """What does not fit where it was pushes up what lies on it: perhaps no more is needed."""
        if self._problem.together is None:
            offsets = _core.placed_near(self._problem, wishes)
            if _core.peak_of(self._problem, offsets) <= self._peak and self._kept(offsets) > self._kept(self._offsets):
                self._offsets = offsets

    def _split(self, everything: npt.NDArray[np.intp]) -> tuple[list[int], list[int]]:
        """Those that lie where they should, and the others, small ones first."""
        stays = self._offsets[everything] == self._target[everything]
        rest = [int(b) for b in everything[~stays]]
        rest.sort(key=lambda b: int(self._problem.size[b]) * int(self._problem.last[b] - self._problem.first[b]))
        return [int(b) for b in everything[stays]], rest

    def _grown(self, kept: list[int], rest: list[int], planner: str) -> None:
        """Keeps as many of the rest besides as it can, in ever smaller pieces."""
        piece = max(len(rest) // 2, 1)
        while rest:
            left: list[int] = []
            for at in range(0, len(rest), piece):
                some = rest[at : at + piece]
                if self._try(kept + some, planner):
                    kept = kept + some
                else:
                    left += some
            rest, piece = (left, piece // 2) if piece > 1 else ([], 1)

    def _try(self, kept: list[int], planner: str) -> bool:
        """Whether a plan with these where they should be, and no higher, is found; it is taken if it keeps more."""
        pins = self._own.copy()
        pins[kept] = self._target[kept]
        self._tries[planner] -= 1
        left = None if self._end is None else self._end - time.perf_counter()
        if self._tries[planner] < 0 or (left is not None and left <= 0):
            return False
        try:
            pinned = self._problem.with_pins(pins, self._problem.reserved)
            found = solve_problem(pinned, planner, left, capacity=self._peak)
        except _core.ProblemError:  # they meet
            return False
        except InfeasibleError as error:
            if error.plan is not None and error.plan.interrupted:
                self._tries = dict.fromkeys(self._tries, 0)
            return False
        if self._kept(found.offsets) > self._kept(self._offsets):
            self._offsets = found.offsets
        return True

    def _kept(self, offsets: npt.NDArray[np.int64]) -> int:
        return int(np.count_nonzero((offsets == self._target) & (self._problem.size > 0)))
