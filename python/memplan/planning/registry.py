"""The registry of planners: the core's rows, then those of planners written in Python, here and elsewhere.

To write one, ``from memplan import Options, Parameter, Placement, PlannerInfo, register``. `register` adds it
for the time of a script or notebook; a package brings it with an entry point of the group ``memplan.planners``, whose
name is the planner's and whose object is its PlannerInfo.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

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

# A method as the core takes it, with its order of ops; and its plan, its graph in the order of that, and a bound of all
# orders.
MethodRow: TypeAlias = tuple[str, _core.Graph | _core.Problem, _core.StorageOptions, str]
MethodMade: TypeAlias = tuple[_core.Graph | None, _core.Buffers, _core.Solution, int]


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
    row, in_python = find(planner), _in_python(planner)
    _core.check_planner(planner, in_python)
    if row.ready is not None:
        row.ready()
    return planner


def _in_python(text: str) -> _core.PythonPlanner | None:
    """The planner that the text asks for, where it is written in Python."""
    row = find(text)
    return None if row.run is None else in_core(row)


def solve_problem(
    problem: _core.Problem,
    planner: str,
    time_limit: float | None = None,
    seed: int = 0,
    threads: int = 1,
    capacity: int | None = None,
    tell: Callable[[_core.Solution], None] | None = None,
    start: npt.NDArray[np.int64] | None = None,
) -> _core.Solution:
    """Plans a problem with any planner of the registry and verifies the result.

    `tell` is called with each plan that is found and peaks below all before it. A search begins where `start`
    has each buffer, -1 for one that is new. The `plan` of an InfeasibleError is what would have been returned.
    """
    options = (time_limit, seed, threads, capacity, tell, True)
    return _core.solve_problem(problem, planner, *options, _in_python(planner), start)


def plan_pools(
    problem: _core.Problem,
    pools: Sequence[tuple[Any, ...]],
    fixed: _core.Layout,
    accesses: Sequence[int],
    planner: str,
    time_limit: float | None,
    seed: int,
    threads: int,
) -> _core.PlanInPools:
    """Plans a problem in several pools with any planner of the registry; see `_core.plan_pools`."""
    options = (planner, _in_python(planner), time_limit, seed, threads)
    return _core.plan_pools(problem, pools, fixed, accesses, *options)


def plan_graph_pools(
    graph: _core.Graph,
    order: str,
    pools: Sequence[tuple[Any, ...]],
    storage: _core.StorageOptions,
    accesses: Mapping[str, int],
    planner: str,
    time_limit: float | None,
    seed: int,
    threads: int,
    on_order: Callable[[_core.OrderProgress], object] | None,
) -> _core.GraphInPools:
    """The same of a graph, its ops in the order of a rule or search."""
    options = (planner, _in_python(planner), time_limit, seed, threads, on_order)
    return _core.plan_graph_pools(graph, order, pools, storage, accesses, *options)


def solve_methods(
    methods: Sequence[MethodRow],
    shared: Sequence[tuple[str, list[list[str]]]],
    planner: str,
    time_limit: float | None,
    seed: int,
    threads: int,
    capacity: int | None,
) -> tuple[_core.Problem, _core.Solution, list[MethodMade], int]:
    """Plans several methods in one arena: as one problem, its plan, each method, and what every arena needs."""
    options = (time_limit, seed, threads, capacity)
    return _core.solve_methods(methods, shared, planner, *options, _in_python(planner))


def solve_range(
    graphs: Sequence[tuple[str, _core.Graph]],
    order: str,
    planner: str,
    storage: _core.StorageOptions,
    time_limit: float | None,
    seed: int,
    threads: int,
    capacity: int | None,
    on_order: Callable[[_core.OrderProgress], object] | None,
) -> _core.RangePlan:
    """One plan of a network at several sizes, the largest last."""
    options = (time_limit, seed, threads, capacity, _in_python(planner), on_order)
    return _core.solve_range(graphs, order, planner, storage, *options)


def solve_graph(
    graph: _core.Graph,
    planner: str,
    storage: _core.StorageOptions,
    time_limit: float | None = None,
    seed: int = 0,
    threads: int = 1,
    capacity: int | None = None,
    tell: Callable[[_core.Buffers, _core.Solution], None] | None = None,
    start: dict[str, int] | None = None,
) -> tuple[_core.Buffers, _core.Solution]:
    """Plans a graph with any planner of the registry, verifies the result and replays it; see `solve_problem`."""
    options = (time_limit, seed, threads, capacity, tell, True)
    return _core.solve_graph(graph, planner, storage, *options, _in_python(planner), start)


def solve_in_order(
    graph: _core.Graph,
    order: str,
    planner: str,
    storage: _core.StorageOptions,
    time_limit: float | None = None,
    seed: int = 0,
    threads: int = 1,
    capacity: int | None = None,
    tell: Callable[[_core.Graph, _core.Buffers, _core.Solution], None] | None = None,
    start: dict[str, int] | None = None,
    on_order: Callable[[_core.OrderProgress], object] | None = None,
) -> tuple[_core.Graph, _core.Buffers, _core.Solution, int]:
    """Plans a graph in the order of a rule or search: the graph in that order, its plan, and the bound of all orders.

    "best" is never worse than "given". `on_order` is called with each better order; otherwise as `solve_graph`.
    """
    options = (time_limit, seed, threads, capacity, tell, True)
    return _core.solve_in_order(graph, order, planner, storage, *options, _in_python(planner), start, on_order)


def solve_fit(
    graph: _core.Graph,
    costs: Sequence[float],
    storage: _core.StorageOptions,
    capacity: int | None,
    recompute: bool,
    transfer: float | None,
    reorder: bool,
    planner: str,
    time_limit: float | None,
    as_it_is: _core.AsItIs,
) -> _core.FittedPlan:
    """Makes a graph fit a capacity, or as little as is reached, and plans it with any planner of the registry."""
    options = (capacity, recompute, transfer, reorder, planner, _in_python(planner), time_limit, as_it_is)
    return _core.solve_fit(graph, costs, _core.again_of(graph), storage, *options)


def solve_split(
    graph: _core.Graph,
    costs: Sequence[float],
    storage: _core.StorageOptions,
    capacity: int | None,
    recompute: bool,
    transfer: float | None,
    reorder: bool,
    planner: str,
    time_limit: float | None,
    as_it_is: _core.AsItIs,
    *,
    call: float,
    byte: float,
    max_pieces: int,
) -> _core.SplitPlan:
    """The same, with ops in pieces too: at most so many of each op, each for a call, and bytes that each reads."""
    ways = (recompute, transfer, reorder, call, byte, max_pieces)
    return _core.solve_split(graph, costs, storage, capacity, *ways, planner, _in_python(planner), time_limit, as_it_is)
