"""From a graph or a problem to a plan, in the given order of the ops or in that of a rule or search."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

from .. import _core
from ..errors import InfeasibleError
from ..facts.plan import Plan
from ..facts.source import Source
from ..planning.registry import solve_graph, solve_problem
from ..sizes import Budget


@dataclass(frozen=True)
class Solver:
    """A planner with its options, who is told of better plans, and what the plans are of."""

    planner: str
    time_limit: float | None
    seed: int
    threads: int
    capacity: int | None
    on_improvement: Callable[[Plan], object] | None
    on_order: Callable[[_core.OrderProgress], object] | None
    source: Source | None
    start: dict[str, int] | None = None  # from where a search begins

    def within(self, budget: Budget, peak: Callable[[Solver], int]) -> Solver:
        """One with the capacity that a share stands for: of the peak of a plan without one."""
        begin = time.perf_counter()
        half = None if self.time_limit is None else self.time_limit / 2
        free = replace(self, capacity=None, on_improvement=None, on_order=None, time_limit=half)
        capacity = budget.of(lambda: peak(free))
        used = time.perf_counter() - begin
        left = None if self.time_limit is None else max(self.time_limit - used, 1e-3)
        return replace(self, capacity=capacity, time_limit=left)

    def problem(self, problem: _core.Problem) -> Plan:
        """The plan of a problem."""

        def plan_of(solution: _core.Solution) -> Plan:
            return Plan.of(solution, problem, source=self.source)

        def solved(tell: Callable[..., None] | None) -> tuple[Any, ...]:
            return (solve_problem(problem, self.planner, *self._options, tell, self.start),)

        return self._plan(solved, plan_of, lambda: problem)

    def graph(self, graph: _core.Graph, storage: _core.StorageOptions) -> Plan:
        """The plan of a graph, its ops in the given order."""

        def plan_of(buffers: _core.Buffers, solution: _core.Solution) -> Plan:
            return Plan.of(solution, buffers.problem, graph, buffers, storage, self.source)

        def solved(tell: Callable[..., None] | None) -> tuple[Any, ...]:
            return solve_graph(graph, self.planner, storage, *self._options, tell, self.start)

        return self._plan(solved, plan_of, lambda: _core.buffers_of(graph, storage).problem)

    def in_order(self, graph: _core.Graph, storage: _core.StorageOptions, order: str) -> Plan:
        """The plan of a graph, its ops in the order of a rule or search. "best" is never worse than given."""
        if order == "given":
            return self.graph(graph, storage)
        begin = time.perf_counter()
        found = _core.order_of(graph, order, storage, time_limit=self.time_limit, tell=self.on_order)
        plan = self._of_order(graph, storage, found, order.partition(":")[0] == "best", begin)
        interrupted = plan.interrupted or found.interrupted
        bound = _core.beside_reserved(graph, found.bound)
        return replace(plan, ordered_by=order, proven_of_orders=bound, interrupted=interrupted)

    def _of_order(
        self, graph: _core.Graph, storage: _core.StorageOptions, order: _core.Order, or_given: bool, begin: float
    ) -> Plan:
        """The plan of an order; where asked to, that of the given order if it peaks lower."""
        lowest = math.inf

        def tell(plan: Plan) -> None:
            nonlocal lowest
            if self.on_improvement is not None and plan.peak < lowest:
                lowest = plan.peak
                self.on_improvement(plan)

        def planned(graph: _core.Graph) -> Plan:
            used = time.perf_counter() - begin
            left = None if self.time_limit is None else max(self.time_limit - used, 1e-3)
            solver = replace(self, time_limit=left, on_improvement=None if self.on_improvement is None else tell)
            return solver.graph(graph, storage)

        if not or_given:
            return planned(_core.reordered(graph, order.ops))
        plan, refused = None, None
        if order.found_by != "given":
            plan, refused = _unless_infeasible(planned, _core.reordered(graph, order.ops))
        if plan is None or plan.peak >= _core.buffers_of(graph, storage).problem.load:
            other, of_given = _unless_infeasible(planned, graph)
            refused = refused or of_given
            plan = min((found for found in (plan, other) if found is not None), key=lambda it: it.peak, default=None)
        if plan is None:
            assert refused is not None
            raise _in_any_order(refused, order, _core.beside_reserved(graph, order.bound))
        return plan

    @property
    def _options(self) -> tuple[float | None, int, int, int | None]:
        return self.time_limit, self.seed, self.threads, self.capacity

    def _plan(
        self,
        solved: Callable[..., tuple[Any, ...]],
        plan_of: Callable[..., Plan],
        problem: Callable[[], _core.Problem],
    ) -> Plan:
        """What a planner finds, as plans; what an error holds too."""
        tell = None if self.on_improvement is None else _teller(self.on_improvement, plan_of)
        try:
            return replace(plan_of(*solved(tell)), capacity=self.capacity)
        except InfeasibleError as error:
            if error.plan is not None:
                found = cast(Any, error.plan)
                error.plan = plan_of(*(found if isinstance(found, tuple) else (found,)))
            error.problem = problem() if error.plan is None else error.plan.problem
            raise


def _unless_infeasible(
    planned: Callable[[_core.Graph], Plan], graph: _core.Graph
) -> tuple[Plan | None, InfeasibleError | None]:
    try:
        return planned(graph), None
    except InfeasibleError as error:
        return None, error


def _in_any_order(refused: InfeasibleError, order: _core.Order, bound: int) -> InfeasibleError:
    """That no plan fits in the best order, as an error of all orders: its bound is that of them all."""
    fits = f"fits a capacity of {refused.capacity} bytes in any order of the ops: "
    if bound > refused.capacity:
        what = f"no plan {fits}at least {bound} bytes are needed"
    else:
        needs = order.load if refused.peak is None else refused.peak
        what = f"no plan was found that {fits}the best order found needs {needs}; at least {bound} are needed"
    _, line, rest = str(refused).partition("\n")
    error = InfeasibleError(
        what + line + rest,
        capacity=refused.capacity,
        lower_bound=bound,
        peak=refused.peak,
        plan=refused.plan,
        buffers=refused.buffers,
        step=refused.step,
    )
    error.problem = refused.problem
    return error


def _teller(on_improvement: Callable[[Plan], object], plan_of: Callable[..., Plan]) -> Callable[..., None]:
    def tell(*found: Any) -> None:
        on_improvement(plan_of(*found))

    return tell
