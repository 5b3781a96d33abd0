"""Shapes of HLO: arrays with their layouts, and tuples of shapes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

_ARRAY = re.compile(r"([a-z][a-z0-9]*)\[([^\]]*)\]")
_LAYOUT = re.compile(r"([0-9,]*)(?::(.*))?$", re.DOTALL)
_TILES, _SIZES = re.compile(r"T((?:\([0-9,*]+\))+)"), re.compile(r"\(([0-9,*]+)\)")
_SPACE, _BITS = re.compile(r"S\((\d+)\)"), re.compile(r"E\((\d+)\)")
_TAIL = re.compile(r"L\((\d+)\)")
_COMBINED = -1  # the size of a tile along an axis that is one with the next
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
    tiles: tuple[tuple[int, ...], ...] = ()  # the first of the array, each other of the tiles of the one before
    tail: int = 1  # the array is filled up to a multiple of so many elements
    elements: tuple[Shape, ...] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of an array, with what its tiles leave unused."""
        dims = [self.dims[axis] for axis in self.order[::-1]] if self.order else [*self.dims]
        for tile in self.tiles:
            dims = [1] * (len(tile) - len(dims)) + dims
            outer, inner, combined = dims[: -len(tile)], dims[-len(tile) :], 1
            sizes = [size for size in tile if size != _COMBINED]
            for size, dim in zip(tile, inner, strict=True):
                combined *= dim
                if size != _COMBINED:
                    outer.append(-(-combined // size))
                    combined = 1
            dims = outer + sizes
        count = -(-math.prod(dims) // self.tail) * self.tail
        return -(-count * self.bits // 8)

    @property
    def lies_by_rows(self) -> bool:
        """Whether the last axis is the densest, and so on; with no tiles."""
        return not self.tiles and self.order in ((), tuple(range(len(self.dims)))[::-1])

    def lies_as(self, other: Shape) -> bool:
        """Whether an element at a place of this array is at the same bytes of the other."""
        same = (self.bits, self.tiles, self.space) == (other.bits, other.tiles, other.space)
        return same and (self.order == other.order if self.tiles else self._dense() == other._dense())

    def _dense(self) -> list[int]:
        """The sizes of the axes, the densest first; those of size 1 lie anywhere."""
        order = self.order or range(len(self.dims))[::-1]
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
    listed, rest = found.groups("") if (found := _LAYOUT.match(layout)) else ("", "")
    order = tuple(int(axis) for axis in listed.split(",") if axis)
    if order and sorted(order) != [*range(len(dims))]:
        raise ValueError(f"the layout {layout!r} must name each axis of {text!r} once")
    if (packed := _BITS.search(rest)) is not None:
        bits = int(packed.group(1))
    tiles = _TILES.search(rest)
    space, tail = _SPACE.search(rest), _TAIL.search(rest)
    return Shape(
        dtype,
        dims,
        order,
        int(space.group(1)) if space else 0,
        bits,
        tuple(map(_tile, _SIZES.findall(tiles.group(1)))) if tiles else (),
        max(1, int(tail.group(1))) if tail else 1,
    )


def _tile(text: str) -> tuple[int, ...]:
    """The sizes of a tile, such as ``8,128``; an axis that is one with the next has a star."""
    sizes = tuple(_COMBINED if size == "*" else int(size) for size in text.split(",") if size)
    if not sizes or sizes[-1] == _COMBINED or 0 in sizes:
        raise ValueError(f"expected the sizes of a tile, such as 8,128, got {text!r}")
    return sizes
