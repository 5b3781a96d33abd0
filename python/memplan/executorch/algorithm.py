"""memplan as a memory planning algorithm of ExecuTorch."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from executorch.exir.memory_planning import MemoryAlgoResult, greedy
from torch import fx

from .._core import Problem
from ..errors import PlannerError, SourceError
from ..plans.failing import InfeasibleError
from ..plans.plan import Plan
from ..sizes import in_bytes
from ..solving.planning import plan as make_plan
from ..text import one_line
from .arena import PlannedArena, arena_name
from .banks import Banks
from .call import Call, Planned
from .graphs import branches_of


class Algorithm:
    """memplan as ExecuTorch calls its algorithms: for each graph and device. It keeps what it has planned.

    Attributes
    ----------
    arenas : list of PlannedArena
        What was planned, in the order of planning: bodies before the graph around them.
    """

    def __init__(
        self,
        planner: str,
        *,
        capacity: Any,
        time_limit: float | None,
        seed: int,
        threads: int,
        fallback: bool,
        method: str | None,
    ) -> None:
        self.__name__ = "memplan"  # by which a suite tells its algorithms apart
        self.arenas: list[PlannedArena] = []
        self._planner = planner
        self._options: dict[str, Any] = {"time_limit": time_limit, "seed": seed, "threads": threads}
        self._capacity = capacities(capacity)
        self._fills = True
        self._fallback = fallback
        self._method = method
        self._methods = 0
        self._label = method or "the graph"
        self._bodies: dict[int, str] = {}
        self._branches: set[int] = set()
        self._planned: WeakKeyDictionary[fx.GraphModule, Planned] = WeakKeyDictionary()
        make_plan(Problem([], [], []), planner, **self._options)  # raises here what is wrong with the options

    @property
    def plans(self) -> list[Plan]:
        """The plans of the arenas that have one, in the order of `arenas`."""
        return [arena.plan for arena in self.arenas if arena.plan is not None]

    def __repr__(self) -> str:
        return f"<memplan.executorch.Algorithm: planner {self._planner!r}, {len(self.arenas)} arenas>"

    def __call__(
        self, alignment: int, specs: Any, graph_module: Any, graph_signature: Any = None, extra_padding: int = 0
    ) -> MemoryAlgoResult:
        """Place all specs: ExecuTorch's interface."""
        branch = id(graph_module) in self._branches and not self._fallback  # greedy would place no results
        try:
            call = Call(alignment, list(specs), graph_module, extra_padding, self._planned, branch)
        except SourceError as error:
            raise SourceError(f"{self._label}: {error}") from error
        try:
            result = self._placed(call)
        except PlannerError as error:
            if not self._fallback:
                raise
            warnings.warn(f"{error}; ExecuTorch's greedy algorithm plans instead", RuntimeWarning, stacklevel=2)
            result = greedy(alignment, call.specs, graph_module, graph_signature, extra_padding)
            for memory, size in enumerate(result.bufsizes[1:], 1):
                self._keep(call, memory, size, None, str(error))
        call.planned.next_memory += len(result.bufsizes) - 1
        self._planned[graph_module] = call.planned
        return result

    @contextmanager
    def method(self, graph: fx.GraphModule) -> Iterator[None]:
        """Name what is planned inside: the next method, and the bodies in its graph by their paths."""
        self._methods += 1
        self._label = self._method or f"method {self._methods}"
        self._bodies = {id(module): path for path, module in graph.named_modules() if path}
        self._branches = branches_of(graph)
        try:
            yield
        finally:
            self._label, self._bodies, self._branches = self._method or "the graph", {}, set()

    def keep_memories(self) -> None:
        """Fill no memory but the one that tensors were put into, or memory 1."""
        self._fills = False

    def clear(self) -> None:
        """Forget what was planned: another program begins."""
        self.arenas, self._methods = [], 0

    def check(self, name: str, memory: int, size: int) -> None:
        """Raise InfeasibleError if an arena that needs no planner is above its capacity."""
        capacity = self._capacity.get(memory, size)
        if size > capacity:
            raise InfeasibleError(
                f"{name}: no plan fits a capacity of {capacity} bytes: {size} are needed",
                capacity=capacity,
                lower_bound=size,
            )

    def _placed(self, call: Call) -> MemoryAlgoResult:
        """The plans of all memories, kept when all are made."""
        plans = self._plans(call)
        result = MemoryAlgoResult({}, [0] * (max([*plans, len(call.reserved) - 1, 1]) + 1))
        for memory, plan in plans.items():
            below = call.below(memory)
            call.write(result, memory, [below + offset for offset in plan.offsets.tolist()])
            result.bufsizes[memory] = below + plan.peak + call.padding
            self._keep(call, memory, result.bufsizes[memory], plan)
        return result

    def _plans(self, call: Call) -> dict[int, Plan]:
        """By memory. What was put into no memory is in the first; if that is too small, memories are filled in turn."""
        banks = Banks.of(call, self._capacity) if self._fills else None
        if banks is None:
            return {memory: self._plan(call, memory) for memory in call.memories()}
        banks.put(call, {id(storage): next(iter(banks.room)) for storage in banks.free})
        try:
            return {memory: self._plan(call, memory) for memory in call.memories()}
        except InfeasibleError:
            found = self._filled(call, banks)
        return {memory: self._plan(call, memory, found.get(memory)) for memory in call.memories()}

    def _filled(self, call: Call, banks: Banks) -> dict[int, list[int]]:
        """Offsets by memory, and storages in their memories."""
        body = self._bodies.get(id(call.graph), "")
        name = f"{self._label}, {f'body {body}, ' if body else ''}memories {', '.join(map(str, banks.room))}"
        try:
            return banks.fill(call, partial(make_plan, planner=self._planner, **self._options))
        except InfeasibleError as error:
            raise _named(error, name, 0) from error
        except Exception as error:
            raise PlannerError(f"{name}: {type(error).__name__}: {one_line(str(error))}") from error

    def _plan(self, call: Call, memory: int, known: list[int] | None = None) -> Plan:
        """The plan of one memory: its storages, then its regions. One above the capacity is searched again.

        If none is found, `known` are offsets that fit.
        """
        name = arena_name(self._label, self._bodies.get(id(call.graph), ""), call.memory_in_program(memory))
        besides = call.below(memory) + call.padding
        capacity = self._capacity.get(call.memory_in_program(memory))
        problem = _problem(call, memory)
        try:
            plan = make_plan(problem, self._planner, **self._options)
            if capacity is not None and plan.peak + besides > capacity:
                plan = make_plan(problem, self._planner, capacity=max(capacity - besides, 0), **self._options)
        except InfeasibleError as error:
            if known is None:
                raise _named(error, name, besides) from error
            plan = make_plan(problem.with_pins(np.array(known, np.int64), []), **self._options)
        except Exception as error:
            raise PlannerError(f"{name}: {type(error).__name__}: {one_line(str(error))}") from error
        return plan

    def _keep(self, call: Call, memory: int, size: int, plan: Plan | None, fallback: str = "") -> None:
        """Note an arena."""
        arena = PlannedArena(
            method=self._label,
            body=self._bodies.get(id(call.graph), ""),
            memory=call.memory_in_program(memory),
            device=call.device,
            bytes=size,
            padding=call.padding,
            plan=plan,
            fallback=fallback,
            _greedy=partial(call.given.greedy_bytes, memory),
        )
        self.arenas.append(arena)


