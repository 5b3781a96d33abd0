"""The errors that memplan raises; all that speak of bad input are ValueErrors."""

from __future__ import annotations

from collections.abc import Sequence

from . import _core
from ._core import GraphError, InvalidPlanError, ProblemError, UnsupportedError


class SourceError(ValueError):
    """A file or model cannot be imported; the message names the thing, what was expected and what came."""


class MissingDependencyError(ImportError):
    """A package that an importer or planner needs is not installed; the message names the extra that brings it."""


LISTED = 1000  # violations that an error lists unless told otherwise


def invalid_plan(
    what: str, faults: Sequence[_core.Violation | _core.ReplayFault], limit: int | None = LISTED
) -> InvalidPlanError:
    """The error for a plan that is not valid: at most `limit` faults in its message, and in its `violations`."""
    listed = list(faults[:limit])
    lines = [f"{what} is not valid:", *(f"  {fault.message}" for fault in listed)]
    error = InvalidPlanError("\n".join(lines + ["  … and more"] * (len(listed) < len(faults))))
    error.violations = listed  # type: ignore[attr-defined]
    return error


__all__ = [
    "GraphError",
    "InvalidPlanError",
    "MissingDependencyError",
    "ProblemError",
    "SourceError",
    "UnsupportedError",
]
