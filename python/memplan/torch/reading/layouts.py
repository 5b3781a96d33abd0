"""How results of kernels lie in memory, where torch's fake kernels say something else.

Strides tell the layout that a convolution chooses, and the order in which a dropout draws; those of axes of size 1 too.

Kernels that go element by element let a result lie as most of what they are given does, and others decide in their own
ways. Many fake kernels are written in Python, and decide otherwise if a tensor is transposed, expanded, or has an axis
of size 1 with an unusual stride. Sums over the result are then added up in another order. So the kernel itself is run
on a few zeros whose axes lie in the same order, and says how its results lie.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import cache, lru_cache
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..private import disable_current_modes, pytree, schema_of, suggest_memory_format

_SMALL = 8  # sizes up to this one stay what they are
_MOST = 1 << 20  # elements of a tensor of zeros

# Operators besides those that torch calls pointwise
_MORE = """
elu_backward leaky_relu_backward hardswish_backward hardtanh_backward hardsigmoid_backward mish_backward
softplus_backward softshrink_backward hardshrink_backward log_sigmoid_forward log_sigmoid_backward glu glu_backward
_prelu_kernel _prelu_kernel_backward floor_divide
mse_loss mse_loss_backward smooth_l1_loss smooth_l1_loss_backward huber_loss huber_loss_backward
binary_cross_entropy binary_cross_entropy_backward
_softmax _softmax_backward_data _log_softmax _log_softmax_backward_data
native_batch_norm native_batch_norm_backward _native_batch_norm_legit _native_batch_norm_legit_no_training
_batch_norm_with_update _batch_norm_no_update batch_norm_backward
reflection_pad1d reflection_pad1d_backward reflection_pad2d reflection_pad2d_backward reflection_pad3d
reflection_pad3d_backward replication_pad1d replication_pad1d_backward replication_pad2d replication_pad2d_backward
replication_pad3d replication_pad3d_backward channel_shuffle max_unpool2d max_unpool3d
clone empty_like zeros_like ones_like full_like flip roll rot90 tril triu sort renorm masked_fill index index_select
mean linalg_vector_norm native_layer_norm native_layer_norm_backward binary_cross_entropy_with_logits
"""
_VIEWS = {torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default}  # whose strides all devices compute alike
_RESIZES = {
    torch.ops.aten.upsample_bilinear2d.default,
    torch.ops.aten.upsample_bicubic2d.default,
    torch.ops.aten.upsample_nearest2d.default,
    torch.ops.aten._upsample_nearest_exact2d.default,
}
_GROUPS_BACKWARD = torch.ops.aten.native_group_norm_backward.default
_GROUPS = {torch.ops.aten.native_group_norm.default: 0, _GROUPS_BACKWARD: 1}  # and which argument is the image
_ASKED = {f"aten::{name}" for name in _MORE.split()}

Form = tuple[tuple[int, ...], tuple[int, ...], torch.dtype]  # of a tensor: sizes, strides, dtype
_NUMBERS = (int, float, complex, bool, str, type(None), torch.dtype)
_WHERE = (torch.memory_format, torch.layout, torch.device)


class _Lies(NamedTuple):
    """How a result lies: with the strides of an argument, or dense, each axis outside of some others."""

    strides: tuple[int, ...] | None
    within: tuple[tuple[int, ...], ...]


def as_kernels_lie(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> Any:
    """The result of a fake kernel, or one that lies as that of the kernel does, where it is known to."""
    if func in _VIEWS:
        return _viewed(func, args, result)
    if func in _RESIZES:
        return _as_suggested(args[0], result)
    if func in _GROUPS:  # which are told of sizes
        return (_as_group_norm(func, args[_GROUPS[func]], result[0]), *result[1:])
    if not _is_asked(func):
        return result
    leaves, nest = pytree.tree_flatten((list(args), dict(kwargs)))
    made, shape = pytree.tree_flatten(result)
    if not _are_plain(leaves) or any(isinstance(one, Tensor) and _is_symbolic(one) for one in made):
        return result
    forms = tuple(_form(leaf) if isinstance(leaf, Tensor) else None for leaf in leaves)
    if all(form is None or _is_usual(form) for form in forms):
        return result
    others = tuple(None if isinstance(leaf, Tensor) else (type(leaf), leaf) for leaf in leaves)
    found = _of_zeros(func, forms, others, nest)
    if len(found) != len(made):
        return result
    return pytree.tree_unflatten([_laid(one, lies) for one, lies in zip(made, found, strict=True)], shape)


def _viewed(func: Any, args: Sequence[Any], result: Any) -> Any:
    if _is_symbolic(args[0]) or _is_symbolic(result):
        return result
    with disable_current_modes():
        lies = func(torch.empty_strided(args[0].shape, args[0].stride(), device="meta"), *args[1:]).stride()
    if lies == result.stride():
        return result
    return torch.ops.aten.as_strided.default(result, result.shape, lies, result.storage_offset())


def _as_suggested(image: Tensor, result: Any) -> Any:
    """As an image of the layout that its input suggests."""
    if result is None or _is_symbolic(image) or _is_symbolic(result) or image.device.type != "cpu":
        return result
    with disable_current_modes():
        lies = torch.empty(result.shape, device="meta", memory_format=suggest_memory_format(image)).stride()
    return result if lies == result.stride() else result.new_empty_strided(result.shape, lies)


def _as_group_norm(func: Any, image: Tensor, result: Any) -> Any:
    """An image laid out as the input suggests. From torch 2.14 on, gradients keep the strides of dense inputs."""
    if result is None or func is not _GROUPS_BACKWARD or _is_symbolic(image) or not _keeps_strides():
        return _as_suggested(image, result)
    if not image.is_contiguous(memory_format=suggest_memory_format(image)):
        return _as_suggested(image, result)
    lies = image.stride()
    return result if lies == result.stride() else result.new_empty_strided(result.shape, lies)


@cache
def _keeps_strides() -> bool:
    """Whether the backward of group norm gives a sample of a larger batch the strides of that."""
    with disable_current_modes(), torch.no_grad():
        image, one = torch.zeros(1, 4, 2, 2)[:, :2], torch.ones(1, 1)
        made = _GROUPS_BACKWARD(image, image, one, one, None, 1, 2, 4, 1, [True, False, False])
    return bool(made[0].stride() == image.stride())


def _is_symbolic(tensor: Tensor) -> bool:
    """Whether sizes are those that only torch may ask for."""
    return any(isinstance(size, torch.SymInt) for size in (*tensor.shape, *tensor.stride()))


@cache
def _is_asked(func: Any) -> bool:
    schema = schema_of(func)
    pure = not schema.is_mutable and all(one.alias_info is None for one in (*schema.arguments, *schema.returns))
    asked = schema.name in _ASKED or torch.Tag.pointwise in func.tags
    return pure and asked and schema.name.startswith("aten::") and torch.Tag.nondeterministic_seeded not in func.tags


def _are_plain(leaves: Sequence[Any]) -> bool:
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    if any(_is_symbolic(tensor) or tensor.device.type != "cpu" for tensor in tensors):
        return False
    dense = all(t.layout == torch.strided and not t.is_conj() and not t.is_neg() for t in tensors)
    some = all(t.numel() > 0 or t.dim() == 1 for t in tensors)  # statistics that a norm does not need are empty
    return dense and some and all(isinstance(leaf, (Tensor, *_WHERE)) or type(leaf) in _NUMBERS for leaf in leaves)


def _form(tensor: Tensor) -> Form:
    return tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype


def _is_usual(form: Form) -> bool:
    """Whether a tensor is dense with its axes in order, in such a way that all kernels agree."""
    shape, strides, _ = form
    return strides == _dense(shape)


def _dense(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


@lru_cache(maxsize=4096)
def _of_zeros(func: Any, forms: Sequence[Form | None], others: Sequence[Hashable], nest: Any) -> Sequence[_Lies | None]:
    """How the results of a call lie, by what it makes of zeros; nothing if that is not known.

    Where what it is told does not go with small sizes, as the widths of a padding, they are what they are.
    """
    as_they_are = {size: size for form in forms if form is not None for size in form[0]}
    for sizes in (_small_sizes(forms), as_they_are):
        found = _of_sizes(func, forms, others, nest, sizes)
        if found is not None:
            return found
    return ()


def _of_sizes(
    func: Any, forms: Sequence[Form | None], others: Sequence[Hashable], nest: Any, sizes: Mapping[int, int]
) -> Sequence[_Lies | None] | None:
    leaves, given = list[Any](), list[tuple[Any, Any, Form]]()
    for form, other in zip(forms, others, strict=True):
        small = None if form is None else _shrunk(form, sizes)
        if form is None:
            leaves.append(other[1])  # type: ignore[index]
        elif small is None:
            return None
        else:
            given.append((*small, form))
            with disable_current_modes():
                leaves.append(_zeros(*small, form[2]))
    args, kwargs = pytree.tree_unflatten(leaves, nest)
    with disable_current_modes(), torch.no_grad():
        try:
            made = func(*args, **kwargs)
        except Exception:  # what it is told does not go with these sizes
            return None
        return [_found(one, given) for one in pytree.tree_leaves(made)]


def _small_sizes(forms: Sequence[Form | None]) -> dict[int, int]:
    """Small sizes for all sizes of a call, in the same order."""
    found = sorted({size for form in forms if form is not None for size in form[0]})
    large = [size for size in found if size > _SMALL]
    return {size: size for size in found} | {size: _SMALL + 1 + rank for rank, size in enumerate(large)}


def _shrunk(form: Form, sizes: Mapping[int, int]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Small sizes and strides, with axes in the same order, and with gaps if there are any; None if they overlap."""
    shape, strides, _ = form
    small = [0] * len(shape)
    real, fake = 1, 1  # where the next axis lies if there is no gap
    alike = {1: 1}
    for stride, axis in sorted((stride, axis) for axis, stride in enumerate(strides) if shape[axis] > 1 and stride):
        if stride < real:
            return None
        fake += stride > real
        small[axis] = alike[stride] = fake
        real, fake = stride * shape[axis], fake * sizes[shape[axis]]
        alike[real] = fake
    for axis, stride in enumerate(strides):
        if shape[axis] == 1 and stride:
            below = max((known for known in alike if known <= stride), default=0)
            small[axis] = alike.get(below, 1) + (below < stride)
    shrunk = tuple(sizes[size] for size in shape)
    return (shrunk, tuple(small)) if prod(shrunk) <= _MOST else None


