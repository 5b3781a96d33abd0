"""Which bytes of an arena are dead when, as a plan has it: what a checked run fills with garbage."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import reduce

from ..plans.dataflow import Dataflow
from ..plans.plan import Plan
from ..plans.usage import Span, cut, rectangles

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


def deaths_in_order(plan: Plan, order: Sequence[int]) -> dict[int, list[Span]]:
    """The bytes of the arena that die at each place of an order of the ops: no op from there on uses them.

    Several streams have no steps in common, so a buffer dies as a whole here, after the last op that uses it.
    """
    flow, place = Dataflow(plan), {step: k for k, step in enumerate(order)}
    end = {b: place[step] + 1 for b, step in flow.step_of_workspace.items()}
    for tensor, buffer in enumerate(flow.buffer):
        last = max((place[step] + 1 for step in flow.uses[tensor]), default=0)
        end[buffer] = max(end.get(buffer, 0), last)
    dead: dict[int, list[Span]] = defaultdict(list)
    for b in end.keys() - {flow.buffer[t] for t in flow.kept} - {-1}:
        offset = int(plan.offsets[b])
        dead[end[b]].append((offset, offset + int(plan.problem.size[b])))
    return dict(dead)
