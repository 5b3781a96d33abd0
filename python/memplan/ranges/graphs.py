"""Graphs of one network at several sizes: whether they are alike, and what may share bytes in all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from .. import _core
from ..errors import UnsupportedError
from ..ops import changed
from ..plans.record import PlanRecord
from .sizes import Sizes, text_of

Relation = tuple[str, str, str, str]  # how, op, output, input


def require_alike(one: _core.Graph, other: _core.Graph, at: Sizes, there: Sizes) -> None:
    """That two sizes give the same ops and tensors, and the same views."""
    for what, a, b in (
        ("tensors", _names(one.tensors), _names(other.tensors)),
        ("ops", sorted(op.name for op in one.ops), sorted(op.name for op in other.ops)),
        ("views", _views(one), _views(other)),
    ):
        if a != b:
            differ = sorted({str(x) for x in a} ^ {str(x) for x in b})
            raise UnsupportedError(
                f"the network has other {what} at {text_of(there)} than at {text_of(at)}, such as "
                f"{', '.join(differ[:3])}: one plan cannot hold for both"
            )


def _names(tensors: Sequence[_core.Tensor]) -> list[str]:
    return [tensor.name for tensor in tensors]


def _views(graph: _core.Graph) -> list[tuple[str, str, str, bool]]:
    found = [(op.name, out, into, over) for op in graph.ops for out, into, over in _must(op)]
    return sorted([*found, *((op.name, name, "", False) for op in graph.ops for name in (*op.inputs, *op.outputs))])


def _must(op: _core.Op) -> Iterator[tuple[str, str, bool]]:
    yield from ((out, into, False) for out, into, _ in op.aliases)
    yield from ((out, into, True) for out, into, _ in op.overwrites)


def growing(graphs: Mapping[tuple[int, ...], _core.Graph]) -> bool:
    """Whether no tensor is larger at smaller sizes."""
    bytes_ = {key: np.array([tensor.bytes for tensor in graph.tensors]) for key, graph in graphs.items()}
    return all(
        bool(np.all(bytes_[a] <= bytes_[b]))
        for a in bytes_
        for b in bytes_
        if all(x <= y for x, y in zip(a, b, strict=True))
    )


def relations_of(graph: _core.Graph) -> set[Relation]:
    return {
        (how, op.name, out, into)
        for op in graph.ops
        for how, views in (("inplace", op.inplace), ("slice", op.slices), ("concat", op.concats))
        for out, into, _ in views
    }


def only(graph: _core.Graph, allowed: set[Relation]) -> _core.Graph:
    """The graph in which no more may share bytes than this.

    An op that may write over an input may still do so over other names for bytes of it that it reads too.
    """
    storage = _storages(graph, allowed)

    def kept(how: str, op: _core.Op, views: Sequence[tuple[str, str, int]]) -> list[tuple[str, str, int]]:
        return [view for view in views if (how, op.name, view[0], view[1]) in allowed]

    def over(op: _core.Op) -> list[tuple[str, str, int]]:
        taken = {(out, storage[into]) for out, into, _ in kept("inplace", op, op.inplace)}
        return [view for view in op.inplace if (view[0], storage[view[1]]) in taken]

    ops = [
        changed(
            op,
            inplace=over(op),
            slices=kept("slice", op, op.slices),
            concats=kept("concat", op, op.concats),
        )
        for op in graph.ops
    ]
    return _core.Graph(graph.tensors, ops, graph.outputs, graph.layout)


def _storages(graph: _core.Graph, allowed: set[Relation]) -> dict[str, str]:
    """Per tensor, one of those with which it lies in a storage once all that is allowed shares bytes."""
    leader = {tensor.name: tensor.name for tensor in graph.tensors}

    def lead(name: str) -> str:
        while leader[name] != name:
            leader[name] = name = leader[leader[name]]
        return name

    pairs = [(out, into) for op in graph.ops for out, into, _ in _must(op)]
    for out, into in [*pairs, *((out, into) for _, _, out, into in allowed)]:
        leader[lead(out)] = lead(into)
    return {name: lead(name) for name in leader}


def shared_of(graph: _core.Graph, buffers: _core.Buffers) -> set[Relation]:
    ops, tensors = graph.ops, graph.tensors
    return {(how, ops[op].name, tensors[out].name, tensors[into].name) for how, op, out, into, _ in buffers.shared}


def in_order(graph: _core.Graph, plan: PlanRecord) -> _core.Graph:
    """The graph in the order of a plan, with what was asked of where things lie."""
    assert plan.graph is not None
    position = {op.name: k for k, op in enumerate(graph.ops)}
    ordered = _core.reordered(graph, [position[name] for name in plan.order])
    ops = [changed(op, branch=as_planned.branch) for op, as_planned in zip(ordered.ops, plan.graph.ops, strict=True)]
    return _core.Graph(ordered.tensors, ops, ordered.outputs, plan.graph.layout)
