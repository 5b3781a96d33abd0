"""The least cost of fitting a small graph, by trying all schedules; and what a graph computes, by names.

None of the code under test is used. Graphs are dicts without relations: every tensor has bytes of its own.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from typing import Any

Graph = Mapping[str, Any]
_Room = Callable[[int, int], tuple[int, ...]]


def least_added_cost(
    graph: Graph, capacity: int, never: Collection[str] = (), transfer: float | None = None
) -> float | None:
    """The cost of the reruns and moves of the best schedule within a capacity; None if there is none.

    A state is how many ops have run, which tensors are alive, and which have been fetched; sets are bits of an integer.
    `never` are ops that may not run again. What ops make may be fetched for `transfer` a byte. The first time costs
    twice that: it was moved out too, when it was made, which needs no bytes. Tensors leave when an op or a fetch needs
    their bytes: nothing is won earlier.
    """
    sizes = {t["name"]: t["bytes"] for t in graph["tensors"] if t.get("kind") != "input"}
    bit = {name: 1 << place for place, name in enumerate(sizes)}

    def bits(names: Iterable[str]) -> int:
        return sum(bit[name] for name in set(names) if name in bit)

    total, ways_to_free = _sums(list(sizes.values()))
    width, kept = len(sizes), bits(graph["outputs"])
    ops = [
        (bits(op["inputs"]), bits(op["outputs"]), op.get("workspace", 0), op["cost"], op["name"] in never)
        for op in graph["ops"]
    ]
    useful = [_useful(ops, done) for done in range(len(ops) + 1)]
    best = {0: 0.0}  # by a state as one integer
    waiting = [(0.0, 0)]

    def reach(done: int, alive: int, fetched: int, cost: float) -> None:
        state = (done << width | alive & (kept | useful[done])) << width | fetched & useful[done]
        if cost < best.get(state, float("inf")):
            best[state] = cost
            heapq.heappush(waiting, (cost, state))

    while waiting:
        cost, state = heapq.heappop(waiting)
        if best[state] < cost:
            continue
        done, alive, fetched = state >> 2 * width, state >> width & ~(-1 << width), state & ~(-1 << width)
        if done == len(ops):
            return cost
        free = capacity - total(alive)
        for place, (reads, makes, workspace, price, once) in enumerate(ops[: done + 1]):
            again = place < done
            if reads & ~alive or (again and once):
                continue
            needed = total(makes & (kept | ~alive)) + workspace - free
            for gone in ways_to_free(alive & ~(kept | reads | makes), needed):
                left = alive & ~gone | makes
                reach(done if again else done + 1, left, fetched, cost + (price if again else 0))
        made = bits(name for op in graph["ops"][:done] for name in op["outputs"])
        away = 0 if transfer is None else made & useful[done]
        for place in range(width):
            one = 1 << place
            if not one & away & ~(alive | kept):
                continue
            price = (transfer or 0) * total(one) * (1 if fetched & one else 2)
            for gone in ways_to_free(alive & ~kept, total(one) - free):
                reach(done, alive & ~gone | one, fetched | (one if transfer else 0), cost + price)
    return None


def _useful(ops: list[tuple[int, int, int, float, bool]], done: int) -> int:
    """What ops that are to run read, or ops that may run again before them."""
    useful = 0
    for reads, *_ in ops[done:]:
        useful |= reads
    for reads, makes, _, _, once in reversed(ops[:done]):
        useful |= reads if makes & useful and not once else 0
    return useful


def _sums(sizes: list[int]) -> tuple[Callable[[int], int], _Room]:
    """The bytes of a set; and the sets among others that free so many bytes, and more than any part of them."""

    @cache
    def total(some: int) -> int:
        return 0 if some == 0 else sizes[some.bit_length() - 1] + total(some ^ 1 << some.bit_length() - 1)

    @cache
    def ways_to_free(some: int, needed: int) -> tuple[int, ...]:
        if needed <= 0:
            return (0,)
        if some == 0:
            return ()
        place = some.bit_length() - 1
        rest = some ^ 1 << place
        taken = (gone | 1 << place for gone in ways_to_free(rest, needed - sizes[place]) if total(gone) < needed)
        return (*taken, *ways_to_free(rest, needed))

    return total, ways_to_free


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
