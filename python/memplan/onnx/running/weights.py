"""The payload of a model's weights: in the model, sparse, or in a file beside it."""

from __future__ import annotations

import numpy as np
import onnx.numpy_helper
from onnx import NodeProto, SparseTensorProto, TensorProto
from onnx.external_data_helper import load_external_data_for_tensor

from ...errors import SourceError
from ..reading.payload import IN_MEMORY, Payload
from .values import Array


class Weights:
    """Reads what the importer has left out of a model; external data are in `folder`, None for a model in memory."""

    def __init__(self, payload: Payload, folder: str | None) -> None:
        self._payload, self._folder = payload, folder

    def array(self, tensor: TensorProto) -> Array:
        """The value of an initializer.

        SourceError: it cannot be read. The message names it.
        """
        found = self._payload.of(tensor)
        try:
            value = self._dense(found) if isinstance(found, SparseTensorProto) else self._read(found)
        except SourceError:
            raise
        except Exception as error:  # what onnx, numpy and the file system complain of shares no type
            raise SourceError(f"the value of {tensor.name!r} cannot be read: {error}") from error
        if list(value.shape) != list(tensor.dims):
            raise SourceError(f"the value of {tensor.name!r} must be of shape {list(tensor.dims)}, got {value.shape}")
        value.flags.writeable = False
        return value

    def node(self, node: NodeProto) -> NodeProto:
        """A copy of a node whose attributes have their payload again."""
        copy = NodeProto()
        copy.CopyFrom(node)
        for attribute in copy.attribute:
            for tensor in (*([attribute.t] if attribute.HasField("t") else []), *attribute.tensors):
                if self._payload.of(tensor) is not tensor:
                    tensor.CopyFrom(onnx.numpy_helper.from_array(self.array(tensor), tensor.name))
        return copy

    def _read(self, tensor: TensorProto) -> Array:
        if tensor.data_location != TensorProto.EXTERNAL:
            return np.array(onnx.numpy_helper.to_array(tensor))
        if self._folder is None:
            raise SourceError(f"the value of {tensor.name!r} {IN_MEMORY}")
        loaded = TensorProto()
        loaded.CopyFrom(tensor)
        load_external_data_for_tensor(loaded, self._folder)
        loaded.data_location = TensorProto.DEFAULT
        return np.array(onnx.numpy_helper.to_array(loaded))

    def _dense(self, sparse: SparseTensorProto) -> Array:
        values, indices = self.array(sparse.values), self.array(sparse.indices)
        dense = np.zeros(tuple(sparse.dims), values.dtype)
        if indices.ndim == 1:
            dense.reshape(-1)[indices] = values
        else:
            dense[tuple(indices.T)] = values
        return dense
