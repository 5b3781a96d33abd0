"""The registry of planners: the core's rows, then those of planners written in Python, here and elsewhere.

To write one, ``from memplan import Options, Parameter, Placement, PlannerInfo, register``. `register` adds it
for the time of a script or notebook; a package brings it with an entry point of the group ``memplan.planners``, whose
name is the planner's and whose object is its PlannerInfo.
"""

from __future__ import annotations

import warnings

from .. import _core
from ..errors import PlannerError
from ..text import one_of
from . import cp_sat, packages
from .in_python import in_core
from .interface import PlannerInfo, parameters_of


def _row_of_core(row: _core.PlannerInfo) -> PlannerInfo:
    parameters = parameters_of(row.parameters)
    return PlannerInfo(
        row.name, row.title, row.exact, tuple(row.supports), row.complexity, row.source, parameters, alias=row.alias
    )


IN_CORE = tuple(_row_of_core(row) for row in _core.planners())
IN_PYTHON = (cp_sat.ROW,)
_CORE_BY_NAME = {known: row for row in IN_CORE for known in (row.alias, row.name) if known}
FEATURES = tuple(dict.fromkeys(feature for row in IN_CORE for feature in row.supports))
_registered: dict[str, PlannerInfo] = {}


def planners() -> list[PlannerInfo]:
    """The registry's rows: memplan's own, those that were registered, and those of other packages by name.

    Packages that bring planners are imported. One that cannot be used is left out, with a RuntimeWarning that says
    what is wrong with it and in which package; asking for it raises that as a PlannerError.
    """
    rows, faults = survey()
    for fault in faults:
        warnings.warn(f"left out: {fault}", RuntimeWarning, stacklevel=2)
    return rows


def survey() -> tuple[list[PlannerInfo], list[PlannerError]]:
    """The registry's rows, and what is wrong with the planners of other packages that are left out of them."""
    rows, faults = [*_own(), *_registered.values()], []
    for name in packages.names():
        try:
            rows.append(_of_package(name))
        except PlannerError as fault:
            faults.append(fault)
    return rows, faults


def planner_names() -> list[str]:
    """The names of all planners, in the registry's order. No package is imported, so a planner of one may be broken."""
    rows = [*_own(), *_registered.values()]
    return list(dict.fromkeys([*(row.name for row in rows), *packages.names()]))


def register(row: PlannerInfo) -> None:
    """Add a planner written in Python to the registry, until the process ends.

    Every function that takes a planner then takes its name. Its plans are verified like any others. One that was
    registered before under the same name is replaced.

    Raises
    ------
    TypeError
        Not a PlannerInfo, or one without a function to run.
    ValueError
        The name is that of a planner of memplan or of an installed package, or `supports` names no feature.
    """
    if not isinstance(row, PlannerInfo):
        raise TypeError(f"register takes a PlannerInfo, got {row!r}")
    if row.name in packages.names():
        raise ValueError(f"planner {row.name!r} cannot be registered: the name is taken by an installed package")
    _check(row)
    _registered[row.name] = row


def _own() -> list[PlannerInfo]:
    return [*IN_CORE, *IN_PYTHON]


def _check(row: PlannerInfo) -> None:
    """Refuses what could not be planned with."""
    if row.run is None:
        raise TypeError(f"planner {row.name!r} has no run: a function from a Problem and Options to a Placement")
    if any(row.name in (own.name, own.alias) for own in _own()):
        raise ValueError(f"the name {row.name!r} is taken by memplan's own planner")
    for feature in row.supports:
        if feature not in FEATURES:
            raise ValueError(f"supports must be among {', '.join(FEATURES)}, got {feature!r}")


def _of_package(name: str) -> PlannerInfo:
    return packages.load(name, _check)


def find(text: str) -> PlannerInfo:
    """The row that "name" or "name:parameter=value,…" asks for; of other packages, only one is imported."""
    name = text.partition(":")[0]
    if name in _CORE_BY_NAME:
        return _CORE_BY_NAME[name]
    rows = {**_registered, **{known: row for row in IN_PYTHON for known in (row.alias, row.name) if known}}
    if name in rows:
        return rows[name]
    if name not in packages.names():
        raise ValueError(one_of("planner", planner_names(), name))
    return _of_package(name)


def check_planner(planner: object) -> str:
    """Refuse what names no planner, gives it what it does not take, or needs a package that is not installed.

    Raises
    ------
    TypeError, ValueError, MissingDependencyError, PlannerError
        The message lists what there is.
    """
    if not isinstance(planner, str):
        raise TypeError(f"planner must be a name from planners(), got {planner!r}")
    row = find(planner)
    _core.check_planner(planner, in_python(planner))
    if row.ready is not None:
        row.ready()
    return planner


def in_python(text: str) -> _core.PythonPlanner | None:
    """The planner that the text asks for, as the core runs it, where it is written in Python."""
    row = find(text)
    return None if row.run is None else in_core(row)
