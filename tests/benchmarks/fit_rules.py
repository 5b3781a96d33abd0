"""Rules of others for what runs again, small, after their papers: what `fit.py` measures `memplan.fit` beside.

- Segments: Chen et al. 2016, training deep nets with sublinear memory cost. What crosses the ends of equal segments of
  the forward pass is kept, all else is made again when the backward pass first needs it; the number of segments varies.
- Knapsack: torch's partitioner (`activation_memory_budget`). Of what the forward pass saves, the dearest are
  kept within a budget of bytes, by a knapsack.
- DTR: Kirisame et al. 2021, dynamic tensor rematerialization. Runs op by op. While memory is short, what has the
  lowest cost / (bytes x time since its last use) leaves.

Each gives reruns: pairs of the op that follows, and the op, by position.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from memplan import _core
from memplan.fitting.again import again_of

Reruns = list[tuple[int, int]]
_BUCKETS = 1000  # of bytes, in the knapsack


class Flow:
    """Storages of a graph, by the tensor that owns the bytes: who makes, changes and uses them, and when."""

    def __init__(self, graph: _core.Graph, cost: list[float]) -> None:
        self.ops, self.cost = graph.ops, cost
        self.again = [again_of(op) for op in self.ops]
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

    def unit(self, root: str) -> list[int]:
        """The ops that make a storage what it is; none if one of them may not run again."""
        k = self.maker.get(root)
        if k is None or self.again[k] != "same" or root in self.kept:
            return []
        unit = sorted({k, *(c for made in self.made[k] for c in self.changed[made])})
        return [] if any(self.again[c] == "never" for c in unit) else unit

    def needs(self, root: str) -> list[str]:
        """What the unit of a storage reads, but for what it makes itself."""
        unit = self.unit(root)
        made = {name for k in unit for name in self.made[k]}
        return [name for k in unit for name in self.reads[k] if name not in made and name not in self.given]

    def may_return(self, root: str, stage: int) -> bool:
        """Whether a storage can be made again right before an op."""
        unit = self.unit(root)
        later = [c for k in unit for name in self.reads[k] for c in self.changed[name] if c > k and c not in unit]
        return bool(unit) and unit[-1] < stage <= min(later, default=len(self.ops))

    def price(self, root: str) -> float:
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
    def peak(self) -> int:
        change = np.zeros(len(self.ops) + 1)
        for root, k in self.maker.items():
            change[k] += self.bytes[root]
            change[max([k, *self.uses[root]]) + 1 if root not in self.kept else -1] -= self.bytes[root]
        return int(np.cumsum(change).argmax())

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
    for count in sorted({*range(1, 25), *np.unique(np.geomspace(25, 200, 12).astype(int)).tolist()}):
        ends = np.linspace(0, flow.peak + 1, count + 1)

        def segment(k: int, ends: np.ndarray = ends) -> int:
            return int(np.searchsorted(ends, k, side="right"))

        dropped = {
            root
            for root in flow.saved
            if all(segment(k) == segment(flow.maker[root]) for k in flow.uses[root] if k <= flow.peak)
        }
        yield flow.made_again(dropped)


def knapsacks(flow: Flow) -> Iterator[Reruns]:
    """With 0, 2, 4, ... 98 % of what is saved."""
    total = sum(flow.bytes[root] for root in flow.saved)
    weight = [max(1, -(-flow.bytes[root] * _BUCKETS // max(1, total))) for root in flow.saved]
    best = np.zeros(_BUCKETS + 1)
    taken = np.zeros((len(flow.saved), _BUCKETS + 1), dtype=bool)
    for i, root in enumerate(flow.saved):
        w = min(weight[i], _BUCKETS)
        with_it = np.concatenate([np.full(w, -1.0), best[: _BUCKETS + 1 - w] + flow.price(root)])
        taken[i] = with_it > best
        best = np.maximum(best, with_it)
    for percent in range(0, 100, 2):
        room, kept = percent * _BUCKETS // 100, set()
        for i in reversed(range(len(flow.saved))):
            if taken[i, room]:
                kept.add(flow.saved[i])
                room -= min(weight[i], _BUCKETS)
        yield flow.made_again(set(flow.saved) - kept)


def dtr(flow: Flow, budget: int) -> Reruns | None:
    """What runs again within a budget; None if it does not do with it."""
    run = _Dtr(flow, budget)
    try:
        for k in range(len(flow.ops)):
            run.op(k)
    except MemoryError:
        return None
    return run.reruns


class _Dtr:
    def __init__(self, flow: Flow, budget: int) -> None:
        self.flow, self.budget = flow, budget
        self.alive: dict[str, float] = {}  # when it was used last
        self.used, self.clock = 0, 0.0
        self.reruns: Reruns = []

    def op(self, k: int) -> None:
        flow = self.flow
        locked = set(flow.reads[k])
        for root in flow.reads[k]:
            self.bring(root, k, locked, 0)
        self.make(k, locked)
        for root in (*flow.reads[k], *flow.made[k]):
            if root not in flow.kept and max([flow.maker.get(root, 0), *flow.uses[root]]) <= k:
                self.drop(root)

    def bring(self, root: str, stage: int, locked: set[str], depth: int) -> None:
        if root in self.flow.given or root in self.alive:
            self.alive[root] = self.clock if root in self.alive else 0.0
            if root in self.flow.given:
                del self.alive[root]
            return
        if not self.flow.may_return(root, stage) or depth > 500:
            raise MemoryError
        unit, needs = self.flow.unit(root), self.flow.needs(root)
        inner = locked | set(needs)
        for name in needs:
            self.bring(name, stage, inner, depth + 1)
        self.reruns.append((stage, unit[0]))
        for k in unit:
            self.make(k, inner | set(self.flow.made[unit[0]]))

    def make(self, k: int, locked: set[str]) -> None:
        flow = self.flow
        new = [root for root in flow.made[k] if root not in self.alive]
        needed = sum(flow.bytes[root] for root in new) + flow.ops[k].workspace
        while self.used + needed > self.budget:
            self.evict(locked)
        self.clock += flow.cost[k] + 1
        for root in new:
            self.alive[root] = self.clock
            self.used += flow.bytes[root]
        for root in flow.reads[k]:
            if root in self.alive:
                self.alive[root] = self.clock

    def evict(self, locked: set[str]) -> None:
        flow = self.flow
        worst, least = None, float("inf")
        for root, since in self.alive.items():
            if root in locked or not flow.bytes[root] or not flow.unit(root):
                continue
            score = flow.price(root) / (flow.bytes[root] * (self.clock - since + 1))
            if score < least:
                worst, least = root, score
        if worst is None:
            raise MemoryError
        self.drop(worst)

    def drop(self, root: str) -> None:
        if self.alive.pop(root, None) is not None:
            self.used -= self.flow.bytes[root]