def _zeros(shape: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> Tensor:
    room = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    return torch.zeros(room, dtype=dtype, device="cpu").as_strided(shape, strides)


def _found(made: Any, given: Sequence[tuple[Any, Any, Form]]) -> _Lies | None:
    """How a result lies; None if there is more to it than the order of its axes."""
    if not isinstance(made, Tensor):
        return None
    shape, strides = tuple(made.shape), made.stride()
    for small, lies, form in given:
        if (small, lies) == (shape, strides) and 0 not in strides:
            return _Lies(form[1], ())
    long = [axis for axis, size in enumerate(shape) if size > 1]
    within = tuple(tuple(axis for axis in long if strides[axis] < stride) for stride in strides)
    dense = all(prod(shape[axis] for axis in axes) == stride for axes, stride in zip(within, strides, strict=True))
    return _Lies(None, within) if dense else None


def _laid(tensor: Any, lies: _Lies | None) -> Any:
    """A tensor, or one of its shape that lies so."""
    if lies is None or not isinstance(tensor, Tensor):
        return tensor
    strides = lies.strides or tuple(prod(tensor.shape[axis] for axis in axes) for axes in lies.within)
    if len(strides) != tensor.dim() or strides == tensor.stride():
        return tensor
    return tensor.new_empty_strided(tensor.shape, strides)
