"""What convolutions allocate for themselves, by the kernels that torch takes: those of oneDNN, or its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...private import select_conv_backend
from . import native_convolutions, onednn_convolutions
from .called import Called
from .native_convolutions import NAMES as NATIVE
from .operands import LAST, nbytes


def convolution(call: Called) -> int:
    """Above the result."""
    before, beside = _of(call)
    return max(before - nbytes(call.made), beside)


def room_of_convolution(call: Called) -> int:
    """In a place of its own."""
    return max(_of(call))


def convolution_backward(call: Called) -> int:
    """Above the gradients."""
    gradient, x, weight = (call.given(name) for name in ("grad_output", "input", "weight"))
    how, asked = _how(call), call["output_mask"]
    backend = _backend(x, weight, None, how)
    if _by_onednn(backend):
        spread = 0 if gradient.is_contiguous(memory_format=_format(x, weight)) else nbytes(gradient)
        if _format(x, weight) is not torch.contiguous_format:
            return spread + onednn_convolutions.backward_last(gradient, x, weight, how, asked)
        return spread + onednn_convolutions.backward(gradient, x, weight, how, asked)
    inside = native_convolutions.backward(backend, gradient, x, weight, how, asked) if backend in NATIVE else 0
    return inside + _laid(gradient, x, weight)


def _of(call: Called) -> tuple[int, int]:
    """Bytes before the result is made, and bytes beside it."""
    x, weight, bias, how = call.given("input"), call.given("weight"), call.tensor("bias"), _how(call)
    backend = _backend(x, weight, bias, how)
    if _by_onednn(backend):
        if _format(x, weight) is not torch.contiguous_format:
            return 0, onednn_convolutions.forward_last(weight, how)
        return onednn_convolutions.forward(x, weight, how, call.made)
    inside = native_convolutions.forward(backend, x, weight, bias, how, call.made) if backend in NATIVE else 0
    return 0, inside + _laid(x, weight)


def _how(call: Called) -> list[Any]:
    names = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")
    return [call[name] for name in names]


def _laid(*tensors: Tensor) -> int:
    """Copies of those that do not lie as kernels without oneDNN take them."""
    form = _format(tensors[0], tensors[-1])
    return sum(0 if t.is_contiguous(memory_format=form) else nbytes(t) for t in tensors)


def _backend(x: Tensor, weight: Tensor, bias: Tensor | None, how: Sequence[Any]) -> str:
    """Which kernel torch takes here, for this number of threads."""
    return str(select_conv_backend(x, weight, bias, *how)).rpartition(".")[2]


def _by_onednn(backend: str) -> bool:
    return backend in ("Mkldnn", "???")  # the second, which has no name in Python, for transposed ones


def _format(*tensors: Tensor) -> torch.memory_format:
    """How a kernel takes them: whether the channels of an element lie beside each other anyway."""
    last = any(
        t.dim() in LAST and not t.is_contiguous() and t.is_contiguous(memory_format=LAST[t.dim()]) for t in tensors
    )
    return LAST[tensors[0].dim()] if last else torch.contiguous_format
