"""A model as the importer has seen it, with its payload again: functions and branches that are taken stand inline."""

from __future__ import annotations

from collections.abc import Set

from onnx import GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto

from ..reading import Imported
from ..reading.bodies import bodies
from ..reading.payload import Payload


def rewritten(found: Imported, source: ModelProto) -> ModelProto:
    """The model that was imported from a source; payload in other files stays there."""
    model = ModelProto()
    model.CopyFrom(source)
    model.ClearField("graph")
    model.ClearField("functions")
    model.ir_version = found.model.ir_version
    model.graph.CopyFrom(found.model.graph)
    _restore(model.graph, found.payload, frozenset())
    return model


def _restore(graph: GraphProto, payload: Payload, outer: Set[str]) -> None:
    """Give a graph its payload, and take from it what was lent by the graphs around it."""
    tensors = [tensor for tensor in graph.initializer if tensor.name not in outer]
    copies = GraphProto()
    for tensor in tensors:
        whole = payload.of(tensor)
        if isinstance(whole, SparseTensorProto):
            copy = copies.sparse_initializer.add()
            copy.CopyFrom(whole)
            copy.values.name = tensor.name
        else:
            _fill(copies.initializer.add(), whole, tensor.name)
    del graph.initializer[:]
    graph.initializer.extend(copies.initializer)
    graph.sparse_initializer.extend(copies.sparse_initializer)
    visible = {*outer, *(value.name for value in graph.input), *(tensor.name for tensor in tensors)}
    for node in graph.node:
        _restore_node(node, payload)
        visible.update(node.output)
    for node in graph.node:
        for _, body in bodies(node):
            _restore(body, payload, visible)


def _restore_node(node: NodeProto, payload: Payload) -> None:
    for attribute in node.attribute:
        for tensor in (*([attribute.t] if attribute.HasField("t") else []), *attribute.tensors):
            whole = payload.of(tensor)
            if isinstance(whole, TensorProto):
                _fill(tensor, whole, tensor.name)


def _fill(target: TensorProto, whole: TensorProto, name: str) -> None:
    if target is not whole:
        target.CopyFrom(whole)
    target.name = name
