"""Check of a model's nodes before onnx's shape inference sees them.

Inference takes for granted that a node has the inputs and attributes that its operator requires, and that
something earlier provides what it reads; where that is not so, it may end the process.
"""

from __future__ import annotations

from collections.abc import Set
from functools import cache
from typing import Any, NamedTuple

import onnx.defs
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto

from ...errors import SourceError
from .bodies import bodies, check_form, label, nested


class Signature(NamedTuple):
    """What a node of one operator must look like."""

    inputs: tuple[int, int]  # fewest and most
    outputs: tuple[int, int]
    required_inputs: tuple[int, ...]  # positions that must not be left empty
    required_attributes: frozenset[str]
    attribute_types: dict[str, int]


def check_nodes(model: ModelProto) -> None:
    """Compare every node of a known operator, in bodies too, with its signature and with what it may read.

    SourceError names the node, what was expected and what it has. Also if a Constant holds strings or nothing, or a
    node other than If, Loop and Scan has graphs.
    """
    versions = {opset.domain: opset.version for opset in model.opset_import}
    for graph in nested(model.graph):
        for node in graph.node:
            check_form(node)
            signature = signature_of(node, versions)
            if signature is not None:
                _check(node, signature)
    _check_reads(model.graph, frozenset())


def is_sound(node: NodeProto, versions: dict[str, int]) -> bool:
    """Whether a node fits its operator's signature, or its operator is not known to onnx."""
    signature = signature_of(node, versions)
    try:
        if signature is not None:
            _check(node, signature)
    except SourceError:
        return False
    return True


def signature_of(node: NodeProto, versions: dict[str, int]) -> Signature | None:
    """The signature of a node's operator at its domain's version; None if onnx does not know the operator."""
    return _signature(node.op_type, versions.get(node.domain, 0), node.domain)


@cache
def _signature(op_type: str, version: int, domain: str) -> Signature | None:
    try:
        schema = onnx.defs.get_schema(op_type, version, domain)
    except onnx.defs.SchemaError:
        return None
    single = onnx.defs.OpSchema.FormalParameterOption.Single
    attributes: dict[str, Any] = dict(schema.attributes)
    return Signature(
        inputs=(schema.min_input, schema.max_input),
        outputs=(schema.min_output, schema.max_output),
        required_inputs=tuple(i for i, value in enumerate(schema.inputs) if value.option == single),
        required_attributes=frozenset(name for name, value in attributes.items() if value.required),
        attribute_types={name: int(value.type.value) for name, value in attributes.items()},
    )


def _check(node: NodeProto, signature: Signature) -> None:
    _check_count(node, "inputs", len(node.input), signature.inputs)
    _check_count(node, "outputs", len(node.output), signature.outputs)
    for index in signature.required_inputs:
        if not node.input[index]:
            raise SourceError(f"{label(node)} leaves input {index} empty, which its operator requires")
    missing = signature.required_attributes - {attribute.name for attribute in node.attribute}
    if missing:
        raise SourceError(f"{label(node)} lacks the attribute {min(missing)!r}, which its operator requires")
    for attribute in node.attribute:
        expected = signature.attribute_types.get(attribute.name, attribute.type)
        if attribute.type != expected:
            wanted, got = (AttributeProto.AttributeType.Name(kind) for kind in (expected, attribute.type))
            raise SourceError(f"attribute {attribute.name!r} of {label(node)} must be {wanted}, got {got}")


def _check_count(node: NodeProto, what: str, count: int, limits: tuple[int, int]) -> None:
    fewest, most = limits
    if not fewest <= count <= most:
        expected = str(fewest) if fewest == most else f"{fewest} to {most}"
        raise SourceError(f"{label(node)} has {count} {what}; its operator expects {expected}")


def _check_reads(graph: GraphProto, outer: Set[str]) -> None:
    visible = {"", *outer, *(value.name for value in (*graph.input, *graph.initializer))}
    for node in graph.node:
        for name in node.input:
            if name not in visible:
                raise SourceError(f"{label(node)} reads {name!r}, which no input, initializer or earlier node provides")
        for _, body in bodies(node):
            _check_reads(body, visible)
        visible.update(node.output)
    for value in graph.output:
        if value.name not in visible:
            raise SourceError(f"output {value.name!r} is no input or initializer, and no node writes it")
