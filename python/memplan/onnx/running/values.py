"""The values of ONNX tensors: numpy arrays, and the bytes that they take in an arena.

Elements narrower than a byte are packed in the arena, as in files, and take a byte each in an array.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx.helper
import onnx.numpy_helper
from onnx import TensorProto

from ... import dtypes
from ...errors import MissingDependencyError

Array: TypeAlias = npt.NDArray[Any]
Bytes: TypeAlias = npt.NDArray[np.uint8]

_NUMBERS = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE}


@cache
def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """The dtype of arrays that hold values of a dtype of a graph."""
    found = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(_number(dtype)))
    if onnx.numpy_helper.from_array(np.zeros(1, found)).data_type != _number(dtype):
        raise MissingDependencyError(f"values of {dtype} need onnx >= 1.19, got {onnx.__version__}")
    return found


def is_packed(dtype: str) -> bool:
    """Whether several elements of a dtype share a byte."""
    return dtypes.bits(dtype) < 8


def to_bytes(array: Array, dtype: str) -> Bytes:
    """The bytes of an array, as they lie in an arena; a copy only where need be."""
    if is_packed(dtype):
        return np.frombuffer(onnx.numpy_helper.from_array(array).raw_data, np.uint8)
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def from_bytes(data: Bytes, dtype: str, shape: Sequence[int]) -> Array:
    """The array that these bytes hold; it shows the bytes themselves, unless they are packed."""
    if not is_packed(dtype):
        return data.view(numpy_dtype(dtype)).reshape(shape)
    if math.prod(shape) == 0:
        return np.zeros(shape, numpy_dtype(dtype))
    return onnx.numpy_helper.to_array(TensorProto(data_type=_number(dtype), dims=shape, raw_data=data.tobytes()))


def described(array: Array) -> str:
    """An array for a message: "float32[2,3]"."""
    return f"{array.dtype}[{','.join(map(str, array.shape))}]"


def _number(dtype: str) -> int:
    return int(_NUMBERS.get(dtype) or TensorProto.DataType.Value(dtype.upper()))
