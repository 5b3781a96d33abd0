"""One plan of graphs that differ in sizes alone: the same buffers, with offsets that hold for all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import _core
from ..errors import UnsupportedError
from ..planning.registry import solve_problem
from ..plans.record import PlanRecord
from ..plans.usage import Ints
from ..solving.planning import plan
from .graphs import Relation, in_order, only, relations_of, shared_of


@dataclass(frozen=True)
class Found:
    """A plan for a whole range."""

    plan: PlanRecord  # at the largest sizes, with offsets that hold for all
    graph: _core.Graph  # of the largest sizes, as it was captured
    shared: set[Relation]  # what shares bytes by choice, at all sizes
    # which buffers are below which, by offsets that are good at some sizes
    orders: tuple[tuple[tuple[int, ...], Ints], ...] = ()

    def buffers(self, graph: _core.Graph) -> tuple[_core.Graph, _core.Buffers]:
        """The graph of another size in the order of the plan, and its buffers."""
        assert self.plan.storage is not None
        ordered = only(in_order(graph, self.plan), self.shared)
        return ordered, _core.buffers_of(ordered, self.plan.storage)


class Search:
    """Looks for one plan of graphs that differ in sizes alone."""

    def __init__(
        self, graphs: Mapping[tuple[int, ...], _core.Graph], largest: tuple[int, ...], options: Mapping[str, Any]
    ) -> None:
        self._graphs, self._largest, self._key = graphs, graphs[largest], largest
        self._options = dict(options)

    def found(self) -> Found:
        """The plan, once all sizes share bytes alike."""
        allowed = set.intersection(*(relations_of(graph) for graph in self._graphs.values()))
        while True:
            made = plan(only(self._largest, allowed), **self._options)
            assert made.graph is not None
            assert made.buffers is not None
            found = Found(made, self._largest, shared_of(made.graph, made.buffers))
            there = [self._shared_at(found, graph) for graph in self._graphs.values()]
            if all(kept == found.shared for kept in there):
                found = self._for_all(found)
                return replace(found, orders=((self._key, found.plan.offsets),))
            if not allowed:
                raise UnsupportedError("the network has other buffers at some sizes of the range; plan parts of it")
            common = set.intersection(found.shared, *(kept or set() for kept in there))
            allowed = common if common != allowed else set()

    def _shared_at(self, found: Found, graph: _core.Graph) -> set[Relation] | None:
        """What shares bytes by choice at another size; None if the buffers are others."""
        assert found.plan.buffers is not None
        ordered, buffers = found.buffers(graph)
        same = np.array_equal(buffers.buffer_of_tensor, found.plan.buffers.buffer_of_tensor)
        lives = [(p.first.tolist(), p.last.tolist()) for p in (buffers.problem, found.plan.problem)]
        return shared_of(ordered, buffers) if same and lives[0] == lives[1] else None

    def _for_all(self, found: Found) -> Found:
        """The plan with offsets that hold at all sizes: its own, or those of buffers that are as large as anywhere."""
        problems = [found.buffers(graph)[1].problem for graph in self._graphs.values()]
        if all(holds(found.plan, problem) for problem in problems):
            return found
        widest = np.max([problem.size for problem in problems], axis=0)
        own = found.plan.problem
        cover = _core.Problem(widest, own.first, own.last, own.alignment, own.names or None, None, own.conflicts)
        cover = cover.with_branches(own.branches).with_pins(own.pins, own.reserved).with_together(own.together)
        solution = solve_problem(cover, self._options["planner"], self._options["time_limit"])
        bound = found.plan.lower_bound
        wider = replace(
            found.plan,
            offsets=solution.offsets,
            peak=solution.peak,
            optimal=solution.peak == bound,
            winner=solution.winner,
        )
        return replace(found, plan=wider)


def holds(plan: PlanRecord, problem: _core.Problem) -> bool:
    """Whether the offsets of a plan are valid for the buffers of another size, in the arena of the plan."""
    return not _core.verify(problem, plan.offsets, capacity=plan.peak, limit=1)
