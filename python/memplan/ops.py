"""A graph and its ops, made anew with something changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from . import _core
from .errors import GraphError
from .text import offer

_FIELDS = (
    *("name", "type", "inputs", "outputs", "workspace", "aliases", "inplace", "overwrites", "stream"),
    *("slices", "concats", "after", "cost", "recompute", "branch", "flops", "loops", "ordered", "reads_first"),
    *("body", "pieces_copied"),
)


def without_overlap(graph: _core.Graph) -> _core.Graph:
    """The graph without what its ops say of the order in which their kernels read and write."""
    if not any(op.ordered for op in graph.ops):
        return graph
    ops = [changed(op, ordered=[], reads_first=False) for op in graph.ops]
    return _core.Graph(graph.tensors, ops, graph.outputs, graph.layout)


def kept_alive(graph: _core.Graph, names: Collection[str]) -> _core.Graph:
    """The graph in which tensors of these names live to the end, as its outputs do.

    GraphError: the graph has no tensor of that name.
    """
    known = [tensor.name for tensor in graph.tensors]
    for name in names:
        if graph.index(name) is None:
            raise GraphError(f"keep_alive must name tensors, got {name!r}; {offer(name, known, 'tensors')}")
    outputs = list(dict.fromkeys([*graph.outputs, *names]))
    return graph if outputs == graph.outputs else _core.Graph(graph.tensors, graph.ops, outputs, graph.layout)


def with_workspaces(graph: _core.Graph, workspaces: Mapping[str, int]) -> _core.Graph:
    """The graph with these bytes as workspaces of ops, by name."""
    ops = [changed(op, workspace=workspaces[op.name]) if op.name in workspaces else op for op in graph.ops]
    return _core.Graph(graph.tensors, ops, graph.outputs, graph.layout)


def without_copies(graph: _core.Graph) -> _core.Graph:
    """The graph whose pieces count no rows that they copy, or compute apart."""
    if not any(op.pieces_copied or any(loop.copied for loop in op.loops) for op in graph.ops):
        return graph
    ops = [changed(op, pieces_copied=False, loops=[_without_copies(loop) for loop in op.loops]) for op in graph.ops]
    return _core.Graph(graph.tensors, ops, graph.outputs, graph.layout)


def _without_copies(loop: _core.Loop) -> _core.Loop:
    return _core.Loop(loop.extent, loop.reads, loop.writes, loop.sums, loop.early, loop.statistics, loop.workspace)


def changed(op: _core.Op, **changes: Any) -> _core.Op:
    """The op with these fields changed, and all others as they are."""
    return _core.Op(**{field: getattr(op, field) for field in _FIELDS} | changes)
