"""The registry of planners: the core's rows, then those of planners written in Python."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from .. import _core
from ..errors import UnsupportedError, invalid_plan
from . import cp_sat
from .row import Options, Parameter, Placement, PlannerInfo

__all__ = ["Options", "Parameter", "Placement", "PlannerInfo", "choose", "planners", "solve_graph", "solve_problem"]


def _row_of_core(row: _core.PlannerInfo) -> PlannerInfo:
    parameters = tuple(Parameter(p.name, p.title, p.standard, p.least, p.most, tuple(p.words)) for p in row.parameters)
    return PlannerInfo(row.name, row.title, row.exact, tuple(row.supports), row.complexity, row.source, parameters)


IN_CORE = tuple(_row_of_core(row) for row in _core.planners())
IN_PYTHON = (cp_sat.ROW,)  # planners of other packages would join here


def planners() -> list[PlannerInfo]:
    """The registry's rows, in its order."""
    return [*IN_CORE, *IN_PYTHON]


def choose(text: str) -> tuple[PlannerInfo, dict[str, int | str]]:
    """What "name" or "name:parameter=value,…" means; the values are of planners in Python only, the core reads its own.

    Raises
    ------
    ValueError
        Lists the names, the parameters, or the values that it takes.
    """
    name, _, rest = text.partition(":")
    row = next((row for row in planners() if row.name == name), None)
    if row is None:
        raise ValueError(f"planner must be one of {', '.join(row.name for row in planners())}, got {name!r}")
    if row.run is None:
        return row, {}
    settings = {parameter.name: parameter.standard for parameter in row.parameters}
    for part in rest.split(",") if rest else ():
        parameter, value = _setting(row, part)
        settings[parameter] = value
    return row, settings


def _setting(row: PlannerInfo, text: str) -> tuple[str, int | str]:
    name, equals, value = text.partition("=")
    parameter = next((p for p in row.parameters if p.name == name), None)
    if parameter is None or not equals:
        known = ", ".join(p.name for p in row.parameters)
        takes = f"NAME=VALUE for {known}" if known else "no parameters"
        raise ValueError(f"planner '{row.name}' takes {takes}, got {text!r}")
    return name, _value(parameter, value)


def _value(parameter: Parameter, text: str) -> int | str:
    if parameter.words:
        expected = f"one of {', '.join(parameter.words)}"
        if text in parameter.words:
            return text
    else:
        expected = f"an integer in [{parameter.least}, {parameter.most}]"
        if text.removeprefix("-").isdecimal() and parameter.least <= int(text) <= parameter.most:
            return int(text)
    raise ValueError(f"parameter {parameter.name} must be {expected}, got {text!r}")


def solve_problem(
    problem: _core.Problem,
    planner: str,
    time_limit: float | None = None,
    seed: int = 0,
    threads: int = 1,
    capacity: int | None = None,
    tell: Callable[[_core.Solution], None] | None = None,
) -> _core.Solution:
    """Plans a problem with any planner of the registry and verifies the result.

    `tell` is called with each plan that is found and peaks below all before it. The `plan` of an InfeasibleError is
    what would have been returned.
    """
    row, settings = choose(planner)
    if row.run is None:
        return _core.solve_problem(problem, planner, time_limit, seed, threads, capacity, tell, True)
    if capacity is not None:
        _core.require_room(problem, capacity)
    solution = _solved(row, planner, problem, Options(time_limit, seed, threads, settings, capacity), tell)
    if capacity is not None:
        _core.require_fit(problem, capacity, solution)
    return solution


def solve_graph(
    graph: _core.Graph,
    planner: str,
    storage: _core.StorageOptions,
    time_limit: float | None = None,
    seed: int = 0,
    threads: int = 1,
    capacity: int | None = None,
    tell: Callable[[_core.Buffers, _core.Solution], None] | None = None,
) -> tuple[_core.Buffers, _core.Solution]:
    """Plans a graph with any planner of the registry, verifies the result and replays it; see `solve_problem`."""
    row, settings = choose(planner)
    if row.run is None:
        return _core.solve_graph(graph, planner, storage, time_limit, seed, threads, capacity, tell, True)
    buffers = _core.buffers_of(graph, storage)
    if capacity is not None:
        _core.require_room(buffers.problem, capacity)

    def replayed(solution: _core.Solution) -> None:
        if faults := _core.replay(graph, buffers, solution.offsets, limit=20):
            raise invalid_plan(f"the plan of planner '{row.name}'", faults)

    def tell_replayed(solution: _core.Solution) -> None:
        assert tell is not None
        replayed(solution)
        tell(buffers, solution)

    options = Options(time_limit, seed, threads, settings, capacity)
    solution = _solved(row, planner, buffers.problem, options, tell_replayed if tell is not None else None)
    replayed(solution)
    if capacity is not None:
        _core.require_fit(buffers.problem, capacity, solution, buffers)
    return buffers, solution


def _solved(
    row: PlannerInfo,
    planner: str,
    problem: _core.Problem,
    options: Options,
    tell: Callable[[_core.Solution], None] | None,
) -> _core.Solution:
    """What a planner in Python makes of a problem, verified, whether it fits the capacity or not."""
    assert row.run is not None
    given = _with_what_it_supports(row, problem)
    lowest: int | None = None  # peak that was told of
    begin = time.perf_counter()

    def judged(placement: Placement) -> _core.Solution:
        seconds = time.perf_counter() - begin
        offsets = np.asarray(placement.offsets, dtype=np.int64)
        bound = placement.lower_bound if given is problem else 0
        cut = placement.interrupted
        return _core.judge(problem, offsets, row.name, planner, seconds, bound, placement.pools, cut)

    def hear(solution: _core.Solution) -> None:
        nonlocal lowest
        if tell is not None and (lowest is None or solution.peak < lowest):
            lowest = solution.peak
            tell(solution)

    if tell is not None:
        options = replace(options, tell=lambda offsets, bound: hear(judged(Placement(offsets, bound))))
    placement = row.run(given, options)
    solution = judged(placement)
    try:
        hear(solution)
    except KeyboardInterrupt:
        return judged(replace(placement, interrupted=True))
    return solution


def _with_what_it_supports(row: PlannerInfo, problem: _core.Problem) -> _core.Problem:
    """The problem, as plain rectangles where the planner supports no shapes; what else it lacks is refused by name."""
    asked = [
        name
        for name, is_asked in [
            ("alignment", bool((problem.alignment > 1).any())),
            ("conflicts", problem.conflicts is not None),
        ]
        if is_asked and name not in row.supports
    ]
    if asked:
        raise UnsupportedError(f"planner '{row.name}' does not support {', '.join(asked)}, which this problem asks for")
    if "shapes" in row.supports or problem.parts is None:
        return problem
    columns = (problem.size, problem.first, problem.last, problem.alignment)
    return _core.Problem(*columns, problem.names or None, None, problem.conflicts)
