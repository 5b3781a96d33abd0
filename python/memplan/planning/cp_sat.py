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
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from dataclasses import replace
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from ..errors import MissingDependencyError, UnsupportedError
from .interface import Options, Parameter, Placement, PlannerInfo

MOST_BUFFERS = 5000
_Placed = Callable[[Callable[[Any], int]], list[int]]  # from the values of variables to the offsets of all buffers
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
    pin: int  # the offset; -1: free
    rectangles: list[_Rectangle]


class _Scaled(NamedTuple):
    """A problem's buffers that have bytes, and what is reserved, in units of `unit` bytes."""

    unit: int
    buffers: list[_Buffer]
    reserved: list[_Rectangle]


def run(problem: _core.Problem, options: Options) -> Placement:
    """The best plan found in the time, with what is proven of the peak.

    Raises
    ------
    MissingDependencyError
        OR-tools is not installed.
    UnsupportedError
        More buffers, or larger numbers, than the solver can take.
    """
    begin = time.perf_counter()
    seconds = options.time_limit if options.time_limit is not None else float(options.settings["seconds"])
    cp_model = _load()
    _check_count(int(np.count_nonzero(problem.size)))
    start = _core.solve_problem(problem, _core.PlanOptions("greedy_by_size"))
    greedy = Placement(start.offsets.tolist(), start.lower_bound)
    if start.optimal or start.peak <= (options.capacity or 0):
        return greedy
    try:
        scaled = _scaled(problem, start.peak)
        if -(-start.lower_bound // scaled.unit) >= -(-start.peak // scaled.unit):  # no peak is between the two
            return replace(greedy, lower_bound=start.peak)
        _check(scaled)
        if options.tell is not None:
            options.tell(greedy.offsets, greedy.lower_bound)
        model, offsets = _model(cp_model, problem, scaled, start, options.capacity)
        solver = _solver(cp_model, options, seconds - (time.perf_counter() - begin))
    except KeyboardInterrupt:
        return replace(greedy, interrupted=True)

    def placed(value: Callable[[Any], int]) -> list[int]:
        all_offsets = list(greedy.offsets)
        for buffer, offset in zip(scaled.buffers, offsets, strict=True):
            all_offsets[buffer.position] = value(offset) * buffer.multiple * scaled.unit
        return all_offsets

    def proven(bound: float) -> int:
        """The bound of the search, where it is one: it never asks for less than the capacity."""
        least = math.ceil(bound - 1e-6) * scaled.unit
        return max(least if least > (options.capacity or 0) else 0, start.lower_bound)

    search = _Search(solver, options, placed, proven)
    status = search.run(cp_model, model)
    if status == cp_model.MODEL_INVALID:
        raise UnsupportedError(f"planner 'cp_sat' could not take this problem: {model.validate()}")
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        bound = max(search.bound, proven(solver.best_objective_bound))
        return Placement(placed(solver.value), bound, interrupted=search.interrupted)
    return replace(greedy, lower_bound=max(search.bound, start.lower_bound), interrupted=search.interrupted)


def _solver(cp_model: Any, options: Options, seconds: float) -> Any:
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = max(seconds, 1e-3)
    solver.parameters.num_workers = min(options.threads, 64)
    solver.parameters.random_seed = options.seed % 2**31
    solver.parameters.interleave_search = options.threads > 1  # the same search however the threads are scheduled
    solver.parameters.catch_sigint_signal = False
    return solver


def _load() -> Any:
    try:
        from ortools.sat.python import cp_model
    except ImportError as error:
        raise MissingDependencyError("planner 'cp_sat' needs OR-tools: pip install 'memplan[exact]'") from error
    return cp_model


ROW = PlannerInfo(
    name="cp_sat",
    title="rectangles that may not overlap, by constraint programming; needs memplan[exact]",
    exact=True,
    supports=("alignment", "shapes", "conflicts", "pins", "reserved", "branches"),
    complexity="exponential",
    source="OR-tools, CP-SAT",
    parameters=(Parameter("seconds", "time limit where none is given", 60, 1, 10**6),),
    run=run,
    ready=_load,
)


def _scaled(problem: _core.Problem, peak: int) -> _Scaled:
    """The problem, of whose plans those at or below a peak count."""
    size, alignment = problem.size.tolist(), problem.alignment.tolist()
    with_bytes = [i for i in range(len(problem)) if size[i] > 0]
    rectangles = _rectangles(problem)
    pins = [-1] * len(size) if problem.pins is None else problem.pins.tolist()
    reserved = _reserved(problem, peak)
    fixed = [*(pins[i] for i in with_bytes if pins[i] >= 0), *(r.begin for r in reserved)]
    fixed += [r.size for r in reserved if r.begin + r.size < peak]
    unit = math.gcd(*(n for i in with_bytes for r in rectangles[i] for n in (size[i], r.begin, r.size)), *fixed)
    strict = {alignment[i] for i in with_bytes}
    while narrower := next((a for a in sorted(strict) if unit % a and a % unit), 0):
        unit = math.gcd(unit, narrower)
    buffers = [
        _Buffer(
            i,
            size[i] // unit,
            max(alignment[i] // unit, 1),
            pins[i] // unit if pins[i] >= 0 else -1,
            [_Rectangle(r.begin // unit, r.size // unit, r.first, r.last) for r in rectangles[i]],
        )
        for i in with_bytes
    ]
    scaled = [_Rectangle(r.begin // unit, -(-r.size // unit), r.first, r.last) for r in reserved]
    return _Scaled(unit, buffers, scaled)


def _ranks(problem: _core.Problem) -> dict[int, int]:
    """For steps at which something is born or dies, their ranks: what lies between two makes no difference."""
    columns = [problem.first, problem.last]
    columns += [] if problem.parts is None else [problem.parts[:, 3], problem.parts[:, 4]]
    columns += [] if problem.reserved is None else [problem.reserved[:, 2], problem.reserved[:, 3]]
    return {step: k for k, step in enumerate(np.unique(np.concatenate(columns)).tolist())}


def _reserved(problem: _core.Problem, peak: int) -> list[_Rectangle]:
    """What is reserved below the peak of a plan."""
    rows = [] if problem.reserved is None else problem.reserved.tolist()
    rank = _ranks(problem)
    return [
        _Rectangle(begin, min(end, peak) - begin, rank[first], rank[last])
        for begin, end, first, last in rows
        if begin < peak
    ]


def _rectangles(problem: _core.Problem) -> list[list[_Rectangle]]:
    """Per buffer, with ranks of steps for steps."""
    first, last, size = problem.first.tolist(), problem.last.tolist(), problem.size.tolist()
    parts = problem.parts.tolist() if problem.parts is not None else []
    rank = _ranks(problem)
    rectangles: list[list[_Rectangle]] = [[] for _ in size]
    for buffer, begin, end, born, dead in parts:
        rectangles[buffer].append(_Rectangle(begin, end - begin, rank[born], rank[dead]))
    for i, shape in enumerate(rectangles):
        if not shape:
            shape.append(_Rectangle(0, size[i], rank[first[i]], rank[last[i]]))
    return rectangles


def _check_count(buffers: int) -> None:
    if buffers > MOST_BUFFERS:
        raise UnsupportedError(
            f"planner 'cp_sat' takes at most {MOST_BUFFERS} buffers with bytes, this problem has {buffers}"
        )


def _check(scaled: _Scaled) -> None:
    steps = max(rectangle.last for buffer in scaled.buffers for rectangle in buffer.rectangles)
    height = sum(buffer.size + buffer.multiple for buffer in scaled.buffers)
    height += max((r.begin + r.size for r in scaled.reserved), default=0)
    height += max((buffer.pin for buffer in scaled.buffers), default=0)
    if height * steps > MOST_AREA:
        raise UnsupportedError(
            f"planner 'cp_sat' takes sizes that add up to at most 2^50 / {steps} units, in units of their greatest "
            f"common divisor, {scaled.unit}; those of this problem add up to {height}"
        )


def _model(
    cp_model: Any, problem: _core.Problem, scaled: _Scaled, start: _core.Solution, capacity: int | None
) -> tuple[Any, list[Any]]:
    """The model, and per buffer its offset in multiples of its alignment; what fits the capacity is all the same."""
    model = cp_model.CpModel()
    unit, top = scaled.unit, -(-start.peak // scaled.unit)
    peak = model.new_int_var(max(-(-start.lower_bound // unit), (capacity or 0) // unit), top, "peak")
    model.add_hint(peak, top)
    offsets, across, up = [], [], []
    for buffer in scaled.buffers:
        lowest = max(buffer.pin, 0) // buffer.multiple
        highest = lowest if buffer.pin >= 0 else (top - buffer.size) // buffer.multiple
        offset = model.new_int_var(lowest, highest, "")
        hint = int(start.offsets[buffer.position]) // unit // buffer.multiple
        model.add_hint(offset, hint)
        model.add(offset * buffer.multiple + buffer.size <= peak)
        for begin, size, first, last in buffer.rectangles:
            across.append(model.new_fixed_size_interval_var(first, last - first, ""))
            up.append(model.new_fixed_size_interval_var(offset * buffer.multiple + begin, size, ""))
        offsets.append(offset)
    for begin, size, first, last in scaled.reserved:
        across.append(model.new_fixed_size_interval_var(first, last - first, ""))
        up.append(model.new_fixed_size_interval_var(begin, size, ""))
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


class _Search:
    """A search in a thread of its own: the caller's hears of better plans, and what it raises ends the search at once.

    An interrupt ends it too, and what was found until then is kept; so does a proof that nothing fits the capacity.
    """

    def __init__(self, solver: Any, options: Options, placed: _Placed, proven: Callable[[float], int]) -> None:
        self.interrupted = False
        self.bound = 0  # proven until now
        self._solver, self._options, self._placed, self._proven = solver, options, placed, proven
        self._news: SimpleQueue[tuple[list[int] | None, int] | None] = SimpleQueue()  # offsets, bound; None: the end

    def run(self, cp_model: Any, model: Any) -> Any:
        """The status of the search when it has ended."""
        status: Future[Any] = Future()
        callback = self._callback(cp_model) if self._options.tell is not None else None
        if self._options.capacity is not None:
            self._solver.best_bound_callback = lambda bound: self._news.put((None, self._proven(bound)))

        def solve() -> None:
            try:
                status.set_result(self._solver.solve(model, callback))
            except BaseException as error:
                status.set_exception(error)
            self._news.put(None)

        thread = Thread(target=solve, daemon=True)
        try:
            thread.start()
            while self._hear():
                pass
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            while not status.done():
                self._solver.stop_search()
                wait([status], 0.02)
        return status.result()

    def _callback(self, cp_model: Any) -> Any:
        news, placed, proven = self._news, self._placed, self._proven

        class Callback(cp_model.CpSolverSolutionCallback):  # type: ignore[misc]
            def on_solution_callback(self) -> None:
                news.put((placed(self.value), proven(self.best_objective_bound)))

        return Callback()

    def _hear(self) -> bool:
        """Waits for news, not for long; False when the search has ended."""
        try:
            news = self._news.get(timeout=0.05)
        except Empty:
            return True
        if news is None:
            return False
        offsets, bound = news
        self.bound = max(self.bound, bound)
        if self._options.capacity is not None and self.bound > self._options.capacity:
            self._solver.stop_search()
        if offsets is not None and self._options.tell is not None:
            self._options.tell(offsets, self.bound)
        return True
