"""What CUDA runs where the CPU runs something else, for a model that is traced on the CPU.

A build of torch without CUDA cannot trace a backward pass on a GPU. But it knows the operators, their sizes, and what
they save for the backward pass. So composite operators whose parts depend on the device are taken apart as on a GPU:

    operator                        on a GPU
    scaled_dot_product_attention    flash attention for half precision, else memory-efficient attention, else its parts
    dropout                         one kernel, which keeps a mask of bytes

Only fake tensors take this way: what other threads run meanwhile is as it was.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..private import FakeTensor, destroy, in_parts

_aten = torch.ops.aten
_HALF = (torch.float16, torch.bfloat16)
_LARGEST_HEAD = 256  # of flash attention, from the A100 on
_MULTIPLE = 8  # elements: to so many heads, and rows of a mask, are padded

ESTIMATE = "for CUDA, without a GPU: an estimate of what eager torch allocates on an A100 or later"
_UNKNOWN = {  # parts of types of ops -> what is not known of them
    "conv": "cuDNN's workspaces for convolutions are not known",
    "native_batch_norm": "what cuDNN reserves for batch normalization is not known",
    "_for_cpu": "some ops are the CPU's: the program was made for it",
    "mkldnn": "some ops are the CPU's: they have no counterpart here",
    "_transformer_encoder_layer_fwd": "what a whole layer in one op allocates is not known",
}


def notes_of(types: Collection[str]) -> tuple[str, ...]:
    """What is estimated in a graph with ops of these types."""
    return (
        ESTIMATE,
        *dict.fromkeys(text for part, text in _UNKNOWN.items() if any(part in type_ for type_ in types)),
    )


@contextmanager
def kernels_of_cuda() -> Iterator[None]:
    """Meanwhile, composite operators of fake tensors are taken apart as CUDA does."""
    kernels: Any = torch.library.Library  # it is not typed
    library = kernels("aten", "IMPL")
    try:
        library.impl("scaled_dot_product_attention", _attention, "AutogradCPU")
        library.impl("dropout", _dropout, "AutogradCPU")
        yield
    finally:
        destroy(library)


def _dropout(tensor: Tensor, p: float, train: bool) -> Tensor:
    if isinstance(tensor, FakeTensor) and train and 0 < p < 1 and tensor.numel():
        return torch.native_dropout(tensor, p, True)[0]
    return in_parts(_aten.dropout.default, tensor, p, train)


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    given = (query, key, value, attn_mask, dropout_p, is_causal)
    if not isinstance(query, FakeTensor):
        return in_parts(_aten.scaled_dot_product_attention.default, *given, scale=scale, enable_gqa=enable_gqa)
    if _is_for_flash(query, key, value, attn_mask, is_causal):
        return _flash(query, key, value, dropout_p, is_causal, scale)
    if _is_for_efficient(query, key, value):
        bias = None if attn_mask is None else _bias(query, key, attn_mask)
        saves = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))
        return _aten._scaled_dot_product_efficient_attention(  # type: ignore[no-any-return]
            query, key, value, bias, saves, dropout_p, is_causal, scale=scale
        )[0]
    return _aten._scaled_dot_product_attention_math(  # type: ignore[no-any-return]
        *given, scale=scale, enable_gqa=enable_gqa
    )[0]


def _is_for_flash(query: Tensor, key: Tensor, value: Tensor, mask: Any, is_causal: bool) -> bool:
    heads = query.shape[-1] == key.shape[-1] == value.shape[-1] <= _LARGEST_HEAD
    square = not is_causal or query.shape[-2] == key.shape[-2]
    return _is_dense(query, key, value) and query.dtype in _HALF and mask is None and heads and square


def _is_for_efficient(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Its rows are multiples of 16 bytes, and all have as many heads."""
    rows = all(t.shape[-1] * t.element_size() % 16 == 0 for t in (query, value))
    heads = query.shape[1:2] == key.shape[1:2] == value.shape[1:2]
    kinds = query.dtype in (*_HALF, torch.float32)
    return _is_dense(query, key, value) and rows and heads and kinds


def _is_dense(query: Tensor, key: Tensor, value: Tensor) -> bool:
    every = (query, key, value)
    return all(t.dim() == 4 and t.numel() and t.stride(-1) == 1 for t in every) and len({t.dtype for t in every}) == 1


def _flash(query: Tensor, key: Tensor, value: Tensor, dropout_p: float, is_causal: bool, scale: float | None) -> Tensor:
    """Heads are padded to a multiple of 8, and the result is cut."""
    size = query.shape[-1]
    more = -size % _MULTIPLE
    if more:
        query, key, value = (pad(t, (0, more)) for t in (query, key, value))
        scale = size**-0.5 if scale is None else scale
    result: Tensor = _aten._scaled_dot_product_flash_attention(
        query, key, value, dropout_p, is_causal, False, scale=scale
    )[0]
    return result[..., :size] if more else result


def _bias(query: Tensor, key: Tensor, mask: Tensor) -> Tensor:
    """A mask as numbers to add, whose rows begin at multiples of 16 bytes."""
    if mask.dtype is torch.bool:
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill_(mask.logical_not(), float("-inf"))
    columns = mask.shape[-1]
    if columns % _MULTIPLE:
        mask = pad(mask, (0, -columns % _MULTIPLE))[..., :columns]
    return mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
