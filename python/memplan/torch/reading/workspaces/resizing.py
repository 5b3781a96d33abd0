"""Pools and resizes of images: copies of operands and results, or where each row comes from and how much it weighs."""

from __future__ import annotations

from torch import Tensor

from .called import Called
from .operands import contiguous, has_channels_last, nbytes

_POINTS = {"nearest": 1, "nearest_exact": 1, "linear": 2, "bilinear": 2, "trilinear": 2, "bicubic": 4}
_SMALL = 128  # rows and columns of a result that takes the kernel for channels last


def resized(call: Called) -> int:
    x, made = call.given("self" if call.tensor("self") is not None else "input"), call.made
    axes = x.dim() - 2
    kind = next(name for name in sorted(_POINTS, key=len, reverse=True) if f"upsample_{name}" in call.name)
    last = has_channels_last(x) and x.shape[1] > 3
    if axes > 1 and kind != "bicubic" and (last or (axes == 2 and sum(made.shape[2:]) <= _SMALL)):
        return sum(0 if has_channels_last(t) else nbytes(t) for t in (x, made))
    item = x.dtype.itemsize
    return sum(_POINTS[kind] * (8 + item) * size for size in made.shape[2:])


def resized_backward(call: Called) -> int:
    gradient, made = call.given("grad_output"), call.made
    if has_channels_last(gradient) and not gradient.is_contiguous():
        return 0 if has_channels_last(made) else nbytes(made)
    return contiguous(gradient)


def pooled_backward(call: Called) -> int:
    """Copies of what lies in another way than the gradient, or than its rows one after another."""
    gradient, indices = call.given("grad_output"), call.tensor("indices")
    last = _is_last(gradient) and (gradient.dim() == 5 or "2d" in call.name)
    return _in_form(last, gradient) + _in_form(last, call.made) + (0 if indices is None else _in_form(last, indices))


def largest_backward(call: Called) -> int:
    """Copies of what lies in another way than the input."""
    last = _is_last(call.given("self"))
    return sum(_in_form(last, call.given(name)) for name in ("grad_output", "indices"))


def _is_last(x: Tensor) -> bool:
    return has_channels_last(x) and not x.is_contiguous()


def _in_form(last: bool, x: Tensor) -> int:
    return 0 if (has_channels_last(x) if last else x.is_contiguous()) else nbytes(x)
