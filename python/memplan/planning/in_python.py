"""Hands a planner written in Python to the core, which runs, verifies and blames it like its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import InvalidPlanError, MissingDependencyError, PlannerError, UnsupportedError
from .interface import Options, Parameter, Placement, PlannerInfo

_Offsets: TypeAlias = npt.NDArray[np.int64]
_Given: TypeAlias = tuple[_Offsets, int, int, bool]  # offsets, lower bound, pools, interrupted
_NO_FAULTS = (
    PlannerError,
    InvalidPlanError,
    UnsupportedError,
    MissingDependencyError,
    MemoryError,
)  # say it themselves


def in_core(row: PlannerInfo) -> _core.PythonPlanner:
    """The planner as the core runs it."""
    run = row.run
    assert run is not None

    def call(
        problem: _core.Problem,
        time_limit: float | None,
        seed: int,
        threads: int,
        capacity: int | None,
        settings: dict[str, int | str],
        tell: Callable[[_Offsets, int], None] | None,
    ) -> _Given:
        raised: list[Exception] = []

        def told(offsets: Sequence[int], lower_bound: int) -> None:
            assert tell is not None
            column = _offsets(row, problem, offsets)
            try:
                tell(column, lower_bound)
            except Exception as error:
                raised.append(error)
                raise

        options = Options(time_limit, seed, threads, settings, capacity, None if tell is None else told)
        try:
            placement = run(problem, options)
        except Exception as error:
            if error in raised or isinstance(error, _NO_FAULTS) or _is_own(row):
                raise
            raise PlannerError(f"{row.label} failed: {type(error).__name__}: {error}") from error
        return _given(row, problem, placement)

    parameters = [_parameter(parameter) for parameter in row.parameters]
    return _core.PythonPlanner(row.name, row.package, list(row.supports), parameters, call)


def _parameter(parameter: Parameter) -> tuple[str, int, int, int, list[str]]:
    """With the position of a word for the word."""
    words, standard = parameter.words, parameter.standard
    position = words.index(str(standard)) if words else int(standard)
    return parameter.name, position, parameter.least, parameter.most, list(words)


def _is_own(row: PlannerInfo) -> bool:
    """Its faults are memplan's; what else it raises comes from elsewhere, as from a handler of signals."""
    return bool(row.run is not None and row.run.__module__.partition(".")[0] == __name__.partition(".")[0])


def _given(row: PlannerInfo, problem: _core.Problem, placement: Placement) -> _Given:
    if not isinstance(placement, Placement):
        raise PlannerError(f"{row.label} must give a Placement, got {placement!r}")
    for name, value, most in (("lower_bound", placement.lower_bound, 2**63), ("pools", placement.pools, 2**31)):
        if not -most <= value < most:
            raise PlannerError(f"{row.label} must give a {name} below {most}, got {value}")
    offsets = _offsets(row, problem, placement.offsets)
    return offsets, placement.lower_bound, placement.pools, bool(placement.interrupted)


def _offsets(row: PlannerInfo, problem: _core.Problem, given: Sequence[int]) -> _Offsets:
    offsets = np.asarray(given)
    if offsets.shape != (len(problem),) or (len(problem) and offsets.dtype.kind not in "iu"):
        raise PlannerError(
            f"{row.label} must give one integer per buffer as offsets, {len(problem)} of them; "
            f"got {offsets.dtype} of shape {offsets.shape}"
        )
    return offsets.astype(np.int64)
