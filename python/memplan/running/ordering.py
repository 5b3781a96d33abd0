"""Orders for what a runtime runs: its ops as a graph, and the order in which they hold least."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .. import _core
from ..importers.graph_dict import graph_of

_STORAGE = _core.StorageOptions(["input", "intermediate", "output", "workspace"], 1, False, [], [], False)


@dataclass
class PieceGraph:
    """Ops of a runtime in their given order. What they make and use are pieces of memory, known by any key.

    A piece is written by the first op that touches it. An op that changes a piece runs after all that touched it
    before, and before all that touch it later. `kept` are the pieces that are alive at the end.
    """

    _sizes: dict[Any, int] = field(default_factory=dict)
    _given: set[Any] = field(default_factory=set)
    _ops: list[dict[str, Any]] = field(default_factory=list)
    _names: dict[Any, str] = field(default_factory=dict)
    _writer: dict[Any, int] = field(default_factory=dict)  # the op that has written a piece last
    _readers: dict[Any, list[int]] = field(default_factory=dict)  # and those that have touched it since
    kept: set[Any] = field(default_factory=set)

    def piece(self, key: Any, size: int, given: bool = False) -> None:
        """Declare a piece of so many bytes; `given` if it is there before the first op."""
        if key not in self._sizes:
            self._names[key] = f"t{len(self._names)}"
        self._sizes[key] = max(size, self._sizes.get(key, 0))
        if given:
            self._given.add(key)

    def op(
        self, touched: Iterable[Any], changed: Collection[Any] = (), after: Iterable[int] = (), workspace: int = 0
    ) -> None:
        """Append an op: the pieces that it touches, those of them that it changes, and the ops that it waits for."""
        number = len(self._ops)
        entry: dict[str, Any] = {"name": f"op{number}", "inputs": [], "outputs": [], "workspace": workspace}
        waits = set(after)
        for key in dict.fromkeys(touched):
            new = key not in self._given and key not in self._writer
            entry["outputs" if new else "inputs"].append(self._names[key])
            waits.update([self._writer[key]] if key in self._writer else [])
            if new or key in changed:
                waits.update(self._readers.pop(key, []))
                self._writer[key] = number
            else:
                self._readers.setdefault(key, []).append(number)
        entry["after"] = [f"op{k}" for k in sorted(waits - {number})]
        self._ops.append(entry)

    def in_order(self, order: str) -> list[int] | None:
        """The positions of the ops in an order that a rule or search gives; None if it is the given one."""
        found = _core.order_of(self._graph, order, _STORAGE, interruptible=False)
        return None if found.found_by == "given" else list(found.ops)

    def load(self, order: Sequence[int] | None = None) -> int:
        """The most bytes that are alive at once, in the given order or in another."""
        graph = self._graph if order is None else _core.reordered(self._graph, order)
        return _core.buffers_of(graph, _STORAGE).problem.load

    @cached_property
    def _graph(self) -> _core.Graph:
        touched = [key for key in self._sizes if key in self._given or key in self._writer]
        spec: Mapping[str, Any] = {
            "tensors": [
                {
                    "name": self._names[key],
                    "bytes": self._sizes[key],
                    "kind": "input" if key in self._given else "intermediate",
                }
                for key in touched
            ],
            "ops": self._ops,
            "outputs": [self._names[key] for key in touched if key in self.kept],
        }
        return graph_of(spec, measured=True)
