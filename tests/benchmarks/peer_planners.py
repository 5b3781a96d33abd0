"""Other planners that install as packages, on the same problems: what they make of them, checked by memplan.

Lifetimes are half-open with all of them. Each gets its time limit and one thread unless more are asked for; building
its own objects from a problem is not counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

import memplan
from memplan import _core

MOST_FOR_CP_SAT = 5000  # buffers
Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Peer:
    """What a peer found."""

    name: str
    seconds: float
    peak: int | None  # None: no plan in its time
    proven: bool  # that no plan peaks lower


def supermalloc(problem: memplan.Problem, seconds: float, capacity: int | None, threads: int) -> Peer:
    """OmniMalloc's SuperMalloc, which minimises; it knows no capacity."""
    import omnimalloc
    from omnimalloc.allocators import SupermallocAllocator

    with_bytes = np.flatnonzero(problem.size).tolist()
    columns = (problem.size.tolist(), problem.first.tolist(), problem.last.tolist())
    buffers = tuple(omnimalloc.Allocation(i, *(column[i] for column in columns)) for i in with_bytes)
    allocator = SupermallocAllocator(timeout=seconds, num_threads=threads)
    begin = time.perf_counter()
    found = allocator.solve(buffers)
    spent = time.perf_counter() - begin
    offsets = np.zeros(len(problem), dtype=np.int64)
    for buffer in found.allocations:
        offsets[buffer.id] = buffer.offset
    return Peer("SuperMalloc", spent, checked(problem, offsets), found.proved_optimal)


def cp_sat(problem: memplan.Problem, seconds: float, capacity: int | None, threads: int) -> Peer | None:
    """CP-SAT: with a capacity, any plan that fits; without, memplan's planner of that name, which minimises."""
    if len(problem) > MOST_FOR_CP_SAT:
        return None
    if capacity is not None:
        return _cp_sat_fits(problem, seconds, capacity, threads)
    begin = time.perf_counter()
    plan = memplan.plan(problem, "cp_sat", time_limit=seconds, threads=threads)
    return Peer("CP-SAT", time.perf_counter() - begin, plan.peak, plan.optimal)


def _cp_sat_fits(problem: memplan.Problem, seconds: float, capacity: int, threads: int) -> Peer:
    from ortools.sat.python import cp_model

    size, first, last = problem.size.tolist(), problem.first.tolist(), problem.last.tolist()
    unit = int(np.gcd.reduce(problem.size))  # some plan that fits has all offsets at its multiples
    model = cp_model.CpModel()
    offsets = [model.new_int_var(0, (capacity - s) // unit, "") for s in size]
    steps = [model.new_fixed_size_interval_var(f, to - f, "") for f, to in zip(first, last, strict=True)]
    bytes_ = [model.new_fixed_size_interval_var(o, s // unit, "") for o, s in zip(offsets, size, strict=True)]
    model.add_no_overlap_2d(steps, bytes_)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = threads
    solver.parameters.catch_sigint_signal = False  # or interrupts end the process from then on
    begin = time.perf_counter()
    status = solver.solve(model)
    spent = time.perf_counter() - begin
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Peer("CP-SAT", spent, None, status == cp_model.INFEASIBLE)
    found = np.array([solver.value(offset) * unit for offset in offsets], dtype=np.int64)
    return Peer("CP-SAT", spent, checked(problem, found), False)


def minimalloc(problem: memplan.Problem, seconds: float, capacity: int | None, threads: int) -> Peer | None:
    """MiniMalloc's Python module, built from its source; it wants a capacity."""
    import minimalloc as mm

    if capacity is None:
        return None
    columns = zip(problem.size.tolist(), problem.first.tolist(), problem.last.tolist(), strict=True)
    spans = [(str(i), s, mm.Lifespan(lower=f, upper=to)) for i, (s, f, to) in enumerate(columns)]
    given = mm.Problem(buffers=[mm.Buffer(id=i, size=s, lifespan=span) for i, s, span in spans])
    given.capacity = capacity
    parameters = mm.SolverParams()
    parameters.timeout = max(1, round(seconds))
    begin = time.perf_counter()
    found = mm.Solver(parameters).solve(given)
    spent = time.perf_counter() - begin
    peak = None if found is None else checked(problem, np.array(found.offsets, dtype=np.int64))
    return Peer("MiniMalloc", spent, peak, False)


def checked(problem: memplan.Problem, offsets: Offsets) -> int:
    """The peak of a peer's plan, once it is known to be one."""
    if faults := _core.verify(problem, offsets, limit=1):
        raise AssertionError(f"a peer's plan is wrong: {faults[0].message}")
    return int((offsets + problem.size).max(initial=0))


Run = Callable[[memplan.Problem, float, int | None, int], Peer | None]
PEERS: dict[str, tuple[str, Run]] = {
    "supermalloc": ("omnimalloc", supermalloc),
    "cp_sat": ("ortools", cp_sat),
    "minimalloc": ("minimalloc", minimalloc),
}


def available() -> list[str]:
    """The peers whose packages are installed."""
    return [name for name, (package, _) in PEERS.items() if find_spec(package)]


class Peers:
    """Runs peers, each problem once however many rows ask for it."""

    def __init__(self, names: list[str], seconds: float, threads: int = 1) -> None:
        for name in names:
            if name not in PEERS:
                raise ValueError(f"peer must be one of {', '.join(PEERS)}, got {name!r}")
        self.names, self.seconds, self.threads = names, seconds, threads
        self._found: dict[Any, Peer | None] = {}

    def run(
        self, peer: str, name: str, problem: memplan.Problem, capacity: int | None = None, seconds: float | None = None
    ) -> Peer | None:
        """What a peer finds in its time; None where it does not take the problem."""
        limit = self.seconds if seconds is None else seconds
        knows = capacity if peer != "supermalloc" else None
        key = (peer, name, knows, limit)
        if key not in self._found:
            self._found[key] = PEERS[peer][1](problem, limit, knows, self.threads)
        return self._found[key]
