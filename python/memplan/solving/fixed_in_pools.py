"""Pins and reserved bytes of plans in several pools: in which pool they are, and where in the arena of all pools."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _core
from ..plans.plan import Plan
from ..plans.pools import Memories, Pool

Row = tuple[int, int, int, int, int]  # a pool by position, bytes [begin, end) of it, steps [first, last)
_ADDRESSES = 2**62


@dataclass(frozen=True)
class Fixed:
    """What is fixed: buffers by position, pools too."""

    pins: Sequence[tuple[int, int, int]] = ()  # buffer, pool, offset there
    reserved: Sequence[Row] = ()

    def __bool__(self) -> bool:
        return bool(self.pins or self.reserved)

    def asked(self, pools: Sequence[Pool], problem: _core.Problem) -> dict[str, Any]:
        """The same as options of `memplan.plan`, but for what pools say themselves."""
        own = sum(len(pool.reserved) for pool in pools)
        return {
            "pin": {problem.name(b): (pools[p].name, offset) for b, p, offset in self.pins},
            "reserved": [(pools[p].name, *row) for p, *row in self.reserved[: len(self.reserved) - own]],
        }


def unfixed(plan: Plan) -> _core.Graph | _core.Problem:
    """What a plan is of, without pins and reserved bytes."""
    if plan.graph is None:
        return plan.problem.with_pins(None, None)
    old = plan.graph.layout
    layout = _core.Layout(together=old.together, apart=old.apart, exclude=old.exclude)
    return _core.Graph(plan.graph.tensors, plan.graph.ops, plan.graph.outputs, layout)


def reserved_in(pools: Sequence[Pool], layout: _core.Layout) -> list[Row]:
    """What is reserved in each pool: what the pool says, and what is asked by its name."""
    if layout.reserved and len(pools) > 1:
        row = layout.reserved[0][:2]
        raise ValueError(
            f"reserved must say in which of the pools, as in ({pools[0].name!r}, {row[0]}, {row[1]}), got {row}"
        )
    rows = [(0, *row) for row in layout.reserved]
    rows += [(position_of(pools, pool, "reserved"), *row) for pool, *row in layout.pool_reserved]  # type: ignore[misc]
    return rows + [(p, *row) for p, pool in enumerate(pools) for row in pool.reserved]  # type: ignore[misc]


def pins_in(
    pools: Sequence[Pool], layout: _core.Layout, takes: Callable[[str], Sequence[bool]]
) -> Iterator[tuple[str, int, int]]:
    """Names with their pools and their offsets there; one that says no pool is in the only one that takes it."""
    for name, pool, offset in layout.pool_pins:
        yield name, position_of(pools, pool, f"pin[{name!r}]"), offset
    for name, offset in layout.pins:
        taken = [p for p, takes_it in enumerate(takes(name)) if takes_it]
        if len(taken) != 1:
            many = f"{len(taken)} pools take it" if taken else "no pool takes it"
            example = f"as in ({pools[0].name!r}, {offset})"
            raise ValueError(f"pin[{name!r}] must say in which of the pools, {example}, got {offset}: {many}")
        yield name, taken[0], offset


def position_of(pools: Sequence[Pool], name: str, where: str) -> int:
    """The position of a pool by its name."""
    names = [pool.name for pool in pools]
    if name not in names:
        raise ValueError(f"{where} names pool {name!r}, which is none of {', '.join(map(repr, names))}")
    return names.index(name)


def stacked_problem(problem: _core.Problem, fixed: Fixed, memories: Memories) -> _core.Problem:
    """The problem with what is fixed in pools as it is in the arena of all pools."""
    if not fixed:
        return problem
    begin = [memory.begin for memory in memories.values()]
    pins = np.full(len(problem), -1, dtype=np.int64)
    for b, p, offset in fixed.pins:
        pins[b] = begin[p] + offset
    return problem.with_pins(pins, _stacked(fixed.reserved, memories))


def _stacked(rows: Sequence[Row], memories: Memories) -> list[tuple[int, int, int, int]]:
    """Reserved bytes of the arena: of each pool, what is below its peak."""
    pools = list(memories.values())
    return [
        (pools[p].begin + low, pools[p].begin + min(high, pools[p].peak), first, last)
        for p, low, high, first, last in rows
        if low < pools[p].peak
    ]


class SpreadOut:
    """A graph whose pools are far apart in one arena, so that pins in different pools are in different places.

    Which tensors share bytes by choice depends on what is pinned where.
    """

    def __init__(
        self, pools: Sequence[Pool], graph: _core.Graph, takes: Callable[[str], Sequence[bool]], alignment: int
    ) -> None:
        self._pools, layout = pools, graph.layout
        self.reserved = reserved_in(pools, layout)
        self._span = _ADDRESSES // len(pools) // alignment * alignment
        pins = []
        for name, p, offset in pins_in(pools, layout, takes):
            if offset >= self._span:
                raise ValueError(f"pin[{name!r}] must be below {self._span} in plans in several pools, got {offset}")
            pins.append((name, p * self._span + offset))
        self.is_fixed = bool(pins or self.reserved)
        self.graph = graph if not self.is_fixed else self._with(graph, pins, self._ranges())

    def _with(
        self, graph: _core.Graph, pins: Sequence[tuple[str, int]], reserved: Sequence[tuple[int, int, int, int]]
    ) -> _core.Graph:
        old = graph.layout
        layout = _core.Layout(pins, reserved, old.together, old.apart, old.exclude)
        return _core.Graph(graph.tensors, graph.ops, graph.outputs, layout)

    def _ranges(self) -> list[tuple[int, int, int, int]]:
        span = self._span
        return [
            (p * span + low, p * span + min(high, span), first, last)
            for p, low, high, first, last in self.reserved
            if low < span
        ]

    def buffers(self, graph: _core.Graph, storage: _core.StorageOptions) -> tuple[_core.Buffers, _core.Problem, Fixed]:
        """The buffers of the graph spread out, which may be in another order; their problem, and what is fixed."""
        try:
            buffers = _core.buffers_of(graph, storage)
        except (_core.ProblemError, _core.GraphError):
            self._check_each(graph, storage)
            raise
        problem = buffers.problem
        if not self.is_fixed:
            return buffers, problem, Fixed()
        pins = [] if problem.pins is None else problem.pins.tolist()
        rows = [(b, *divmod(pin, self._span)) for b, pin in enumerate(pins) if pin >= 0]
        return buffers, problem.with_pins(None, None), Fixed(rows, self.reserved)

    def _check_each(self, graph: _core.Graph, storage: _core.StorageOptions) -> None:
        """Raises what is wrong in one pool, at offsets there."""
        for p, pool in enumerate(self._pools):
            pins = [(name, at % self._span) for name, at in graph.layout.pins if at // self._span == p]
            alone = self._with(graph, pins, [row for q, *row in self.reserved if q == p])  # type: ignore[misc]
            try:
                _core.buffers_of(alone, storage)
            except (_core.ProblemError, _core.GraphError) as error:
                raise type(error)(f"pool {pool.name!r}: {error}") from None

    def stacked(self, graph: _core.Graph, memories: Memories) -> _core.Graph:
        """The graph with what is fixed as it is in the arena of a plan."""
        if not self.is_fixed:
            return graph
        begin = [memory.begin for memory in memories.values()]
        pins = [(name, begin[at // self._span] + at % self._span) for name, at in graph.layout.pins]
        return self._with(graph, pins, _stacked(self.reserved, memories))
