"""What a kernel makes of its operands before it computes: copies in another dtype or layout, tensors of numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

LAST = {4: torch.channels_last, 5: torch.channels_last_3d}  # by dimensions
_NUMBERS = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}
SMALL = (torch.float16, torch.bfloat16)


def nbytes(tensor: Tensor) -> int:
    """Bytes of its elements, each in a place of its own."""
    return tensor.numel() * tensor.dtype.itemsize


def contiguous(tensor: Tensor | None) -> int:
    """Bytes of a copy that lies row by row; 0 if the tensor does so."""
    return 0 if tensor is None or tensor.is_contiguous() else nbytes(tensor)


def in_its_format(tensor: Tensor | None) -> int:
    """Bytes of a copy that lies row by row, or with channels last; 0 if the tensor lies in one of these ways."""
    return 0 if tensor is None or tensor.is_contiguous() or has_channels_last(tensor) else nbytes(tensor)


def in_its_format_3d(tensor: Tensor | None) -> int:
    """The same of volumes, one or several."""
    return contiguous(tensor) if tensor is None or tensor.dim() != 5 else in_its_format(tensor)


def has_channels_last(tensor: Tensor) -> bool:
    """Whether the channels of an element lie beside each other."""
    form = LAST.get(tensor.dim())
    return form is not None and tensor.is_contiguous(memory_format=form)


def cast(operands: Iterable[Any], dtype: torch.dtype) -> int:
    """Bytes of those operands in a dtype, tensors and numbers, that have another one."""
    return sum(_cast(operand, dtype) for operand in operands)


def _cast(operand: Any, dtype: torch.dtype) -> int:
    if isinstance(operand, Tensor):
        return 0 if operand.dtype == dtype else operand.numel() * dtype.itemsize
    return number(operand, dtype)


def number(value: Any, dtype: torch.dtype, casting: bool = True) -> int:
    """Bytes of the tensor that is made of a number, and of its copy in a dtype."""
    own = _NUMBERS.get(type(value), torch.float64)
    return own.itemsize + (dtype.itemsize if casting and own != dtype else 0)


def is_small(tensor: Tensor) -> bool:
    """Whether its numbers have 16 bits: kernels add them up with 32."""
    return tensor.dtype in SMALL


def opmath(dtype: torch.dtype) -> int:
    """Bytes of a number, as kernels compute with it."""
    return 4 if dtype in SMALL else dtype.itemsize
