"""Operators whose fake kernels refuse what the kernels take, or do not always give what the kernels give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from ..private import FakeTensor, OpOverload
from . import ctc
from .layouts import as_kernels_lie

# Operators of which torch remembers too little, when it has run them with fake tensors once: those that copy the whole
# storage of their first argument, not only what the result shows, and one that returns a tensor twice. And too much:
# it would keep the storages that tensors are set to.
_REMEMBERED_IN_PART = {
    torch.ops.aten.copy.default,
    torch.ops.aten.as_strided_scatter.default,
    torch.ops.aten.diagonal_scatter.default,
    torch.ops.aten.select_scatter.default,
    torch.ops.aten.slice_scatter.default,
    torch.ops.aten.mkldnn_rnn_layer_backward.default,
    torch.ops.aten.set_.source_Storage,
    torch.ops.aten.set_.source_Storage_storage_offset,
}

_COPIES = (torch.ops.aten.clone.default, torch.ops.aten._to_copy.default)
_ROW = 16  # bytes: rows of products by groups begin at multiples


def run(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What an operator returns for fake tensors, which lie as what the kernel returns."""
    return as_kernels_lie(func, args, kwargs, _run(func, args, kwargs))


def copies_rows(func: Any) -> bool:
    """Whether rows that lie scattered in memory are computed elsewhere, and copied: kernels write elements alone there.

    See `memplan.torch.running.kernels`, which calls them.
    """
    return isinstance(func, OpOverload) and torch.Tag.pointwise not in func.tags and func not in _COPIES


def _run(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    if func in _REMEMBERED_IN_PART:
        with _anew(args):
            return func(*args, **kwargs)
    if func in ctc.OPS and (made := ctc.outputs(args[0], args[1], args[3])) is not None:
        return made
    if str(func) == "aten._grouped_mm.default":
        return _grouped_mm(func, args, kwargs)
    return func(*args, **kwargs)


@contextmanager
def _anew(args: Sequence[Any]) -> Iterator[None]:
    """Let torch compute what an operator returns, whatever it remembers."""
    modes = [value.fake_mode for value in args if isinstance(value, FakeTensor)]
    saved = [mode.cache_enabled for mode in modes]
    try:
        for mode in modes:
            mode.cache_enabled = False
        yield
    finally:
        for mode, enabled in zip(modes, saved, strict=True):
            mode.cache_enabled = enabled


def _grouped_mm(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
    """The products of the experts of a layer. The fake kernel takes bfloat16 alone, the kernels more.

    Rows of the result begin at multiples of 16 bytes, which the fake kernel only knows where torch is built for CUDA.
    """
    mats = [_as_bfloat16(mat) if mat.is_floating_point() else mat for mat in args[:2]]
    *batch, rows, width = func(*mats, *args[2:], **{**kwargs, "out_dtype": None}).shape
    dtype = kwargs.get("out_dtype") or args[0].dtype
    at_once = _ROW // dtype.itemsize
    padded = -(-width // at_once) * at_once
    strides = (*[rows * padded] * len(batch), padded, 1)
    return torch.empty_strided((*batch, rows, width), strides, dtype=dtype, device=args[0].device)


def _as_bfloat16(tensor: Tensor) -> Tensor:
    """A tensor of bfloat16 whose rows are as many bytes apart."""
    width = tensor.dtype.itemsize // torch.bfloat16.itemsize
    strides = [stride if stride == 1 else stride * width for stride in tensor.stride()]
    return torch.empty_strided(tensor.shape, strides, dtype=torch.bfloat16, device=tensor.device)
