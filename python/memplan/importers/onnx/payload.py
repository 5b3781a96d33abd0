"""A working copy of an ONNX model without the payload of its weights.

Sizes come from dimensions and dtypes, so payload is never needed, except that small tensors steer shape
inference (the target of a Reshape, the starts of a Slice): those of at most `KEPT_ELEMENTS` elements keep
theirs. All others, and all whose data is in another file, become stubs that inference treats as external.
Fields are copied one by one, so that a model of any size is neither serialised nor duplicated, and the
caller's model is left as it was.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto

KEPT_ELEMENTS = 1024

# Initializers need not be listed as inputs from this version of the format on.
_FREE_INITIALIZERS = 4


def without_payload(model: ModelProto) -> ModelProto:
    """Copy `model`; large and external tensors keep their name, dims and dtype only.

    Sparse initializers become dense ones, and the domain `ai.onnx` is written as its synonym, the empty one.
    """
    copy = ModelProto(ir_version=max(model.ir_version, _FREE_INITIALIZERS))
    _copy_opsets(model.opset_import, copy.opset_import)
    for source in model.functions:
        function = copy.functions.add(name=source.name, domain=source.domain, overload=source.overload)
        for field in ("input", "output", "attribute", "value_info"):
            getattr(function, field).extend(getattr(source, field))
        _copy_opsets(source.opset_import, function.opset_import)
        _copy_nodes(source.node, function.node)
        for attribute in source.attribute_proto:
            _copy_attribute(attribute, function.attribute_proto.add())
    _copy_graph(model.graph, copy.graph)
    return copy


def not_text(message: Any, where: str = "model") -> str | None:
    """The first text of a model that is no UTF-8, with its bytes: "model.graph.node[3].name, b'...',"; else None."""
    if isinstance(message, TensorProto):  # its payload is not copied to be looked at
        return _not_text([message.name], f"{where}.name", False) if message.name else None
    try:
        fields = message.ListFields()
    except UnicodeDecodeError as error:  # some versions of protobuf raise, others give bytes
        return f"{where}, {bytes(error.object[:80])!r},"
    for field, value in fields:
        if field.type in (field.TYPE_STRING, field.TYPE_MESSAGE):
            several = not isinstance(value, (str, bytes)) and hasattr(value, "__len__")
            found = _not_text(value if several else [value], f"{where}.{field.name}", several)
            if found is not None:
                return found
    return None


def _not_text(values: Iterable[Any], where: str, several: bool) -> str | None:
    for i, value in enumerate(values):
        at = f"{where}[{i}]" if several else where
        if isinstance(value, bytes):
            return f"{at}, {value[:80]!r},"
        if not isinstance(value, str) and (found := not_text(value, at)) is not None:
            return found
    return None


def dense_stub(sparse: SparseTensorProto, name: str) -> TensorProto:
    """A dense tensor of the sparse one's dims and dtype, without payload."""
    stub = TensorProto(name=name, dims=sparse.dims, data_type=sparse.values.data_type)
    stub.data_location = TensorProto.EXTERNAL
    return stub


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _copy_opsets(source: Iterable[Any], target: Any) -> None:
    for opset in source:
        target.add(domain=_domain(opset.domain), version=opset.version)


def _copy_graph(source: GraphProto, target: GraphProto) -> None:
    target.name = source.name
    for field in ("input", "output", "value_info"):
        getattr(target, field).extend(getattr(source, field))
    for tensor in source.initializer:
        _copy_tensor(tensor, target.initializer.add())
    target.initializer.extend(dense_stub(sparse, sparse.values.name) for sparse in source.sparse_initializer)
    _copy_nodes(source.node, target.node)


def _copy_nodes(source: Iterable[NodeProto], target: Any) -> None:
    for node in source:
        copy = target.add(op_type=node.op_type, domain=_domain(node.domain), name=node.name, overload=node.overload)
        copy.input.extend(node.input)
        copy.output.extend(node.output)
        copy.metadata_props.extend(node.metadata_props)
        for attribute in node.attribute:
            _copy_attribute(attribute, copy.attribute.add())


def _copy_attribute(source: AttributeProto, target: AttributeProto) -> None:
    """Copy an attribute; tensors and graphs in it lose their payload as initializers do."""
    heavy = {"t": _copy_tensor, "g": _copy_graph, "sparse_tensor": _copy_sparse}
    present = [field for field in heavy if source.HasField(field)]
    several = {"tensors": _copy_tensor, "graphs": _copy_graph, "sparse_tensors": _copy_sparse}
    filled = [field for field in several if len(getattr(source, field))]
    if not present and not filled:
        target.CopyFrom(source)
        return
    target.name, target.type, target.ref_attr_name = source.name, source.type, source.ref_attr_name
    for field in present:
        heavy[field](getattr(source, field), getattr(target, field))
    for field in filled:
        for item in getattr(source, field):
            several[field](item, getattr(target, field).add())


def _copy_tensor(source: TensorProto, target: TensorProto) -> None:
    external = source.data_location == TensorProto.EXTERNAL
    if not external and math.prod(source.dims) <= KEPT_ELEMENTS:
        target.CopyFrom(source)
        return
    target.name, target.data_type = source.name, source.data_type
    target.dims.extend(source.dims)
    target.data_location = TensorProto.EXTERNAL


def _copy_sparse(source: SparseTensorProto, target: SparseTensorProto) -> None:
    target.dims.extend(source.dims)
    _copy_tensor(source.values, target.values)
    _copy_tensor(source.indices, target.indices)
