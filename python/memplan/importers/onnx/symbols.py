"""Symbolic dimensions of an ONNX model: named, checked against the values that the caller gives, bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from onnx import ModelProto, ValueInfoProto

from ...errors import SourceError
from ..unbound import Dimension, no_sizes
from .bodies import nested


def bind(model: ModelProto, dims: Mapping[str, int]) -> None:
    """Write the values of `dims` in place of the symbolic dimensions of `model`.

    A dimension of an input that has neither value nor name is called `input[axis]`.

    SourceError if a symbol of an input has no value (all of these are listed), or `dims` names one that the model does
    not have.
    """
    for value in model.graph.input:
        _name_dimensions(value)
    needed: dict[str, str] = {}
    for value in model.graph.input:
        for axis, dimension in enumerate(value.type.tensor_type.shape.dim):
            if dimension.dim_param:
                needed.setdefault(dimension.dim_param, f"dimension {axis} of {value.name!r}")
    known = dict.fromkeys([*needed, *(d.dim_param for value in _values(model) for d in _symbols(value))])
    _check_symbols(dims, needed, list(known))
    for value in _values(model):
        for dimension in _symbols(value):
            if dimension.dim_param in dims:
                dimension.dim_value = dims[dimension.dim_param]


def _values(model: ModelProto) -> Iterator[ValueInfoProto]:
    for graph in nested(model.graph):
        yield from (*graph.input, *graph.output, *graph.value_info)


def _symbols(value: ValueInfoProto) -> list[Any]:
    return [d for d in value.type.tensor_type.shape.dim if d.dim_param]


def _name_dimensions(value: ValueInfoProto) -> None:
    for axis, dimension in enumerate(value.type.tensor_type.shape.dim):
        known = dimension.HasField("dim_value") and dimension.dim_value >= 0
        if not known and not dimension.dim_param:
            dimension.dim_param = f"{value.name}[{axis}]"


def _check_symbols(dims: Mapping[str, int], needed: Mapping[str, str], known: list[str]) -> None:
    unknown = [name for name in dims if name not in known]
    if unknown:
        has = f"the model has {', '.join(map(repr, known))}" if known else "the model has none"
        names = ", ".join(map(repr, unknown))
        raise SourceError(f"dims names no symbolic dimension of the model: {names}; {has}")
    missing = [Dimension((name,), place) for name, place in needed.items() if name not in dims]
    if missing:
        raise no_sizes(missing)
