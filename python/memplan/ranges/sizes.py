"""The sizes of a range that are looked at."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any, cast

import numpy as np

from .. import _core

Sizes = dict[str, int]

MOST_POINTS = 32


def checked_range(name: str, value: Any) -> tuple[int, int]:
    sizes = list(value)
    whole = all(isinstance(size, (int, np.integer)) and not isinstance(size, bool) for size in sizes)
    if len(sizes) != 2 or not whole or not 0 <= sizes[0] <= sizes[1]:
        raise ValueError(f"dims[{name!r}] must be a size, or the least and the largest as (1, 64), got {value!r}")
    return int(sizes[0]), int(sizes[1])


def key_of(sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(sizes.values())


def points_of(ranges: Mapping[str, tuple[int, int]]) -> tuple[list[Sizes], bool]:
    """The sizes to look at, the largest last, and whether these are all. Otherwise powers of two, and the ends."""
    axes = [list(range(least, most + 1)) if most - least < MOST_POINTS else None for least, most in ranges.values()]
    count = 1
    for axis in axes:
        count *= MOST_POINTS + 1 if axis is None else len(axis)
    every = count <= MOST_POINTS
    if not every:
        axes = [_doubling(least, most) for least, most in ranges.values()]
        while (total := int(np.prod([len(cast(Any, axis)) for axis in axes]))) > MOST_POINTS and total > 2 ** len(axes):
            longest = max(axes, key=lambda axis: len(cast(Any, axis)))
            assert longest is not None
            del longest[len(longest) // 2]
    return [dict(zip(ranges, sizes, strict=True)) for sizes in product(*cast(Any, axes))], every


def _doubling(least: int, most: int) -> list[int]:
    powers = [2**k for k in range(most.bit_length()) if least < 2**k < most]
    return sorted({least, *powers, most})


def growing(graphs: Mapping[tuple[int, ...], _core.Graph]) -> bool:
    """Whether no tensor is larger at smaller sizes."""
    bytes_ = {key: np.array([tensor.bytes for tensor in graph.tensors]) for key, graph in graphs.items()}
    return all(
        bool(np.all(bytes_[a] <= bytes_[b]))
        for a in bytes_
        for b in bytes_
        if all(x <= y for x, y in zip(a, b, strict=True))
    )


def text_of(sizes: Sizes) -> str:
    return ", ".join(f"{name}={size}" for name, size in sizes.items())
