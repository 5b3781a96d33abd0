"""cp_sat: rectangles that may not overlap, bytes up and steps across, solved by constraint programming.

Each buffer is a rectangle whose place in time is known and whose offset is a variable; a shaped buffer is several
that share one offset. No two rectangles overlap, pairs that conflict beyond lifetimes lie one above the other, and the
peak is to be least. It starts from the plan of greedy_by_size, and proves what it can: the bound of the search is a
bound of the problem.

All numbers are divided by their greatest common divisor, without loss: a plan can be pushed down until every buffer
lies on zero, or on another one's end as its alignment allows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from concurrent.futures import Future
from threading import Thread
from typing import Any, NamedTuple

from .. import _core
from ..errors import MissingDependencyError, UnsupportedError
from .row import Options, Parameter, Placement, PlannerInfo

MOST_BUFFERS = 5000
MOST_AREA = 2**50  # units of bytes x steps: what the solver adds up, and a double tells apart


class _Rectangle(NamedTuple):
    begin: int  # bytes above the buffer's offset
    size: int
    first: int  # steps, counted among those at which something is born or dies
    last: int


class _Buffer(NamedTuple):
    position: int
    size: int
    multiple: int  # the offset is one of it
    rectangles: list[_Rectangle]


class _Scaled(NamedTuple):
    """A problem's buffers that have bytes, in units of `unit` bytes."""

    unit: int
    buffers: list[_Buffer]


def run(problem: _core.Problem, options: Options) -> Placement:
    """The best plan found in the time, with what is proven of the peak.

    Raises
    ------
    MissingDependencyError
        OR-tools is not installed.
    UnsupportedError
        More buffers, or larger numbers, than the solver can take.
    KeyboardInterrupt
        At once, wherever the search is.
    """
    begin = time.perf_counter()
    seconds = options.time_limit if options.time_limit is not None else float(options.settings["seconds"])
    cp_model = _load()
    start = _core.solve_problem(problem, "greedy_by_size")
    if start.optimal:
        return Placement(start.offsets.tolist(), start.lower_bound)
    scaled = _scaled(problem)
    _check(scaled)
    model, offsets = _model(cp_model, problem, scaled, start)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = max(seconds - (time.perf_counter() - begin), 1e-3)
    solver.parameters.num_workers = min(options.threads, 64)
    solver.parameters.random_seed = options.seed % 2**31
    solver.parameters.interleave_search = options.threads > 1  # the same search however the threads are scheduled
    solver.parameters.catch_sigint_signal = False
    status = _solve(solver, model)
    if status == cp_model.MODEL_INVALID:
        raise UnsupportedError(f"planner 'cp_sat' could not take this problem: {model.validate()}")
    bound = start.lower_bound
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        bound = max(bound, math.ceil(solver.best_objective_bound - 1e-6) * scaled.unit)
        placed = start.offsets.tolist()
        for buffer, offset in zip(scaled.buffers, offsets, strict=True):
            placed[buffer.position] = solver.value(offset) * buffer.multiple * scaled.unit
        return Placement(placed, bound)
    return Placement(start.offsets.tolist(), bound)


ROW = PlannerInfo(
    name="cp_sat",
    title="rectangles that may not overlap, by constraint programming; needs memplan[exact]",
    exact=True,
    supports=("alignment", "shapes", "conflicts"),
    complexity="exponential",
    source="OR-tools, CP-SAT",
    parameters=(Parameter("seconds", "time limit where none is given", 60, 1, 10**6),),
    run=run,
)


def _load() -> Any:
    try:
        from ortools.sat.python import cp_model
    except ImportError as error:
        raise MissingDependencyError("planner 'cp_sat' needs OR-tools: pip install 'memplan[exact]'") from error
    return cp_model


