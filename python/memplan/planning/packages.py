"""Planners of other packages, which bring them with entry points of the group "memplan.planners".

In a package's pyproject.toml, with the planner's name and where its PlannerInfo is:

    [project.entry-points."memplan.planners"]
    lowest = "my_package.planning:LOWEST"

Names are known without importing a package; one is imported when its planner is asked for, or all are listed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points

from ..errors import PlannerError
from .interface import PlannerInfo

GROUP = "memplan.planners"


def names() -> list[str]:
    """Names of the planners that installed packages bring, whether they can be used or not."""
    return sorted({point.name for point in entry_points(group=GROUP)})


def load(name: str, check: Callable[[PlannerInfo], None]) -> PlannerInfo:
    """The row of that name, with its package; `check` refuses those that could not be planned with.

    PlannerError: it cannot be imported, is no such row, or several packages bring it.
    """
    points = sorted(entry_points(group=GROUP, name=name), key=_package)
    if len(points) > 1:
        packages = ", ".join(f"{_package(point)!r}" for point in points)
        raise PlannerError(f"planner {name!r} comes from several packages, of which one can stay: {packages}")
    package, value = _package(points[0]), points[0].value
    called = f"planner {name!r} of package {package!r}, {value},"
    try:
        row = points[0].load()
    except Exception as error:
        raise PlannerError(f"{called} cannot be imported: {type(error).__name__}: {error}") from error
    if not isinstance(row, PlannerInfo):
        raise PlannerError(f"{called} must be a PlannerInfo, got {row!r}")
    if row.name != name:
        raise PlannerError(f"{called} calls itself {row.name!r}")
    try:
        check(row)
    except (TypeError, ValueError) as error:
        raise PlannerError(f"{called} cannot be used: {error}") from error
    return replace(row, package=package)


def _package(point: EntryPoint) -> str:
    """The package that an entry point belongs to, with its version."""
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else point.value.partition(":")[0]
