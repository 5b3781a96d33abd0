"""Bytes and names for people."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..sizes import format_bytes as format_bytes
from ..sizes import unit_of as unit_of
from ..sizes import with_bytes as with_bytes
from ..text import counted as counted
from ..text import printable

if TYPE_CHECKING:
    from ..facts.fitting import Fitting
    from ..facts.plan import Plan

SHARES = {
    "inplace": "in place of",
    "slice": "slice of",
    "concat": "part of",
}  # how the inner of a Sharing lies in the outer


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
    if capacity is None or plan.optimal or plan.peak > capacity or plan.memories is not None:
        return ""
    return f"within {format_bytes(capacity)}, where the search ended"


def planned_by(planner: str, order: str) -> str:
    """The planner of a plan, and the order of the ops where another than the given one was asked for."""
    return planner if order == "given" else f"{planner}, order {order}"


def percent(share: float | None) -> str:
    """A share with three digits; what is above 0 is never written as 0."""
    if share is None:
        return ""
    return "<0.001%" if 0 < share < 0.5e-5 else f"{share:,.3%}"


def tick(span: float) -> float:
    """A step of 1, 2, 4, … units, or a half, a quarter, …, that cuts `span` into 4 to 8 parts."""
    return float(2.0 ** math.floor(math.log2(span / 4)))


def shortened(name: str, most: int = 40) -> str:
    """The printable name in at most that many characters: its beginning, and its end, which tells layers apart."""
    line = printable(name)
    return line if len(line) <= most else f"{line[: most // 2 - 1]}…{line[most // 2 - most :]}"


def op_label(name: str, type: str) -> str:
    """An op: its name, and its type where the name does not say it: "conv1 (Conv)", "convolution_3"."""
    words = type.split("::")[-1].split(".")
    word = words[1] if words[0] in ("aten", "prims") and len(words) > 1 else words[-1]
    return name if not type or word.lower() in name.lower() else f"{name} ({type.removesuffix('.default')})"


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
