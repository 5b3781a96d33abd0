"""What kernels of torch for the CPU allocate for themselves: the most that an op holds above what it returns.

Measured with torch 2.13. oneDNN convolves tensors in blocks of channels: it copies what it is given, and copies its
result back. The backward pass makes the gradients of the input and of the weight one after the other. Attention and
layers of transformers that run as one op hold what they make in between.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .effects import flat_tensors

_aten: Any = torch.ops.aten
_ATTENTION = _aten._native_multi_head_attention.default
_LAYER = _aten._transformer_encoder_layer_fwd.default
_OF_CTC = (_aten._ctc_loss_backward.default, _aten._ctc_loss_backward.Tensor)
_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}  # by dimensions
_FIRST = 4  # channels of an image, which is not copied


def workspace_of(func: Any, args: Sequence[Any], result: Any) -> int:
    """Bytes; 0 where nothing is known."""
    if not args or not isinstance(args[0], Tensor) or args[0].device.type != "cpu":
        return 0
    if func is _aten.convolution.default:
        before, beside = _forward(args[0], args[1], args[2], args[3:], result)
        made = int(result.nbytes)
        return max(before, beside + made) - made
    if func is _aten.convolution_backward.default:
        return _backward(args[0], args[1], args[2], args[4:-1], args[-1])
    if func is _aten.native_batch_norm_backward.default:
        return _of_norm(args[0], args[1], args[-1])
    if func in _OF_CTC:
        return int(args[6].nbytes)  # as much as forward kept
    return inside_of(func, args)


def room_of(func: Any, args: Sequence[Any], result: Any) -> int:
    """Bytes that hold all of it in a place of its own, where that of a result cannot be used before."""
    most = workspace_of(func, args, result)
    if most and func is _aten.convolution.default:
        return max(_forward(args[0], args[1], args[2], args[3:], result))
    return most + sum(t.nbytes for t in flat_tensors(result)) if func is _aten.convolution_backward.default else most


def inside_of(func: Any, args: Sequence[Any]) -> int:
    """Bytes of tensors inside of what torch runs as one op, a layer of a transformer; 0 for what is one operator."""
    if func is not _ATTENTION and func is not _LAYER:
        return 0
    x: Tensor = args[0]
    if func is _ATTENTION:
        return _attention(x, args[4]) - x.nbytes
    wide = int(args[14].shape[0])
    return max(_attention(x, args[2]), 2 * x.nbytes + x.nbytes // x.shape[-1] * wide) - x.nbytes


def _attention(x: Tensor, heads: int) -> int:
    """A query, a key and a value, twice; or once and the scores."""
    batch, length = x.shape[:2]
    return 3 * x.nbytes + max(3 * x.nbytes, batch * heads * length * length * x.element_size())


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


def _of_norm(gradient: Tensor, x: Tensor, asked: Sequence[bool]) -> int:
    """Where both lie alike, torch makes the gradient of the input twice, and drops the first."""
    forms = [torch.contiguous_format, *([_LAST[x.dim()]] if x.dim() in _LAST else [])]
    alike = any(gradient.is_contiguous(memory_format=form) and x.is_contiguous(memory_format=form) for form in forms)
    return x.nbytes if asked[0] and alike else 0


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
        t.dim() in _LAST and not t.is_contiguous() and t.is_contiguous(memory_format=_LAST[t.dim()]) for t in tensors
    )


def _format(*tensors: Tensor) -> torch.memory_format:
    """How a kernel takes them."""
    return _LAST[tensors[0].dim()] if _channels_last(*tensors) else torch.contiguous_format


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
