"""The file of a model with its nodes in the order of a plan. Nothing else in it changes."""

from __future__ import annotations

import heapq
import os
from collections.abc import Mapping, Sequence
from graphlib import TopologicalSorter
from typing import Any

import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from ...files import replacing
from ..reading.bodies import bodies


def reordered(model: ModelProto, step_of: Mapping[str, int]) -> ModelProto:
    """A copy of a model whose nodes stand in another order, by the steps at which results are made.

    A node stands where the last of its results is made, but never before what it reads. So a call of a function, which
    stands for several ops, stays whole. What makes no result of an op, such as a constant, comes as soon as it can.
    Payload in other files stays there.
    """
    copy = ModelProto()
    copy.CopyFrom(model)
    nodes = list(model.graph.node)
    steps = [max((step_of[name] for name in node.output if name in step_of), default=-1) for node in nodes]
    del copy.graph.node[:]
    copy.graph.node.extend(nodes[k] for k in _sorted(nodes, steps))
    return copy


def _sorted(nodes: Sequence[NodeProto], steps: Sequence[int]) -> list[int]:
    """Positions of nodes in the order of steps, each after what it reads. O(n log n) beside the names."""
    maker = {name: k for k, node in enumerate(nodes) for name in node.output if name}
    waits = {k: {maker[name] for name in _named(node) if name in maker} - {k} for k, node in enumerate(nodes)}
    sorter, ready, found = TopologicalSorter(waits), list[tuple[int, int]](), list[int]()
    sorter.prepare()
    while sorter.is_active():
        for k in sorter.get_ready():
            heapq.heappush(ready, (steps[k], k))
        found.append(heapq.heappop(ready)[1])
        sorter.done(found[-1])
    return found


def _captured(body: GraphProto) -> set[str]:
    """The names of the graphs around it that a body reads."""
    named = {output.name for output in body.output}
    for node in body.node:
        named.update(_named(node))
    own = [value.name for value in body.input] + [tensor.name for tensor in body.initializer]
    own += [tensor.values.name for tensor in body.sparse_initializer]
    return named - set(own) - {name for node in body.node for name in node.output}


def _named(node: NodeProto) -> set[str]:
    """The names that a node reads, and its bodies."""
    return set(node.input).union(*(_captured(body) for _, body in bodies(node)))


def write(model: ModelProto, path: str | os.PathLike[str], folder: str | None) -> None:
    """Write a model, as text or not by the suffix of the path; `folder` is where its payload in other files lies."""
    target = os.path.dirname(os.path.realpath(path))
    if folder is not None and target != os.path.realpath(folder) and _has_other_files(model):
        raise ValueError(f"{os.fspath(path)}: the model's external data lie in {folder}: write it there")
    with replacing(path) as beside:
        onnx.save(model, beside)


def _has_other_files(message: Any) -> bool:
    """Whether a model, or a part of it, has payload in other files."""
    if isinstance(message, TensorProto):
        return message.data_location == TensorProto.EXTERNAL
    parts = [value for field, value in message.ListFields() if field.message_type is not None]
    return any(_has_other_files(each) for part in parts for each in (part if _is_row(part) else [part]))


def _is_row(value: Any) -> bool:
    return not hasattr(value, "ListFields")
