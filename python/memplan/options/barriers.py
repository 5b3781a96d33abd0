"""Barriers: ops that keep their place among all others, whatever the order."""

from __future__ import annotations

from collections.abc import Collection

from .. import _core
from ..errors import GraphError
from ..ops import changed
from ..text import offer


def with_barriers(graph: _core.Graph, names: Collection[str]) -> _core.Graph:
    """The graph in which all ops listed before an op of these names stay before it, and all behind it stay behind.

    It is said by `after`: of a barrier, the ops since the barrier before it; of any other op, the last barrier. With
    several streams, the order is kept anyway, and nothing is added.

    GraphError: the graph has no op of that name.
    """
    if not names:
        return graph
    names, known = set(names), [op.name for op in graph.ops]
    for name in sorted(names - set(known)):
        raise GraphError(f"barrier must name ops, got {name!r}; {offer(name, known, 'ops')}")
    if len({op.stream for op in graph.ops}) > 1:
        return graph
    ops, last, behind = [], list[str](), list[str]()  # the last barrier; what is listed behind it
    for op in graph.ops:
        waits = last
        if op.name in names:
            waits, last, behind = [*last, *behind], [op.name], []
        else:
            behind.append(op.name)
        ops.append(changed(op, after=[*op.after, *(name for name in waits if name not in op.after)]))
    return _core.Graph(graph.tensors, ops, graph.outputs, graph.layout)
