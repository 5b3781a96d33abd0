"""Graphs inside graphs: the bodies of If, Loop and Scan, and the form that a model is brought into first.

After `normalise`, in the main graph and in every body:

- constants are initializers, and initializers are not inputs;
- every node has a name, and no two nodes of a graph have the same;
- no body defines a name that another graph of the model defines, so a name says which graph it is from;
- every output of a body is written by a node of that body, and no two are the same;
- every state that a Loop or Scan carries has an output on the node: it is stored whether asked for or not;
- a body holds copies of the small constants it captures: shape inference does not look for them outside.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import onnx.helper
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto
from onnx.helper import get_attribute_value

from ...errors import SourceError
from .payload import KEPT_ELEMENTS, Payload

BODIES = {"If": ("then_branch", "else_branch"), "Loop": ("body",), "Scan": ("body",)}


class State(NamedTuple):
    """A value that a Loop or Scan carries from one iteration to the next."""

    initial: str  # the node's input, a name of the graph that the node is in
    before: ValueInfoProto  # the body's input
    after: ValueInfoProto  # the body's output
    final: str  # the node's output


def normalise(model: ModelProto, payload: Payload) -> None:
    """Bring `model`, which `payload` has copied, in place into the form above.

    SourceError if the numbers of a node's inputs and outputs do not fit its body's. Constants of strings stay nodes.
    """
    for graph in nested(model.graph):
        _fold_constants(graph, payload)
        _drop_initialized_inputs(graph)
    taken = _names(model.graph)
    _separate_names(model.graph, taken, {})
    for index, graph in enumerate(nested(model.graph)):
        if index > 0:
            _own_outputs(graph, taken)
        _name_nodes(graph)
        for node in graph.node:
            if sorted(name for name, _ in bodies(node)) == _expected_bodies(node):
                for _, body in bodies(node):
                    _check_arity(node, body)
                _name_final_states(node, taken)
    lend_constants(model.graph, ChainMap())


def bodies(node: NodeProto) -> list[tuple[str, GraphProto]]:
    """The graphs that a node holds, each with the name of its attribute."""
    single = [(attribute.name, attribute.g) for attribute in node.attribute if attribute.HasField("g")]
    return single + [(attribute.name, graph) for attribute in node.attribute for graph in attribute.graphs]


def nested(graph: GraphProto) -> Iterator[GraphProto]:
    """The graph and all bodies inside it, at any depth; outer ones first."""
    yield graph
    for node in graph.node:
        for _, body in bodies(node):
            yield from nested(body)


def reads(graph: GraphProto) -> list[str]:
    """The names that nodes of the graph and of bodies inside it read, each once."""
    return list(dict.fromkeys(name for inner in nested(graph) for node in inner.node for name in node.input))


def attributes_of(node: NodeProto) -> dict[str, Any]:
    """What a node's attributes hold, by their names."""
    return {attribute.name: get_attribute_value(attribute) for attribute in node.attribute}


def label(node: NodeProto) -> str:
    """How messages call a node: its name and its operator."""
    return f"node {node.name!r} ({node.op_type})"


def fresh(stem: str, taken: set[str]) -> str:
    """A name that is not in `taken` yet, made from `stem`; added to `taken`."""
    name, count = stem, 0
    while name in taken:
        count += 1
        name = f"{stem}_{count}"
    taken.add(name)
    return name


def states(node: NodeProto) -> list[State]:
    """What a Loop or Scan carries between iterations, in order; empty for other nodes."""
    if node.domain != "" or node.op_type not in ("Loop", "Scan"):
        return []
    body = bodies(node)[0][1]
    first, first_after = (2, 1) if node.op_type == "Loop" else (0, 0)
    count = len(body.input) - first - _scan_inputs(node)
    inputs = node.input[len(node.input) - len(body.input) :]
    return [
        State(inputs[first + i], body.input[first + i], body.output[first_after + i], node.output[i])
        for i in range(count)
    ]


def small_constants(graph: GraphProto) -> dict[str, TensorProto]:
    """The initializers that kept their payload, by name."""
    return {t.name: t for t in graph.initializer if t.data_location != TensorProto.EXTERNAL}


def lend_constants(graph: GraphProto, outer: ChainMap[str, TensorProto]) -> None:
    """Copy into every body the small constants that it captures, given those of the enclosing graphs."""
    known = outer.new_child(small_constants(graph))
    for node in graph.node:
        for _, body in bodies(node):
            read = reads(body)
            own = {tensor.name for tensor in body.initializer}
            body.initializer.extend(known[name] for name in read if name in known and name not in own)
            lend_constants(body, known)


def _scan_inputs(node: NodeProto) -> int:
    return int(attributes_of(node).get("num_scan_inputs", 0))


def check_form(node: NodeProto) -> None:
    """Refuse a node whose graphs are not those of its kind of control flow, and a Constant without numbers."""
    found = sorted(name for name, _ in bodies(node))
    expected = _expected_bodies(node)
    if found != expected:
        raise SourceError(
            f"{label(node)} holds the graphs [{', '.join(found)}], expected [{', '.join(expected)}]: "
            "only the bodies of If, Loop and Scan can be planned"
        )
    if node.op_type == "Constant" and node.domain == "" and any(node.output):
        name = node.output[0]
        if any(attribute.name in ("value_string", "value_strings") for attribute in node.attribute):
            raise SourceError(f"constant {name!r} holds strings, whose size is not fixed; expected numbers")
        raise SourceError(f"constant {name!r} has no value: expected the attribute value, value_int, ...")


