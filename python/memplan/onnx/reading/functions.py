"""Model-local functions of ONNX: their bodies in place of the calls, and how much that makes."""

from __future__ import annotations

from collections.abc import Iterable

from onnx import FunctionProto, ModelProto, NodeProto, inliner

from ...errors import SourceError
from .bodies import label, nested

MOST_NODES = 100_000
"""Nodes that a model may have once its functions are inlined: a few that call each other twice make any number."""

_Key = tuple[str, str, str]


def inlined(model: ModelProto) -> ModelProto:
    """The model with the bodies of its functions in place of their calls.

    SourceError: the model would have more than `MOST_NODES` nodes, or a call is left.
    """
    if not model.functions:
        return model
    functions = {_key_of(function): function for function in model.functions}
    count = _Count(functions).nodes(model.graph.node)
    if count > MOST_NODES:
        raise SourceError(
            f"the model has {count if count < 10**15 else 'more than 10**15'} nodes once its functions are inlined, "
            f"more than the {MOST_NODES} that are taken"
        )
    try:
        whole = inliner.inline_local_functions(model, convert_version=True)
    except Exception as error:
        raise SourceError(f"onnx cannot inline the model's functions: {error}") from error
    for graph in nested(whole.graph):
        for node in graph.node:
            if _called(node) in functions:
                raise SourceError(f"{label(node)} calls a function of the model that onnx cannot inline")
    return whole


class _Count:
    """How many nodes a call of each function stands for, each counted once."""

    def __init__(self, functions: dict[_Key, FunctionProto]) -> None:
        self._functions = functions
        self._nodes: dict[_Key, int] = {}
        self._open: list[_Key] = []

    def nodes(self, nodes: Iterable[NodeProto]) -> int:
        total = 0
        for node in nodes:
            total += self._of_call(_called(node))
            for attribute in node.attribute:
                for graph in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                    total += self.nodes(graph.node)
        return total

    def _of_call(self, key: _Key) -> int:
        if key not in self._functions:
            return 1
        if key in self._open:
            raise SourceError(f"function {key[1]!r} of domain {key[0]!r} calls itself, which has no end")
        if key not in self._nodes:
            self._open.append(key)
            self._nodes[key] = self.nodes(self._functions[key].node)
            self._open.pop()
        return self._nodes[key]


def _key_of(function: FunctionProto) -> _Key:
    return function.domain, function.name, function.overload


def _called(node: NodeProto) -> _Key:
    return node.domain, node.op_type, node.overload
