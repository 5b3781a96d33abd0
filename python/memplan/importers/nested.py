"""Graphs inside ops, such as the body of a loop: planned by themselves, they are workspace of their op."""

from __future__ import annotations

from typing import Any

from .. import _core
from ..kinds import PLACED
from ..planning.registry import solve_graph
from .graph_dict import graph_of


def peak_of(graph: dict[str, Any]) -> int:
    """Bytes of the arena that the plan of a graph dict needs by default."""
    storage = _core.StorageOptions(list(PLACED), 1, True, [], [], True)
    _, solution = solve_graph(graph_of(graph, measured=True), "auto", storage)
    return int(solution.peak)