def capacities(capacity: Any) -> dict[int, int]:
    """Bytes by memory id.

    Raises
    ------
    TypeError, ValueError
        What is not a number of bytes, or a memory id that is no integer >= 1.
    """
    if capacity is None:
        return {}
    if not isinstance(capacity, Mapping):
        return {1: in_bytes(capacity, "capacity")}
    for memory in capacity:
        if isinstance(memory, bool) or not isinstance(memory, int):
            raise TypeError(f"capacity must have memory ids as keys, got {memory!r}")
        if memory < 1:
            raise ValueError(f"capacity must have memory ids >= 1 as keys (0 has constants), got {memory}")
    return {memory: in_bytes(size, f"capacity[{memory}]") for memory, size in capacity.items()}


def _problem(call: Call, memory: int) -> Problem:
    storages, regions = call.storages.get(memory, []), call.inside(memory)
    return Problem(
        [*(storage.bytes for storage in storages), *(region.bytes(memory) for region in regions)],
        [*(storage.first for storage in storages), *(region.first for region in regions)],
        [*(storage.last for storage in storages), *(region.last for region in regions)],
        call.alignment,
        [*(storage.name for storage in storages), *(f"{region.name}: bodies" for region in regions)],
    )


def _named(error: InfeasibleError, name: str, besides: int) -> InfeasibleError:
    """The error with the name of the arena, and what else it has."""
    more = f" ({besides} of its bytes are for padding and bodies)" if besides else ""
    return InfeasibleError(
        f"{name}{more}: {error}",
        capacity=error.capacity,
        lower_bound=error.lower_bound,
        peak=error.peak,
        plan=error.plan,
        buffers=error.buffers,
        step=error.step,
    )
