"""Shapes that depend on values, found by walking the nodes of an inferred model in order.

Exported models derive shapes by arithmetic (Shape, Gather, Mul, Concat, ScatterElements, Where, ... and at last a
Reshape or Expand), which onnx's inference does not follow. Once the symbolic dimensions have values, that
arithmetic is constant, and onnx's reference implementation evaluates it, one small node at a time; what
depends on the results is inferred on the way, and an If whose condition is known becomes the branch that it takes.
Values become initializers, which inference looks at; `drop_values` takes them out again and keeps their types.

(Inference has an option to propagate data. It is not used: it spells out every vector, of any length, as one
symbolic value per element.)
"""

from __future__ import annotations

import math
from collections import ChainMap, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx.helper
import onnx.numpy_helper
import onnx.shape_inference
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto

from . import branches, runtime
from .bodies import bodies, nested, small_constants
from .payload import KEPT_ELEMENTS, array
from .schemas import is_sound
from .types import learn, static_shape, types, value_info

# What these write differs from run to run
RANDOM = frozenset(
    ("Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
)
# What these write depends on values, and is little more than what they read
_SELECTED = frozenset({"Compress", "NonZero", "Unique"})

# Which of their inputs says no more than a dtype
_LIKE = {"CastLike": 1}
# What these write follows from sizes
OF_SIZES = ("Shape", "Size")

Types = ChainMap[str, TypeProto]
Constants = ChainMap[str, TensorProto]


def drop_values(model: ModelProto) -> None:
    """Take out the initializers that inputs or nodes of the same graph write, and keep their types."""
    for graph in nested(model.graph):
        written = {name for node in graph.node for name in node.output} | {value.name for value in graph.input}
        known = types(graph)
        for index in reversed(range(len(graph.initializer))):
            name = graph.initializer[index].name
            if name in written:
                learn(value_info(graph, name).type, known[name])
                del graph.initializer[index]


class Values:
    """What is found of the values of a model, walk after walk.

    Attributes
    ----------
    deciding : set of str
        Constants and inputs by whose values branches were taken.
    is_unfolded : bool
        Whether a branch was taken.
    """

    def __init__(self) -> None:
        self.deciding: set[str] = set()
        self.is_unfolded = False
        self._made_of: dict[str, frozenset[str]] = {}  # by whose values a value that nodes write is known

    def propagate(self, model: ModelProto) -> bool:
        """Evaluate what is constant, shape what follows from it, and take branches, in place.

        Whether anything became known. The nodes need not have been checked.
        """
        versions = {opset.domain: opset.version for opset in model.opset_import}
        return self._walk(model.graph, ChainMap(), ChainMap(), model, versions)

    def _walk(
        self, graph: GraphProto, outer: Types, outer_constants: Constants, model: ModelProto, versions: dict[str, int]
    ) -> bool:
        scope = _Scope(graph, outer, outer_constants)
        nodes, passed, used = deque(graph.node), list[NodeProto](), {node.name for node in graph.node}
        changed = is_unfolded = False
        while nodes:
            node = nodes.popleft()
            branch = branches.taken(node, scope.constants)
            if branch is not None:
                self.deciding |= self._behind(node.input[0])
                taken = branches.unfold(node, branch, used, scope.constants)
                scope.take(taken, node.output)
                nodes.extendleft(reversed(taken.node))
                changed = is_unfolded = True
                continue
            passed.append(node)
            if not is_sound(node, versions):
                continue
            for name, inferred in _shapes(node, scope.known, scope.constants, model).items():
                scope.learn(name, inferred)
                changed = True
            for tensor in _results(node, scope.known, scope.constants, model):
                self._note(node, tensor.name)
                scope.constants[tensor.name] = tensor
                graph.initializer.append(tensor)
                changed = True
            for _, body in bodies(node):
                changed |= self._walk(body, scope.known, scope.constants, model, versions)
        if is_unfolded:
            self.is_unfolded = True
            _replace_nodes(graph, passed)
        return changed

    def _note(self, node: NodeProto, name: str) -> None:
        """A value follows from sizes alone, or from values of what the node reads."""
        read = [] if node.op_type in OF_SIZES else [self._behind(name) for name in node.input if name]
        self._made_of[name] = frozenset().union(*read)

    def _behind(self, name: str) -> frozenset[str]:
        return self._made_of.get(name, frozenset([name]))


class _Scope:
    """What is known of the values of a graph and of those around it, and where the graph keeps types."""

    def __init__(self, graph: GraphProto, outer: Types, outer_constants: Constants) -> None:
        self._graph = graph
        self.known, self.constants = outer.new_child(types(graph)), outer_constants.new_child(small_constants(graph))
        self._places = {value.name: value for value in (*graph.value_info, *graph.output)}

    def learn(self, name: str, value: TypeProto) -> None:
        """The type of a value that a node of the graph writes."""
        place = self._places[name] if name in self._places else self._graph.value_info.add(name=name)
        place.type.CopyFrom(value)
        self.known[name] = value

    def take(self, branch: GraphProto, made: Sequence[str]) -> None:
        """The constants and types of a branch. What is known of what it makes was of both branches: forgotten."""
        for name in made:
            self.known.maps[0].pop(name, None)
            if name in self._places and self._places[name].type.HasField("tensor_type"):
                self._places[name].type.tensor_type.ClearField("shape")
        for value in branch.value_info:
            self._places[value.name] = self._graph.value_info.add(name=value.name, type=value.type)
        self._graph.initializer.extend(branch.initializer)
        self.known.update(types(branch))
        self.constants.update(small_constants(branch))


def _replace_nodes(graph: GraphProto, nodes: Iterable[NodeProto]) -> None:
    copy = GraphProto()
    copy.node.extend(nodes)
    del graph.node[:]
    graph.node.extend(copy.node)


def _shapes(node: NodeProto, known: Types, constants: Constants, model: ModelProto) -> dict[str, TypeProto]:
    """The types of a node's outputs that follow, now, from its inputs' types and constants."""
    unknown = [name for name in node.output if name and not _is_shaped(name, known)]
    inputs = [name for name in dict.fromkeys(node.input) if name]
    if not unknown or bodies(node) or not all(_is_shaped(name, known) for name in inputs):
        return {}
    single = single_node(node, known, model)
    single.graph.initializer.extend(constants[name] for name in inputs if name in constants)
    if runtime.is_its_own(node):
        found = runtime.infer(single)
        return {name: found[name] for name in unknown if name in found}
    try:
        found = types(onnx.shape_inference.infer_shapes(single).graph)
    except Exception:  # inference of the whole model reports what is wrong
        return {}
    return {name: found[name] for name in unknown if static_shape(found.get(name, TypeProto())) is not None}


def misfit(
    node: NodeProto, known: Mapping[str, TypeProto], constants: Mapping[str, TensorProto], model: ModelProto
) -> str | None:
    """What onnx says against a node that gets inputs of these shapes; None if nothing, or its outputs are known."""
    inputs = [name for name in dict.fromkeys(node.input) if name]
    is_open = any(name and not _is_shaped(name, known) for name in node.output)
    if not is_open or bodies(node) or not all(_is_shaped(name, known) for name in inputs):
        return None
    single = single_node(node, known, model)
    single.graph.initializer.extend(constants[name] for name in inputs if name in constants)
    try:
        onnx.shape_inference.infer_shapes(single, strict_mode=True)
    except Exception as error:
        return " ".join(str(error).rpartition("] ")[2].split())[:300]
    return None


def _results(node: NodeProto, known: Types, constants: Constants, model: ModelProto) -> list[TensorProto]:
    """The values that a node writes, if they are known, small and not there yet."""
    written = [name for name in node.output if name]
    if node.domain or any(name in constants for name in written):
        return []
    if node.op_type in OF_SIZES:
        values = _of_shape(node, static_shape(known.get(node.input[0], TypeProto())))
    elif node.op_type not in RANDOM and not bodies(node):
        feeds = _feeds(node, known, constants)
        values = _run(node, feeds, model) if feeds is not None and _is_small(node, known, feeds) else []
    else:
        return []
    arrays = [np.asarray(value) for value in values]
    if any(value.size > KEPT_ELEMENTS or value.dtype.kind not in "biuf" for value in arrays):
        return []
    return [onnx.numpy_helper.from_array(value, name) for name, value in zip(written, arrays, strict=False)]


def _is_shaped(name: str, known: Mapping[str, TypeProto]) -> bool:
    return static_shape(known.get(name, TypeProto())) is not None


def _is_small(node: NodeProto, known: Types, feeds: Mapping[str, Any]) -> bool:
    """Whether a node writes few elements."""
    if node.op_type in _SELECTED:
        return True
    if node.op_type == "Range":  # its numbers may be vectors of one, which onnx's inference does not take
        start, limit, delta = (feeds[name] for name in node.input)
        count = (limit.astype(float) - start) / delta if start.size == limit.size == delta.size == 1 else np.inf
        return bool(np.all(count <= KEPT_ELEMENTS))
    shapes = [static_shape(known.get(name, TypeProto())) for name in node.output if name]
    return all(shape is not None and math.prod(shape) <= KEPT_ELEMENTS for shape in shapes)


def _of_shape(node: NodeProto, shape: list[int] | None) -> list[Any]:
    """What a Shape or Size node writes."""
    if shape is None:
        return []
    if node.op_type == "Size":
        return [np.array(math.prod(shape), np.int64)] if math.prod(shape) < 2**63 else []
    bounds = {attribute.name: attribute.i for attribute in node.attribute}
    return [np.array(shape[bounds.get("start", 0) : bounds.get("end", len(shape))], np.int64)]


def _feeds(node: NodeProto, known: Types, constants: Constants) -> dict[str, Any] | None:
    """The values of a node's inputs; None if one is not known. Of some, only the dtype counts."""
    feeds: dict[str, Any] = {}
    for position, name in enumerate(node.input):
        if name in constants:
            feeds[name] = array(constants[name])
        elif position == _LIKE.get(node.op_type) and _is_shaped(name, known):
            dtype = known[name].tensor_type.elem_type
            feeds[name] = np.zeros((), onnx.helper.tensor_dtype_to_np_dtype(dtype)) if dtype else None
        elif name:
            return None
    return feeds


def _run(node: NodeProto, feeds: Mapping[str, Any], model: ModelProto) -> list[Any]:
    from onnx.reference import ReferenceEvaluator

    try:
        with np.errstate(all="ignore"):
            return list(ReferenceEvaluator(single_node(node, {}, model)).run(None, dict(feeds)))
    except Exception:  # whatever the reference implementation lacks or refuses only stays unknown
        return []


def single_node(node: NodeProto, known: Mapping[str, TypeProto], model: ModelProto) -> ModelProto:
    """A model of one node of a model, with the types of its inputs that are known."""
    return small_model([node], [name for name in node.output if name], known, model)


def small_model(
    nodes: Sequence[NodeProto],
    outputs: Sequence[str],
    known: Mapping[str, TypeProto],
    model: ModelProto,
    constants: Sequence[TensorProto] = (),
) -> ModelProto:
    """A model of nodes that follow each other, with the types of their inputs that are known, and opsets of a model."""
    there = {name for node in nodes for name in node.output} | {tensor.name for tensor in constants}
    inputs = [
        name for name in dict.fromkeys(name for node in nodes for name in node.input) if name and name not in there
    ]
    values = [onnx.helper.make_value_info(name, known.get(name, TypeProto())) for name in inputs]
    made = [onnx.helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = onnx.helper.make_graph(nodes, "single", values, made, constants)
    return onnx.helper.make_model(graph, opset_imports=list(model.opset_import), ir_version=model.ir_version)
