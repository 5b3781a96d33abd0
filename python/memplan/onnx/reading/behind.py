"""By whose values the size of a tensor may follow: what a message offers where it is not known."""

from __future__ import annotations

from onnx import ModelProto, NodeProto, TensorProto, TypeProto

from .bodies import nested
from .payload import unread
from .types import types
from .values import OF_SIZES

_INTEGERS = frozenset(
    (TensorProto.BOOL, *(TensorProto.DataType.Value(f"{sign}INT{n}") for sign in ("", "U") for n in (8, 16, 32, 64)))
)


def advice(model: ModelProto, writer: NodeProto) -> str:
    """What may be given, or is missing, so that the outputs of a node of a model have known sizes; empty if nothing.

    These are inputs and small constants that the node reads as integers, or makes integers of on the way.
    """
    graphs = list(nested(model.graph))
    made_by = {name: node for graph in graphs for node in graph.node for name in node.output}
    known = {name: type for graph in graphs for name, type in types(graph).items()}
    constants = {tensor.name: tensor for graph in graphs for tensor in graph.initializer}
    waits, seen = [name for name in writer.input if name], set[str]()
    while waits:
        name = waits.pop()
        if name in seen or known.get(name, TypeProto()).tensor_type.elem_type not in _INTEGERS:
            continue
        seen.add(name)
        node = made_by.get(name)
        if node is not None and node.op_type not in OF_SIZES:
            waits.extend(one for one in node.input if one)
    given = [value.name for value in model.graph.input if value.name in seen and value.name not in constants]
    missing = {name: why for name in sorted(seen) if name in constants and (why := unread(constants[name]))}
    offered = ", ".join(f"{name!r}: ..." for name in given)
    parts = [f"it may depend on inputs: give their values, values={{{offered}}}"] if given else []
    return "; ".join([*parts, *(f"the value of {name!r} cannot be read: {why}" for name, why in missing.items())])
