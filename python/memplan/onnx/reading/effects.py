"""What nodes do besides their results: they draw random numbers, or nobody knows what a custom operator does."""

from __future__ import annotations

from onnx import NodeProto

from . import runtime
from .bodies import bodies
from .values import RANDOM

_OF_RUNTIME = frozenset({"BiasDropout", "BitmaskBiasDropout", "BitmaskDropout", "Sampling"})  # which draw
_OF_ONNX = ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview.training")
_OF_LAYOUTS = "com.ms.internal"  # of ONNX Runtime, for tensors in other layouts


def keeps_its_place(node: NodeProto, opset: int) -> bool:
    """Whether a node may not change places with others like it, nor run again: it draws, or may have a state.

    So does a node whose bodies hold one. A custom operator may have a state.
    """
    return _acts(node, opset) or any(keeps_its_place(inner, opset) for _, body in bodies(node) for inner in body.node)


def _acts(node: NodeProto, opset: int) -> bool:
    if node.domain in _OF_ONNX:
        return node.op_type in RANDOM and (node.op_type != "Dropout" or _may_drop(node, opset))
    if runtime.is_its_own(node):
        return node.op_type in _OF_RUNTIME
    return not node.domain.startswith(_OF_LAYOUTS)


def _may_drop(node: NodeProto, opset: int) -> bool:
    """Whether a Dropout may be in training: before opset 7 it says so itself, between 7 and 12 it never is."""
    if opset < 7:
        return not any(attribute.name == "is_test" and attribute.i for attribute in node.attribute)
    return len(node.input) > 2
