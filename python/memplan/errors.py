"""The errors that memplan raises; all that speak of bad input are ValueErrors, a time limit is a TimeoutError."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import _core
from ._core import GraphError, InvalidPlanError, ProblemError, TimeLimitError, UnsupportedError
from .text import one_line

if TYPE_CHECKING:
    from .facts.crossing import Crossing
    from .facts.memories import MemoryFault
    from .facts.plan import Plan
    from .proofs.clique import Clique


class SourceError(ValueError):
    """A file or model cannot be imported; the message, one line, names the thing, what was expected and what came."""

    def __init__(self, message: str = "") -> None:
        self._message = one_line(message)
        super().__init__(self._message)

    def __str__(self) -> str:
        return self._message  # torch adds lines to the arguments of errors that pass through its interpreter


class MissingDependencyError(ImportError):
    """A package that an importer or planner needs is not installed; the message names the extra that brings it."""


class PlannerError(RuntimeError):
    """A planner written in Python cannot be used, or does not do what a planner has to; the message names it, and the
    package that brings it, in one line."""

    def __init__(self, message: str = "") -> None:
        super().__init__(one_line(message))


class InfeasibleError(ValueError):
    """No plan fits the capacity, or none was found that does.

    Attributes
    ----------
    capacity : int
        Bytes that were given.
    lower_bound : int
        Bytes that are needed, proven. For a graph, in the order of ops that was asked for; with ``order="best"``, in
        every order.
    proven : bool
        The lower bound is above the capacity: no plan fits.
    peak : int or None
        Bytes that the best plan found needs.
    plan : Plan or None
        That plan, verified; None where the load or the clique alone exceeds the capacity, which is found out without
        planning.
    buffers : tuple of str
        The buffers alive at the tightest step, where the load is, or those of the clique: those with the most bytes
        first.
    step : int
        The tightest step.
    problem : Problem or None
        What could not be placed, for `memplan.obstruction`; of a graph, with one choice of what shares bytes.
    clique : Clique or None
        Bytes of buffers of which no two may overlap, where they add up to more than the load; its `check` takes the
        problem.
    """

    def __init__(
        self,
        message: str = "",
        *,
        capacity: int = 0,
        lower_bound: int = 0,
        peak: int | None = None,
        plan: Plan | None = None,
        buffers: tuple[str, ...] = (),
        step: int = 0,
        clique: Clique | None = None,
    ) -> None:
        super().__init__(message)
        self.capacity = capacity
        self.lower_bound = lower_bound
        self.peak = peak
        self.plan = plan
        self.buffers = buffers
        self.step = step
        self.clique = clique
        self.problem: _core.Problem | None = None

    @property
    def proven(self) -> bool:
        return self.lower_bound > self.capacity


LISTED = 1000  # violations that an error lists unless told otherwise


def invalid_plan(
    what: str,
    faults: Sequence[_core.Violation | _core.ReplayFault | MemoryFault | Crossing],
    limit: int | None = LISTED,
) -> InvalidPlanError:
    """The error for a plan that is not valid: at most `limit` faults in its message, and in its `violations`."""
    listed = list(faults[:limit])
    lines = [f"{what} is not valid:", *(f"  {fault.message}" for fault in listed)]
    error = InvalidPlanError("\n".join(lines + ["  … and more"] * (len(listed) < len(faults))))
    error.violations = listed  # type: ignore[attr-defined]
    return error


__all__ = [
    "GraphError",
    "InfeasibleError",
    "InvalidPlanError",
    "MissingDependencyError",
    "PlannerError",
    "ProblemError",
    "SourceError",
    "TimeLimitError",
    "UnsupportedError",
]
