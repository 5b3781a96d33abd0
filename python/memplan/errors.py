"""The errors that memplan raises; all that speak of bad input are ValueErrors."""

from __future__ import annotations

from collections.abc import Sequence

from . import _core
from ._core import GraphError, InvalidPlanError, ProblemError, UnsupportedError


class SourceError(ValueError):
    """A file or model cannot be imported; the message names the thing, what was expected and what came."""


class MissingDependencyError(ImportError):
    """An importer's package is not installed; the message names the extra that brings it."""


def invalid_plan(what: str, faults: Sequence[_core.Violation | _core.ReplayFault]) -> InvalidPlanError:
    """The error for a plan that is not valid: all faults in its message, and in its attribute `violations`."""
    error = InvalidPlanError("\n".join([f"{what} is not valid:", *(f"  {fault.message}" for fault in faults)]))
    error.violations = list(faults)  # type: ignore[attr-defined]
    return error


__all__ = [
    "GraphError",
    "InvalidPlanError",
    "MissingDependencyError",
    "ProblemError",
    "SourceError",
    "UnsupportedError",
]
