"""Gathers and scatters: numbers of 16 bits are added up with 32, unless rows that go to one place are sorted by it."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .called import Called
from .operands import contiguous, is_small, nbytes, number

_WIDE = 16  # numbers in a row that is worth sorting


def gathered(call: Called) -> int:
    """Above the result of a gather."""
    by_row = _by_row(call, call.given("self"))
    return 0 if by_row else _accumulated(call.made)


def scattered(call: Called) -> int:
    """Above the result of a scatter that writes."""
    return _accumulated(call.made)


def added(call: Called) -> int:
    """Above the result of a scatter that adds up, or takes the largest."""
    if _by_row(call, call.tensor("src")):
        return _of_rows(call.made)
    return _accumulated(call.made) + (_counted(call, "src") if call["reduce"] == "mean" else 0)


def added_along_axis(call: Called) -> int:
    """Above the result of `index_add`: a scatter of whole rows."""
    made, source = call.made, call.given("source")
    times = 0 if call["alpha"] in (None, 1) else nbytes(source) + number(call["alpha"], source.dtype)
    return times + contiguous(call.tensor("index")) + _rows_added(call, made, source)


def reduced_along_axis(call: Called) -> int:
    """Above the result of `index_reduce`: for a mean, how many rows go to each place."""
    made, source = call.made, call.given("source")
    copy = contiguous(call.tensor("index"))
    if call["reduce"] != "mean":
        return copy
    return (
        copy
        + nbytes(made)
        + max(nbytes(source) + _rows_added(call, made, source), made.numel() + number(0, made.dtype))
    )


def bag_backward(call: Called) -> int:
    """Places of all that is in bags, sorted, and the bag of each if forward has not kept it."""
    count = call.given("indices").numel()
    bags = 0 if call.given("offset2bag").numel() else count + 1
    return contiguous(call.given("grad")) + 8 * (bags + 3 * count)


def _rows_added(call: Called, made: Tensor, source: Tensor) -> int:
    if made.dim() < 2:
        return 0
    lies = call["dim"] % made.dim() == 0 and made.is_contiguous() and source.is_contiguous()
    return _of_rows(made) if lies and _is_wide(source) else _accumulated(made)


def _counted(call: Called, source: str) -> int:
    """How many elements go to each place, and where there are none."""
    made = call.made
    found = made.numel() + number(0, made.dtype)
    return nbytes(call.given(source)) + nbytes(made) - _accumulated(made) + max(_accumulated(made), found)


def _accumulated(made: Tensor) -> int:
    return made.numel() * 4 if is_small(made) else 0


def _of_rows(made: Tensor) -> int:
    """A row of each thread."""
    return torch.get_num_threads() * math.prod(made.shape[1:]) * 4 if is_small(made) else 0


def _is_wide(source: Tensor) -> bool:
    return source.is_floating_point() and source.numel() >= _WIDE * source.shape[0] > 0


def _by_row(call: Called, source: Tensor | None) -> bool:
    """Whether all numbers of a row have the same index, as if that had been expanded."""
    index, made = call.given("index"), call.made
    if source is None or index.dim() == 0 or index.numel() == 0 or call["dim"] % index.dim():
        return False
    wide = call.name == "gather" or index.numel() >= _WIDE * index.shape[0]
    if not made.is_floating_point() or not wide:
        return False
    along = zip(index.shape[1:], index.stride()[1:], strict=True)
    expanded = index.stride(0) > 0 and all(size == 1 or step == 0 for size, step in along)
    return expanded and source.is_contiguous() and made.is_contiguous()
