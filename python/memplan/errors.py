"""The errors that memplan raises; all that speak of bad input are ValueErrors."""

from __future__ import annotations

from ._core import GraphError, InvalidPlanError, ProblemError, UnsupportedError


class SourceError(ValueError):
    """A file or model cannot be imported; the message names the thing, what was expected and what came."""


class MissingDependencyError(ImportError):
    """An importer's package is not installed; the message names the extra that brings it."""


__all__ = [
    "GraphError",
    "InvalidPlanError",
    "MissingDependencyError",
    "ProblemError",
    "SourceError",
    "UnsupportedError",
]
