"""Arithmetic of totals: sums over all rows that are not computed yet stay so, times numbers and added up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .row_values import Value, scores_of
from .sweeps import Total

_ARITHMETIC: dict[Any, str] = {
    **dict.fromkeys((Tensor.add, torch.add), "add"),
    **dict.fromkeys((Tensor.sub, torch.sub), "sub"),
    **dict.fromkeys((Tensor.mul, torch.mul), "mul"),
    **dict.fromkeys((Tensor.div, torch.div), "div"),
    **dict.fromkeys((Tensor.neg, torch.neg), "neg"),
    Tensor.__rsub__: "__rsub__",
}


def of_totals(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Total | None:
    """Sums, differences and multiples of totals."""
    name = _ARITHMETIC.get(func)
    if name is None or kwargs or len(args) != (1 if name == "neg" else 2):
        return None
    totals = [one for one in args if isinstance(one, Total)]
    dtype = totals[0].dtype
    if any(total.dtype != dtype for total in totals) or not all(
        isinstance(one, Total) or _is_number(one, dtype) for one in args
    ):
        return None
    if name == "neg":
        return _times(args[0], -1.0)
    first, second = reversed(args) if name == "__rsub__" else args
    if name == "mul":
        return None if len(totals) > 1 else _times(totals[0], second if first is totals[0] else first)
    if name == "div":
        return None if len(totals) > 1 or second is totals[0] else _times(first, 1.0, second)
    if name != "add":
        second = _times(second, -1.0) if isinstance(second, Total) else -second
    if len(totals) == 1:
        total, number = (first, second) if isinstance(first, Total) else (second, first)
        return total._replace(plus=total.plus + number)
    if not {*scores_of(_values(first))} & {*scores_of(_values(second))}:
        return None
    return Total([*first.parts, *second.parts], dtype, first.plus + second.plus)


def _values(total: Total) -> list[Value]:
    return [value for value, _ in total.parts]


def _times(total: Total, factor: Any, over: Any = 1.0) -> Total:
    factor, over = exact(factor), exact(over)
    return Total([(value, own * factor / over) for value, own in total.parts], total.dtype, total.plus * factor / over)


def exact(number: Any) -> Any:
    """A number as float64."""
    return number.double() if isinstance(number, Tensor) else number


def _is_number(one: Any, dtype: torch.dtype) -> bool:
    """Whether it is a number, or a tensor of one without gradient, with which a total keeps its dtype."""
    if isinstance(one, (int, float)):
        return True
    if not isinstance(one, Tensor) or one.dim() or one.requires_grad:
        return False
    return torch.result_type(torch.empty((), dtype=dtype, device="meta"), one) == dtype
