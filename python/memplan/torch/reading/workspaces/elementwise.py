"""Kernels that go through elements one by one: an operand in another dtype is copied as a whole before they begin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from .called import Called
from .operands import cast

_OPERANDS = ("Tensor", "number", "Optional[Tensor]", "Optional[number]")
# Arguments that take part in their own dtype, or are no tensors inside of the kernel
_APART = {"condition", "mask", "alpha", "beta", "value", "weight", "negative_slope", "lambd", "eps", "threshold"}
_APART |= {"approximate", "scale", "input_scale", "min_val", "max_val", "nan", "posinf", "neginf", "noise"}
# Overloads whose kernels make a tensor of a number that the schema calls one
_WRAPPED = {"eq", "ne", "lt", "le", "gt", "ge", "rsub", "xlogy", "special_xlog1py", "special_zeta", "remainder", "fmod"}
_WRAPPED |= {"bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", "floor_divide"}
_WRAPPED |= {"add", "sub", "mul", "div", "copysign", "where"}


def elementwise(call: Called) -> int:
    """Bytes of operands in the dtype that the kernel computes with."""
    operands = list(_operands(call))
    if not call.outputs or not operands:
        return 0
    return cast(operands, dtype_of(call, operands))


def dtype_of(call: Called, operands: list[Any]) -> torch.dtype:
    """The dtype that a kernel computes with: its result's, unless that says true or false, or is written over."""
    made = call.outputs[0].dtype
    if len(operands) == 2 and (made == torch.bool or call.writes_over):
        return torch.result_type(*operands)
    if made == torch.bool and isinstance(operands[0], Tensor):
        return operands[0].dtype
    return made


def _operands(call: Called) -> Iterator[Any]:
    for argument in call.schema.arguments:
        value = call[argument.name]
        if argument.name in _APART or argument.kwarg_only or isinstance(value, str):
            continue
        plain = isinstance(value, (bool, int, float, complex)) and _is_tensor(call, argument)
        if plain or isinstance(value, Tensor):
            yield value


def _is_tensor(call: Called, argument: Any) -> bool:
    """Whether a number becomes a tensor."""
    return "Tensor" in str(argument.type) or (call.name in _WRAPPED and str(argument.type) == "number")
