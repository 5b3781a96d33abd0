"""Chains of stages made to fit: `memplan.fit` beside rotor, which is optimal among schedules that keep what they kept.

Run: ``python tests/benchmarks/fit_chains.py [--quick] [--graphs FOLDER] [--json F] [--docs]``.

The chain is that of Beaumont et al. 2019, "Optimal checkpointing for heterogeneous chains: how to train deep neural
networks with limited memory", which rotor implements. Stage s runs forwards: it reads a(s-1), and makes a(s) and what
else its backward needs. Its backward reads the gradient of a(s), a(s-1) and the rest, and often a(s), as that of relu
does. It makes the gradient of a(s-1).

    C(s, t, m): the least cost to come from a(s-1) and the gradient of a(t) to the gradient of a(s-1), in m bytes
    besides a(s-1). The gradient of a(t) is among them. It is the least of

    - all is kept:    F(s), then C(s+1, t, m - all(s)), then B(s)
    - a checkpoint:   F(s) ... F(k-1), which keep nothing but a(k-1), then C(k, t, m - a(k-1)), then C(s, k-1, m)

Here an op makes all its outputs whether they are kept or not. The gradient that a backward makes is there while it
runs. These are rotor's overheads. Each schedule of rotor is put into the graph and measured as that of `memplan.fit`,
so that both mean the same by bytes and costs. The search does a tenth of its usual work.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from reporting import Rows, arguments, report

import memplan
from memplan import _core
from memplan.files import write_text

SECTION = "fit chains"
HEAD = ("chain", "stages", "capacities", "memplan better", "equal", "rotor better", "at most better", "at most worse")
PERCENT = (80, 60, 40)
WORK = 10**8  # a tenth of what `memplan.fit` does


@dataclass(frozen=True)
class Chain:
    """Per stage: bytes of its result and of what else it saves, and what it costs forwards and backwards."""

    name: str
    result: tuple[int, ...]
    saved: tuple[int, ...]
    forward: tuple[int, ...]
    backward: tuple[int, ...]
    again: bool = True  # whether a backward reads the result of its stage

    def __len__(self) -> int:
        return len(self.result)

    def graph_dict(self) -> dict[str, Any]:
        tensors: list[dict[str, Any]] = [{"name": "a0", "bytes": 1, "kind": "input"}, {"name": "g0", "bytes": 1}]
        ops: list[dict[str, Any]] = []
        for s in range(1, len(self) + 1):
            tensors += [{"name": f"a{s}", "bytes": self.result[s - 1]}, {"name": f"g{s}", "bytes": self.result[s - 1]}]
            made = [f"a{s}"]
            if self.saved[s - 1]:
                tensors.append({"name": f"s{s}", "bytes": self.saved[s - 1]})
                made.append(f"s{s}")
            ops.append({"name": f"F{s}", "inputs": [f"a{s - 1}"], "outputs": made, "cost": self.forward[s - 1]})
        last = len(self)
        ops.append({"name": "loss", "inputs": [f"a{last}"], "outputs": [f"g{last}"], "cost": 0})
        for s in reversed(range(1, last + 1)):
            read = [f"g{s}", f"a{s - 1}", *ops[s - 1]["outputs"][0 if self.again else 1 :]]
            ops.append({"name": f"B{s}", "inputs": read, "outputs": [f"g{s - 1}"], "cost": self.backward[s - 1]})
        return {"tensors": tensors, "ops": ops, "outputs": ["g0"]}


class Rotor:
    """The dynamic program, for all m up to a capacity at once."""

    def __init__(self, chain: Chain, capacity: int) -> None:
        last = len(chain) + 1  # the loss is a stage that makes nothing
        self.capacity = capacity
        self.result = [0, *chain.result, 0]  # what a(0) takes is the caller's
        self.all = [0, *(a + s for a, s in zip(chain.result, chain.saved, strict=True)), 0]
        self.forward = [0, *chain.forward, 0]
        self.backward = [0, *chain.backward, 0]
        self.gradient = [1, *chain.result, 0]
        self.best: dict[tuple[int, int], np.ndarray] = {}  # per m, the least cost
        self.choice: dict[tuple[int, int], np.ndarray] = {}  # per m: 0 to keep all, or k of the checkpoint
        self.last = last
        self.left = [0] * (last + 1) if chain.again else self.result  # may leave before a backward
        for length in range(last):
            for s in range(1, last + 1 - length):
                self._solve(s, s + length)

    def _solve(self, s: int, t: int) -> None:
        size = self.capacity + 1
        best = np.full(size, np.inf)
        choice = np.zeros(size, dtype=int)
        least = max(self.gradient[t] + self.all[s], self._backward_needs(s))
        after = _shifted(self.best[s + 1, t], self.all[s]) if t > s else np.zeros(size)
        best[least:] = after[least:] + self.forward[s] + self.backward[s]
        run, needs = 0, 0
        for k in range(s + 1, t + 1):
            run += self.forward[k - 1]
            reads = self.result[k - 2] if k - 1 > s else 0
            needs = max(needs, self.gradient[t] + reads + self.all[k - 1])
            cost = _shifted(self.best[k, t], self.result[k - 1]) + self.best[s, k - 1] + run
            cost[:needs] = np.inf
            choice[cost < best] = k
            best = np.minimum(best, cost)
        self.best[s, t], self.choice[s, t] = best, choice

    def _backward_needs(self, s: int) -> int:
        return self.gradient[s] + self.all[s] - self.left[s] + self.gradient[s - 1]

    def cost(self, capacity: int) -> float | None:
        """What is added within a capacity; None if nothing does."""
        whole = float(self.best[1, self.last][capacity])
        return None if whole == np.inf else whole - sum(self.forward) - sum(self.backward)

    def reruns(self, capacity: int) -> list[tuple[int, int]]:
        """Forward stages that run again: pairs of the op that follows, and the op, by position."""
        self._found: list[tuple[int, int]] = []
        self._done: set[int] = set()
        self._walk(1, self.last, capacity)
        return self._found

    def _walk(self, s: int, t: int, m: int) -> None:
        k = int(self.choice[s, t][m])
        if k == 0:
            self._run(s, t)
            if t > s:
                self._walk(s + 1, t, m - self.all[s])
            return
        for stage in range(s, k):
            self._run(stage, t)
        self._walk(k, t, m - self.result[k - 1])
        self._walk(s, k - 1, m)

    def _run(self, stage: int, t: int) -> None:
        """Forwards, with the gradient of a(t) there: if that is not the first time, right before B(t)."""
        if stage in self._done and stage < self.last:
            self._found.append((2 * self.last - 1 - t, stage - 1))
        self._done.add(stage)


def _shifted(costs: np.ndarray, by: int) -> np.ndarray:
    """The cost with so much less room."""
    out = np.full(len(costs), np.inf)
    out[by:] = costs[: len(costs) - by]
    return out


def chains(quick: bool) -> Iterator[Chain]:
    """Stages that are all alike, those of real networks, and stages by chance."""
    for length in (10, 20) if quick else (5, 10, 20, 30, 40):
        ones = (1,) * length
        yield Chain(f"alike, {length}", ones, (0,) * length, ones, (2,) * length, again=False)
        yield Chain(f"alike, results read again, {length}", ones, (0,) * length, ones, (2,) * length)
        yield Chain(f"alike, twice saved, {length}", ones, (2,) * length, ones, (2,) * length, again=False)
    sizes, saved, costs = zip(*_bottlenecks(), strict=True)
    yield Chain("resnet50, by blocks", sizes, saved, costs, tuple(2 * cost for cost in costs))
    chance = random.Random(0)
    for n in range(4 if quick else 16):
        length = chance.randint(6, 24)
        draw = {name: tuple(chance.randint(low, 9) for _ in range(length)) for name, low in _DRAWN.items()}
        yield Chain(f"by chance {n}", **draw, again=n % 2 == 0)


_DRAWN = {"result": 1, "saved": 0, "forward": 1, "backward": 1}


def _bottlenecks() -> Iterator[tuple[int, int, int]]:
    """Blocks of ResNet-50: what they pass on, what they save inside, and the multiplications."""
    for width, side, blocks in ((64, 56, 3), (128, 28, 4), (256, 14, 6), (512, 7, 3)):
        for _ in range(blocks):
            place = side * side
            out, inside = 4 * width * place // 25088, 2 * 2 * width * place // 25088
            yield out, out + inside, place * (2 * 4 * width * width + 9 * width * width) // 10**6


def compared(chain: Chain, folder: Path | None) -> Rows:
    """A row for each capacity that rotor reaches or memplan does."""
    graph = memplan.capture(chain.graph_dict()).graph
    assert isinstance(graph, _core.Graph)
    cost, again, storage = (
        [op.cost or 0.0 for op in graph.ops],
        _core.again_of(graph),
        _core.StorageOptions(),
    )
    load = _core.buffers_of(graph, storage).problem.load
    rotor = Rotor(chain, load)
    rows: Rows = []
    for percent in PERCENT:
        capacity = load * percent // 100
        theirs = rotor.cost(capacity)
        if theirs is not None:
            measured = _core.rerun_graph(graph, cost, again, storage, rotor.reruns(capacity))
            assert measured.load <= capacity, (chain, capacity, measured.load)
            assert measured.added_cost == theirs, (chain, capacity, measured.added_cost, theirs)
        row: dict[str, Any] = {"chain": chain.name, "stages": len(chain), "percent": percent, "rotor": theirs}
        begin = time.process_time()
        try:
            found = _core.fit_graph(graph, cost, again, storage, capacity, work=WORK)
            row |= {"added": found.added_cost, "bound": found.cost_bound, "total": sum(cost)}
        except memplan.InfeasibleError:
            row |= {"added": None, "bound": None, "total": sum(cost)}
        row["seconds"] = time.process_time() - begin
        if row["added"] is not None or theirs is not None:
            rows.append(row)
        if folder is not None and is_worse(row):
            name = f"{chain.name.replace(', ', '-').replace(' ', '-')}-{percent}"
            write_text(folder / f"{name}.json", json.dumps(chain.graph_dict() | {"outputs": ["g0"]}))
            print(
                name, capacity, "rotor", theirs, "memplan", row["added"], "bound", row["bound"], rotor.reruns(capacity)
            )
    return rows


def is_worse(row: dict[str, Any]) -> bool:
    return row["rotor"] is not None and (row["added"] is None or row["added"] > row["rotor"] + 1e-6)


def cells_of(rows: Rows) -> list[str]:
    """One chain, or several: how often who is better, and by how many % of the cost of all ops."""
    apart = [
        100 * (row["rotor"] - row["added"]) / row["total"] for row in rows if None not in (row["rotor"], row["added"])
    ]
    alone = sum(1 for row in rows if row["rotor"] is None)
    worse = sum(1 for row in rows if is_worse(row))
    better = alone + sum(1 for points in apart if points > 1e-6)
    stages = {row["stages"] for row in rows}
    size = f"{min(stages)} to {max(stages)}" if len(stages) > 1 else str(min(stages))
    most = f"{max(apart, default=0):.2f} points" + (f", {alone} alone" if alone else "")
    least = f"{max((-points for points in apart), default=0):.2f} points" if worse else ""
    counts = (len(rows), better, len(rows) - better - worse, worse)
    return [rows[0]["chain"].rstrip("0123456789 ").rstrip(","), size, *map(str, counts), most, least]


def main() -> None:
    """Compare, print."""
    parser = arguments(__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer chains")
    parser.add_argument("--graphs", type=Path, help="a folder for chains where rotor is better")
    options = parser.parse_args()
    groups: dict[str, Rows] = {}
    for chain in chains(options.quick):
        kind = chain.name.rstrip("0123456789").rstrip(", ")
        groups.setdefault(kind, []).extend(compared(chain, options.graphs))
    cells = [cells_of(rows) for rows in groups.values()]
    report(SECTION, HEAD, cells, [row for rows in groups.values() for row in rows], options, "fit.md")


if __name__ == "__main__":
    main()
