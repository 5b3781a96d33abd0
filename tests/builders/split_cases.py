"""Small graphs in pieces, against all ways of splitting and ordering them: what a test and split_small.py share."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import chain, combinations, product
from typing import Any, NamedTuple

import memplan
from builders.looped import looped_graph
from memplan import _core
from memplan.importers.graph_dict import graph_of
from oracles.iterations import least_load

MOST_ROWS = 3
STORAGE = _core.StorageOptions(["intermediate", "output", "workspace"], 1, True, [], [], True)


class Loads(NamedTuple):
    """The bound, the least over all plays, the least over all regions, and that of the plan."""

    bound: int
    least: int
    tried: int
    found: int

    def wrong(self) -> bool:
        return not self.bound <= self.least <= self.tried <= self.found


def random_case(seed: int) -> dict[str, Any]:
    """A graph dict of one to five ops, with up to three rows in each tensor."""
    chance = random.Random(seed)
    while True:
        graph = looped_graph(chance, chance.randint(1, 5), MOST_ROWS)
        if all(tensor["shape"][0] <= MOST_ROWS for tensor in graph["tensors"]):
            return graph


def loads(seed: int) -> Loads:
    """The four loads of a random graph. Where the plan needs as little as any play, no region is tried."""
    case = random_case(seed)
    graph = graph_of(case)
    found = memplan.fit(graph, "least", allow=("split", "order")).load
    least = least_load(graph)
    tried = found if found <= least else least_by_regions(case, least)
    if tried > found:  # some outputs are written over inputs, as a plan chooses
        tried = least_by_regions(case, found, lambda split: memplan.plan(split).load)
    return Loads(_core.split_floor(graph, STORAGE), least, tried, found)


def _load(split: _core.Graph) -> int:
    return _core.buffers_of(split, STORAGE).problem.load


def least_by_regions(case: dict[str, Any], enough: int, load_of: Callable[[_core.Graph], int] = _load) -> int:
    """The least load over all orders of the ops, regions, pieces, rows made again or kept, and blocks; or `enough`."""
    best = None
    for order in _orders(case["ops"]):
        graph = graph_of({**case, "ops": order})
        for regions in _all_regions(graph):
            try:
                split = _core.split(graph, regions).graph
            except memplan.errors.GraphError:
                continue
            load = load_of(split)
            best = load if best is None else min(best, load)
            if best <= enough:
                return best
    assert best is not None
    return best


def _orders(ops: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    made = {name for op in ops for name in op["outputs"]}
    if not ops:
        yield []
    for op in ops:
        if made.isdisjoint(op["inputs"]):
            yield from ([op, *rest] for rest in _orders([other for other in ops if other is not op]))


def _all_regions(graph: _core.Graph) -> Iterator[list[Any]]:
    for parts in _partitions([k for k, op in enumerate(graph.ops) if op.loops]):
        yield from map(list, product(*(list(_in_pieces(graph, sorted(part))) for part in parts)))


def _in_pieces(graph: _core.Graph, ops: list[int]) -> Iterator[tuple[list[tuple[int, int, bool]], int, bool]]:
    read = {name for k in ops for name in graph.ops[k].inputs}
    inner = [k for k in ops if not read.isdisjoint(graph.ops[k].outputs)]
    most = max(graph.ops[k].loops[0].extent for k in ops)
    left = {name for k in ops for name in graph.ops[k].outputs}
    read_elsewhere = any(not left.isdisjoint(op.inputs) for k, op in enumerate(graph.ops) if k not in ops)
    blocks_or_not = (False, True) if read_elsewhere else (False,)
    for again in chain.from_iterable(combinations(inner, count) for count in range(len(inner) + 1)):
        for pieces in range(1, most + 1):
            yield from (([(k, 0, k in again) for k in ops], pieces, blocks) for blocks in blocks_or_not)


def _partitions(items: list[int]) -> Iterator[list[list[int]]]:
    """All sets of disjoint parts; not all items are in one."""
    if not items:
        yield []
        return
    first, *rest = items
    for parts in _partitions(rest):
        yield parts
        yield [[first], *parts]
        for i, part in enumerate(parts):
            yield [*parts[:i], [first, *part], *parts[i + 1 :]]