def _scaled(problem: _core.Problem) -> _Scaled:
    size, alignment = problem.size.tolist(), problem.alignment.tolist()
    with_bytes = [i for i in range(len(problem)) if size[i] > 0]
    rectangles = _rectangles(problem)
    unit = math.gcd(*(n for i in with_bytes for r in rectangles[i] for n in (size[i], r.begin, r.size)))
    strict = {alignment[i] for i in with_bytes}
    while narrower := next((a for a in sorted(strict) if unit % a and a % unit), 0):
        unit = math.gcd(unit, narrower)
    buffers = [
        _Buffer(
            i,
            size[i] // unit,
            max(alignment[i] // unit, 1),
            [_Rectangle(r.begin // unit, r.size // unit, r.first, r.last) for r in rectangles[i]],
        )
        for i in with_bytes
    ]
    return _Scaled(unit, buffers)


def _rectangles(problem: _core.Problem) -> list[list[_Rectangle]]:
    """Per buffer, with ranks of steps for steps: what lies between two of them makes no difference."""
    first, last, size = problem.first.tolist(), problem.last.tolist(), problem.size.tolist()
    parts = problem.parts.tolist() if problem.parts is not None else []
    steps = {*first, *last, *(step for part in parts for step in part[3:])}
    rank = {step: k for k, step in enumerate(sorted(steps))}
    rectangles: list[list[_Rectangle]] = [[] for _ in size]
    for buffer, begin, end, born, dead in parts:
        rectangles[buffer].append(_Rectangle(begin, end - begin, rank[born], rank[dead]))
    for i, shape in enumerate(rectangles):
        if not shape:
            shape.append(_Rectangle(0, size[i], rank[first[i]], rank[last[i]]))
    return rectangles


def _check(scaled: _Scaled) -> None:
    if len(scaled.buffers) > MOST_BUFFERS:
        raise UnsupportedError(
            f"planner 'cp_sat' takes at most {MOST_BUFFERS} buffers with bytes, this problem has {len(scaled.buffers)}"
        )
    steps = max(rectangle.last for buffer in scaled.buffers for rectangle in buffer.rectangles)
    height = sum(buffer.size + buffer.multiple for buffer in scaled.buffers)
    if height * steps > MOST_AREA:
        raise UnsupportedError(
            f"planner 'cp_sat' takes sizes that add up to at most 2^50 / {steps} units, in units of their greatest "
            f"common divisor, {scaled.unit}; those of this problem add up to {height}"
        )


def _model(cp_model: Any, problem: _core.Problem, scaled: _Scaled, start: _core.Solution) -> tuple[Any, list[Any]]:
    """The model, and per buffer its offset in multiples of its alignment."""
    model = cp_model.CpModel()
    unit, top = scaled.unit, -(-start.peak // scaled.unit)
    peak = model.new_int_var(-(-start.lower_bound // unit), top, "peak")
    model.add_hint(peak, top)
    offsets, across, up = [], [], []
    for buffer in scaled.buffers:
        offset = model.new_int_var(0, (top - buffer.size) // buffer.multiple, "")
        hint = int(start.offsets[buffer.position]) // unit // buffer.multiple
        model.add_hint(offset, hint)
        model.add(offset * buffer.multiple + buffer.size <= peak)
        for begin, size, first, last in buffer.rectangles:
            across.append(model.new_fixed_size_interval_var(first, last - first, ""))
            up.append(model.new_fixed_size_interval_var(offset * buffer.multiple + begin, size, ""))
        offsets.append(offset)
    model.add_no_overlap_2d(across, up)
    for a, b in _conflicting(problem, scaled):
        (i, j), (below, above) = (scaled.buffers[a], scaled.buffers[b]), (offsets[a], offsets[b])
        is_below = model.new_bool_var("")
        model.add(below * i.multiple + i.size <= above * j.multiple).only_enforce_if(is_below)
        model.add(above * j.multiple + j.size <= below * i.multiple).only_enforce_if(~is_below)
    model.minimize(peak)
    return model, offsets


def _conflicting(problem: _core.Problem, scaled: _Scaled) -> Iterator[tuple[int, int]]:
    """Positions in `scaled` of the pairs that conflict with all their bytes."""
    if problem.conflicts is None:
        return
    position = {buffer.position: k for k, buffer in enumerate(scaled.buffers)}
    for a, b in problem.conflicts.tolist():
        if a in position and b in position:
            yield position[a], position[b]


def _solve(solver: Any, model: Any) -> Any:
    """Solve in a thread of its own, so that an interrupt reaches this one at once and stops the search."""
    status: Future[Any] = Future()

    def solve() -> None:
        try:
            status.set_result(solver.solve(model))
        except BaseException as error:
            status.set_exception(error)

    thread = Thread(target=solve, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(0.05)
    finally:
        while thread.is_alive():
            solver.stop_search()
            thread.join(0.05)
    return status.result()
