"""Rules of others for what runs again, small, after their papers: what `fit.py` measures `memplan.fit` beside.

- Segments: Chen et al. 2016, training deep nets with sublinear memory cost. What crosses the ends of the segments of
  the forward pass is kept, all else is made again when the backward pass first needs it. The segments have as many ops,
  or make as many bytes; their number varies.
- Knapsack: torch's partitioner (`activation_memory_budget`). Of what the forward pass saves, the dearest are kept
  within a budget of bytes, by torch's own functions: greedy, by a dynamic program, or by an integer program.
- DTR: in `fit_dtr.py`.
- Moved out: what is idle longest, or has most bytes times idle time, leaves at the peak, until all steps fit. It is
  fetched before it is used next.

Each gives reruns: pairs of the op that follows, and the op, by position; or fetches, with a tensor instead of the op.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache, cached_property

import numpy as np
from torch._functorch._activation_checkpointing.knapsack import dp_knapsack, greedy_knapsack, ilp_knapsack

from memplan import _core

Reruns = list[tuple[int, int]]
SOLVERS = (greedy_knapsack, dp_knapsack, ilp_knapsack)  # torch's


class Flow:
    """Storages of a graph, by the tensor that owns the bytes: who makes, changes and uses them, and when."""

    def __init__(self, graph: _core.Graph, cost: list[float]) -> None:
        self.ops, self.cost = graph.ops, cost
        self.again = _core.again_of(self)
        self.root: dict[str, str] = {tensor.name: tensor.name for tensor in graph.tensors}
        for op in self.ops:
            for output, source, _ in op.aliases:
                self.root[output] = self.root[source]
        self.bytes = {t.name: t.bytes for t in graph.tensors if self.root[t.name] == t.name}
        self.given = {t.name for t in graph.tensors if t.kind in ("input", "weight")}
        self.kept = {self.root[name] for name in graph.outputs}
        self.made: list[list[str]] = [[t for t in op.outputs if self.root[t] == t] for op in self.ops]
        self.maker = {root: k for k, roots in enumerate(self.made) for root in roots}
        self.reads = [list(dict.fromkeys(self.root[name] for name in op.inputs)) for op in self.ops]
        self.uses: dict[str, list[int]] = {root: [] for root in self.bytes}
        self.changed: dict[str, list[int]] = {root: [] for root in self.bytes}
        for k, op in enumerate(self.ops):
            for root in self.reads[k]:
                self.uses[root].append(k)
            targets = [self.root[view[0]] for view in op.aliases] or self.reads[k][:1] * (not op.outputs)
            for root in dict.fromkeys(targets if self.again[k] != "same" else ()):
                self.changed[root].append(k)
        self.unit, self.needs, self.price = cache(self._unit), cache(self._needs), cache(self._price)
        self.neighbours: dict[str, list[str]] = {root: [] for root in self.bytes}
        for root in self.bytes:
            for name in self.needs(root):
                self.neighbours[root].append(name)
                self.neighbours[name].append(root)

    def _unit(self, root: str) -> list[int]:
        """The ops that make a storage what it is; none if one of them may not run again."""
        k = self.maker.get(root)
        if k is None or self.again[k] != "same" or root in self.kept:
            return []
        unit = sorted({k, *(c for made in self.made[k] for c in self.changed[made])})
        return [] if any(self.again[c] == "never" for c in unit) else unit

    def _needs(self, root: str) -> list[str]:
        """What the unit of a storage reads, but for what it makes itself."""
        unit = self.unit(root)
        made = {name for k in unit for name in self.made[k]}
        return [name for k in unit for name in self.reads[k] if name not in made and name not in self.given]

    def last_use(self, root: str) -> int:
        return max([self.maker.get(root, 0), *self.uses[root]])

    def may_return(self, root: str, stage: int) -> bool:
        """Whether a storage can be made again right before an op."""
        unit = self.unit(root)
        later = [c for k in unit for name in self.reads[k] for c in self.changed[name] if c > k and c not in unit]
        return bool(unit) and unit[-1] < stage <= min(later, default=len(self.ops))

    def _price(self, root: str) -> float:
        """The cost of making a storage again."""
        return sum(self.cost[k] for k in self.unit(root))

    @cached_property
    def saved(self) -> list[str]:
        """What is made before the peak, not used there, and used after it."""
        return [root for root, uses in self.uses.items() if self._crosses(root, uses)]

    def _crosses(self, root: str, uses: list[int]) -> bool:
        if root in self.given or not uses or self.peak in uses:
            return False
        return self.maker[root] < self.peak < uses[-1] and self.may_return(root, self.back(root))

    @cached_property
    def loads(self) -> np.ndarray:
        """The bytes alive at each op, if nothing is shared."""
        change = np.zeros(len(self.ops) + 1)
        for root, k in self.maker.items():
            change[k] += self.bytes[root]
            change[self.last_use(root) + 1 if root not in self.kept else -1] -= self.bytes[root]
        return np.cumsum(change)[:-1] + np.array([op.workspace for op in self.ops])

    @cached_property
    def peak(self) -> int:
        return int(self.loads.argmax())

    def back(self, root: str) -> int:
        """The first use after the peak."""
        return next(k for k in self.uses[root] if k > self.peak)

    def made_again(self, dropped: set[str]) -> Reruns:
        """Reruns that bring storages back at their first use after the peak, and what these need then."""
        there: dict[str, int] = {}  # the stage since when a storage is back
        reruns: Reruns = []

        def bring(root: str, stage: int) -> None:
            if there.get(root, stage + 1) <= stage:
                return
            alive = root not in dropped and max([self.maker[root], *self.uses[root]], default=0) >= stage
            if alive or not self.may_return(root, stage):
                return
            for name in self.needs(root):
                bring(name, stage)
            reruns.append((stage, self.maker[root]))
            for name in self.made[self.maker[root]]:
                there[name] = stage

        for root in sorted(dropped, key=self.back):
            if root not in there:
                bring(root, self.back(root))
        return reruns


def segments(flow: Flow) -> Iterator[Reruns]:
    """Of 1, 2, ... segments."""
    made = np.array([sum(flow.bytes[root] for root in flow.made[k]) for k in range(flow.peak + 1)])
    share = np.cumsum(made) / max(1, made.sum())
    for count in sorted({*range(1, 25), *np.unique(np.geomspace(25, 200, 12).astype(int)).tolist()}):
        parts = np.arange(count + 1) / count
        for ends in (parts * (flow.peak + 1), np.searchsorted(share, parts)):
            segment = np.searchsorted(ends, np.arange(flow.peak + 1), side="right")
            dropped = {
                root
                for root in flow.saved
                if all(segment[k] == segment[flow.maker[root]] for k in flow.uses[root] if k <= flow.peak)
            }
            yield flow.made_again(dropped)


def knapsacks(flow: Flow, step: int) -> Iterator[Reruns]:
    """With 0, step, 2 step, ... % of what is saved, by each of torch's functions."""
    total = max(1, sum(flow.bytes[root] for root in flow.saved))
    weights, prices = [flow.bytes[root] / total for root in flow.saved], [flow.price(root) for root in flow.saved]
    for percent in range(0, 100, step):
        for solve in SOLVERS if flow.saved else ():
            kept = {flow.saved[i] for i in solve(weights, prices, percent / 100)[1]}
            yield flow.made_again(set(flow.saved) - kept)


def moved_out(flow: Flow, capacity: int, longest: bool) -> list[tuple[int, str]] | None:
    """Fetches with which all steps are within a capacity: of what is idle longest, or of most bytes times idle time."""
    load = flow.loads.copy()
    gaps = []
    for root, k in flow.maker.items():
        uses = sorted({*(c for c in flow.changed[root] if c > k), *flow.uses[root], k})
        for before, after in itertools.pairwise(uses):
            if after - before > 1 and root not in flow.kept and max([k, *flow.changed[root]]) <= before:
                gaps.append((after - before, flow.bytes[root] * (after - before), before, after, root))
    gaps.sort(key=lambda gap: gap[0 if longest else 1], reverse=True)
    fetches = []
    while load.max() > capacity:
        worst = int(load.argmax())
        found = next((gap for gap in gaps if gap[2] < worst < gap[3]), None)
        if found is None:
            return None
        gaps.remove(found)
        _, _, before, after, root = found
        load[before + 1 : after] -= flow.bytes[root]
        fetches.append((after, root))
    return sorted(fetches)
