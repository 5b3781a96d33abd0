"""A working copy of an ONNX model without the payload of its weights.

Sizes come from dimensions and dtypes, so payload is never needed, except that small tensors steer shape
inference (the target of a Reshape, the starts of a Slice): those of at most `KEPT_ELEMENTS` elements keep
theirs, also those in a file beside the model, if it is there. All others become stubs that inference treats as
external.
Fields are copied one by one, so that a model of any size is neither serialised nor duplicated, and the
caller's model is left as it was. Who runs the model asks `Payload.of` for what a stub stands for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import onnx.numpy_helper
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto
from onnx.external_data_helper import load_external_data_for_tensor

from ... import dtypes
from ...errors import SourceError

KEPT_ELEMENTS = 1024

IN_MEMORY = (
    "is in another file, and a ModelProto does not say where that lies; give the path of the model, or load its "
    "external data"
)

# Initializers need not be listed as inputs from this version of the format on.
_FREE_INITIALIZERS = 4

_TAG = "memplan.payload"  # under which a stub holds its number
_UNREAD = "memplan.unread"  # and why the payload of a small tensor could not be read


class Payload:
    """Copies models without the payload of their tensors, and knows where it is.

    A stub, which stands for a tensor without payload, holds a number. `of` gives the tensor that it stands for.
    External data lie in `folder`, None for a model in memory.
    """

    def __init__(self, folder: str | None = None) -> None:
        self._folder = folder
        self._taken: list[TensorProto | SparseTensorProto] = []

    def without(self, model: ModelProto) -> ModelProto:
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
            self._copy_nodes(source.node, function.node)
            for attribute in source.attribute_proto:
                self._copy_attribute(attribute, function.attribute_proto.add())
        self._copy_graph(model.graph, copy.graph)
        return copy

    def stub(self, tensor: TensorProto) -> TensorProto:
        """A tensor of the same name, dims and dtype, without payload."""
        return self._stub(tensor, tensor.name, tensor.data_type)

    def dense_stub(self, sparse: SparseTensorProto, name: str) -> TensorProto:
        """A dense tensor of the sparse one's dims and dtype, without payload."""
        return self._stub(sparse, name, sparse.values.data_type)

    def of(self, tensor: TensorProto) -> TensorProto | SparseTensorProto:
        """The tensor that a stub stands for; a tensor that is no stub stands for itself."""
        tags = [entry.value for entry in tensor.external_data if entry.key == _TAG]
        return self._taken[int(tags[0])] if tags else tensor

    def _stub(self, source: TensorProto | SparseTensorProto, name: str, dtype: int) -> TensorProto:
        stub = TensorProto(name=name, dims=source.dims, data_type=dtype, data_location=TensorProto.EXTERNAL)
        stub.external_data.add(key=_TAG, value=str(len(self._taken)))
        self._taken.append(source)
        return stub

    def _copy_graph(self, source: GraphProto, target: GraphProto) -> None:
        target.name = source.name
        for field in ("input", "output", "value_info"):
            getattr(target, field).extend(getattr(source, field))
        for tensor in source.initializer:
            self._copy_tensor(tensor, target.initializer.add())
        target.initializer.extend(self.dense_stub(sparse, sparse.values.name) for sparse in source.sparse_initializer)
        self._copy_nodes(source.node, target.node)

    def _copy_nodes(self, source: Iterable[NodeProto], target: Any) -> None:
        for node in source:
            copy = target.add(op_type=node.op_type, domain=_domain(node.domain), name=node.name, overload=node.overload)
            copy.input.extend(node.input)
            copy.output.extend(node.output)
            copy.metadata_props.extend(node.metadata_props)
            for attribute in node.attribute:
                self._copy_attribute(attribute, copy.attribute.add())

    def _copy_attribute(self, source: AttributeProto, target: AttributeProto) -> None:
        """Copy an attribute; tensors and graphs in it lose their payload as initializers do."""
        heavy = {"t": self._copy_tensor, "g": self._copy_graph, "sparse_tensor": self._copy_sparse}
        present = [field for field in heavy if source.HasField(field)]
        several = {"tensors": self._copy_tensor, "graphs": self._copy_graph, "sparse_tensors": self._copy_sparse}
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

    def _copy_tensor(self, source: TensorProto, target: TensorProto) -> None:
        if math.prod(source.dims) > KEPT_ELEMENTS:
            target.CopyFrom(self.stub(source))
        elif source.data_location != TensorProto.EXTERNAL:
            target.CopyFrom(source)
        else:
            try:
                target.CopyFrom(self._read(source))
            except Exception as error:  # what onnx and the file system complain of shares no type
                target.CopyFrom(self.stub(source))
                target.external_data.add(key=_UNREAD, value=" ".join(str(error).split())[:300])

    def _read(self, source: TensorProto) -> TensorProto:
        """A small tensor with its payload, which is in a file beside the model."""
        if self._folder is None:
            raise SourceError(f"it {IN_MEMORY}")
        tensor = TensorProto()
        tensor.CopyFrom(source)
        said = [entry for entry in tensor.external_data if entry.key == "length"] or [tensor.external_data.add()]
        said[0].key, said[0].value = "length", str(_bytes_of(source))  # else all of the file might be read
        load_external_data_for_tensor(tensor, self._folder)
        if len(tensor.raw_data) != _bytes_of(source):
            raise SourceError(f"expected {_bytes_of(source)} bytes, got {len(tensor.raw_data)}")
        del tensor.external_data[:]
        tensor.data_location = TensorProto.DEFAULT
        return tensor

    def _copy_sparse(self, source: SparseTensorProto, target: SparseTensorProto) -> None:
        target.dims.extend(source.dims)
        self._copy_tensor(source.values, target.values)
        self._copy_tensor(source.indices, target.indices)


def unread(tensor: TensorProto) -> str:
    """Why the payload of a small tensor could not be read; empty for others."""
    return next((entry.value for entry in tensor.external_data if entry.key == _UNREAD), "")


def _bytes_of(tensor: TensorProto) -> int:
    name = str(TensorProto.DataType.Name(tensor.data_type)).lower()
    return dtypes.nbytes({"float": "float32", "double": "float64"}.get(name, name), list(tensor.dims))


def array(tensor: TensorProto) -> Any:
    """The value of a tensor; None if its payload does not fit its dims and dtype."""
    try:
        return onnx.numpy_helper.to_array(tensor)
    except Exception:  # numpy's and onnx's complaints about broken payload share no type
        return None


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


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _copy_opsets(source: Iterable[Any], target: Any) -> None:
    for opset in source:
        target.add(domain=_domain(opset.domain), version=opset.version)
