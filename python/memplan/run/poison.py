"""When the bytes of an arena go bad: what a plan needs no more is overwritten, so that a wrong lifetime is seen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..facts.dataflow import Dataflow

if TYPE_CHECKING:
    from ..facts.plan import Plan

POISON = 0xFF  # NaN as a float of any width, -1 as an integer

Ranges = list[tuple[int, int]]
"""Bytes [begin, end) of an arena."""


def deaths(plan: Plan) -> dict[int, Ranges]:
    """Per step, the bytes that the plan needs no more from that step on, when ops run in the order of the graph.

    The lifetimes are those of the plan's problem. Bytes of a shaped buffer that are needed again, or still, are none.
    """
    problem, dying = plan.problem, defaultdict[int, Ranges](list)
    used = _rectangles(plan)
    for b, offset in enumerate(plan.offsets.tolist()):
        for last in {last for _, _, _, last in used[b]}:
            ended = [(begin, end) for begin, end, _, until in used[b] if until == last]
            needed = [(begin, end) for begin, end, first, until in used[b] if first <= last < until]
            dying[last] += [(offset + begin, offset + end) for begin, end in _without(ended, needed)]
    assert len(problem) == len(used)
    return dict(dying)


def deaths_in_order(plan: Plan, order: Sequence[int]) -> dict[int, Ranges]:
    """Per place in an order of the ops, the bytes of the buffers that no op touches from that place on.

    Several streams have no steps in common, so here a buffer dies as a whole, after the last op that uses it.
    """
    flow = Dataflow(plan)
    place = {step: k for k, step in enumerate(order)}
    kept = {flow.buffer[t] for t in flow.kept}
    end = {b: place[step] + 1 for b, step in flow.op_of_workspace.items()}
    for t, buffer in enumerate(flow.buffer):
        last = max((place[step] + 1 for step in flow.uses[t]), default=0)
        end[buffer] = max(end.get(buffer, 0), last)
    dying = defaultdict[int, Ranges](list)
    for b in end.keys() - kept - {-1}:
        offset = int(plan.offsets[b])
        dying[end[b]].append((offset, offset + int(plan.problem.size[b])))
    return dict(dying)


def _rectangles(plan: Plan) -> list[list[tuple[int, int, int, int]]]:
    """Per buffer, its bytes [begin, end) in use in the steps [first, last)."""
    problem = plan.problem
    columns = (problem.size.tolist(), problem.first.tolist(), problem.last.tolist())
    used = [[(0, size, first, last)] for size, first, last in zip(*columns, strict=True)]
    if problem.parts is not None:
        shaped: dict[int, list[tuple[int, int, int, int]]] = {}
        for b, begin, end, first, last in problem.parts.tolist():
            shaped.setdefault(b, []).append((begin, end, first, last))
        for b, parts in shaped.items():
            used[b] = parts
    return used


def _without(ranges: Iterable[tuple[int, int]], holes: Iterable[tuple[int, int]]) -> Ranges:
    """What is left of ranges once the holes are taken out."""
    left = list(ranges)
    for begin, end in holes:
        left = [part for a, b in left for part in ((a, min(b, begin)), (max(a, end), b)) if part[0] < part[1]]
    return left
