"""Strides that the kernels of the CPU give, where fake kernels give others.

torch computes what fake tensors become in Python, and there strides of axes of size 1 are of no account. For the
kernels they are: they tell the layout that a convolution chooses, and the order in which a dropout draws. So they are
found as the kernels find them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._prims_common import suggest_memory_format
from torch.utils._python_dispatch import _disable_current_modes

from .effects import flat_tensors
from .relations import is_dense

_aten = torch.ops.aten
_VIEWS = {_aten.view.default, _aten._unsafe_view.default}
_IN_ORDER = {
    *(_aten.masked_fill.Scalar, _aten.masked_fill.Tensor),
    *(_aten.native_layer_norm.default, _aten._softmax.default, _aten._log_softmax.default),
}
_LIKE = {
    _aten.empty_like.default,
    _aten.flip.default,
    _aten.hardtanh.default,
    _aten.deg2rad.default,
    _aten.rad2deg.default,
}
_AS_FAKE = {_aten.clone.default, _aten.ldexp.Tensor, _aten.mvlgamma.default, _aten.pow.Scalar}
_AS_SUGGESTED = {"upsample_bilinear2d", "upsample_bicubic2d", "upsample_nearest2d"}
_NORMS = {"native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training"}


def as_kernels_lay(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> Any:
    """The result of an operator on fake tensors, its first tensor with the strides that the kernel gives it."""
    first = result[0] if isinstance(result, (tuple, list)) and result else result
    if any(map(_is_symbolic, flat_tensors([args, kwargs, result]))):  # sizes that only torch may ask for
        return result
    if not isinstance(first, Tensor) or first.device.type != "cpu" or _plain(func, args, first):
        return result
    ask = _asking(func)
    strides = None if ask is None else _asked(ask, args, kwargs, first)
    if strides is None or strides == first.stride():
        return result
    lies = _aten.as_strided.default(first, first.shape, strides, first.storage_offset())
    return type(result)((lies, *result[1:])) if first is not result else lies


def _plain(func: Any, args: Sequence[Any], result: Tensor) -> bool:
    """Whether all lie in the order of their axes, so that there is but one way."""
    return all(map(_in_order, (*flat_tensors(args), result)))


def _is_symbolic(tensor: Tensor) -> bool:
    return any(isinstance(size, torch.SymInt) for size in (*tensor.shape, *tensor.stride()))


def _in_order(tensor: Tensor) -> bool:
    expected = 1
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
        if stride != expected:
            return False
        expected *= max(size, 1)
    return True


_Ask = Callable[[Sequence[Any], Mapping[str, Any], Tensor], Tensor | None]


@functools.cache
def _asking(func: Any) -> _Ask | None:
    """What tells the strides of an operator's result; None where fake kernels do."""
    name = func._schema.name.partition("::")[2]
    if func in _VIEWS:
        return lambda args, kwargs, result: func(_meta(args[0]), *args[1:])
    if func in _IN_ORDER:
        return lambda args, kwargs, result: torch.empty(result.shape, device="meta")
    if func in _LIKE:
        return _like
    if name in _AS_SUGGESTED:
        return _as_suggested
    if name in _NORMS:
        return _as_norms
    if torch.Tag.pointwise in func.tags and not func._schema.is_mutable and func not in _AS_FAKE:
        return functools.partial(_pointwise, func._schema)
    return None


def _asked(ask: _Ask, args: Sequence[Any], kwargs: Mapping[str, Any], result: Tensor) -> tuple[int, ...] | None:
    with _disable_current_modes(), torch.no_grad():
        told = ask(args, kwargs, result)
    return None if told is None or told.shape != result.shape else told.stride()


def _meta(tensor: Tensor) -> Tensor:
    """A tensor without data that lies as another does."""
    return torch.empty_strided(tensor.shape, tensor.stride(), device="meta")


def _like(args: Sequence[Any], kwargs: Mapping[str, Any], result: Tensor) -> Tensor | None:
    kept = kwargs.get("memory_format") in (None, torch.preserve_format)
    return _meta(args[0]).clone() if kept else None


def _as_suggested(args: Sequence[Any], kwargs: Mapping[str, Any], result: Tensor) -> Tensor:
    """As an image whose layout its input suggests, or in the order of its axes."""
    return torch.empty(result.shape, device="meta", memory_format=suggest_memory_format(args[0]))


def _as_norms(args: Sequence[Any], kwargs: Mapping[str, Any], result: Tensor) -> Tensor:
    alike = _contiguous_as([_meta(args[0])], result)
    return _as_suggested(args, kwargs, result) if alike is None else alike


def _contiguous_as(operands: Sequence[Tensor], result: Tensor) -> Tensor | None:
    """In the first layout in which all operands are contiguous."""
    for layout in (torch.contiguous_format, torch.channels_last)[: 2 if result.dim() == 4 else 1]:
        if all(operand.is_contiguous(memory_format=layout) for operand in operands):
            return torch.empty(result.shape, device="meta", memory_format=layout)
    return None


def _pointwise(schema: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Tensor) -> Tensor:
    """As an iteration over all operands lays it, those among them that are numbers.

    That is TensorIterator of torch: operands that are alike are gone through as they lie, others by the largest steps.
    """
    operands = [_meta(tensor) for tensor in flat_tensors([args, kwargs])]
    if not _takes_number(schema, args) and all(operand.shape == result.shape for operand in operands):
        alike = _contiguous_as(operands, result)
        if alike is not None:
            return alike
        if len({operand.stride() for operand in operands}) == 1 and is_dense(operands[0]):
            return operands[0]
    order = _order(result.shape, [_steps(operand, result.shape) for operand in operands])
    lies = torch.empty([result.shape[axis] for axis in reversed(order)], device="meta")
    return lies.permute([len(order) - 1 - order.index(axis) for axis in range(len(order))])


def _takes_number(schema: Any, args: Sequence[Any]) -> bool:
    """Whether a number is an operand, as a tensor without axes."""
    given = zip(schema.arguments, args, strict=False)
    numbers = any(str(wanted.type) == "Tensor" and isinstance(value, (int, float, complex)) for wanted, value in given)
    return numbers or schema.overload_name == "Scalar"


def _steps(operand: Tensor, sizes: Sequence[int]) -> list[int]:
    """The strides of an operand along all axes: 0 along those that it has not, or repeats."""
    new = len(sizes) - operand.dim()
    own = zip(operand.shape, operand.stride(), sizes[new:], strict=True)
    return [0] * new + [0 if size == 1 != whole else stride for size, stride, whole in own]


def _order(sizes: Sequence[int], strides: Sequence[Sequence[int]]) -> list[int]:
    """Axes from the innermost to the outermost, sorted by the strides of the operands as TensorIterator does."""
    order = list(reversed(range(len(sizes))))
    for begin in range(1, len(order)):
        place = begin
        for before in reversed(range(begin)):
            inner = _lies_outside(order[before], order[place], sizes, strides)
            if inner > 0:
                order[before], order[place] = order[place], order[before]
                place = before
            elif inner < 0:
                break
    return order


def _lies_outside(axis: int, other: int, sizes: Sequence[int], strides: Sequence[Sequence[int]]) -> int:
    """1 if an axis lies outside of another, -1 if inside; 0 if no operand tells."""
    for steps in strides:
        if 0 in (steps[axis], steps[other]):
            continue
        if steps[axis] != steps[other]:
            return 1 if steps[axis] > steps[other] else -1
        if sizes[axis] > sizes[other]:
            return 1
    return 0
