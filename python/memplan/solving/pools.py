"""From a problem or a graph to a plan in several pools of memory."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import GraphError
from ..inplace_ops import matches
from ..kinds import KINDS, kind_of
from ..options.accesses import accessed_of, counts_of_problem
from ..options.layouts import Asked, layout_of_problem, left_of, problem_with, workspace_name
from ..planning.registry import plan_pools
from ..plans.failing import invalid_plan
from ..plans.plan import Plan
from ..plans.pools import (
    Ints,
    Memories,
    Memory,
    Pool,
    exact,
    number,
)
from ..text import offer
from .fixed_in_pools import Fixed, SpreadOut, pins_in, reserved_in, stacked_problem
from .solver import Solver

_MOST_PARTS = 10**9  # of a unit of cost


@dataclass(frozen=True)
class Pools:
    """Pools, and how often buffers are accessed: what `memplan.plan` is given, checked."""

    pools: tuple[Pool, ...]
    accesses: Mapping[str, int] | Sequence[int] | None = None

    def problem(self, solver: Solver, problem: _core.Problem, asked: Asked) -> Plan:
        """The plan of a problem, of which this is asked besides."""
        problem, asked = left_of(problem, asked)
        takes = np.stack([_takes_of_problem(pool, problem) for pool in self.pools], axis=1)
        counts = counts_of_problem(problem, self.accesses)
        accessed = [count * size for count, size in zip(counts, problem.size.tolist(), strict=True)]
        _check_names(self.pools, problem)
        problem, fixed = self._fixed(problem, asked, takes)
        return self._plan(solver, problem, accessed, takes, fixed)

    def _fixed(self, problem: _core.Problem, asked: Asked, takes: npt.NDArray[np.bool_]) -> tuple[_core.Problem, Fixed]:
        """The problem without pins and reserved bytes, and these as they are in pools."""
        new = layout_of_problem(problem, asked)
        pins = [] if problem.pins is None else problem.pins.tolist()
        reserved = [] if problem.reserved is None else problem.reserved.tolist()
        pinned = {name for name, _ in new.pins} | {name for name, *_ in new.pool_pins}
        own = [(problem.name(b), pin) for b, pin in enumerate(pins) if pin >= 0 and problem.name(b) not in pinned]
        fixed = _core.Layout(
            own + new.pins,
            [tuple(row) for row in reserved] + new.reserved,
            pool_pins=new.pool_pins,
            pool_reserved=new.pool_reserved,
        )
        anything = fixed.pins or fixed.pool_pins
        position = {problem.name(b): b for b in range(len(problem))} if anything else {}
        rows = [
            (position[name], p, at) for name, p, at in pins_in(self.pools, fixed, lambda name: takes[position[name]])
        ]
        plain = problem_with(problem.with_pins(None, None), _core.Layout(together=new.together, apart=new.apart))
        return plain, Fixed(rows, reserved_in(self.pools, fixed))

    def graph(self, solver: Solver, graph: _core.Graph, storage: _core.StorageOptions, order: str = "given") -> Plan:
        """The plan of a graph, its ops in the order of a rule or search; "best" never costs more than given."""
        _check_terms(self.pools, graph)
        terms = {names[-1]: (names, type_) for names, type_ in _terms(graph)}
        arena = SpreadOut(
            self.pools, graph, lambda name: [_accepts(pool, *terms[name]) for pool in self.pools], storage.alignment
        )
        graph = arena.graph
        if order == "given":
            return self._in_given(solver, graph, storage, arena)
        found = _core.order_of(graph, order, storage, time_limit=solver.time_limit, tell=solver.on_order)
        plan = self._in_given(solver, found.graph or graph, storage, arena)
        if order.partition(":")[0] == "best":
            plan = min(
                plan, self._in_given(solver, graph, storage, arena), key=lambda it: (_memories(it).cost, it.peak)
            )
        interrupted = plan.interrupted or found.interrupted
        return replace(plan, ordered_by=order, proven_of_orders=found.bound, interrupted=interrupted)

    def _in_given(self, solver: Solver, graph: _core.Graph, storage: _core.StorageOptions, arena: SpreadOut) -> Plan:
        """The plan of a graph: with tensors sharing bytes or without, whichever costs less."""
        apart = _core.StorageOptions(
            storage.place, storage.alignment, False, storage.disable_inplace_ops, storage.donate, False
        )
        found = [self._of_sharing(solver, graph, storage, arena)]
        if arena.buffers(graph, storage)[0].shared:
            found.append(self._of_sharing(solver, graph, apart, arena))
        plans = [plan for plan in found if isinstance(plan, Plan)]
        if not plans:
            raise next(error for error in found[::-1] if isinstance(error, Exception))
        bound = _core.sharing_bound(graph, storage)
        best = min(plans, key=lambda plan: (_memories(plan).cost, plan.peak))
        seconds = sum(plan.seconds for plan in plans)
        return replace(best, storage=storage, lower_bound=bound, optimal=best.peak == bound, seconds=seconds)

    def _of_sharing(
        self, solver: Solver, graph: _core.Graph, storage: _core.StorageOptions, arena: SpreadOut
    ) -> Plan | ValueError:
        """The plan for one choice of tensors that share bytes; an error where no pool takes a buffer of it."""
        buffers, problem, fixed = arena.buffers(graph, storage)
        takes, accessed = _takes_of_graph(self.pools, graph, buffers), accessed_of(graph, buffers, self.accesses)
        try:
            plan = self._plan(solver, problem, accessed, takes, fixed)
        except ValueError as error:
            return error
        if fixed:
            graph = arena.stacked(graph, _memories(plan))
            buffers = _core.buffers_of(graph, storage)
        plan = replace(
            plan, problem=buffers.problem, graph=graph, buffers=buffers, storage=storage, unshared=buffers.unshared
        )
        plan.verify()
        return plan

    def _plan(
        self,
        solver: Solver,
        problem: _core.Problem,
        accessed: list[int],
        takes: npt.NDArray[np.bool_],
        fixed: Fixed,
    ) -> Plan:
        """The plan of a problem, in which this is fixed."""
        _check_pinned(self.pools, problem, takes, fixed)
        _check_taken(self.pools, problem, takes)
        _check_bases(self.pools, problem, takes)
        costs = [exact(cost) for cost in _costs(self.pools)]
        parts = math.lcm(*(cost.denominator for cost in costs))
        table = _table(problem, accessed, takes, [int(cost * parts) for cost in costs])
        rows = [(pool.name, _capacity(pool), int(pool.alignment)) for pool in self.pools]
        options = (solver.time_limit, solver.seed, solver.threads, fixed.pins, fixed.reserved)
        found = plan_pools(problem, rows, table, solver.planner, *options)
        memories, offsets = _stacked(self, problem, found, accessed, takes, Fraction(found.cost_bound, parts), fixed)
        peak, bound = int((offsets + problem.size).max(initial=0)), problem.load
        plan = Plan(
            problem=stacked_problem(problem, fixed, memories),
            offsets=offsets,
            peak=peak,
            lower_bound=bound,
            optimal=peak == bound,
            planner=found.plans[0].planner,
            winner=", ".join(dict.fromkeys(part.winner for part in found.plans)),
            seconds=found.seconds,
            interrupted=found.interrupted,
            found_after=found.seconds,
            source=solver.source,
            memories=memories,
        )
        plan.verify()
        if memories.cost < memories.cost_bound:
            raise invalid_plan(f"the plan, which costs {memories.cost}, less than the bound {memories.cost_bound},", [])
        return plan


def pools_of(pools: Any, accesses: Any) -> Pools:
    """What was given as pools, checked; see `memplan.plan`."""
    if isinstance(pools, (str, Pool)) or not isinstance(pools, Collection) or not pools:
        raise TypeError(f"pools must be a list of memplan.Pool, got {pools!r}")
    for pool in pools:
        if not isinstance(pool, Pool):
            raise TypeError(f"pools must hold memplan.Pool, got {pool!r}")
    names = [pool.name for pool in pools]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"pools must have different names, got {name!r} {names.count(name)} times")
    priced = [pool.name for pool in pools if pool.cost is not None]
    if priced and len(priced) < len(names):
        free = next(name for name in names if name not in priced)
        raise ValueError(f"pools must all have a cost, or none: pool {priced[0]!r} has one, and {free!r} has none")
    for pool in pools:
        if pool.cost is not None and exact(pool.cost).denominator > _MOST_PARTS:
            raise ValueError(f"pool {pool.name!r}: cost must have at most nine decimals, got {pool.cost!r}")
    if accesses is not None and isinstance(accesses, (str, bytes)):
        raise TypeError(f"accesses must be counts by name, or one per buffer, got {accesses!r}")
    return Pools(tuple(pools), accesses)


def _memories(plan: Plan) -> Memories:
    assert plan.memories is not None
    return plan.memories


def _capacity(pool: Pool) -> int | None:
    return None if pool.capacity is None else int(pool.capacity)


def _costs(pools: Sequence[Pool]) -> list[float]:
    return [k if pool.cost is None else pool.cost for k, pool in enumerate(pools)]


def _table(
    problem: _core.Problem, accessed: list[int], takes: npt.NDArray[np.bool_], costs: list[int]
) -> npt.NDArray[np.int64]:
    """Cost per buffer and pool; -1 where the pool does not take the buffer."""
    if sum(accessed) * max(costs, default=0) >= 2**63:
        raise ValueError("costs of pools are too large: bytes accessed x cost must add up to less than 2**63")
    table = np.outer(np.array(accessed, dtype=np.int64), np.array(costs, dtype=np.int64))
    return np.where(takes, table, -1).ravel()


def _stacked(
    asked: Pools,
    problem: _core.Problem,
    found: _core.PlanInPools,
    accessed: list[int],
    takes: npt.NDArray[np.bool_],
    bound: Fraction,
    fixed: Fixed,
) -> tuple[Memories, Ints]:
    """Pools as ranges of one arena, one behind the other, and where buffers lie in it."""
    of_buffer = found.pool.astype(np.int64)
    offsets = np.zeros(len(problem), dtype=np.int64)
    bytes_ = np.array(accessed, dtype=object)
    memories, end = [], 0
    for p, (pool, part, cost) in enumerate(zip(asked.pools, found.plans, _costs(asked.pools), strict=True)):
        inside = of_buffer == p
        unit = math.lcm(int(pool.alignment), *np.unique(problem.alignment[inside]).tolist())
        begin = -(-end // unit) * unit
        offsets[inside] = begin + part.offsets
        end = begin + part.peak
        memories.append(
            Memory(
                name=pool.name,
                capacity=_capacity(pool),
                alignment=int(pool.alignment),
                base=int(pool.base),
                cost_per_byte=cost,
                begin=begin,
                peak=part.peak,
                lower_bound=part.lower_bound,
                buffers=int(inside.sum()),
                accessed=int(bytes_[inside].sum()),
            )
        )
    offsets.flags.writeable = False
    again = fixed.asked(asked.pools, problem)
    return Memories(memories, of_buffer, number(bound), takes, asked.pools, asked.accesses, accessed, again), offsets


# What pools take


def _check_names(pools: Sequence[Pool], problem: _core.Problem) -> None:
    named = any(isinstance(item, str) for pool in pools for item in pool.accepts or ())
    names = dict.fromkeys(problem.name(b) for b in range(len(problem))) if named else {}
    for pool in pools:
        for item in pool.accepts or ():
            if isinstance(item, str) and item not in names:
                near = offer(item, list(names), "buffers")
                raise ValueError(f"pool {pool.name!r}: accepts must name buffers of the problem, got {item!r}; {near}")
            if isinstance(item, int) and not 0 <= item < len(problem):
                raise ValueError(f"pool {pool.name!r}: accepts must hold 0 to {len(problem) - 1}, got {item}")


def _takes_of_problem(pool: Pool, problem: _core.Problem) -> npt.NDArray[np.bool_]:
    """Per buffer."""
    if pool.accepts is None:
        return np.ones(len(problem), dtype=np.bool_)
    taken = [b in pool.accepts or problem.name(b) in pool.accepts for b in range(len(problem))]
    return np.array(taken, dtype=np.bool_)


def _check_terms(pools: Sequence[Pool], graph: _core.Graph) -> None:
    types, names = {op.type for op in graph.ops}, {tensor.name for tensor in graph.tensors}
    names |= {f"{op.name}.workspace" for op in graph.ops}
    for pool in pools:
        for item in pool.accepts or ():
            if not isinstance(item, str):
                raise TypeError(f"pool {pool.name!r}: accepts must hold kinds, types of ops and names, got {item!r}")
            if item not in KINDS and item not in names and not any(matches(of, [item]) for of in types):
                near = offer(item, sorted({*KINDS, *types, *names}), "kinds, types and names")
                raise GraphError(
                    f"pool {pool.name!r}: accepts must hold kinds, types of ops and names of the graph, got {item!r}; "
                    f"{near}"
                )


def _terms(graph: _core.Graph) -> list[tuple[tuple[str, str], str | None]]:
    """Per tensor, then per op with its workspace: its kind and its name, and the type of the op that makes it."""
    returned = set(graph.outputs)
    maker = {name: op.type for op in graph.ops for name in op.outputs}
    tensors = [((kind_of(tensor, returned), tensor.name), maker.get(tensor.name)) for tensor in graph.tensors]
    taken = {tensor.name for tensor in graph.tensors}
    return tensors + [(("workspace", workspace_name(op, taken)), op.type) for op in graph.ops]


def _accepts(pool: Pool, names: tuple[str, str], type_: str | None) -> bool:
    if pool.accepts is None or any(name in pool.accepts for name in names):
        return True
    return type_ is not None and matches(type_, [str(item) for item in pool.accepts])


def _takes_of_graph(pools: Sequence[Pool], graph: _core.Graph, buffers: _core.Buffers) -> npt.NDArray[np.bool_]:
    """Per buffer and pool: whether the pool takes all tensors in it."""
    takes = np.ones((len(buffers.problem), len(pools)), dtype=np.bool_)
    places = [*buffers.buffer_of_tensor.tolist(), *buffers.buffer_of_workspace.tolist()]
    for b, term in zip(places, _terms(graph), strict=True):
        for p, pool in enumerate(pools):
            if b >= 0 and not _accepts(pool, *term):
                takes[b, p] = False
    return takes


def _check_pinned(pools: Sequence[Pool], problem: _core.Problem, takes: npt.NDArray[np.bool_], fixed: Fixed) -> None:
    for b, p, _ in fixed.pins:
        if not takes[b, p]:
            raise ValueError(f"pin[{problem.name(b)!r}] names pool {pools[p].name!r}, which does not take it")


def _check_taken(pools: Sequence[Pool], problem: _core.Problem, takes: npt.NDArray[np.bool_]) -> None:
    alone = np.flatnonzero(~takes.any(axis=1))
    if len(alone):
        listed = ", ".join(repr(problem.name(int(b))) for b in alone[:5])
        more = f" and {len(alone) - 5} more" if len(alone) > 5 else ""
        names = ", ".join(repr(pool.name) for pool in pools)
        raise ValueError(f"none of the pools {names} accepts {listed}{more}")


def _check_bases(pools: Sequence[Pool], problem: _core.Problem, takes: npt.NDArray[np.bool_]) -> None:
    for p, pool in enumerate(pools):
        for b in np.flatnonzero(takes[:, p] & (int(pool.base) % problem.alignment != 0))[:1]:
            raise ValueError(
                f"pool {pool.name!r}: base must be a multiple of the alignment {problem.alignment[b]} of buffer "
                f"{problem.name(int(b))!r}, got {pool.base}"
            )
