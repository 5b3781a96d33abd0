"""The least cost of fitting a small graph, by trying all schedules; and what a graph computes, by names.

None of the code under test is used. Graphs are dicts without relations: every tensor has bytes of its own.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping
from itertools import combinations
from typing import Any

Graph = Mapping[str, Any]
_State = tuple[int, frozenset[str], frozenset[str]]  # ops that have run, tensors alive, tensors moved out
_Left = tuple[frozenset[str], frozenset[str], float]


def least_added_cost(
    graph: Graph, capacity: int, never: Collection[str] = (), transfer: float | None = None
) -> float | None:
    """The cost of the reruns and moves of the best schedule within a capacity; None if there is none.

    A state is how many ops have run, which tensors are alive, and which were moved out. `never` are ops that may not
    run again. What ops make may be moved out at any time, and fetched, for `transfer` a byte each. Tensors leave when
    an op or a fetch needs their bytes: nothing is won earlier.
    """
    size = {t["name"]: t["bytes"] for t in graph["tensors"] if t.get("kind") != "input"}
    ops, kept = graph["ops"], set(graph["outputs"])
    if transfer and least_added_cost(graph, capacity, never, 0.0) is None:
        return None  # there are fewer states where moving is free
    best: dict[_State, float] = {(0, frozenset(), frozenset()): 0.0}
    waiting: list[tuple[float, int, list[str], list[str]]] = [(0.0, 0, [], [])]

    def leaving(alive: frozenset[str], outside: frozenset[str], may: frozenset[str], bytes: int) -> Iterator[_Left]:
        """Ways to make room for bytes: what is alive after each, what is outside, and the cost."""
        free = capacity - sum(size[name] for name in alive)
        for count in range(len(may) + 1):
            for names in combinations(sorted(may), count):
                gone = free + sum(size[name] for name in names)
                if gone < bytes or any(gone - size[name] >= bytes for name in names):
                    continue  # too few, or more than are needed
                out = [name for name in names if name not in outside] if transfer is not None else []
                for some in range(len(out) if transfer == 0 else 0, len(out) + 1):
                    for moved in combinations(out, some):
                        cost = sum(size[name] for name in moved) * (transfer or 0)
                        yield alive - set(names), outside | set(moved), cost

    while waiting:
        cost, done, names, moved = heapq.heappop(waiting)
        alive, outside = frozenset(names), frozenset(moved)
        if best[done, alive, outside] < cost:
            continue
        if done == len(ops):
            return cost
        following = []
        for name in outside - alive:
            for left, away, price in leaving(alive, outside, alive - kept, size[name]):
                following.append((done, left | {name}, away, cost + price + (transfer or 0) * size[name]))
        for place, op in enumerate(ops[: done + 1]):
            again = place < done
            needed = {name for name in op["inputs"] if name in size}
            if not needed <= alive or (again and op["name"] in never):
                continue
            made = [name for name in op["outputs"] if not (name in alive and name not in kept)]
            bytes = sum(size[name] for name in made) + op.get("workspace", 0)
            may = alive - kept - needed - set(op["outputs"])
            for left, away, price in leaving(alive, outside, may, bytes):
                after = cost + price + (op["cost"] if again else 0)
                following.append((done if again else done + 1, left | set(op["outputs"]), away, after))
        for place, left, away, total in following:
            if total < best.get((place, left, away), float("inf")):
                best[place, left, away] = total
                heapq.heappush(waiting, (total, place, sorted(left), sorted(away)))
    return None


def computed(graph: Graph, original: Mapping[str, str]) -> dict[str, Any]:
    """What each graph output is: which op computes it from what. `original` says of which op a copy is one.

    A tensor that is fetched is what it was when it was moved out.

    Views show a value, and ops that end in "_" change what they read first.
    """
    root: dict[str, str] = {}
    outside: dict[str, Any] = {}
    value: dict[str, Any] = {}
    for tensor in graph["tensors"]:
        root[tensor["name"]] = tensor["name"]
        value[tensor["name"]] = tensor["name"]
    for op in graph["ops"]:
        if op.get("type") == "memplan.move_out":
            outside[op["name"]] = value[root[op["inputs"][0]]]
            continue
        if op.get("type") == "memplan.fetch":
            value[op["outputs"][0]] = outside[op["after"][0]]
            continue
        name = original.get(op["name"], op["name"])
        read = tuple(value[root[t]] for t in op["inputs"])
        aliases = {view["output"]: view["input"] for view in op.get("alias", ())}
        for output, source in aliases.items():
            root[output] = root[source]
        if op.get("type", "").endswith("_"):
            value[root[op["inputs"][0]]] = (name, read)
        for place, output in enumerate(t for t in op["outputs"] if t not in aliases):
            value[output] = (name, place, read)
    return {name: value[root[name]] for name in graph["outputs"]}
