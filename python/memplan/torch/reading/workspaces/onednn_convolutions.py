"""Convolutions of oneDNN: tensors lie in blocks of channels, so what is given is copied, and the result copied back.

The backward pass makes the gradients of the input and of the weight one after the other. oneDNN chooses among its
kernels by the processor. What a kernel holds besides was measured on processors with AVX2 and with AVX512.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .operands import has_channels_last, nbytes

_FIRST = 4  # channels of an image, which is not copied
# Bytes of the lists of blocks that small products of matrices take, for each thread and for all
_LISTS, _LISTS_STRIDED = (4_120, 4_096), (24_600, 12_288)


def forward(x: Tensor, weight: Tensor, how: Sequence[Any], result: Tensor) -> tuple[int, int]:
    """Bytes before the result is made, and bytes beside it."""
    out = _in_blocks(result)
    if _as_product(weight, how) and (weight.dim() == 3 or _is_avx2()):
        return _columns(weight, result) + out, out
    if how[3] and max(how[0]) > 1:
        lists = _lists(_LISTS_STRIDED) if _is_avx2() else 0
        return _copied(x) + _in_whole_blocks(weight) + nbytes(result) + lists, 2 * nbytes(result)
    if _by_channel(weight, how) and weight.dim() == 5:  # channels lie beside each other
        return _copied(x) + nbytes(weight) + nbytes(result), 2 * nbytes(result)
    return _copied(x) + _weight_in_blocks(weight, how) + out, out


def forward_last(weight: Tensor, how: Sequence[Any]) -> int:
    """Bytes beside a result whose channels lie beside each other: the weight in this way, and in blocks."""
    blocks = nbytes(weight)
    if _by_channel(weight, how):
        return blocks
    lists = _LISTS_STRIDED if how[3] else _LISTS
    return _laid_last(weight) + blocks + _lists(lists)


def backward(gradient: Tensor, x: Tensor, weight: Tensor, how: Sequence[Any], asked: Sequence[bool]) -> int:
    """Bytes above the gradients."""
    of_x, of_weight = nbytes(x) * asked[0], nbytes(weight) * asked[1]
    of_bias = int(gradient.shape[1]) * x.element_size() * asked[2]
    held = [of_x + of_weight + of_bias]
    if asked[0]:
        held += _of_input(gradient, x, weight, how)
    if asked[1]:
        held.append(of_x + 2 * (of_weight + of_bias))
        if _by_columns(weight, how):
            columns = _columns(weight, x if how[3] else gradient) + _in_each_thread(weight)
            held.append(of_x + of_weight + of_bias + columns)
        elif not _by_channel(weight, how) or max(weight.shape[2:]) <= 3:
            source, made = (gradient, x) if how[3] else (x, gradient)
            held.append(of_x + _in_blocks(made) + _copied(source) + _weight_in_blocks(weight, how) + of_bias)
    return max(held) - of_x - of_weight - of_bias


def backward_last(gradient: Tensor, x: Tensor, weight: Tensor, how: Sequence[Any], asked: Sequence[bool]) -> int:
    """The same, where channels lie beside each other."""
    own, of_weight = nbytes(weight), nbytes(weight) * asked[1]
    of_bias = int(gradient.shape[1]) * x.element_size() * asked[2]
    if _by_channel(weight, how):
        return of_weight
    held = [0]
    copy = _laid_last(weight)
    if asked[0]:
        lists = _LISTS_STRIDED if max(how[0]) > 1 and not how[3] else _LISTS
        held.append(copy + own + _lists(lists) - of_weight - of_bias)
    if asked[1]:
        held.append(copy + 2 * own + of_bias)
        if _by_columns(weight, how):
            whole = torch.get_num_threads() * nbytes(x) // max(1, x.shape[0])
            held.append(copy + whole + _columns(weight, x if how[3] else gradient) + _in_each_thread(weight))
    return max(held)


def _of_input(gradient: Tensor, x: Tensor, weight: Tensor, how: Sequence[Any]) -> list[int]:
    """Bytes that the gradient of the input takes, at the moments that count."""
    blocks = nbytes(weight) if how[5] > 1 else _in_whole_blocks(weight)
    into = _in_blocks(x)
    if how[3]:
        return [_copied(gradient) + _weight_in_blocks(weight, how) + into, into + nbytes(x)]
    if _as_product(weight, how) or (weight.dim() == 5 and _by_channel(weight, how)):
        return [nbytes(x) + _columns(weight, gradient), 2 * nbytes(x)]
    if not _by_channel(weight, how) and max(how[0]) > 1:
        return [nbytes(gradient) + blocks + nbytes(x) + _lists(_LISTS_STRIDED), 3 * nbytes(x)]
    return [_in_blocks(gradient) + blocks + into, into + nbytes(x)]


def _laid_last(weight: Tensor) -> int:
    """A copy, unless channels of the weight lie beside each other."""
    return 0 if has_channels_last(weight) else nbytes(weight)


def _by_columns(weight: Tensor, how: Sequence[Any]) -> bool:
    """Whether gradients of weights are products of columns: of volumes, of windows with gaps, of narrow groups."""
    if math.prod(weight.shape[2:]) == 1:
        return False
    of_windows = weight.dim() == 5 or (max(how[2]) > 1 and not _by_channel(weight, how))
    return _as_product(weight, how) or (of_windows and _is_avx2())


def _columns(weight: Tensor, made: Tensor) -> int:
    """In each thread a column for each window, of volumes one slice after another."""
    places = math.prod(made.shape[3:] if weight.dim() == 5 else made.shape[2:])
    numbers = int(weight.shape[1]) * math.prod(weight.shape[2:]) * places
    return (torch.get_num_threads() * numbers + 32) * weight.element_size()


def _in_each_thread(weight: Tensor) -> int:
    """The gradient of the weight in each thread, for which oneDNN takes four times the bytes."""
    return torch.get_num_threads() * 4 * nbytes(weight) + 32 * weight.element_size()


def _lists(sizes: tuple[int, int]) -> int:
    return torch.get_num_threads() * sizes[0] + sizes[1]


def _by_channel(weight: Tensor, how: Sequence[Any]) -> bool:
    return bool(how[5] > 1 and weight.shape[1] == 1)


def _as_product(weight: Tensor, how: Sequence[Any]) -> bool:
    """Whether groups are too narrow for blocks: then a column of all windows is multiplied."""
    transposed, groups = how[3], how[5]
    if groups == 1 or transposed or _by_channel(weight, how):
        return False
    return bool(weight.shape[1] % _block() or weight.shape[0] // groups % _block())


def _is_avx2() -> bool:
    return torch.backends.cpu.get_cpu_capability() == "AVX2"


def _block() -> int:
    return 16 if "AVX512" in torch.backends.cpu.get_cpu_capability() else 8


def _whole(channels: int) -> int:
    return -(-channels // _block()) * _block()


def _in_blocks(tensor: Tensor) -> int:
    return nbytes(tensor) // max(tensor.shape[1], 1) * _whole(tensor.shape[1])


def _copied(x: Tensor) -> int:
    return 0 if x.shape[1] <= _FIRST else _in_blocks(x)


def _weight_in_blocks(weight: Tensor, how: Sequence[Any]) -> int:
    """Of one group with several channels: both its sides are whole blocks."""
    if how[5] > 1 or min(weight.shape[:2]) <= _FIRST:
        return nbytes(weight)
    return _in_whole_blocks(weight)


def _in_whole_blocks(weight: Tensor) -> int:
    outer, inner = weight.shape[:2]
    return nbytes(weight) // (outer * inner) * _whole(outer) * _whole(inner)
