"""What is said of a plan in a few words: how good it is, by whom, and what it gave up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..printing.units import counted, format_bytes, gap_text
from .pools_text import cost_text

if TYPE_CHECKING:
    from .changes import Fitting
    from .plan import Plan

SHARES = {
    "inplace": "in place of",
    "slice": "slice of",
    "concat": "part of",
}  # how the inner of a Coalescing lies in the outer


def optimal(plan: Plan) -> str:
    """What the peak of a plan is if it equals its lower bound, which holds for one order of a graph's ops.

    All orders are looked at only if another than the given one was asked for: it takes a while.
    """
    if not plan.order:
        return "optimal"
    return f"optimal in {'any' if plan.ordered_by != 'given' and plan.order_optimal else 'this'} order"


def enough(plan: Plan) -> str:
    """That the search ended as soon as a plan was within what was asked for; empty for other plans."""
    capacity = plan.capacity
    if capacity is None and plan.fitting is not None and not plan.fitting.least:
        capacity = plan.fitting.capacity
    if capacity is None or plan.optimal or plan.peak > capacity or plan.pools is not None:
        return ""
    return f"within {format_bytes(capacity)}, where the search ended"


def state(plan: Plan) -> str:
    """How good the peak of a plan is: optimal, within what was asked for, or its gap."""
    return optimal(plan) if plan.optimal else enough(plan) or gap_text(plan.peak, plan.lower_bound)


def planned_by(planner: str, order: str) -> str:
    """The planner of a plan, and the order of the ops where another than the given one was asked for."""
    return planner if order == "given" else f"{planner}, order {order}"


def title_of(plan: Plan, separator: str = ", ") -> str:
    """What stands above a picture: who planned it, how many buffers in how many bytes, and how good that is."""
    where, good = format_bytes(plan.peak), state(plan)
    if plan.pools is not None:
        where, good = counted(len(plan.pools), "pools"), cost_text(plan.pools)
    return f"{planned_by(plan.planner, plan.ordered_by)}: {len(plan):,} buffers in {where}{separator}{good}"


def changes_text(fitting: Fitting) -> str:
    """What was given up to fit, and what that costs of the whole."""
    if not fitting.changes:
        return "nothing is given up"
    total = fitting.cost or 1.0
    many = counted(len(fitting.changes), "changes")
    added = f"{fitting.added_cost / total:.2%} of the cost added"
    if fitting.unit:
        added += f" ({fitting.added_cost:.3g} {fitting.unit})"
    return f"{many}, {added}, {fitting.cost_bound / total:.2%} at least"
