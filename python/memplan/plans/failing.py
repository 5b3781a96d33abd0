"""The errors that have a plan: that none fits, and that one is not valid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .. import _core
from .._core import InvalidPlanError

if TYPE_CHECKING:
    from ..proofs.clique import Clique
    from .crossing import Crossing
    from .plan import Plan


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
        The buffers that could not be placed, for `memplan.explaining.obstruction`; of a graph, with one choice of what
        shares bytes.
    clique : Clique or None
        Bytes of buffers of which no two may overlap, where they add up to more than the load; its `check` takes the
        problem.
    """

    __module__ = "memplan"  # where people find it

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
    faults: Sequence[_core.Violation | _core.ReplayFault | _core.PoolFault | Crossing],
    limit: int | None = LISTED,
) -> InvalidPlanError:
    """The error for a plan that is not valid: at most `limit` faults in its message, and in its `violations`."""
    listed = list(faults[:limit])
    lines = [f"{what} is not valid:", *(f"  {fault.message}" for fault in listed)]
    error = InvalidPlanError("\n".join(lines + ["  … and more"] * (len(listed) < len(faults))))
    error.violations = listed  # type: ignore[attr-defined]
    return error
