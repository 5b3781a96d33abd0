"""The least cost of fitting a small graph, by trying all schedules; and what a graph computes, by names.

None of the code under test is used. Graphs are dicts without relations: every tensor has bytes of its own.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping
from typing import Any

Graph = Mapping[str, Any]


def least_added_cost(graph: Graph, capacity: int, never: Collection[str] = ()) -> float | None:
    """The cost of the reruns of the best schedule within a capacity; None if there is none.

    A state is how many ops have run, and which tensors are alive. `never` are ops that may not run again.
    """
    size = {t["name"]: t["bytes"] for t in graph["tensors"] if t.get("kind") != "input"}
    ops, kept = graph["ops"], set(graph["outputs"])
    best: dict[tuple[int, frozenset[str]], float] = {(0, frozenset()): 0.0}
    waiting: list[tuple[float, int, list[str]]] = [(0.0, 0, [])]
    while waiting:
        cost, done, names = heapq.heappop(waiting)
        alive = frozenset(names)
        if best[done, alive] < cost:
            continue
        if done == len(ops):
            return cost
        following = [(done, alive - {name}, cost) for name in alive - kept]
        for place, op in enumerate(ops[: done + 1]):
            again = place < done
            needed = {name for name in op["inputs"] if name in size}
            if not needed <= alive or (again and op["name"] in never):
                continue
            made = [name for name in op["outputs"] if not (name in alive and name not in kept)]
            room = sum(size[name] for name in (*alive, *made)) + op.get("workspace", 0)
            if room <= capacity:
                after = cost + (op["cost"] if again else 0)
                following.append((done if again else done + 1, alive | set(op["outputs"]), after))
        for place, left, total in following:
            if total < best.get((place, left), float("inf")):
                best[place, left] = total
                heapq.heappush(waiting, (total, place, sorted(left)))
    return None


def computed(graph: Graph, original: Mapping[str, str]) -> dict[str, Any]:
    """What each graph output is: which op computes it from what. `original` says of which op a copy is one.

    Views show a value, and ops that end in "_" change what they read first.
    """
    root: dict[str, str] = {}
    value: dict[str, Any] = {}
    for tensor in graph["tensors"]:
        root[tensor["name"]] = tensor["name"]
        value[tensor["name"]] = tensor["name"]
    for op in graph["ops"]:
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
