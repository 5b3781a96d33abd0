"""Plans of networks with ops in pieces, by chance: any region that can be split, in any number of pieces."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import memplan
from memplan import _core
from memplan.plans.changes import Change, Fitting, InPieces

REFUSED = "cannot be split: it|needs what a region makes, and makes what"
Region = tuple[list[tuple[int, int | None, bool]], int]
Leaving = tuple[list[tuple[int, int | None, bool]], int, bool]


def in_random_pieces(
    plan: memplan.Plan, chance: random.Random, regions: int = 3, ops: int = 6, whole: float = 0.0
) -> memplan.Plan | None:
    """The plan of the same network with random regions in pieces; None where nothing was found that can be split.

    `whole` is how many of the ops with loops run whole, besides those that have none; 0: no ops do.
    """
    graph = plan.graph
    assert graph is not None
    chosen: list[Region] = []
    for _ in range(regions):
        taken = {op for region, _ in chosen for op, _, _ in region}
        found = _region(graph, chance, taken, chosen, chance.randint(1, ops), whole)
        if found is not None:
            chosen.append(found)
    if not chosen:
        return None
    regions = [(*region, k % 2 == 0) for k, region in enumerate(chosen)]  # some leave blocks
    return _in_pieces(plan, regions, chance.choice(("first_fit", "greedy_by_size")), chance.choice((16, 64)))


def in_blocks(plan: memplan.Plan, axis: int, chance: random.Random) -> memplan.Plan | None:
    """The plan of the same network with its ops in pieces along an axis, in random regions that leave blocks."""
    graph = plan.graph
    assert graph is not None
    runs: list[list[tuple[int, int | None, bool]]] = [[]]
    for k, op in enumerate(graph.ops):
        loop = next((n for n, one in enumerate(op.loops) if any(at[1] == axis for at in one.writes)), None)
        if loop is None or (runs[-1] and chance.random() < 0.4):
            runs.append([])
        if loop is not None:
            runs[-1].append((k, loop, False))
    regions = [(run, chance.randint(2, 7), True) for run in runs if run]
    try:
        return _in_pieces(plan, regions, "greedy_by_size", 16)
    except memplan.errors.GraphError as error:
        if not re.search(REFUSED, str(error)):
            raise
        return None


def _in_pieces(plan: memplan.Plan, regions: list[Leaving], planner: str, alignment: int) -> memplan.Plan:
    graph = plan.graph
    assert graph is not None
    split = _core.split(graph, regions)
    made = memplan.plan(split.graph, planner, alignment=alignment)
    pieces = InPieces(graph, split.graph, tuple(split.pieces))
    changes = tuple(Change("split", (), (), "", "", 0, 0.0, count, 0) for _, count, _ in regions)
    return replace(made, source=plan.source, fitting=Fitting(changes, pieces=pieces))


def _region(
    graph: _core.Graph, chance: random.Random, taken: set[int], chosen: list[Region], most: int, whole: float
) -> Region | None:
    ops = graph.ops
    can = [k for k, op in enumerate(ops) if op.loops and k not in taken]
    if not can:
        return None
    first = chance.choice(can)
    loop = chance.randrange(len(ops[first].loops))
    pieces = chance.randint(2, max(2, min(6, ops[first].loops[loop].extent)))
    region: dict[int, tuple[int | None, bool]] = {first: (loop, False)}
    if not _works(graph, chosen, region, pieces):
        return None
    for _ in range(3 * most):
        near = _beside(ops, region, {k for k in range(len(ops)) if k not in taken} if whole else set(can))
        if len(region) >= most or not near:
            break
        op = chance.choice(near)
        if whole and (not ops[op].loops or chance.random() < whole):
            more: dict[int, tuple[int | None, bool]] = {**region, op: (None, False)}
        else:
            more = {**region, op: (chance.randrange(len(ops[op].loops)), chance.random() < 0.2)}
        if _works(graph, chosen, more, pieces):
            region = more
    return _rows(region), pieces


def _rows(region: dict[int, tuple[int | None, bool]]) -> list[tuple[int, int | None, bool]]:
    return [(op, *region[op]) for op in sorted(region)]


def _works(graph: _core.Graph, chosen: list[Region], region: dict[int, tuple[int | None, bool]], pieces: int) -> bool:
    try:
        _core.split(graph, [*chosen, (_rows(region), pieces)])
    except memplan.errors.GraphError as error:
        if not re.search(REFUSED, str(error)):
            raise
        return False
    return True


def _beside(ops: list[_core.Op], region: dict[int, tuple[int | None, bool]], can: set[int]) -> list[int]:
    """Ops with loops that read what the region makes, or make what it reads."""
    made = {name for k in region for name in ops[k].outputs}
    read = {name for k in region for name in ops[k].inputs}
    near = [k for k, op in enumerate(ops) if made.intersection(op.inputs) or read.intersection(op.outputs)]
    return [k for k in near if k in can and k not in region]
