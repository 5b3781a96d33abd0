"""Kernels that are made of others: what lies beside the result where they hold most."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .called import Called
from .elementwise import elementwise
from .operands import cast, contiguous, is_small, nbytes, number, opmath

_SUM, _MEAN = 2, 1  # of losses


def attention(call: Called) -> int:
    """For each thread, scores of a block of queries and keys, their sums, and the block of the result."""
    query, key = call.given("query"), call.given("key")
    rows, columns = _block(query), min(512, key.shape[-2])
    width = query.shape[-1]
    item = opmath(query.dtype)
    buffer = torch.get_num_threads() * rows * (columns + 2 + width) * item
    if is_small(query):
        buffer += torch.get_num_threads() * rows * columns * query.dtype.itemsize
    return buffer


def attention_backward(call: Called) -> int:
    query, key, gradient = call.given("query"), call.given("key"), call.given("grad_out")
    rows, columns = _block(query), min(512, key.shape[-2])
    item = opmath(query.dtype)
    return contiguous(gradient.transpose(1, 2)) + torch.get_num_threads() * rows * columns * 2 * item + rows * item


def _block(query: Tensor) -> int:
    length = int(query.shape[-2])
    return min(length, 256 if length >= 768 else 64 if length >= 192 else 32)


def scaled(call: Called) -> int:
    """A product with a number, of integers that are cast."""
    return cast([call.given("self"), 1.0], call.made.dtype)


def accumulated(call: Called) -> int:
    """What is added up or multiplied in another dtype is cast as a whole."""
    return cast([call.given("self")], call.made.dtype)


def copied(call: Called) -> int:
    """A number is a tensor first."""
    source = call["src"]
    return 0 if isinstance(source, Tensor) else number(source, call.made.dtype, casting=False)


def dropout(call: Called) -> int:
    """The mask is cast, and the product is multiplied with a number."""
    made = call.made
    trains = call["train"] is not False
    return max(nbytes(made), number(1.0, made.dtype)) if trains else 0


def dropout_backward(call: Called) -> int:
    """The gradient times the mask, which is cast, times a number."""
    made = call.made
    mask = 0 if call.given("mask").dtype == made.dtype else nbytes(made)
    return max(mask, nbytes(made) + number(1.0, made.dtype))


def gelu_backward(call: Called) -> int:
    """oneDNN takes the gradient, and makes its result, as the input lies."""
    x = call.given("self")
    known = x.dtype == torch.float32 or (x.dtype == torch.bfloat16 and _takes_bfloat16())
    if not known or call["approximate"] != "none" or not x.is_contiguous():
        return elementwise(call)
    return contiguous(call.given("grad_output")) + contiguous(call.made)


def _takes_bfloat16() -> bool:
    """Whether this processor has what oneDNN multiplies such numbers with."""
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def is_infinite(call: Called) -> int:
    x = call.given("self")
    return nbytes(x) + number(1.0, x.dtype) if x.is_floating_point() else 0


def log_sum(call: Called) -> int:
    """Largest values, and all numbers without them."""
    x, made = call.given("self"), call.made
    return cast([x], made.dtype) + x.numel() * made.dtype.itemsize + nbytes(made)


def repeated(call: Called) -> int:
    """In which order axes go back: two rows of their numbers, and both in one."""
    return 4 * 8 * len(call["repeats"])


def safe_softmax(call: Called) -> int:
    x = call.given("self")
    lines = x.numel() // max(1, int(x.shape[call["dim"]]))
    return max(contiguous(x), x.numel() + lines + call.made.dtype.itemsize)


def sorted_places(call: Called) -> int:
    x = call.given("self")
    return 8 * int(x.shape[call["dim"]]) if x.dim() else 0


def loss(call: Called) -> int:
    """The loss of each element, before they are added up, and casts of what it is computed from."""
    made, casts = call.made, elementwise(call)
    if call["reduction"] not in (_SUM, _MEAN):
        return casts
    times = 1 if call.name == "huber_loss" else 2  # the others make all elements twice
    return times * casts + _elements(call) * made.dtype.itemsize + _added(call)


def _added(call: Called) -> int:
    """A sum or mean of the losses of all elements."""
    made = call.made
    if call["reduction"] != _MEAN:
        return 0
    return 4 + max(4 * _elements(call), number(0, torch.float32)) if is_small(made) else number(0, made.dtype)


def cross_entropy(call: Called) -> int:
    """A sum or mean of the losses of all elements, which are in the storage of the result."""
    if call["reduction"] not in (_SUM, _MEAN):
        return 0
    return call.made.dtype.itemsize + _added(call)


def cross_entropy_backward(call: Called) -> int:
    """A mean is divided by a number."""
    return number(0, call.made.dtype) if call["reduction"] == _MEAN else 0


def cross_entropy_of_logits(call: Called) -> int:
    """The logarithms of sigmoids, and the loss of each element; before, weights of what is positive."""
    made, each = call.made, _elements(call) * call.made.dtype.itemsize
    weights = call.tensor("pos_weight")
    held = each + each + contiguous(call.tensor("self"))
    if weights is not None:
        held = max(held, each + each + nbytes(weights) + number(1, made.dtype))
    if call["reduction"] in (_SUM, _MEAN):
        return max(held - nbytes(made), 2 * each + _added(call))
    return held - each


def kept_of(call: Called) -> int:
    """Bytes of the storage of a sum or mean of losses, which was made for the loss of each element."""
    return _elements(call) * call.made.dtype.itemsize if call["reduction"] in (_SUM, _MEAN) else 0


def _elements(call: Called) -> int:
    shapes = call.given("self").shape, call.given("target").shape
    return math.prod(torch.broadcast_shapes(*shapes))  # type: ignore[no-untyped-call]


def class_loss(call: Called) -> int:
    """Copies, for a sum or a mean."""
    names = ("self", "target", "weight") if call["reduction"] in (_SUM, _MEAN) else ("weight",)
    return sum(contiguous(call.tensor(name)) for name in names)


def class_loss_backward(call: Called) -> int:
    names = ("target", "weight") if call["reduction"] in (_SUM, _MEAN) else ("weight",)
    return sum(contiguous(call.tensor(name)) for name in names)


def joined(call: Called) -> int:
    """A part in another dtype is copied first."""
    made = call.made
    return max((nbytes(part) for part in call.inputs if part.dtype != made.dtype), default=0)


def selected(call: Called) -> int:
    """Copies; of the source too, if columns are selected."""
    x = call.given("self")
    second = x.dim() > 1 and call["dim"] % x.dim() == 1
    return contiguous(call.tensor("index")) + (contiguous(x) if second else 0)


def triangle(call: Called) -> int:
    """A copy, if matrices of a batch do not lie one after another."""
    x = call.given("self")
    if x.is_contiguous() or x.dim() < 3:
        return 0
    expected = x.shape[-1] * x.shape[-2]
    for axis in range(x.dim() - 3, -1, -1):
        if x.stride(axis) != expected:
            return nbytes(x)
        expected *= x.shape[axis]
    return 0


def along_axis(call: Called) -> int:
    """A copy in which the axis is the last one, if it does not lie so."""
    x = call.given("self")
    return nbytes(x) if call["dim"] is not None and x.dim() and x.stride(call["dim"]) > 1 else 0


def where(call: Called) -> int:
    made = call.made
    own = [call[name] for name in ("self", "other")]
    return sum(
        number(v, made.dtype)
        if not isinstance(v, Tensor)
        else 0
        if v.dtype == made.dtype
        else v.numel() * made.dtype.itemsize
        for v in own
    )


def ctc_loss_backward(call: Called) -> int:
    """As much as forward kept."""
    return nbytes(call.given("log_alpha"))
