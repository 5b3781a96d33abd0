"""Floating-point operations of nodes: products of matrices, convolutions, attention and recurrent layers, by shapes.

An addition and a multiplication are two. What a body of If, Loop or Scan does counts too: of If the branch that takes
most, and of a Scan once for each step; how often a Loop runs is not known, so its body counts once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onnx import NodeProto

from .bodies import attributes_of

_Shape = Sequence[int]
_Shapes = Sequence[_Shape | None]
_Rule = Callable[[Mapping[str, Any], _Shapes, _Shapes], int]
_DOMAINS = ("", "ai.onnx", "com.microsoft")


def flops_of(node: NodeProto, shapes: Mapping[str, _Shape]) -> float | None:
    """Those of a node without bodies; None where nothing is known, or its inputs do not go together."""
    rule = _RULES.get(node.op_type) if node.domain in _DOMAINS else None
    if rule is None:
        return None
    inputs, outputs = ([shapes.get(name) for name in names] for names in (node.input, node.output))
    try:
        return float(rule(attributes_of(node), inputs, outputs))
    except (IndexError, KeyError, TypeError, ValueError):  # it lacks an input, or one lacks a dimension
        return None


def flops_of_bodies(node: NodeProto, bodies: Sequence[float], shapes: Mapping[str, _Shape]) -> float | None:
    """Those of a node with bodies that take so many each."""
    if not any(bodies):
        return None
    attributes = attributes_of(node)
    scanned = attributes.get("num_scan_inputs", 0)
    if not scanned:
        return max(bodies)
    shape = shapes[node.input[len(node.input) - scanned]]
    return max(bodies) * int(shape[attributes.get("scan_input_axes", [0])[0]])


def _known(shape: _Shape | None) -> _Shape:
    if shape is None:
        raise ValueError("the shape is not known")
    return shape


def _elements(shape: _Shape | None) -> int:
    return math.prod(_known(shape))


def _product(right: int = 1) -> _Rule:
    """A product of matrices; the second is the input at that position."""

    def rule(attributes: Mapping[str, Any], inputs: _Shapes, outputs: _Shapes) -> int:
        left = _known(inputs[0])
        _known(inputs[right])
        return 2 * _elements(outputs[0]) * left[-2 if attributes.get("transA") and len(left) > 1 else -1]

    return rule


def _convolution(weight: int = 1) -> _Rule:
    def rule(attributes: Mapping[str, Any], inputs: _Shapes, outputs: _Shapes) -> int:
        return 2 * _elements(outputs[0]) * math.prod(_known(inputs[weight])[1:])

    return rule


def _transposed_convolution(attributes: Mapping[str, Any], inputs: _Shapes, outputs: _Shapes) -> int:
    return 2 * _elements(inputs[0]) * math.prod(_known(inputs[1])[1:])


def _recurrent(attributes: Mapping[str, Any], inputs: _Shapes, outputs: _Shapes) -> int:
    """Both products of all steps and sequences, in both directions."""
    return 2 * math.prod(_known(inputs[0])[:2]) * (_elements(inputs[1]) + _elements(inputs[2]))


def _attention(attributes: Mapping[str, Any], inputs: _Shapes, outputs: _Shapes) -> int:
    """Query by key, and that by value. Queries have as many elements as the output where all are in one input."""
    query, out = _known(inputs[0]), _known(outputs[0])
    key = inputs[1] if len(inputs) > 1 else None
    present = next((shape for shape in outputs[1:2] if shape is not None and len(shape) == 4), None)
    lengths = present or key or query
    queries = math.prod(out) if key is None else math.prod(query)
    return 2 * lengths[1 if len(lengths) == 5 else -2] * (queries + math.prod(out))


def _attention_with_projection(attributes: Mapping[str, Any], inputs: _Shapes, outputs: _Shapes) -> int:
    """What com.microsoft has under this name: a product makes queries, keys and values first."""
    source, weight = _known(inputs[0]), _known(inputs[1])
    return 2 * math.prod(source) * weight[-1] + 4 * source[-2] * _elements(outputs[0])


def _any_attention(attributes: Mapping[str, Any], inputs: _Shapes, outputs: _Shapes) -> int:
    projects = len(_known(inputs[1])) == 2
    return (_attention_with_projection if projects else _attention)(attributes, inputs, outputs)


def _einsum(attributes: Mapping[str, Any], inputs: _Shapes, outputs: _Shapes) -> int:
    """Two for each combination of indices and each product of two operands."""
    terms = attributes["equation"].decode().replace(" ", "").split("->")[0].split(",")
    size: dict[str, int] = {}
    for term, shape in zip(terms, inputs, strict=True):
        dims = _known(shape)
        hidden = len(dims) - len(term.replace("...", ""))
        labels = [*term.partition("...")[0], *(f"...{i}" for i in reversed(range(hidden))), *term.partition("...")[2]]
        for label, extent in zip(labels, dims, strict=True):
            size[label] = max(extent, size.get(label, extent))
    return 2 * (len(terms) - 1) * math.prod(size.values())


_RULES: Mapping[str, _Rule] = {
    **dict.fromkeys(("MatMul", "Gemm", "FusedMatMul", "FusedGemm", "GemmFastGelu", "MatMulInteger"), _product()),
    **dict.fromkeys(("MatMulNBits", "MatMulBnb4", "MatMulIntegerToFloat", "DynamicQuantizeMatMul"), _product()),
    **dict.fromkeys(("QLinearMatMul", "QGemm"), _product(3)),
    **dict.fromkeys(("Conv", "FusedConv", "NhwcFusedConv", "ConvInteger", "DeformConv"), _convolution()),
    "QLinearConv": _convolution(3),
    "ConvTranspose": _transposed_convolution,
    **dict.fromkeys(("LSTM", "GRU", "RNN", "DynamicQuantizeLSTM"), _recurrent),
    "Attention": _any_attention,
    **dict.fromkeys(("MultiHeadAttention", "GroupQueryAttention"), _attention),
    "Einsum": _einsum,
}
