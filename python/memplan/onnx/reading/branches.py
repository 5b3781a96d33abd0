"""If nodes whose condition is known: the branch that a run takes stands in place of the node, the other is not read.

c = Equal(Gather(Shape(x), 2), 1)               x of shape [4, 8, 16], as torch writes a squeeze:
y = If(c){then: Squeeze(x, 2), else: x}         y = Identity(x)
"""

from __future__ import annotations

from collections.abc import Container, Mapping

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


def unfold(node: NodeProto, branch: GraphProto, used: set[str], known: Container[str]) -> GraphProto:
    """A copy of a branch for the graph of the If: its nodes make the outputs of the If, and it has no outputs.

    `used` are names of nodes of that graph. Constants that are `known` there were lent, and are left out.
    """
    copy, made = GraphProto(), [name for name in node.output if name]
    copy.node.extend(branch.node)
    copy.initializer.extend(tensor for tensor in branch.initializer if tensor.name not in known)
    own = {value.name for value in branch.output}
    copy.value_info.extend(value for value in branch.value_info if value.name not in own and value.name not in made)
    names = {value.name: name for value, name in zip(branch.output, node.output, strict=True) if name}
    for inner in nested(copy):
        rename(inner, names)
    for one in copy.node:
        one.name = fresh(one.name, used)
    return copy


def _is_if(node: NodeProto) -> bool:
    return node.op_type == "If" and not node.domain
