"""`memplan.fit`: a plan within a capacity, of a graph that gives up what it takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .. import _core
from ..importers import captured
from ..options.barriers import with_barriers
from ..options.checks import names
from ..options.taking import request
from ..planning.registry import check_planner
from ..plans.changes import Change, Fitting, changes_of
from ..plans.failing import InfeasibleError
from ..plans.inplace import may_be_over_inputs
from ..plans.record import PlanRecord
from ..sizes import budget_of
from ..solving.planning import plan, sharing_of, storage_of
from ..text import nearest
from .again import again_of
from .costs import check_costs, moves, named_costs

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..options.keywords import FitOptions

WAYS = ("recompute", "offload", "order", "donate")
USUAL = ("recompute", "order")  # what may be done where nothing else is said
_TARGETS = 6  # loads that are asked for, until the plan fits too


def fit(
    source: Any,
    capacity: int | str,
    planner: str = "auto",
    *,
    allow: Collection[str] = USUAL,
    cost: str | Mapping[str, float] = "auto",
    transfer: float | None = None,
    overlap: float = 0.0,
    **options: Unpack[FitOptions],
) -> PlanRecord:
    """See `memplan.fit`."""
    check_planner(planner)
    asked = request("fit", options)
    budget = budget_of(capacity, "capacity", or_least=True)
    ways = check_ways(allow, cost, transfer, overlap)
    read = captured(source, asked.reading)
    clock = _Clock(asked.search.time_limit)
    if not isinstance(read.buffers, _core.Graph):
        raise TypeError("fit takes graphs and networks; a problem says nothing of the ops that make its buffers")
    graph = with_barriers(read.buffers, asked.search.barrier)
    as_it_is = storage_of(read, asked.sharing)
    storage = as_it_is
    if "donate" in ways:
        storage = donating(storage, may_be_over_inputs(graph))
    costs = named_costs(graph, cost, read)
    moving = moves(graph, cost, transfer, overlap) if "offload" in ways else None
    search = _Search(graph, storage, costs, "recompute" in ways, moving, clock)
    if "order" in ways:
        search.add_best_order()

    def planned(changed: _core.Graph, capacity: int | None, left: float | None) -> PlanRecord:
        return plan(changed, planner, capacity=capacity, time_limit=left, **sharing_of(storage))

    if budget.least:
        found, fitting = search.least(planned)
    else:
        most = budget.of(lambda: plan(graph, planner, time_limit=clock.left(0.3), **sharing_of(as_it_is)).peak)
        try:
            found, fitting = search.plan(most, planned)
        except InfeasibleError as error:
            if clock.interrupted and not error.proven:
                raise KeyboardInterrupt from error
            error.args = (_advised(error, ways), *error.args[1:])
            raise
    if "donate" in ways:
        fitting = replace(fitting, changes=(*_donations(found, asked.sharing.donate), *fitting.changes))
    if cost == "profile":
        fitting = replace(fitting, unit="seconds")
    return replace(found, source=read.source, fitting=fitting, notes=read.notes)


_AFTER_INTERRUPT = 0.1  # seconds, for what is left to do

_Planned = Callable[[_core.Graph, "int | None", "float | None"], PlanRecord]  # of a graph, within a capacity, by a time


class _Clock:
    """What is left of a time limit; of one that was interrupted, just enough to end with what there is."""

    def __init__(self, limit: float | None) -> None:
        self._end = None if limit is None else time.perf_counter() + limit
        self.interrupted = False

    def hears(self, interrupted: bool) -> None:
        """A part that was interrupted tells of it, so that the others end too."""
        if interrupted and not self.interrupted:
            self.interrupted, self._end = True, time.perf_counter() + _AFTER_INTERRUPT

    def left(self, share: float = 1) -> float | None:
        return None if self._end is None else max(1e-3, share * (self._end - time.perf_counter()))


class _Search:
    """Fits a graph, in the given order of its ops and in others."""

    def __init__(
        self,
        graph: _core.Graph,
        storage: _core.StorageOptions,
        cost: dict[str, float],
        recompute: bool,
        transfer: float | None,
        clock: _Clock,
    ) -> None:
        self._graphs, self._storage, self._clock = [graph], storage, clock
        self._recompute, self._transfer = recompute, transfer
        self._cost = cost
        self._again: dict[str, str] = {op.name: again_of(op) for op in graph.ops}

    def add_best_order(self) -> None:
        """Let the ops run in the order of the least load that is found, too."""
        best = _core.best_order(self._graphs[0], self._storage, time_limit=self._clock.left(1 / 3))
        self._clock.hears(best.interrupted)
        if best.found_by != "given":
            self._graphs.append(_core.reordered(self._graphs[0], best.ops))

    def least(self, planned: _Planned) -> tuple[PlanRecord, Fitting]:
        """The plan that peaks lowest, of the schedules of each order that need least."""
        fitted = []
        for place, graph in enumerate(self._graphs):
            share = 1 / (len(self._graphs) - place + 0.5)
            fitted.append((place, _core.fit_least_graph(graph, *self._facts(graph), **self._options(share))))
            self._clock.hears(fitted[-1][1].interrupted)
        best: tuple[PlanRecord, Fitting] | None = None
        for place, one in sorted(fitted, key=lambda each: each[1].load):
            if best is None or one.load < best[0].peak:
                found = self._lowest(one, planned)
                if best is None or found.peak < best[0].peak:
                    best = found, self._fitting(place, one, found.peak, least=True)
        assert best is not None
        return replace(best[0], interrupted=best[0].interrupted or self._clock.interrupted), best[1]

    def _lowest(self, fitted: Any, planned: _Planned) -> PlanRecord:
        """A plan at the load, or as little above it as is found."""
        try:
            return planned(fitted.graph, fitted.load, self._clock.left())
        except InfeasibleError as error:
            return error.plan or planned(fitted.graph, None, self._clock.left())

    def _fitting(self, place: int, fitted: Any, capacity: int, least: bool = False) -> Fitting:
        order = (Change("order"),) if place > 0 else ()
        changes = (*order, *changes_of(fitted.changes))
        figures = (sum(self._cost.values()), fitted.added_cost, fitted.cost_bound)
        return Fitting(changes, capacity, *figures, load_bound=fitted.load_bound, least=least)

    def _facts(self, graph: _core.Graph) -> tuple[list[float], list[str]]:
        if graph is self._graphs[0]:
            return list(self._cost.values()), list(self._again.values())
        return [self._cost[op.name] for op in graph.ops], [self._again[op.name] for op in graph.ops]

    def _options(self, share: float) -> dict[str, Any]:
        given: dict[str, Any] = {"recompute": self._recompute, "transfer": self._transfer, "storage": self._storage}
        return given | {"time_limit": self._clock.left(share), "interruptible": True}

    def plan(self, budget: int, planned: _Planned) -> tuple[PlanRecord, Fitting]:
        """A plan within the budget. Where a plan needs more than the load, a lower load is asked for."""
        target, refused = budget, None
        for _ in range(_TARGETS):
            place, fitted = self._cheapest(target, refused)
            try:
                found = planned(fitted.graph, budget, self._clock.left())
            except InfeasibleError as error:
                if error.peak is None or target == 0:
                    raise
                refused = error
                target -= min(target, max(1, error.peak - budget))
            else:
                interrupted = found.interrupted or self._clock.interrupted
                return replace(found, interrupted=interrupted), self._fitting(place, fitted, budget)
        assert refused is not None
        raise refused

    def _cheapest(self, capacity: int, before: InfeasibleError | None) -> tuple[int, Any]:
        """The order, and what was fitted in it, that adds the least."""
        best: tuple[int, Any] | None = None
        refused: InfeasibleError | None = None
        for place, graph in enumerate(self._graphs):
            share = 1 / (len(self._graphs) - place + 0.5)  # the other orders need time too, and so does the plan
            try:
                fitted = _core.fit_graph(graph, *self._facts(graph), capacity=capacity, **self._options(share))
            except InfeasibleError as error:
                refused = error if refused is None or error.lower_bound < refused.lower_bound else refused
                continue
            self._clock.hears(fitted.interrupted)
            if best is None or fitted.added_cost < best[1].added_cost:
                best = place, fitted
            if fitted.added_cost == 0:
                break
        if best is None:
            assert refused is not None
            raise before or refused
        return best


def donating(storage: _core.StorageOptions, names: Collection[str]) -> _core.StorageOptions:
    """The options, with more inputs whose bytes may be taken."""
    kept = sharing_of(storage)
    return _core.StorageOptions(**{**kept, "donate": list(dict.fromkeys([*kept["donate"], *names]))})


def check_ways(
    allow: Collection[str] = USUAL, cost: Any = "auto", transfer: float | None = None, overlap: float = 0.0
) -> list[str]:
    """What may be done; refuses what no graph takes of this, and of what it costs."""
    ways = names(allow, "allow")
    for way in ways:
        if way not in WAYS:
            near = nearest(way, WAYS)
            meant = f"; did you mean {near!r}?" if near else ""
            raise ValueError(f"allow must hold ways among {', '.join(WAYS)}, got {way!r}{meant}")
    if not ways:
        raise ValueError(f"allow must hold at least one way of {', '.join(WAYS)}, got none; without any, use plan")
    check_costs(cost, transfer, overlap, "offload" in ways)
    return ways


def _advised(error: InfeasibleError, ways: Collection[str]) -> str:
    """Why nothing fits, and what else there is."""
    advice = "" if error.proven else '; memplan.fit(source, "least") finds as little as can be reached'
    if "order" not in ways:
        advice = f"; in the given order of the ops, as allow holds {', '.join(ways)} and not order{advice}"
    what, line, rest = str(error).partition("\n")
    return what + advice + line + rest


def _donations(found: PlanRecord, donated: Collection[str]) -> list[Change]:
    """The graph inputs whose bytes outputs have taken, besides those that were donated anyway."""
    assert found.graph is not None
    kinds = {tensor.name: tensor for tensor in found.graph.tensors}
    taken = dict.fromkeys(shared.input for shared in found.sharing if kinds[shared.input].kind == "input")
    return [Change("donate", (name,), bytes=kinds[name].bytes) for name in taken if name not in donated]
