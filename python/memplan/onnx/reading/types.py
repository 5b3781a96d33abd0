"""Types of values in ONNX graphs: looked up, asked for their shape, filled in."""

from __future__ import annotations

from typing import Any, cast

import onnx.helper
from onnx import GraphProto, TypeProto, ValueInfoProto

_INVENTED = "unk__"  # how onnx's inference names the dimensions that it does not know


def types(graph: GraphProto) -> dict[str, TypeProto]:
    """The types of a graph's own values, by name, as far as known."""
    found = {value.name: value.type for value in (*graph.value_info, *graph.output, *graph.input)}
    for tensor in graph.initializer:
        found[tensor.name] = onnx.helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))
    return found


def value_info(graph: GraphProto, name: str) -> ValueInfoProto:
    """Where a graph keeps the type of one of its values; added if there is no such place yet."""
    value: ValueInfoProto
    for value in (*graph.output, *graph.input, *graph.value_info):
        if value.name == name:
            return value
    added: ValueInfoProto = graph.value_info.add(name=name)
    return added


def static_shape(value: TypeProto) -> list[int] | None:
    """The dimensions of a tensor type; None if it is no tensor or not all of them are known."""
    if not value.HasField("tensor_type") or not value.tensor_type.HasField("shape"):
        return None
    dims = value.tensor_type.shape.dim
    return [d.dim_value for d in dims] if all(d.HasField("dim_value") for d in dims) else None


def learn(target: TypeProto, source: TypeProto) -> bool:
    """Take over `source` if the shape of `target` is not fully known; whether it was not."""
    if static_shape(target) is not None:
        return False
    target.CopyFrom(source)
    return True


def shape_text(value: TypeProto) -> str:
    """A tensor type's shape for a message, `[n, 4, ?]`; `unknown` if not even its rank is known."""
    if not value.tensor_type.HasField("shape"):
        return "unknown"
    return f"[{', '.join(_dimension_text(d) for d in value.tensor_type.shape.dim)}]"


def symbols(value: TypeProto) -> list[str]:
    """The named dimensions of a tensor type that have no value."""
    named = [d.dim_param for d in value.tensor_type.shape.dim if d.dim_param]
    return [name for name in dict.fromkeys(named) if not name.startswith(_INVENTED)]


def _dimension_text(dimension: Any) -> str:
    if dimension.HasField("dim_value"):
        return str(dimension.dim_value)
    param = cast(str, dimension.dim_param)
    return "?" if param.startswith(_INVENTED) else param or "?"
