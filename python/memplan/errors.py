"""The errors that memplan raises; all that speak of bad input are ValueErrors, a time limit is a TimeoutError."""

from __future__ import annotations

from ._core import GraphError, InvalidPlanError, ProblemError, TimeLimitError, UnsupportedError
from .text import one_line


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


__all__ = [
    "GraphError",
    "InvalidPlanError",
    "MissingDependencyError",
    "PlannerError",
    "ProblemError",
    "SourceError",
    "TimeLimitError",
    "UnsupportedError",
]
