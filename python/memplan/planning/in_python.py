"""Hands a planner written in Python to the core, which runs, verifies and blames it like its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import InvalidPlanError, MissingDependencyError, PlannerError, UnsupportedError
from .interface import LEAST, MOST, Options, Parameter, Placement, PlannerInfo

_Offsets: TypeAlias = npt.NDArray[np.int64]
_Given: TypeAlias = tuple[_Offsets, int, int, bool]  # offsets, lower bound, objects, interrupted
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

        def told(offsets: Sequence[int], lower_bound: int | None = None) -> None:
            assert tell is not None
            column, bound = _offsets(row, problem, offsets), _bound(row, lower_bound)
            try:
                tell(column, bound)
            except Exception as error:
                raised.append(error)
                raise

        options = Options(time_limit, seed, threads, settings, capacity, None if tell is None else told)
        try:
            placement = run(problem, options)
        except (Exception, SystemExit) as error:
            if error in raised or isinstance(error, _NO_FAULTS) or is_own(row):
                raise
            raise PlannerError(f"{row.label} failed: {type(error).__name__}: {error}") from error
        return _given(row, problem, placement)

    parameters = [_parameter(parameter) for parameter in row.parameters]
    return _core.PythonPlanner(row.name, row.package, list(row.supports), parameters, call)


def _parameter(parameter: Parameter) -> tuple[str, int, int, int, list[str]]:
    """With the position of a word for the word."""
    words, standard = parameter.words, parameter.standard
    position = words.index(str(standard)) if words else int(standard)
    least = LEAST if parameter.least is None else parameter.least
    most = MOST if parameter.most is None else parameter.most
    return parameter.name, position, least, most, list(words)


def is_own(row: PlannerInfo) -> bool:
    """Its faults are memplan's; what else it raises comes from elsewhere, as from a handler of signals."""
    return bool(row.run is not None and row.run.__module__.partition(".")[0] == __name__.partition(".")[0])


def _given(row: PlannerInfo, problem: _core.Problem, placement: Placement) -> _Given:
    if not isinstance(placement, Placement):
        raise PlannerError(f"{row.label} must give a Placement, got {placement!r}")
    if not -(2**31) <= placement.objects < 2**31:
        raise PlannerError(f"{row.label} must give a number of objects below {2**31}, got {placement.objects}")
    offsets, bound = _offsets(row, problem, placement.offsets), _bound(row, placement.lower_bound)
    return offsets, bound, placement.objects, bool(placement.interrupted)


def _bound(row: PlannerInfo, given: int | None) -> int:
    """Bytes that are proven to be needed; None, as 0, proves nothing."""
    if given is None:
        return 0
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)):
        raise PlannerError(f"{row.label} must give a lower_bound that is an integer or None, got {given!r}")
    if not LEAST <= given <= MOST:
        raise PlannerError(f"{row.label} must give a lower_bound below {MOST + 1}, got {given}")
    return int(given)


def _offsets(row: PlannerInfo, problem: _core.Problem, given: Sequence[int]) -> _Offsets:
    try:
        offsets = np.asarray(given)
    except Exception as error:
        raise PlannerError(f"{row.label} must give one integer per buffer as offsets, got {given!r}") from error
    if offsets.shape != (len(problem),) or (len(problem) and offsets.dtype.kind not in "iu"):
        raise PlannerError(
            f"{row.label} must give one integer per buffer as offsets, {len(problem)} of them; "
            f"got {offsets.dtype} of shape {offsets.shape}"
        )
    return offsets.astype(np.int64)
