"""What a split would bring: ops in pieces, so that tensors between them are never whole."""

from __future__ import annotations

from typing import Any

from .. import _core
from ..errors import UnsupportedError
from ..plans.costs import costs_of
from .advice import Advice
from .orders import load_during

_WORK = 100_000  # ops of graphs that the search looks at


def found_split(graph: _core.Graph, storage: _core.StorageOptions, load: int) -> Any:
    """The regions that a short search splits to halve the load; None if none lowers it."""
    if not any(op.loops for op in graph.ops):
        return None
    try:
        found = _core.find_split(graph, costs_of(graph, "auto"), storage, load // 2, _WORK)
    except UnsupportedError:  # graphs with branches or a layout
        return None
    return found if found.load < load else None


def in_pieces(graph: _core.Graph, storage: _core.StorageOptions, load: int, op: int) -> list[Advice]:
    """The split, and what it takes away while an op runs."""
    found = found_split(graph, storage, load)
    if found is None:
        return []
    buffers = _core.buffers_of(found.graph, storage)
    left = max(load_during(buffers, k) for k, piece in enumerate(found.pieces) if piece.of == op)
    names = tuple(name for change in found.changes for name in change.tensors)
    return [Advice("split", names, found.load, load - left)]
