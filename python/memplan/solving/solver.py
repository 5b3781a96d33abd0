"""From a graph or a problem to a plan, in the given order of the ops or in that of a rule or search."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from .. import _core
from ..options.source import Source
from ..planning.registry import solve_graph, solve_in_order, solve_problem, solve_range
from ..plans.failing import InfeasibleError
from ..plans.record import PlanRecord
from ..sizes import Budget
from .wishes import Wishes


@dataclass(frozen=True)
class Solver:
    """A planner with its options, who is told of better plans, and what the plans are of."""

    planner: str
    time_limit: float | None
    seed: int
    threads: int
    capacity: int | None
    on_improvement: Callable[[PlanRecord], object] | None
    on_order: Callable[[_core.OrderProgress], object] | None
    source: Source | None
    start: Wishes | None = None  # from where a search begins

    def within(self, budget: Budget, peak: Callable[[Solver], int]) -> Solver:
        """One with the capacity that a share stands for: of the peak of a plan without one."""
        begin = time.perf_counter()
        half = None if self.time_limit is None else self.time_limit / 2
        free = replace(self, capacity=None, on_improvement=None, on_order=None, time_limit=half)
        capacity = budget.of(lambda: peak(free))
        used = time.perf_counter() - begin
        left = None if self.time_limit is None else max(self.time_limit - used, 1e-3)
        return replace(self, capacity=capacity, time_limit=left)

    def problem(self, problem: _core.Problem) -> PlanRecord:
        """The plan of a problem."""

        def plan_of(solution: _core.Solution) -> PlanRecord:
            return PlanRecord.of(solution, problem, source=self.source)

        def solved(tell: Callable[..., None] | None) -> tuple[Any, ...]:
            start = None if self.start is None else self.start.targets(problem)
            return (solve_problem(problem, self.planner, *self._options, tell, start),)

        return self._plan(solved, plan_of, lambda: problem)

    def graph(self, graph: _core.Graph, storage: _core.StorageOptions) -> PlanRecord:
        """The plan of a graph, its ops in the given order."""

        def plan_of(buffers: _core.Buffers, solution: _core.Solution) -> PlanRecord:
            return PlanRecord.of(solution, buffers.problem, graph, buffers, storage, self.source)

        def solved(tell: Callable[..., None] | None) -> tuple[Any, ...]:
            return solve_graph(graph, self.planner, storage, *self._options, tell, self._named)

        return self._plan(solved, plan_of, lambda: _core.buffers_of(graph, storage).problem)

    def in_order(self, graph: _core.Graph, storage: _core.StorageOptions, order: str) -> PlanRecord:
        """The plan of a graph, its ops in the order of a rule or search. "best" is never worse than given."""
        if order == "given":
            return self.graph(graph, storage)
        bound = 0

        def solved(tell: Callable[..., None] | None) -> tuple[Any, ...]:
            nonlocal bound
            *found, bound = solve_in_order(
                graph, order, self.planner, storage, *self._options, tell, self._named, self.on_order
            )
            return tuple(found)

        plan = self._plan(solved, self._ordered(storage), lambda: _core.buffers_of(graph, storage).problem)
        return replace(plan, ordered_by=order, proven_of_orders=bound)

    def at_sizes(
        self, graphs: Sequence[tuple[str, _core.Graph]], storage: _core.StorageOptions, order: str
    ) -> tuple[PlanRecord, _core.RangePlan]:
        """One plan of a network at several sizes, the largest last, and what gives the plan of one of them."""
        found: Any = None

        def solved(_: object) -> tuple[Any, ...]:
            nonlocal found
            found = solve_range(graphs, order, self.planner, storage, *self._options, self.on_order)
            return found.graph, found.buffers, found.plan

        plan = self._plan(solved, self._ordered(storage), lambda: _core.buffers_of(graphs[-1][1], storage).problem)
        return replace(plan, ordered_by=order, proven_of_orders=found.order_bound), found

    def _ordered(self, storage: _core.StorageOptions) -> Callable[..., PlanRecord]:
        def plan_of(ordered: _core.Graph, buffers: _core.Buffers, solution: _core.Solution) -> PlanRecord:
            return PlanRecord.of(solution, buffers.problem, ordered, buffers, storage, self.source)

        return plan_of

    @property
    def _named(self) -> dict[str, int] | None:
        return None if self.start is None else self.start.by_name()

    @property
    def _options(self) -> tuple[float | None, int, int, int | None]:
        return self.time_limit, self.seed, self.threads, self.capacity

    def _plan(
        self,
        solved: Callable[..., tuple[Any, ...]],
        plan_of: Callable[..., PlanRecord],
        problem: Callable[[], _core.Problem],
    ) -> PlanRecord:
        """What a planner finds, as plans; what an error holds too."""
        teller = None if self.on_improvement is None else _Teller(self.on_improvement, plan_of)
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

    def __init__(self, on_improvement: Callable[[PlanRecord], object], plan_of: Callable[..., PlanRecord]) -> None:
        self._on_improvement, self._plan_of = on_improvement, plan_of
        self.told: int | None = None  # the peak of the last one that was handed on

    def tell(self, *found: Any) -> None:
        self.hand_on(self._plan_of(*found))

    def hand_on(self, plan: PlanRecord) -> None:
        self.told = plan.peak
        self._on_improvement(plan)
