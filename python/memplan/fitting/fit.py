"""`memplan.fit`: a plan within a capacity, of a graph that gives up what it takes."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from .. import _core
from ..dtypes import is_known, nbytes
from ..importers import captured, counting_scratch, counts_kernels
from ..ops import without_overlap
from ..options.barriers import with_barriers
from ..options.checks import integer, names, number
from ..options.for_core import core_options, time_left
from ..options.taking import request
from ..planning.registry import check_planner
from ..plans.changes import Change, Fitting, InPieces, changes_of, splits_of
from ..plans.costs import check_costs, moves
from ..plans.failing import InfeasibleError
from ..plans.inplace import may_be_over_inputs
from ..plans.plan import Plan
from ..sizes import budget_of
from ..solving.planning import plan, sharing_of, storage_of
from ..text import nearest
from .advice import advised
from .profile import op_costs, seconds_to_move
from .unchanged import plan_unchanged, whole_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..options.keywords import FitOptions

WAYS = ("recompute", "offload", "order", "donate", "split")
USUAL = ("recompute", "order")  # what may be done where nothing else is said
_PART_OF_SHARE = 0.3  # of the time, for the plan of which the capacity is a share
_WORK = 300_000  # ops of graphs that are looked at, for whether a plan fits in pieces where none fits without
_QUICK = "auto:effort=1000000"  # and the planner of that
_CALL = 10_000.0  # operations in the time that calling a kernel takes
_CALL_SECONDS = 5e-6
_OF_KERNELS = 64  # bytes: kernels make results elsewhere, and copy them, where a place begins at no multiple


def fit(
    source: Any,
    capacity: int | str,
    planner: str = "auto",
    *,
    allow: Collection[str] = USUAL,
    cost: str | Mapping[str, float] = "auto",
    transfer: float | None = None,
    hidden: float = 0.0,
    call: float | None = None,
    max_pieces: int = 1024,
    **options: Unpack[FitOptions],
) -> Plan:
    """See `memplan.fit`."""
    check_planner(planner)
    asked = request("fit", options)
    budget = budget_of(capacity, "capacity", or_least=True)
    ways = check_ways(allow, cost, transfer, hidden, call, max_pieces)
    alone = captured(source, asked.reading)
    read = counting_scratch(alone, asked.reading)
    limit, begin = asked.search.time_limit, time.perf_counter()
    if not isinstance(read.buffers, _core.Graph):
        raise TypeError("fit takes graphs and networks; a problem says nothing of the ops that make its buffers")
    whole = with_barriers(read.buffers, asked.search.barrier)
    graph, as_it_is = without_overlap(whole), storage_of(read, asked.sharing)
    storage = as_it_is
    if counts_kernels(read):
        storage = with_options(storage, alignment=math.lcm(storage.alignment, _OF_KERNELS))
    if "split" in ways:
        storage = with_options(storage, alignment=math.lcm(storage.alignment, _element(graph)))
    if "donate" in ways:
        storage = donating(storage, may_be_over_inputs(graph))
    costs = op_costs(graph, cost, read)
    if cost == "profile" and transfer is None and "offload" in ways:
        transfer = seconds_to_move()
    moving = moves(graph, cost, transfer, hidden) if "offload" in ways else None
    most, share, unit, total = budget.bytes, "", "seconds" if cost == "profile" else "", sum(costs)
    if budget.share is not None or (read is not alone and most is not None):
        part = limit and _PART_OF_SHARE * limit
        planned = plan_unchanged(alone, planner, as_it_is, asked.search.barrier, part)
        if budget.share is not None:
            of, what = whole_of(read, as_it_is, planned)
            most, share = budget.of(lambda: of), budget.said(of, what)
        assert most is not None
        if (planned.peak if read is alone else planned.held) <= most:
            return replace(planned, fitting=Fitting((), most, total, unit=unit, share=share), capacity=most)
    left = time_left(limit, begin)
    searching = core_options(planner, replace(asked.search, time_limit=left), capacity=most)
    ways_of = ("recompute" in ways, moving, "order" in ways)
    given = _core.AsItIs(whole, as_it_is)
    splits: tuple[Change, ...] = ()
    pieces: InPieces | None = None
    try:
        if "split" in ways:
            price, again = call_cost(graph, cost, call), byte_cost(graph, cost)
            in_pieces = _core.solve_split(graph, costs, storage, searching, *ways_of, price, again, max_pieces, given)
            found = in_pieces.fitted
            if in_pieces.splits:
                splits = splits_of(in_pieces.splits, in_pieces.whole)
                pieces = InPieces(in_pieces.whole, in_pieces.split, tuple(in_pieces.pieces))
        else:
            found = _core.solve_fit(graph, costs, _core.again_of(graph), storage, searching, *ways_of, given)
    except InfeasibleError as error:
        if error.plan is not None:
            changed, buffers, solution = cast(Any, error.plan)
            error.plan = Plan.of(solution, buffers.problem, changed, buffers, storage)
        tried, quick = error.capacity, _QUICK if planner == "auto" else planner

        def fits_in_pieces() -> bool | None:
            in_rows = with_options(storage, alignment=math.lcm(storage.alignment, _element(graph)))
            if _core.split_floor(graph, in_rows) > tried:
                return False
            found = _core.find_split(graph, costs, in_rows, tried, _WORK, byte_cost(graph, cost))
            return plan(found.graph, quick, **sharing_of(in_rows)).peak <= tried or None

        error.args = (advised(error, graph, storage, ways, fits_in_pieces, share), *error.args[1:])
        raise
    used = as_it_is if found.as_it_is else storage
    result = Plan.of(found.plan, found.buffers.problem, found.graph, found.buffers, used)
    changes = ((Change("order"),) if found.reordered else ()) + splits + changes_of(found.changes)
    fitting = Fitting(
        (*(_donations(result, asked.sharing.donate) if "donate" in ways else ()), *changes),
        result.peak if most is None else most,
        *(total, found.added_cost, found.cost_bound),
        unit=unit,
        load_bound=found.load_bound,
        least=most is None,
        share=share,
        split_order=pieces.order if pieces else (),
        pieces=pieces,
    )
    result = replace(result, source=read.source, notes=read.notes, scratch=read.above_results)
    return replace(result, fitting=fitting, capacity=most)


def donating(storage: _core.StorageOptions, names: Collection[str]) -> _core.StorageOptions:
    """The options, with more inputs whose bytes may be taken."""
    return with_options(storage, donate=list(dict.fromkeys([*storage.donate, *names])))


def with_options(storage: _core.StorageOptions, **options: Any) -> _core.StorageOptions:
    """The options, with others."""
    return _core.StorageOptions(**{**sharing_of(storage), **options})


def _element(graph: _core.Graph) -> int:
    """Bytes of the largest elements: rows may be any number of them, and elements begin at multiples of their size."""
    kinds = {tensor.dtype for tensor in graph.tensors if is_known(tensor.dtype)}
    return max((nbytes(kind, [1]) for kind in kinds), default=1)


def check_ways(
    allow: Collection[str] = USUAL,
    cost: Any = "auto",
    transfer: float | None = None,
    hidden: float = 0.0,
    call: float | None = None,
    max_pieces: int = 1024,
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
    check_costs(cost, transfer, hidden, "offload" in ways)
    if "split" not in ways and call is not None:
        raise ValueError("call needs 'split' among what allow holds")
    if call is not None:
        number(call, "call", math.inf)
    integer(max_pieces, "max_pieces", 2, 2**31 - 1)
    return ways


def call_cost(graph: _core.Graph, cost: str | Mapping[str, float], call: float | None) -> float:
    """What it costs to call a kernel once more, in the unit of the costs."""
    if call is not None:
        return call
    if cost == "profile":
        return _CALL_SECONDS
    return 0.0 if not isinstance(cost, str) or (cost == "auto" and _core.says_costs(graph)) else _CALL


class OpCosts(dict[str, float]):
    """Costs of ops by name, and of a byte."""

    def __init__(self, costs: Mapping[str, float], byte: float) -> None:
        super().__init__(costs)
        self.byte = byte


def byte_cost(graph: _core.Graph, cost: str | Mapping[str, float]) -> float:
    """What a byte costs that pieces read once more, such as those of a weight, in the unit of the costs."""
    if cost == "profile":
        return seconds_to_move()
    if isinstance(cost, OpCosts):
        return cost.byte
    return 0.0 if call_cost(graph, cost, None) == 0 else 1.0


def _donations(found: Plan, donated: Collection[str]) -> list[Change]:
    """The graph inputs whose bytes outputs have taken, besides those that were donated anyway."""
    assert found.graph is not None
    kinds = {tensor.name: tensor for tensor in found.graph.tensors}
    over = [shared.input for shared in found.sharing if shared.how == "inplace"]
    taken = dict.fromkeys(name for name in over if kinds[name].kind == "input")
    return [Change("donate", (name,), bytes=kinds[name].bytes) for name in taken if name not in donated]
