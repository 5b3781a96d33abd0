"""Ops of a graph, made anew with something changed."""

from __future__ import annotations

from typing import Any

from . import _core

_FIELDS = (
    *("name", "type", "inputs", "outputs", "workspace", "aliases", "inplace", "overwrites", "stream"),
    *("slices", "concats", "after", "cost", "recompute", "branch", "flops", "loops", "ordered", "reads_first"),
)


def without_overlap(graph: _core.Graph) -> _core.Graph:
    """The graph without what its ops say of the order in which their kernels read and write."""
    if not any(op.ordered for op in graph.ops):
        return graph
    ops = [changed(op, ordered=[], reads_first=False) for op in graph.ops]
    return _core.Graph(graph.tensors, ops, graph.outputs, graph.layout)


def changed(op: _core.Op, **changes: Any) -> _core.Op:
    """The op with these fields changed, and all others as they are."""
    return _core.Op(**{field: getattr(op, field) for field in _FIELDS} | changes)
