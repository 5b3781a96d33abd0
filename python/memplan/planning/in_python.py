"""Runs a planner written in Python, and judges what it gives: verified like any other, and blamed by name."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import InvalidPlanError, MissingDependencyError, PlannerError, UnsupportedError
from .interface import Options, Placement, PlannerInfo

_Tell = Callable[[_core.Solution], None]
_NO_FAULTS = (
    PlannerError,
    InvalidPlanError,
    UnsupportedError,
    MissingDependencyError,
    MemoryError,
)  # say it themselves


def solved(
    row: PlannerInfo, planner: str, problem: _core.Problem, options: Options, tell: _Tell | None
) -> _core.Solution:
    """What a planner in Python makes of a problem, verified, whether it fits the capacity or not."""
    given = _with_what_it_supports(row, problem)
    listener = _Listener(tell)
    begin = time.perf_counter()

    def judged(placement: Placement) -> _core.Solution:
        bound = placement.lower_bound if given is problem else 0
        return _judged(row, planner, problem, replace(placement, lower_bound=bound), time.perf_counter() - begin)

    if tell is not None:
        options = replace(options, tell=lambda offsets, bound: listener.hear(judged(Placement(offsets, bound))))
    placement = _run(row, given, options, listener)
    solution = judged(placement)
    try:
        listener.hear(solution)
    except KeyboardInterrupt:
        return judged(replace(placement, interrupted=True))
    return solution


class _Listener:
    """Who hears of plans, as long as each peaks below all before it."""

    def __init__(self, tell: _Tell | None) -> None:
        self.raised: Exception | None = None
        self._tell = tell
        self._lowest: int | None = None  # peak that was told of

    def hear(self, solution: _core.Solution) -> None:
        if self._tell is None or (self._lowest is not None and solution.peak >= self._lowest):
            return
        self._lowest = solution.peak
        try:
            self._tell(solution)
        except Exception as error:
            self.raised = error
            raise


def _run(row: PlannerInfo, problem: _core.Problem, options: Options, listener: _Listener) -> Placement:
    """What the planner gives. What its listener raised comes before all else; what it raises itself names it."""
    assert row.run is not None
    try:
        placement = row.run(problem, options)
    except Exception as error:
        if error is listener.raised or isinstance(error, _NO_FAULTS) or _is_own(row):
            raise
        raise PlannerError(f"{row.label} failed: {type(error).__name__}: {error}") from error
    if listener.raised is not None:
        raise listener.raised
    if not isinstance(placement, Placement):
        raise PlannerError(f"{row.label} must give a Placement, got {placement!r}")
    return placement


def _is_own(row: PlannerInfo) -> bool:
    """Its faults are memplan's; what else it raises comes from elsewhere, as from a handler of signals."""
    return bool(row.run is not None and row.run.__module__.partition(".")[0] == __name__.partition(".")[0])


def _judged(
    row: PlannerInfo, planner: str, problem: _core.Problem, placement: Placement, seconds: float
) -> _core.Solution:
    offsets, bound = _offsets(row, problem, placement), placement.lower_bound
    try:
        solution = _core.judge(
            problem, offsets, row.name, planner, seconds, bound, placement.pools, placement.interrupted
        )
    except InvalidPlanError as error:
        if not row.package:
            raise
        raise InvalidPlanError(f"package {row.package!r}: {error}") from None
    if bound > solution.peak:
        raise PlannerError(
            f"{row.label} claims that no plan peaks below {bound} bytes, and gives one that peaks at {solution.peak}"
        )
    return solution


def _offsets(row: PlannerInfo, problem: _core.Problem, placement: Placement) -> npt.NDArray[np.int64]:
    offsets = np.asarray(placement.offsets)
    if offsets.shape != (len(problem),) or (len(problem) and offsets.dtype.kind not in "iu"):
        raise PlannerError(
            f"{row.label} must give one integer per buffer as offsets, {len(problem)} of them; "
            f"got {offsets.dtype} of shape {offsets.shape}"
        )
    return offsets.astype(np.int64)


def _with_what_it_supports(row: PlannerInfo, problem: _core.Problem) -> _core.Problem:
    """The problem, as plain rectangles where the planner supports no shapes; what else it lacks is refused by name."""
    asked = [
        name
        for name, is_asked in [
            ("alignment", bool((problem.alignment > 1).any())),
            ("conflicts", problem.conflicts is not None),
        ]
        if is_asked and name not in row.supports
    ]
    if asked:
        raise UnsupportedError(f"{row.label} does not support {', '.join(asked)}, which this problem asks for")
    if "shapes" in row.supports or problem.parts is None:
        return problem
    columns = (problem.size, problem.first, problem.last, problem.alignment)
    return _core.Problem(*columns, problem.names or None, None, problem.conflicts)
