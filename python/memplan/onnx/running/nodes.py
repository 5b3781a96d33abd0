"""Nodes of ONNX models made runnable, each once: by the operators of onnx's reference, or by ONNX Runtime."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, TypeAlias

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, TypeProto
from onnx.reference import ReferenceEvaluator

from ...errors import SourceError
from ..reading import runtime
from ..reading.bodies import bodies, label
from ..reading.types import types
from ..reading.values import single_node, small_model
from .control_flow import Body, If, Loop, Scan
from .values import Array, described
from .weights import Weights

Types: TypeAlias = "ChainMap[str, TypeProto]"
Scope: TypeAlias = Mapping[str, Array]
Compute: TypeAlias = Callable[[Mapping[str, Array]], list[Array]]
"""Computes outputs from inputs by name."""

Runner: TypeAlias = Callable[[Sequence[Array | None], Scope], list[Array]]
"""Computes a node's outputs from its inputs, None where one is left out, and from the outer values that bodies read."""

_NUMPYS_OWN = {
    *(TensorProto.UNDEFINED, TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BOOL),
    *(TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64),
    *(TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64),
}
_CONTROL_FLOW: dict[str, Callable[[NodeProto, Mapping[str, Body]], Runner]] = {"If": If, "Loop": Loop, "Scan": Scan}


class Builder:
    """Makes the nodes of a model, normalised and with the types of all values, runnable.

    `weights` reads the payload that the model lacks; `engine` is tried first, "reference" or "onnxruntime".
    """

    def __init__(self, model: ModelProto, weights: Weights, engine: str) -> None:
        self._model, self._weights = model, weights
        self.types = types(model.graph)
        self.opset = next((opset.version for opset in model.opset_import if not opset.domain), 1)
        self._engines = [_reference, _runtime] if engine == "reference" else [_runtime, _reference]
        if engine == "onnxruntime":
            runtime.required("engine='onnxruntime'")

    def runner(self, node: NodeProto, known: Types) -> Runner:
        """What runs a node, given the types of the values around it.

        SourceError: no engine has the node's operator.
        """
        if not node.domain and node.op_type in _CONTROL_FLOW:
            return _CONTROL_FLOW[node.op_type](node, {name: self._body(body, known) for name, body in bodies(node)})
        dtypes = {known[name].tensor_type.elem_type for name in (*node.input, *node.output) if name in known}
        compute = self.of_model(node, single_node(self.with_payload(node), known, self._model), dtypes)

        def run(inputs: Sequence[Array | None], scope: Scope) -> list[Array]:
            given = zip(node.input, inputs, strict=True)
            return compute({name: value for name, value in given if name and value is not None})

        return run

    def with_payload(self, node: NodeProto) -> NodeProto:
        """A copy of a node whose attributes have their payload."""
        return self._weights.node(node)

    def piece(
        self,
        node: NodeProto,
        nodes: Sequence[NodeProto],
        constants: Sequence[TensorProto],
        known: Mapping[str, TypeProto],
    ) -> ModelProto:
        """A model of a part of a node: nodes that make its outputs, of its inputs and of constants."""
        return small_model(nodes, [name for name in node.output if name], known, self._model, constants)

    def of_model(self, node: NodeProto, model: ModelProto, dtypes: Set[int]) -> Compute:
        """What runs a model that stands for a node, with dtypes of its inputs and outputs.

        SourceError: no engine has the node's operator.
        """
        reasons, read = [], {value.name for value in model.graph.input}
        for engine in self._engines:
            try:
                return _told(node, read, engine(model, dtypes))
            except Exception as error:  # the engines' refusals share no type
                reasons.append(f"{engine.__doc__}: {' '.join(str(error).split())[:200]}")
        raise SourceError(f"{label(node)} cannot be run; {'; '.join(reasons)}")

    def _body(self, graph: Any, known: Types) -> Body:
        inner = known.new_child(types(graph))
        own = [tensor for tensor in graph.initializer if tensor.name not in known]  # the others are lent
        constants = {tensor.name: self._weights.array(tensor) for tensor in own}
        nodes = [(node, self.runner(node, inner)) for node in graph.node]
        return Body(graph, nodes, constants)


def _reference(model: ModelProto, dtypes: Set[int]) -> Compute:
    """onnx's reference"""
    evaluator = ReferenceEvaluator(model)
    return lambda feeds: evaluator.run(None, dict(feeds))  # type: ignore[return-value]


def _runtime(model: ModelProto, dtypes: Set[int]) -> Compute:
    """ONNX Runtime"""
    runtime.required()
    if dtypes - _NUMPYS_OWN:
        names = ", ".join(TensorProto.DataType.Name(number).lower() for number in sorted(dtypes - _NUMPYS_OWN))
        raise TypeError(f"it gives and takes no arrays of {names}")
    session = runtime.session(model)
    return lambda feeds: session.run(None, dict(feeds))


def _told(node: NodeProto, read: Set[str], run: Compute) -> Compute:
    """What runs a node, given what is read and perhaps more; it names the node where a kernel fails."""

    def compute(given: Mapping[str, Array]) -> list[Array]:
        feeds = {name: value for name, value in given.items() if name in read}
        try:
            return [np.asarray(value) for value in run(feeds)]
        except Exception as error:  # whatever a kernel raises
            shapes = ", ".join(f"{name} {described(value)}" for name, value in feeds.items())
            raise SourceError(f"{label(node)} fails on {shapes}: {error}") from error

    return compute
