"""What an operator's output and inputs may share, as far as the operator and the layouts of its tensors tell.

A tensor lies in its storage from its offset on, as its strides say. Two tensors show elements of the same place in
the same bytes only if shape, strides and width of elements are the same; strides of dimensions of size 1 are of no
account. An output is only written over an input, put in place of one, or made of parts, where it is dense: no bytes
between its elements, none shown twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...inplace_ops import reusable

_aten = torch.ops.aten
JOINS = {_aten.cat.default, _aten.stack.default}
# Operators that copy their first argument as it is, if dtype, device and layout stay what they were
_COPIES = {_aten.clone.default, _aten._to_copy.default, _aten.alias_copy.default, _aten.detach_copy.default}
# and that do so if the bytes of both are in order, whatever the shape.
_RESHAPES = {
    _aten._reshape_copy.default,
    _aten.squeeze_copy.default,
    _aten.squeeze_copy.dim,
    _aten.squeeze_copy.dims,
    _aten.unsqueeze_copy.default,
    _aten.view_copy.default,
}


class Offers(NamedTuple):
    """What an operator allows for its first output."""

    over: Sequence[Tensor] = ()  # it may be written over one of these, if they lie alike
    copy_of: Tensor | None = None  # it holds the same bytes, in the same order
    parts: Sequence[tuple[Tensor, int]] = ()  # these fill it, each from an offset in bytes on
    first: bool = False  # only the first input may be written over, and none that shares bytes with it


NOTHING = Offers()


def offers_of(
    func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> Offers:
    """What a call of an operator allows, with the tensors among its arguments and of its result, in order."""
    if not outputs:
        return NOTHING
    over = reusable(str(func), inputs)
    if func in JOINS:
        return Offers(over, parts=_parts(func, args, kwargs, outputs[0]))
    copied = inputs and (func in _COPIES and _is_copy(inputs[0], outputs[0]))
    copied = copied or (func in _RESHAPES and _is_reshape(inputs[0], outputs[0]))
    return Offers(over, copy_of=inputs[0] if copied else None, first=len(over) < len(inputs))


def lie_alike(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors, each seen from its first element, show elements of the same place in the same bytes."""
    if a.shape != b.shape or a.dtype.itemsize != b.dtype.itemsize or a.device != b.device:
        return False
    return _strides(a.shape, a.stride()) == _strides(b.shape, b.stride())


def is_dense(tensor: Tensor) -> bool:
    """Whether a tensor with elements has one for each of the bytes from its first to its last; not lazily negated."""
    if tensor.is_conj() or tensor.is_neg() or tensor.numel() == 0:
        return False
    return extent(tensor) == tensor.numel() * tensor.dtype.itemsize and not _repeats(tensor)


def lies_in_order(tensor: Tensor) -> bool:
    """Whether axes lie in memory in the order of the shape, the last one innermost."""
    strides = [stride for _, stride in _strides(tensor.shape, tensor.stride())]
    return strides == sorted(strides, reverse=True)


def extent(tensor: Tensor) -> int:
    """Bytes from the tensor's first element to its last."""
    if tensor.numel() == 0:
        return 0
    steps = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return int(1 + steps) * tensor.dtype.itemsize


def _repeats(tensor: Tensor) -> bool:
    """Whether a tensor of as many elements as places shows some place twice (and so leaves another out)."""
    expected = 1
    for stride, size in sorted((stride, size) for size, stride in _strides(tensor.shape, tensor.stride())):
        if stride != expected:
            return True
        expected *= size
    return False


def _strides(shape: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """Size and stride of each dimension that has more than one place."""
    return [(size, stride) for size, stride in zip(shape, strides, strict=True) if size != 1]


def _is_copy(source: Tensor, output: Tensor) -> bool:
    return source.dtype == output.dtype and lie_alike(source, output) and is_dense(source)


def _is_reshape(source: Tensor, output: Tensor) -> bool:
    same = source.dtype == output.dtype and source.device == output.device and source.numel() == output.numel()
    return same and source.is_contiguous() and output.is_contiguous() and is_dense(source)


def _parts(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], whole: Tensor) -> list[tuple[Tensor, int]]:
    """The tensors that a cat or stack joins, those that lie as the part of the whole that shows them does."""
    stacked = func is _aten.stack.default
    axis = int(args[1] if len(args) > 1 else kwargs.get("dim", 0)) % max(1, whole.dim())
    strides = [stride for dimension, stride in enumerate(whole.stride()) if not stacked or dimension != axis]
    parts: list[tuple[Tensor, int]] = []
    start = 0
    for tensor in args[0]:
        if not stacked and tensor.numel() == 0:  # an empty one may have any rank
            continue
        alike = tensor.dtype == whole.dtype and tensor.device == whole.device
        if alike and is_dense(tensor) and _strides(tensor.shape, strides) == _strides(tensor.shape, tensor.stride()):
            parts.append((tensor, start * whole.stride(axis) * whole.dtype.itemsize))
        start += 1 if stacked else tensor.shape[axis]
    return parts
