"""The pools of a plan for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..printing.tables import Table
from ..printing.units import counted, format_bytes, percent

if TYPE_CHECKING:
    from .plan import Plan
    from .pools import PlannedPools
    from .slots import Slot

_NAMED = 3


def pools_table(pools: PlannedPools) -> Table:
    """A row per pool: what it holds, how good that is, and what it costs."""
    rows = tuple(
        (
            pool.name,
            "" if pool.capacity is None else format_bytes(pool.capacity),
            format_bytes(pool.peak),
            "optimal" if pool.optimal else percent(pool.gap),
            f"{pool.buffers:,}",
            format_bytes(pool.accessed),
            f"{pool.cost:,}",
        )
        for pool in pools.values()
    )
    header = ("pool", "capacity", "peak", "gap", "buffers", "accessed", "cost")
    return Table(f"{len(pools)} pools", header, rows, frozenset(header[1:]), (cost_text(pools),), {"pool": None})


def costs_table(plan: Plan, most: int) -> Table:
    """The buffers whose accesses cost most, and the cost of the others."""
    pools = plan.pools
    costs = {} if pools is None else pools.costs()
    total = sum(costs.values())
    rows = tuple(_cost_row(plan[b], cost, total) for b, cost in list(costs.items())[:most])
    rest = list(costs.values())[most:]
    notes = (f"and {len(rest):,} more: {sum(rest):,}, {percent(sum(rest) / total)}",) if rest else ()
    header = ("tensor" if plan.graph is not None else "buffer", "pool", "size", "steps", "cost", "of all")
    return Table("What costs most", header, rows, frozenset(header[2:]), notes, {header[0]: 44})


def _cost_row(slot: Slot, cost: float, total: float) -> tuple[str, ...]:
    steps = f"{slot.first}-{slot.last - 1}"
    return slot.name, slot.pool, format_bytes(slot.bytes), steps, f"{cost:,}", f"{cost / total:.1%}"


def pools_sentences(plan: Plan, things: str) -> list[str]:
    """How full the pools are, what accesses cost, and which buffers make that cost."""
    pools = plan.pools
    assert pools is not None
    full = [
        f"{pool.name} holds {format_bytes(pool.peak)}"
        + ("" if pool.capacity is None else f" of {format_bytes(pool.capacity)}")
        for pool in pools.values()
    ]
    said = [f"{'; '.join(full)}. All accesses: {cost_text(pools)}."]
    costs = pools.costs()
    if costs:
        total = sum(costs.values())
        largest = [f"{plan[b].name} in {plan[b].pool} ({cost / total:.1%})" for b, cost in list(costs.items())[:_NAMED]]
        said.append(f"{counted(len(costs), things)} cost something; the largest: {', '.join(largest)}.")
    return said


def cost_text(pools: PlannedPools) -> str:
    """What all accesses cost, and what is proven of it."""
    if pools.cost_optimal:
        return f"cost {pools.cost:,}, proven to be the least"
    return f"cost {pools.cost:,}, of which {pools.cost_bound:,} are proven to be needed"
