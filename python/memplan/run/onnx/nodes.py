"""Nodes of ONNX models made runnable, each once: by the operators of onnx's reference, or by ONNX Runtime."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, TypeAlias

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, TypeProto
from onnx.reference import ReferenceEvaluator

from ...errors import SourceError
from ...importers.onnx import runtime
from ...importers.onnx.bodies import bodies, label
from ...importers.onnx.types import types
from ...importers.onnx.values import single_node
from .control_flow import Body, If, Loop, Scan
from .values import Array, described
from .weights import Weights

Types: TypeAlias = "ChainMap[str, TypeProto]"
Scope: TypeAlias = Mapping[str, Array]
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
        self._engines = [_reference, _runtime] if engine == "reference" else [_runtime, _reference]
        if engine == "onnxruntime":
            runtime.required("engine='onnxruntime'")

    def runner(self, node: NodeProto, known: Types) -> Runner:
        """What runs a node, given the types of the values around it.

        SourceError: no engine has the node's operator.
        """
        if not node.domain and node.op_type in _CONTROL_FLOW:
            return _CONTROL_FLOW[node.op_type](node, {name: self._body(body, known) for name, body in bodies(node)})
        single = single_node(self._weights.node(node), known, self._model)
        dtypes = {known[name].tensor_type.elem_type for name in (*node.input, *node.output) if name in known}
        reasons = []
        for engine in self._engines:
            try:
                return engine(single, dtypes)
            except Exception as error:  # the engines' refusals share no type
                reasons.append(f"{engine.__doc__}: {' '.join(str(error).split())[:200]}")
        raise SourceError(f"{label(node)} cannot be run; {'; '.join(reasons)}")

    def _body(self, graph: Any, known: Types) -> Body:
        inner = known.new_child(types(graph))
        own = [tensor for tensor in graph.initializer if tensor.name not in known]  # the others are lent
        constants = {tensor.name: self._weights.array(tensor) for tensor in own}
        nodes = [(node, self.runner(node, inner)) for node in graph.node]
        return Body(graph, nodes, constants)


def _reference(single: ModelProto, dtypes: Set[int]) -> Runner:
    """onnx's reference"""
    evaluator = ReferenceEvaluator(single)
    return _runner(single.graph.node[0], lambda feeds: evaluator.run(None, feeds))


def _runtime(single: ModelProto, dtypes: Set[int]) -> Runner:
    """ONNX Runtime"""
    runtime.required()
    if dtypes - _NUMPYS_OWN:
        names = ", ".join(TensorProto.DataType.Name(number).lower() for number in sorted(dtypes - _NUMPYS_OWN))
        raise TypeError(f"it gives and takes no arrays of {names}")
    session = runtime.session(single)
    return _runner(single.graph.node[0], lambda feeds: session.run(None, feeds))


def _runner(node: NodeProto, run: Callable[[dict[str, Array]], Any]) -> Runner:
    def compute(inputs: Sequence[Array | None], scope: Scope) -> list[Array]:
        feeds = {name: value for name, value in zip(node.input, inputs, strict=True) if name and value is not None}
        try:
            return [np.asarray(value) for value in run(feeds)]
        except Exception as error:  # whatever a kernel raises
            given = ", ".join(f"{name} {described(value)}" for name, value in feeds.items())
            raise SourceError(f"{label(node)} fails on {given}: {error}") from error

    return compute
