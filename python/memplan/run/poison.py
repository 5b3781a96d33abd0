"""Which bytes of an arena are dead when, as a plan has it: what a checked run fills with garbage."""

from __future__ import annotations

from collections import defaultdict
from functools import reduce
from typing import TYPE_CHECKING

from ..facts.usage import Span, cut, rectangles

if TYPE_CHECKING:
    from ..facts.plan import Plan

GARBAGE = 0xFF  # in every byte: NaN for all floating dtypes of IEEE 754, -1 for signed integers


def deaths(plan: Plan) -> dict[int, list[Span]]:
    """The bytes [begin, end) of the arena that die at each step: nothing reads them from the op of this step on."""
    offsets = plan.offsets.tolist()
    dead: dict[int, list[Span]] = defaultdict(list)
    parts: dict[int, list[list[int]]] = defaultdict(list)
    for buffer, *part in rectangles(plan.problem).tolist():
        parts[buffer].append(part)
    for buffer, own in parts.items():
        for begin, end, _, last in own:
            used = [(b, e) for b, e, first, until in own if first <= last < until]
            base = offsets[buffer]
            dead[last] += [(base + b, base + e) for b, e in reduce(cut, used, [(begin, end)])]
    return dict(dead)
