"""Shapes of every value of an ONNX model: onnx's own inference, run to a fixed point.

onnx leaves open, and it is closed here: shapes that depend on values (see values); the shapes that a
Loop carries from one iteration to the next (taken to be those that it starts with); the length of what a
Loop collects (its trip count where that is a constant, an upper bound); some secondary outputs of old
operators; and shapes that the model declares and inference cannot derive (custom operators). Declared shapes
of what nodes write are used only for the last: a file may hold stale ones.
"""

from __future__ import annotations

import textwrap
from collections import ChainMap
from collections.abc import Collection, Mapping
from typing import NamedTuple

import onnx
import onnx.helper
import onnx.shape_inference
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto

from ...errors import SourceError
from .bodies import bodies, label, lend_constants, nested, small_constants, states
from .branches import has_branches
from .payload import array
from .schemas import check_nodes, signature_of
from .types import learn, shape_text, static_shape, types, value_info
from .values import Values, drop_values, misfit

_INT64_MAX = 2**63 - 1
# Outputs that inference leaves untyped, of old opsets and of functions: of the type of which input.
_TYPED_LIKE = {
    "Dropout": {1: 0},
    "BatchNormalization": {1: 3, 2: 4, 3: 3, 4: 4},
    "GroupNormalization": {0: 0},
    "MeanVarianceNormalization": {0: 0},
}


class Inferred(NamedTuple):
    """A model with the types of all values that can be known, and what decided on the branches that were taken."""

    model: ModelProto
    deciding: Collection[str]  # the constants and inputs by whose values branches were taken
    is_complete: bool  # whether the size of all that nodes write is known
    is_unfolded: bool  # whether a branch was taken


def infer(model: ModelProto, sizes: Mapping[str, int]) -> Inferred:
    """The types of all values that can be known, and branches that are taken in any run in place of their If.

    `model` itself loses its declared types. `sizes` are those that its symbolic dimensions were given.

    SourceError: a node does not fit its operator, or reads what nothing provides, and it is in no branch that is never
    taken; onnx's inference refuses the model as a whole; or a node cannot take the shapes that follow from `sizes`.
    """
    pinned = {value.name for value in model.graph.input}
    for graph in nested(model.graph):
        pinned |= _pin_counters(graph)
    declared = {name: type for graph in nested(model.graph) for name, type in _forget(graph, pinned).items()}
    _type_unwritten_outputs(model.graph)
    _add_placeholders(model)
    values = Values()
    while has_branches(model) and _propagate(model, values):  # before inference, which looks into all branches
        pass
    check_nodes(model)
    while True:
        model = _infer_once(model, strict=False)
        if _settle(model.graph, ChainMap(), ChainMap()):
            continue
        is_complete = _is_complete(model)
        if (not is_complete or has_branches(model)) and _propagate(model, values):
            continue
        if not is_complete and sizes:
            _check_fits(model, model.graph, ChainMap(), sizes)
        if is_complete or not _recall(model, declared):
            drop_values(model)
            return Inferred(model, values.deciding, is_complete, values.is_unfolded)


def why_unknown(model: ModelProto) -> str:
    """What onnx's inference, when strict, says against an inferred model; empty if nothing."""
    try:
        _infer_once(model, strict=True)
    except SourceError as error:
        return f"; {error}"
    return ""


def _pin_counters(graph: GraphProto) -> set[str]:
    """Names of Loops' iteration numbers, and of conditions without a first value; scalars where unshaped."""
    pinned: set[str] = set()
    for node in graph.node:
        if node.op_type == "Loop" and node.domain == "" and bodies(node) and len(bodies(node)[0][1].input) > 1:
            number, condition = bodies(node)[0][1].input[:2]
            counters = {number.name: (number, TensorProto.INT64)}
            if not node.input[1]:
                counters[condition.name] = (condition, TensorProto.BOOL)
            for value, dtype in counters.values():
                learn(value.type, onnx.helper.make_tensor_type_proto(dtype, []))
            pinned.update(counters)
    return pinned


def _forget(graph: GraphProto, pinned: set[str]) -> dict[str, TypeProto]:
    """Take the declared shapes out of a graph, except those of `pinned` names, and return them."""
    declared = {}
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.name not in pinned:
            declared[value.name] = TypeProto()
            declared[value.name].CopyFrom(value.type)
            if value.type.HasField("tensor_type"):
                value.type.tensor_type.ClearField("shape")
    del graph.value_info[:]
    return declared


def _type_unwritten_outputs(graph: GraphProto) -> None:
    """Give outputs that are inputs or initializers their types; inference types only what nodes write."""
    own, written = types(graph), {name for node in graph.node for name in node.output}
    for output in graph.output:
        if output.name not in written and output.name in own:
            output.type.CopyFrom(own[output.name])


