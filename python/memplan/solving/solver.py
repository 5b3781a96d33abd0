"""From a graph or a problem to a plan, in the given order of the ops or in that of a rule or search."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from .. import _core
from ..options.for_core import core_options, time_left
from ..options.records import Search
from ..options.source import Source
from ..plans.failing import InfeasibleError
from ..plans.plan import Plan
from ..sizes import Budget
from .wishes import Wishes


@dataclass(frozen=True)
class Solver:
    """A planner, what is asked of its search, and what the plans are of."""

    planner: str
    search: Search
    capacity: int | None  # bytes
    source: Source | None
    start: Wishes | None = None  # from where a search begins

    def with_search(self, **asked: Any) -> Solver:
        """One whose search is asked for this instead."""
        return replace(self, search=replace(self.search, **asked))

    def options(self, **more: Any) -> _core.PlanOptions:
        """The planner and what is asked, as the core takes them; `core_options` says what more there may be."""
        return core_options(self.planner, self.search, capacity=self.capacity, **more)

    def within(self, budget: Budget, peak: Callable[[Solver], int]) -> Solver:
        """One with the capacity that a share stands for: of the peak of a plan without one."""
        begin = time.perf_counter()
        limit = self.search.time_limit
        half = None if limit is None else limit / 2
        free = replace(self, capacity=None).with_search(on_improvement=None, on_order=None, time_limit=half)
        capacity = budget.of(lambda: peak(free))
        return replace(self, capacity=capacity).with_search(time_limit=time_left(limit, begin))

    def problem(self, problem: _core.Problem) -> Plan:
        """The plan of a problem."""

        def plan_of(solution: _core.Solution) -> Plan:
            return Plan.of(solution, problem, source=self.source)

        def solved(tell: Callable[..., None] | None) -> tuple[Any, ...]:
            warm = None if self.start is None else self.start.targets(problem)
            return (_core.solve_problem(problem, self.options(tell=tell, warm=warm)),)

        return self._plan(solved, plan_of, lambda: problem)

    def graph(self, graph: _core.Graph, storage: _core.StorageOptions) -> Plan:
        """The plan of a graph, its ops in the given order."""

        def plan_of(buffers: _core.Buffers, solution: _core.Solution) -> Plan:
            return Plan.of(solution, buffers.problem, graph, buffers, storage, self.source)

        def solved(tell: Callable[..., None] | None) -> tuple[Any, ...]:
            return _core.solve_graph(graph, storage, self.options(tell=tell, earlier=self._named))

        return self._plan(solved, plan_of, lambda: _core.buffers_of(graph, storage).problem)

    def in_order(self, graph: _core.Graph, storage: _core.StorageOptions, order: str) -> Plan:
        """The plan of a graph, its ops in the order of a rule or search. "best" is never worse than given."""
        if order == "given":
            return self.graph(graph, storage)
        bound = 0

        def solved(tell: Callable[..., None] | None) -> tuple[Any, ...]:
            nonlocal bound
            options = self.options(tell=tell, earlier=self._named)
            *found, bound = _core.solve_in_order(graph, order, storage, options)
            return tuple(found)

        plan = self._plan(solved, self._ordered(storage), lambda: _core.buffers_of(graph, storage).problem)
        return replace(plan, ordered_by=order, proven_of_orders=bound)

    def at_sizes(
        self, graphs: Sequence[tuple[str, _core.Graph]], storage: _core.StorageOptions, order: str
    ) -> tuple[Plan, _core.RangePlan]:
        """One plan of a network at several sizes, the largest last, and what gives the plan of one of them."""
        found: Any = None

        def solved(_: object) -> tuple[Any, ...]:
            nonlocal found
            found = _core.solve_range(graphs, order, storage, self.options())
            return found.graph, found.buffers, found.plan

        plan = self._plan(solved, self._ordered(storage), lambda: _core.buffers_of(graphs[-1][1], storage).problem)
        return replace(plan, ordered_by=order, proven_of_orders=found.order_bound), found

    def _ordered(self, storage: _core.StorageOptions) -> Callable[..., Plan]:
        def plan_of(ordered: _core.Graph, buffers: _core.Buffers, solution: _core.Solution) -> Plan:
            return Plan.of(solution, buffers.problem, ordered, buffers, storage, self.source)

        return plan_of

    @property
    def _named(self) -> dict[str, int] | None:
        return None if self.start is None else self.start.by_name()

    def _plan(
        self,
        solved: Callable[..., tuple[Any, ...]],
        plan_of: Callable[..., Plan],
        problem: Callable[[], _core.Problem],
    ) -> Plan:
        """What a planner finds, as plans; what an error holds too."""
        listener = self.search.on_improvement
        teller = None if listener is None else _Teller(listener, plan_of)
        try:
            plan = plan_of(*solved(None if teller is None else teller.tell))
            if teller is not None and plan.interrupted and teller.told != plan.peak:
                teller.hand_on(plan)
            return replace(plan, capacity=self.capacity)
        except InfeasibleError as error:
            if error.plan is not None:
                found = cast(Any, error.plan)
                error.plan = plan_of(*(found if isinstance(found, tuple) else (found,)))
            if error.plan is not None:
                error.problem = error.plan.problem
            elif error.problem is None:
                error.problem = problem()
            raise


class _Teller:
    """Hands plans on as they are found. An interrupt may come while one is made, so that nobody hears of it."""

    def __init__(self, on_improvement: Callable[[Plan], object], plan_of: Callable[..., Plan]) -> None:
        self._on_improvement, self._plan_of = on_improvement, plan_of
        self.told: int | None = None  # the peak of the last one that was handed on

    def tell(self, *found: Any) -> None:
        self.hand_on(self._plan_of(*found))

    def hand_on(self, plan: Plan) -> None:
        self.told = plan.peak
        self._on_improvement(plan)
