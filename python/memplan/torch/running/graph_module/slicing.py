"""Tensors that are slices of others of the same storage."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from ..recording import View


class Slices(NamedTuple):
    """A tensor of these sizes, which are seen in the bytes of another, from `begin` to `end` along each axis."""

    sizes: tuple[int, ...]
    ranges: tuple[tuple[int, int], ...]


def slices_of(whole: View, part: View) -> Slices | None:
    """How a tensor is a slice of another, in which axes that lie in a row may be taken together; None if it is none."""
    if (whole.dtype, whole.conj, whole.neg) != (part.dtype, part.conj, part.neg):
        return None
    for seen in _taken_together(whole):
        ranges = _ranges(seen, part)
        if ranges is not None:
            return Slices(seen.sizes, ranges)
    return None


def contains(whole: View, part: View) -> bool:
    """Whether all elements of a tensor are bytes of another, as far as that is easily seen."""
    if part.begin == part.end:
        return True
    if not whole.begin <= part.begin <= part.end <= whole.end:
        return False
    return is_dense(whole) or slices_of(whole, part) is not None


def is_dense(view: View) -> bool:
    """Whether a tensor has no gaps."""
    return view.end - view.begin == math.prod(view.sizes) * view.dtype.itemsize


def _taken_together(view: View) -> Iterator[View]:
    """The tensor, and the same with some axes as one: the last of these, the others have size 1."""
    yield view
    for first in range(len(view.sizes)):
        size, strides = view.sizes[first], list(view.strides)
        for last in range(first + 1, len(view.sizes)):
            if view.strides[last - 1] != view.strides[last] * view.sizes[last]:
                break
            size *= view.sizes[last]
            strides[last - 1] = size * view.strides[last]
            sizes = (*view.sizes[:first], *[1] * (last - first), size, *view.sizes[last + 1 :])
            yield replace(view, sizes=sizes, strides=tuple(strides))


def _ranges(whole: View, part: View) -> tuple[tuple[int, int], ...] | None:
    if len(whole.sizes) != len(part.sizes):
        return None
    left, found = part.offset - whole.offset, [(0, 0)] * len(whole.sizes)
    for axis in sorted(range(len(whole.sizes)), key=lambda k: -whole.strides[k]):
        size, of, stride = part.sizes[axis], whole.sizes[axis], whole.strides[axis]
        if size > of or (size > 1 and part.strides[axis] != stride):
            return None
        begin = min(max(left, 0) // stride, of - size) if stride else 0
        left -= begin * stride
        found[axis] = (begin, begin + size)
    return None if left else tuple(found)