def _add_placeholders(model: ModelProto) -> None:
    """Type what unknown operators write as tensors without dtype and shape: inference trips over no type."""
    versions = {opset.domain: opset.version for opset in model.opset_import}
    for graph in nested(model.graph):
        typed = {value.name for value in graph.output}
        for node in graph.node:
            if signature_of(node, versions) is None:
                names = [name for name in node.output if name and name not in typed]
                graph.value_info.extend(onnx.helper.make_tensor_value_info(name, 0, None) for name in names)


def _settle(graph: GraphProto, outer: ChainMap[str, TypeProto], outer_constants: ChainMap[str, TensorProto]) -> bool:
    """Type what inference leaves open, in Loops and elsewhere, at any depth; whether anything was learnt."""
    known, constants = outer.new_child(types(graph)), outer_constants.new_child(small_constants(graph))
    changed = False
    for node in graph.node:
        if node.op_type == "Loop" and node.domain == "":
            changed |= _settle_states(node, graph, known)
            changed |= _settle_collected(node, graph, constants)
        elif node.op_type in _TYPED_LIKE and node.domain == "":
            changed |= _settle_outputs(node, graph, known)
        for _, body in bodies(node):
            changed |= _settle(body, known, constants)
    return changed


def _settle_outputs(node: NodeProto, graph: GraphProto, known: ChainMap[str, TypeProto]) -> bool:
    changed = False
    for output, source in _TYPED_LIKE[node.op_type].items():
        name = node.output[output] if output < len(node.output) else ""
        like = known.get(node.input[source]) if source < len(node.input) else None
        if name and like is not None and static_shape(like) is not None:
            changed |= learn(value_info(graph, name).type, like)
    return changed


def _settle_states(node: NodeProto, graph: GraphProto, known: ChainMap[str, TypeProto]) -> bool:
    changed = False
    for state in states(node):
        initial = known.get(state.initial)
        if initial is not None and static_shape(initial) is not None:
            changed |= learn(state.before.type, initial)
            changed |= learn(value_info(graph, state.final).type, initial)
    return changed


def _settle_collected(node: NodeProto, graph: GraphProto, constants: ChainMap[str, TensorProto]) -> bool:
    """Shape what a Loop collects: one item of the body's for each of at most the trip count's iterations."""
    trips = _trip_count(node, constants)
    carried = len(states(node))
    changed = False
    for name, item in zip(node.output[carried:], bodies(node)[0][1].output[carried + 1 :], strict=True):
        shape = static_shape(item.type)
        if name and trips is not None and shape is not None:
            dtype = item.type.tensor_type.elem_type
            collected = onnx.helper.make_tensor_type_proto(dtype, [trips, *shape])
            changed |= learn(value_info(graph, name).type, collected)
    return changed


def _trip_count(node: NodeProto, constants: ChainMap[str, TensorProto]) -> int | None:
    """The Loop's trip count if it is a constant and a limit at all."""
    tensor = constants.get(node.input[0])
    if tensor is None or tensor.data_type != TensorProto.INT64:
        return None
    value = array(tensor)
    if value is None or value.size != 1 or value.item() == _INT64_MAX:
        return None
    return max(0, int(value.item()))


def _check_fits(
    model: ModelProto, graph: GraphProto, outer: ChainMap[str, TypeProto], sizes: Mapping[str, int]
) -> None:
    """Refuse a node whose inputs have shapes that do not go together; not in branches, which need not be taken."""
    known, constants = outer.new_child(types(graph)), small_constants(graph)
    for node in graph.node:
        if (why := misfit(node, known, constants, model)) is not None:
            given = ", ".join(f"{name} = {size}" for name, size in sizes.items())
            shapes = [f"{name!r} {shape_text(known[name])}" for name in dict.fromkeys(node.input) if name]
            raise SourceError(f"{label(node)} cannot take {', '.join(shapes)}, with the sizes {given}: {why}")
        for _, body in bodies(node) if node.op_type != "If" else ():
            _check_fits(model, body, known, sizes)


def _recall(model: ModelProto, declared: dict[str, TypeProto]) -> bool:
    """Put back, once, the declared types of values that inference could not shape; whether there were any."""
    changed = False
    for graph in nested(model.graph):
        current = types(graph)
        own = [value.name for value in (*graph.input, *graph.output)]
        own += [name for node in graph.node for name in node.output]
        for name in own:
            if name in declared and static_shape(current.get(name, TypeProto())) is None:
                value_info(graph, name).type.CopyFrom(declared.pop(name))
                changed = True
    return changed


def _propagate(model: ModelProto, values: Values) -> bool:
    if not values.propagate(model):
        return False
    lend_constants(model.graph, ChainMap())
    return True


def _is_complete(model: ModelProto) -> bool:
    for graph in nested(model.graph):
        known = types(graph)
        written = [name for node in graph.node for name in node.output if name]
        if any(static_shape(known.get(name, TypeProto())) is None for name in written):
            return False
    return True


def _infer_once(model: ModelProto, strict: bool) -> ModelProto:
    try:
        return onnx.shape_inference.infer_shapes(model, strict_mode=strict)
    except Exception as error:
        reason = textwrap.shorten(str(error), 400)
        raise SourceError(f"onnx's shape inference says: {reason}") from error
