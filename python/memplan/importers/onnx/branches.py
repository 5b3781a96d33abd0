"""If nodes whose condition is known: the branch that a run takes stands in place of the node, the other is not read.

c = Equal(Gather(Shape(x), 2), 1)               x of shape [4, 8, 16], as torch writes a squeeze:
y = If(c){then: Squeeze(x, 2), else: x}         y = Identity(x)
"""

from __future__ import annotations

from collections.abc import Mapping

from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from .bodies import bodies, fresh, nested, rename
from .payload import array


def has_branches(model: ModelProto) -> bool:
    """Whether a model has an If at any depth."""
    return any(_is_if(node) for graph in nested(model.graph) for node in graph.node)


def taken(node: NodeProto, constants: Mapping[str, TensorProto]) -> GraphProto | None:
    """The branch that an If takes; None for other nodes, and where the condition is not known."""
    if not _is_if(node) or not node.input or node.input[0] not in constants:
        return None
    condition = array(constants[node.input[0]])
    if condition is None or condition.size != 1:
        return None
    return dict(bodies(node)).get("then_branch" if condition.item() else "else_branch")


def unfold(node: NodeProto, branch: GraphProto, graph: GraphProto, used: set[str]) -> list[NodeProto]:
    """Copies of the nodes of a branch, which make the outputs of the If; the graph of the If gets its constants.

    `used` are names of nodes of the graph. What is known of the outputs' shapes is forgotten: it was of both branches.
    """
    copy = GraphProto()
    copy.CopyFrom(branch)
    outputs = {value.name for value in copy.output}
    names = {value.name: name for value, name in zip(copy.output, node.output, strict=True) if name}
    for inner in nested(copy):
        rename(inner, names)
    known = {tensor.name for tensor in graph.initializer}
    graph.initializer.extend(tensor for tensor in copy.initializer if tensor.name not in known)
    graph.value_info.extend(value for value in copy.value_info if value.name not in outputs)
    for value in (*graph.value_info, *graph.output):
        if value.name in node.output and value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    for one in copy.node:
        one.name = fresh(one.name, used)
    return list(copy.node)


def _is_if(node: NodeProto) -> bool:
    return node.op_type == "If" and not node.domain
