"""What rules of others reach on a graph: the load and the cost of each of their schedules, kept in a file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from fit_dtr import SCORES, dtr
from fit_dtr import peak as peak_of_dtr
from fit_rules import Flow, Reruns, knapsacks, moved_out, segments

from memplan import _core
from memplan.files import write_text

RULES = ("DTR", "knapsack", "segments")
_PERCENT = range(98, 10, -2)  # of what a rule holds by its own count if it gives up nothing: its budgets
_CODE = ("fit_others.py", "fit_rules.py", "fit_dtr.py")
Found = dict[str, list[tuple[int, float]]]  # by rule, the load and the cost of each schedule


class Others:
    """The rules of others on one graph.

    Parameters
    ----------
    graph, cost
        The graph, and the cost of each op.
    folder
        Where what they reach is kept; it is read if neither graph nor rules have changed.
    """

    def __init__(self, name: str, graph: _core.Graph, cost: list[float], folder: Path) -> None:
        self._graph, self._cost = graph, cost
        self._again = _core.again_of(graph)
        self._storage = _core.StorageOptions()
        self._path = folder / f"{name}.json"
        self._digest = self._digest_of()
        kept = json.loads(self._path.read_text()) if self._path.is_file() else {}
        self._found: Found = kept["found"] if kept.get("digest") == self._digest else {}

    def least(self, rule: str, capacity: int) -> float | None:
        """The least cost of a rule's schedules within a capacity; None if none is."""
        if rule not in self._found:
            self._found[rule] = list(self._run(rule))
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_text(self._path, json.dumps({"digest": self._digest, "found": self._found}))
        return min((cost for load, cost in self._found[rule] if load <= capacity), default=None)

    def least_moved(self, capacity: int, transfer: float) -> float | None:
        """The same for what is moved out, at a price for each byte."""
        least = self.least("moved", capacity)
        return None if least is None else least * transfer

    def _run(self, rule: str) -> Iterator[tuple[int, float]]:
        flow = Flow(self._graph, self._cost)
        if rule == "moved":
            yield from self._moved(flow)
            return
        seen = set[tuple[tuple[int, int], ...]]()
        for reruns in self._schedules(flow, rule):
            if reruns is not None and tuple(reruns) not in seen:
                seen.add(tuple(reruns))
                found = _core.rerun_graph(self._graph, self._cost, self._again, self._storage, reruns)
                yield found.load, found.added_cost

    def _schedules(self, flow: Flow, rule: str) -> Iterable[Reruns | None]:
        if rule == "knapsack":
            return knapsacks(flow, 2)
        if rule == "segments":
            return segments(flow)
        peak = peak_of_dtr(flow)
        return (dtr(flow, peak * percent // 100, score) for score in SCORES for percent in _PERCENT)

    def _moved(self, flow: Flow) -> Iterator[tuple[int, float]]:
        """At a price of one for each byte."""
        place = {tensor.name: t for t, tensor in enumerate(self._graph.tensors)}
        peak = int(flow.loads.max())
        for size in (peak * percent // 100 for percent in _PERCENT):
            for longest in (True, False):
                fetches = moved_out(flow, size, longest)
                if fetches is not None:
                    pairs = [(step, place[root]) for step, root in fetches]
                    found = _core.rerun_graph(self._graph, self._cost, self._again, self._storage, [], pairs, 1.0)
                    yield found.load, found.added_cost

    def _digest_of(self) -> str:
        facts: list[Any] = [self._graph.to_dict(), self._cost]
        code = [(Path(__file__).parent / name).read_text() for name in _CODE]
        return hashlib.sha256(json.dumps([facts, code]).encode()).hexdigest()
