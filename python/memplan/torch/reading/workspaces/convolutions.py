"""What convolutions allocate for themselves, by the kernels that torch takes: those of oneDNN, or its own."""

from __future__ import annotations

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
    how, asked, form = _how(call), call["output_mask"], _format(x, weight)
    backend = _backend(call)
    if not _by_onednn(backend):
        inside = native_convolutions.backward(backend, gradient, x, weight, how, asked) if backend in NATIVE else 0
        return inside + _laid(form, gradient, x, weight)
    if form is not torch.contiguous_format:
        return _laid(form, gradient, x) + onednn_convolutions.backward_last(gradient, x, weight, how, asked)
    return _laid(form, gradient, x, weight) + onednn_convolutions.backward(gradient, x, weight, how, asked)


def _of(call: Called) -> tuple[int, int]:
    """Bytes before the result is made, and bytes beside it."""
    x, weight, bias, how = call.given("input"), call.given("weight"), call.tensor("bias"), _how(call)
    backend, form = _backend(call), _format(x, weight)
    if not _by_onednn(backend):
        inside = native_convolutions.forward(backend, x, weight, bias, how, call.made) if backend in NATIVE else 0
        return 0, inside + _laid(form, x, weight)
    if form is not torch.contiguous_format:
        return 0, _laid(form, x) + onednn_convolutions.forward_last(weight, how)
    before, beside = onednn_convolutions.forward(x, weight, how, call.made)
    copies = _laid(form, x, weight)
    return copies + before, copies + beside


def _how(call: Called) -> list[Any]:
    names = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")
    return [call[name] for name in names]


def _laid(form: torch.memory_format, *tensors: Tensor) -> int:
    """Copies of those that do not lie as kernels take them."""
    return sum(0 if t.is_contiguous(memory_format=form) else nbytes(t) for t in tensors)


def _backend(call: Called) -> str:
    """Which kernel torch takes here, for this number of threads: for a piece, that of the whole call."""
    whole = call.whole or call
    x, weight, bias = whole.given("input"), whole.given("weight"), whole.tensor("bias")
    return str(select_conv_backend(x, weight, bias, *_how(whole))).rpartition(".")[2]


def _by_onednn(backend: str) -> bool:
    return backend in ("Mkldnn", "???")  # the second, which has no name in Python, for transposed ones


def _format(*tensors: Tensor) -> torch.memory_format:
    """How a kernel takes them: whether the channels of an element lie beside each other anyway."""
    last = any(
        t.dim() in LAST and not t.is_contiguous() and t.is_contiguous(memory_format=LAST[t.dim()]) for t in tensors
    )
    return LAST[tensors[0].dim()] if last else torch.contiguous_format
