"""What convolutions allocate for themselves: oneDNN convolves tensors in blocks of channels.

It copies what it is given, and copies its result back. The backward pass makes the gradients of the input and of the
weight one after the other. Measured with torch 2.13.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .called import Called
from .operands import LAST

_FIRST = 4  # channels of an image, which is not copied


def convolution(call: Called) -> int:
    """Above the result."""
    before, beside = _of(call)
    return max(before - int(call.made.nbytes), beside)


def room_of_convolution(call: Called) -> int:
    """In a place of its own."""
    return max(_of(call))


def convolution_backward(call: Called) -> int:
    """Above the gradients."""
    args = [call[argument.name] for argument in call.schema.arguments]
    return _backward(args[0], args[1], args[2], args[4:-1], args[-1])


def _of(call: Called) -> tuple[int, int]:
    args = [call[argument.name] for argument in call.schema.arguments]
    return _forward(args[0], args[1], args[2], args[3:], call.made)


def _forward(x: Tensor, weight: Tensor, bias: Tensor | None, how: Sequence[Any], result: Tensor) -> tuple[int, int]:
    """Bytes before the result is made, and bytes beside it."""
    backend = _backend(x, weight, bias, how)
    if not _by_onednn(backend):
        return 0, _columns(backend, weight, result)
    if _channels_last(x, weight):
        return 0, weight.nbytes
    out = _in_blocks(result)
    if how[3]:  # transposed
        out += result.nbytes
    if _as_product(weight, how):
        column = math.prod(weight.shape[1:]) * math.prod(result.shape[2:]) * x.element_size()
        return column * torch.get_num_threads() + out, out
    return _copied(x) + _weight_in_blocks(weight, how) + out, out


def _backward(gradient: Tensor, x: Tensor, weight: Tensor, how: Sequence[Any], asked: Sequence[bool]) -> int:
    spread = 0 if gradient.is_contiguous(memory_format=_format(x, weight)) else gradient.nbytes  # it is copied
    backend = _backend(x, weight, None, how)
    if not _by_onednn(backend):
        return spread + _columns(backend, weight, gradient)
    if _channels_last(x, weight):
        return spread + weight.nbytes * asked[1]
    of_x, of_weight = x.nbytes * asked[0], weight.nbytes * asked[1]
    out, into, blocks = _in_blocks(gradient), _in_blocks(x), _weight_in_blocks(weight, how)
    held = [of_x + of_weight]
    if asked[0]:
        held += [out + blocks + into, into + of_x]
    if asked[1]:
        held.append(of_x + 2 * of_weight)
        if not _by_channel(weight, how) or max(weight.shape[2:]) <= 3:
            held.append(of_x + out + _copied(x) + blocks)
    return max(held) + spread - of_x - of_weight


def _columns(backend: str, weight: Tensor, result: Tensor) -> int:
    """A column for each window, which a product takes; windows of one element lie so."""
    if backend != "Slow2d" or math.prod(weight.shape[2:]) == 1:
        return 0
    return math.prod(weight.shape[1:]) * result.numel() // result.shape[1] * result.element_size()


def _backend(x: Tensor, weight: Tensor, bias: Tensor | None, how: Sequence[Any]) -> str:
    """Which kernel torch takes here, for this number of threads."""
    return str(torch._C._select_conv_backend(x, weight, bias, *how)).rpartition(".")[2]


def _by_onednn(backend: str) -> bool:
    return backend in ("Mkldnn", "???")  # the second, which has no name in Python, for transposed ones


def _channels_last(*tensors: Tensor) -> bool:
    """Whether the channels of an element lie beside each other anyway."""
    return any(
        t.dim() in LAST and not t.is_contiguous() and t.is_contiguous(memory_format=LAST[t.dim()]) for t in tensors
    )


def _format(*tensors: Tensor) -> torch.memory_format:
    """How a kernel takes them."""
    return LAST[tensors[0].dim()] if _channels_last(*tensors) else torch.contiguous_format


def _by_channel(weight: Tensor, how: Sequence[Any]) -> bool:
    return bool(how[5] > 1 and weight.shape[1] == 1)


def _as_product(weight: Tensor, how: Sequence[Any]) -> bool:
    """Whether groups along a line are too narrow for blocks: then a column of all windows is multiplied."""
    transposed, groups = how[3], how[5]
    if groups == 1 or transposed or weight.dim() != 3 or _by_channel(weight, how):
        return False
    return bool(weight.shape[1] % _block() or weight.shape[0] // groups % _block())


def _block() -> int:
    return 16 if "AVX512" in torch.backends.cpu.get_cpu_capability() else 8


def _whole(channels: int) -> int:
    return -(-channels // _block()) * _block()


def _in_blocks(tensor: Tensor) -> int:
    return tensor.nbytes // max(tensor.shape[1], 1) * _whole(tensor.shape[1])


def _copied(x: Tensor) -> int:
    return 0 if x.shape[1] <= _FIRST else _in_blocks(x)


def _weight_in_blocks(weight: Tensor, how: Sequence[Any]) -> int:
    """Of one group with several channels: both its sides are whole blocks."""
    outer, inner = weight.shape[:2]
    if how[5] > 1 or min(outer, inner) <= _FIRST:
        return weight.nbytes
    return weight.nbytes // (outer * inner) * _whole(outer) * _whole(inner)
