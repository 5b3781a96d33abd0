"""Shapes of HLO: arrays with their layouts, and tuples of shapes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

_ARRAY = re.compile(r"([a-z][a-z0-9]*)\[([^\]]*)\]")
_LAYOUT = re.compile(r"([0-9,]*)(?::(.*))?$", re.DOTALL)
_TILE = re.compile(r"T\(([0-9,*]+)\)")
_SPACE, _BITS = re.compile(r"S\((\d+)\)"), re.compile(r"E\((\d+)\)")
_BITS_OF = {"pred": 8, "token": 0, "opaque": 64}  # of an element, where the name has no number that says it
_NUMBER = re.compile(r"[a-z]+?(\d+)")


class Shape(NamedTuple):
    """An array or a tuple.

    `order` lists the axes from the one that lies densest; `space` is XLA's memory space, or colour.
    """

    dtype: str  # "tuple" for a tuple
    dims: tuple[int, ...] = ()
    order: tuple[int, ...] = ()
    space: int = 0
    bits: int = 0  # of an element
    tile: tuple[int, ...] = ()
    elements: tuple[Shape, ...] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of an array, with what its tiles leave unused."""
        dims = [self.dims[axis] for axis in self.order] if len(self.order) == len(self.dims) else [*self.dims[::-1]]
        for place, size in zip(range(len(dims)), self.tile[::-1], strict=False):
            dims[place] = -(-dims[place] // size) * size
        return -(-math.prod(dims) * self.bits // 8)

    @property
    def lies_by_rows(self) -> bool:
        """Whether the last axis is the densest, and so on; with no tiles."""
        return not self.tile and self.order in ((), tuple(range(len(self.dims)))[::-1])

    def lies_as(self, other: Shape) -> bool:
        """Whether an element at a place of this array is at the same bytes of the other."""
        same = (self.bits, self.tile, self.space) == (other.bits, other.tile, other.space)
        return same and self._dense() == other._dense()

    def _dense(self) -> list[int]:
        """The sizes of the axes, the densest first; those of size 1 lie anywhere."""
        order = self.order if len(self.order) == len(self.dims) else range(len(self.dims))[::-1]
        return [axis for axis in order if self.dims[axis] != 1]

    def leaves(self) -> Iterator[Shape]:
        """The arrays, depth first."""
        if self.elements is None:
            yield self
        else:
            for element in self.elements:
                yield from element.leaves()


def array_of(text: str, layout: str) -> Shape:
    """The shape of an array, of ``f32[4,64]`` and what is in the braces after it; ValueError says what is wrong."""
    match = _ARRAY.fullmatch(text)
    if match is None:
        raise ValueError(f"expected a shape such as f32[4,64], got {text!r}")
    dtype, listed = match.groups()
    try:
        dims = tuple(int(dim.strip().removeprefix("<=")) for dim in listed.split(",") if dim.strip())
    except ValueError:
        raise ValueError(f"expected sizes in the shape {text!r}") from None
    if any(dim < 0 for dim in dims):
        raise ValueError(f"the shape {text!r} has a negative size")
    number = _NUMBER.match(dtype)
    if dtype not in _BITS_OF and number is None:
        raise ValueError(f"expected a shape of numbers, got {text!r}")
    bits = _BITS_OF[dtype] if dtype in _BITS_OF else max(8, int(number.group(1)))  # type: ignore[union-attr]
    order, rest = found.groups() if (found := _LAYOUT.match(layout)) else ("", None)
    rest = rest or ""
    if (packed := _BITS.search(rest)) is not None:
        bits = int(packed.group(1))
    tile = _TILE.search(rest)
    space = _SPACE.search(rest)
    return Shape(
        dtype,
        dims,
        tuple(int(axis) for axis in (order or "").split(",") if axis),
        int(space.group(1)) if space else 0,
        bits,
        tuple(int(size) for size in tile.group(1).split(",") if size.isdigit()) if tile else (),
    )