def _expected_bodies(node: NodeProto) -> list[str]:
    return sorted(BODIES.get(node.op_type, ())) if node.domain == "" else []


def _check_arity(node: NodeProto, body: GraphProto) -> None:
    """Pad optional inputs and outputs left off at the end; compare the numbers with the body's."""
    expected_inputs, outputs, carried = {len(body.input)}, len(body.output), 0
    if node.op_type == "If":
        expected_inputs = {1} if not body.input else set()
    elif node.op_type == "Loop":
        node.input.extend([""] * (2 - len(node.input)))
        outputs, carried = outputs - 1, len(body.input) - 2
    else:
        carried = len(body.input) - _scan_inputs(node) if _scan_inputs(node) > 0 else -1
        expected_inputs.add(len(body.input) + 1)  # up to opset 8 the sequences' lengths come first
    node.output.extend([""] * (outputs - len(node.output)))
    if not 0 <= carried <= outputs or len(node.input) not in expected_inputs or len(node.output) != outputs:
        raise SourceError(
            f"{label(node)} has {len(node.input)} inputs and {len(node.output)} outputs, which does not fit "
            f"its body's {len(body.input)} inputs and {len(body.output)} outputs"
        )


def _fold_constants(graph: GraphProto, payload: Payload) -> None:
    for index in reversed(range(len(graph.node))):
        node = graph.node[index]
        if node.op_type == "Constant" and node.domain == "" and any(node.output):
            tensor = _constant(node, payload)
            if tensor is not None:
                graph.initializer.append(tensor)
                del graph.node[index]


def _constant(node: NodeProto, payload: Payload) -> TensorProto | None:
    """The tensor that a Constant node stands for, named as its output; None if it holds strings or nothing."""
    name = node.output[0]
    for attribute in node.attribute:
        if attribute.name == "value":
            tensor = TensorProto()
            tensor.CopyFrom(attribute.t)
            tensor.name = name
            return tensor
        if attribute.name == "sparse_value":
            return payload.dense_stub(attribute.sparse_tensor, name)
        if attribute.name in ("value_float", "value_floats"):
            values = attribute.floats if attribute.name == "value_floats" else attribute.f
            return _from_attribute(name, TensorProto.FLOAT, values, payload)
        if attribute.name in ("value_int", "value_ints"):
            values = attribute.ints if attribute.name == "value_ints" else attribute.i
            return _from_attribute(name, TensorProto.INT64, values, payload)
    return None


def _from_attribute(name: str, dtype: int, values: Any, payload: Payload) -> TensorProto:
    dims = [] if isinstance(values, (int, float)) else [len(values)]
    tensor = onnx.helper.make_tensor(name, dtype, dims, list(values) if dims else [values])
    return tensor if not dims or dims[0] <= KEPT_ELEMENTS else payload.stub(tensor)


def _drop_initialized_inputs(graph: GraphProto) -> None:
    initialized = {tensor.name for tensor in graph.initializer}
    for index in reversed(range(len(graph.input))):
        if graph.input[index].name in initialized:
            del graph.input[index]


def _names(graph: GraphProto) -> set[str]:
    """The names that a graph defines itself, and those that its nodes read."""
    names = set(_defined(graph)) | {name for node in graph.node for name in node.input}
    return names | {value.name for value in graph.output} | {""}


def _defined(graph: GraphProto) -> list[str]:
    values = [value.name for value in (*graph.input, *graph.initializer)]
    return values + [name for node in graph.node for name in node.output if name]


def _separate_names(graph: GraphProto, taken: set[str], renamed: Mapping[str, str]) -> None:
    for node in graph.node:
        for _, body in bodies(node):
            own = dict.fromkeys(_defined(body))
            names = {old: new for old, new in renamed.items() if old not in own}
            clashes = [name for name in own if name in taken]
            taken.update(own)
            names.update({name: fresh(name, taken) for name in clashes})
            if names:
                rename(body, names)
            _separate_names(body, taken, names)


def rename(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Give values of a graph other names, where it defines and reads them; bodies of its nodes stay as they are."""
    for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        value.name = names.get(value.name, value.name)
    for node in graph.node:
        for field in (node.input, node.output):
            for index, name in enumerate(field):
                field[index] = names.get(name, name)


def _name_nodes(graph: GraphProto) -> None:
    """Keep the first node of each name; name the others by operator and place: `Relu_3`."""
    taken, used = {"", *(node.name for node in graph.node)}, {""}
    for index, node in enumerate(graph.node):
        if node.name in used:
            node.name = fresh(f"{node.op_type}_{index}", taken)
        used.add(node.name)


def _own_outputs(body: GraphProto, taken: set[str]) -> None:
    """Put an Identity before each output that no node of the body writes, or that is an output already."""
    free = {name for node in body.node for name in node.output}
    for output in body.output:
        if output.name not in free:
            name = fresh(output.name, taken)
            body.node.add(op_type="Identity", input=[output.name], output=[name])
            output.name = name
        free.discard(output.name)


def _name_final_states(node: NodeProto, taken: set[str]) -> None:
    for index, state in enumerate(states(node)):
        if not state.final:
            node.output[index] = fresh(f"{state.before.name}.final", taken)
