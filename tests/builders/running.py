"""What the tests of runtimes share: plans placed at random, orders drawn at random, and lifetimes made wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import memplan
from memplan import _core


def random_plan(plan: memplan.Plan, seed: int) -> memplan.Plan:
    """The same buffers at other offsets: in random order, each somewhere between or above those placed before."""
    chance, problem = np.random.default_rng(seed), plan.problem
    size, offsets = problem.size, np.zeros(len(problem), np.int64)
    pairs = set() if problem.conflicts is None else {frozenset(pair) for pair in problem.conflicts.tolist()}
    placed: list[int] = []
    for b in chance.permutation(len(problem)).tolist():
        together = (problem.first < problem.last[b]) & (problem.first[b] < problem.last)
        others = [o for o in placed if together[o] or frozenset((b, o)) in pairs]
        taken = sorted((int(offsets[o]), int(offsets[o] + size[o])) for o in others if size[o] > 0)
        offsets[b] = chance.choice(_free(taken, int(size[b]), int(problem.alignment[b])))
        placed.append(b)
    offsets.flags.writeable = False
    peak = int((offsets + size).max(initial=0))
    moved = replace(plan, offsets=offsets, peak=peak, optimal=False, planner=f"random:{seed}")
    moved.verify()
    return moved


def _free(taken: list[tuple[int, int]], size: int, step: int) -> list[int]:
    """Where a buffer fits between taken ranges, sorted, and above them."""
    free, end = [], 0
    for begin, until in taken:
        start = -(-end // step) * step
        if start + size <= begin:
            free.append(start)
        end = max(end, until)
    return [*free, -(-end // step) * step]


def random_order(plan: memplan.Plan, seed: int) -> list[int]:
    """An order of the ops that data, `after`, streams and the plan's reuse edges allow."""
    assert plan.graph is not None
    chance, ops = np.random.default_rng(seed), plan.graph.ops
    happens, position = _core.HappensBefore(plan.graph), {op.name: k for k, op in enumerate(ops)}
    before = [{a for a in range(k) if happens.before(a, k)} for k in range(len(ops))]
    for first, then in plan.reuse_edges():
        before[position[then]].add(position[first])
    order: list[int] = []
    while len(order) < len(ops):
        ready = [k for k in range(len(ops)) if k not in order and before[k] <= set(order)]
        order.append(int(chance.choice(ready)))
    return order


def shuffled(graph: memplan.Graph, seed: int) -> memplan.Graph:
    """The graph with its ops in a random order that data and `after` allow."""
    chance, ops = np.random.default_rng(seed), graph.ops
    maker = {output: k for k, op in enumerate(ops) for output in op.outputs}
    position = {op.name: k for k, op in enumerate(ops)}
    before = [{maker[name] for name in op.inputs if name in maker} | {position[a] for a in op.after} for op in ops]
    order: list[int] = []
    left = set(range(len(ops)))
    while left:
        order.append(int(chance.choice([k for k in sorted(left) if not before[k] & left])))
        left.remove(order[-1])
    return _core.reordered(graph, order)


def on_streams(graph: memplan.Graph, streams: int, seed: int) -> memplan.Graph:
    """The graph with its ops spread over several streams at random."""
    chance, spec = np.random.default_rng(seed), graph.to_dict()
    for op in spec["ops"]:
        op["stream"] = int(chance.integers(streams))
    spread = memplan.capture(spec).graph
    assert isinstance(spread, memplan.Graph)
    return spread


def shortened(plan: memplan.Plan, buffer: int) -> memplan.Plan:
    """The plan of a problem in which one buffer dies a step too early, wherever that puts the others."""
    problem, last = plan.problem, plan.problem.last.copy()
    last[buffer] -= 1
    parts = problem.parts
    if parts is not None:
        parts = parts.copy()
        parts[:, 4] = np.where(parts[:, 0] == buffer, np.minimum(parts[:, 4], last[buffer]), parts[:, 4])
        parts = parts[parts[:, 3] < parts[:, 4]]
    wrong = _core.Problem(
        problem.size, problem.first, last, problem.alignment, problem.names or None, parts, problem.conflicts
    )
    offsets = memplan.plan(wrong, "first_fit").offsets
    peak = int((offsets + problem.size).max(initial=0))
    return replace(plan, problem=wrong, offsets=offsets, peak=peak)
