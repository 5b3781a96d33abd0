"""DTR, dynamic tensor rematerialization (Kirisame et al. 2021), as the paper says: what runs again within a budget.

It runs op by op. While memory is short, the storage with the least score leaves, and what is read and gone is made
again first. The scores are those that the paper compares. c is the cost to make a storage again, m its bytes, and s the
time since it was used last:

- "local": c / (m s).
- "dtr": (c + c of what is gone around it) / (m s). What is gone hangs together: classes of neighbours, as the paper
  keeps them (its h_DTR_eq), whose sum falls when one comes back.
- "msps": (c + c of what is gone that it is made from) / m, of Peng et al. 2020.
- "lru": 1 / s. "size": 1 / m.
"""

from __future__ import annotations

import numpy as np
from fit_rules import Flow, Reruns

SCORES = ("local", "dtr", "msps", "lru", "size")
_DEEPEST = 500  # storages that are made again for each other


def peak(flow: Flow) -> int:
    """What it holds at most if nothing leaves."""
    run = _Dtr(flow, sum(flow.bytes.values()) * 2, "size")
    for k in range(len(flow.ops)):
        run.op(k)
    return run.most


def dtr(flow: Flow, budget: int, score: str) -> Reruns | None:
    """What runs again within a budget; None if it does not do with it, or takes more than twice the cost of all ops."""
    run = _Dtr(flow, budget, score)
    try:
        for k in range(len(flow.ops)):
            run.op(k)
    except MemoryError:
        return None
    return run.reruns


class _Gone:
    """Storages that have left, in classes of neighbours."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self._class = dict[str, str]()
        self._sum = dict[str, float]()

    def __contains__(self, root: str) -> bool:
        return root in self._class

    def _find(self, root: str) -> str:
        while self._class[root] != root:
            self._class[root] = self._class[self._class[root]]
            root = self._class[root]
        return root

    def around(self, root: str) -> float:
        """The cost of the classes that a storage touches."""
        return sum(self._sum[c] for c in {self._find(n) for n in self.flow.neighbours[root] if n in self._class})

    def before(self, root: str) -> float:
        """The cost of what is gone and is needed to make a storage."""
        seen, todo, cost = {root}, [root], 0.0
        while todo:
            for name in self.flow.needs(todo.pop()):
                if name in self._class and name not in seen:
                    seen.add(name)
                    todo.append(name)
                    cost += self.flow.price(name)
        return cost

    def add(self, root: str) -> None:
        classes = {self._find(n) for n in self.flow.neighbours[root] if n in self._class}
        self._class[root], self._sum[root] = root, self.flow.price(root)
        for one in classes:
            self._class[one] = root
            self._sum[root] += self._sum.pop(one)

    def remove(self, root: str) -> None:
        """It is back. Its class stays whole, as in the paper: taking one apart would take too long."""
        if root not in self._class:
            return
        head = self._find(root)
        self._sum[head] -= self.flow.price(root)
        members = [name for name, of in self._class.items() if of == root and name != root]
        heir = (members[0] if members else None) if head == root else head
        for name in members:
            self._class[name] = heir or name
        if head == root and heir is not None:
            self._sum[heir] = self._sum[root]
        if head == root:
            del self._sum[root]
        del self._class[root]


class _Dtr:
    def __init__(self, flow: Flow, budget: int, score: str) -> None:
        self.flow, self.budget, self.score = flow, budget, score
        self.names = list(flow.bytes)
        self.place = {root: i for i, root in enumerate(self.names)}
        self.bytes = np.array([flow.bytes[root] for root in self.names], dtype=float)
        self.price = np.array([flow.price(root) for root in self.names])
        self.may = np.array([bool(flow.bytes[root] and flow.unit(root)) for root in self.names])
        self.last = np.full(len(self.names), -1.0)  # when it was used; -1: it is not there
        self.gone = _Gone(flow)
        self.latest = 2 * (sum(flow.cost) + len(flow.ops))
        self.used, self.most, self.clock = 0, 0, 0.0
        self.reruns: Reruns = []

    def op(self, k: int) -> None:
        flow = self.flow
        locked = set(flow.reads[k])
        for root in flow.reads[k]:
            self.bring(root, k, locked, 0)
        self.make(k, locked)
        for root in (*flow.reads[k], *flow.made[k]):
            if root not in flow.kept and flow.last_use(root) <= k:
                self.drop(root)
                self.gone.remove(root)

    def bring(self, root: str, stage: int, locked: set[str], depth: int) -> None:
        if root in self.flow.given:
            return
        if self.last[self.place[root]] >= 0:
            self.last[self.place[root]] = self.clock
            return
        if not self.flow.may_return(root, stage) or depth > _DEEPEST:
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
        new = [root for root in flow.made[k] if self.last[self.place[root]] < 0]
        needed = sum(flow.bytes[root] for root in new) + flow.ops[k].workspace
        while self.used + needed > self.budget:
            self.evict(locked)
        self.most = max(self.most, self.used + needed)
        self.clock += flow.cost[k] + 1
        if self.clock > self.latest:
            raise MemoryError
        for root in new:
            self.used += flow.bytes[root]
            self.gone.remove(root)
        for root in (*new, *flow.reads[k]):
            if root in new or self.last[self.place[root]] >= 0:
                self.last[self.place[root]] = self.clock

    def evict(self, locked: set[str]) -> None:
        able = self.may & (self.last >= 0)
        able[[self.place[root] for root in locked if root in self.place]] = False
        places = np.flatnonzero(able)
        if not len(places):
            raise MemoryError
        root = self.names[self.least(places)]
        self.drop(root)
        if self.score in ("dtr", "msps"):
            self.gone.add(root)

    def least(self, places: np.ndarray) -> int:
        idle = self.clock - self.last[places] + 1
        if self.score in ("lru", "size"):
            return int(places[(idle if self.score == "lru" else self.bytes[places]).argmax()])
        over = self.bytes[places] * (idle if self.score != "msps" else 1.0)
        alone = self.price[places] / over
        if self.score == "local":
            return int(places[alone.argmin()])
        more = self.gone.around if self.score == "dtr" else self.gone.before
        best, least = 0, np.inf
        for i in np.argsort(alone, kind="stable"):  # what is gone adds to the score: no other can be less
            if alone[i] >= least:
                break
            score = alone[i] + more(self.names[places[i]]) / over[i]
            if score < least:
                best, least = int(places[i]), score
        return best

    def drop(self, root: str) -> None:
        if self.last[self.place[root]] >= 0:
            self.last[self.place[root]] = -1
            self.used -= self.flow.bytes[root]
