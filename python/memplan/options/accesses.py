"""How often bytes are written and read: what a plan in several pools pays for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from .. import _core
from ..text import offer


def _count(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
        raise ValueError(f"{where} must be an integer >= 0, got {value!r}")
    return min(int(value), 2**63 - 1)


def counts_of_problem(problem: _core.Problem, accesses: Mapping[str, int] | Sequence[int] | None) -> list[int]:
    """How often each buffer of a problem is accessed; [] where nothing is said."""
    if accesses is None:
        return []
    if isinstance(accesses, Mapping):
        names = [problem.name(b) for b in range(len(problem))]
        _check_counted(accesses, names, "buffers of the problem")
        return [_count(accesses.get(name, 1), f"accesses[{name!r}]") for name in names]
    if len(accesses) != len(problem):
        raise ValueError(f"accesses must have one count per buffer, {len(problem)}, got {len(accesses)}")
    return [_count(count, f"accesses[{b}]") for b, count in enumerate(accesses)]


def _check_counted(accesses: Mapping[str, int], names: Collection[str], what: str) -> None:
    for name in accesses:
        if name not in names:
            raise ValueError(f"accesses must name {what}, got {name!r}; {offer(str(name), list(names), what)}")


def counts_of_graph(graph: _core.Graph, accesses: Any) -> dict[str, int]:
    """How often tensors of a graph are accessed where that is not what its ops do."""
    if accesses is not None and not isinstance(accesses, Mapping):
        raise TypeError(f"accesses must be counts by name for graphs, got {type(accesses).__name__}")
    given = dict(accesses or {})
    _check_counted(given, {tensor.name for tensor in graph.tensors} if given else (), "tensors of the graph")
    return {name: _count(count, f"accesses[{name!r}]") for name, count in given.items()}
