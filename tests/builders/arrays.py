"""Small arrays and shapes at random."""

from __future__ import annotations

from typing import Any

import numpy as np


def floats(rng: Any, *shape: int) -> Any:
    return rng.uniform(-2, 2, shape).astype(np.float32)


def integers(rng: Any, end: int, *shape: int, dtype: Any = np.int64) -> Any:
    return rng.integers(0, end, shape).astype(dtype)


def places(rng: Any, end: int, *shape: int) -> Any:
    """Indices below an end, the last of which is among them."""
    found = integers(rng, end, *shape)
    found.flat[:1] = end - 1
    return found


def ints(*numbers: int) -> Any:
    return np.array(numbers, np.int64)


def scalars(rng: Any, dtype: Any, shape: list[int]) -> Any:
    if dtype == np.bool_:
        return rng.random(shape) < 0.5
    return (rng.uniform(0.1, 0.9, shape) if dtype == np.float32 else rng.integers(1, 9, shape)).astype(dtype)


def shape_of(rng: Any, least: int = 1, most: int = 4) -> list[int]:
    return [int(n) for n in rng.integers(1, 5, rng.integers(least, most + 1))]


def smaller(rng: Any, shape: list[int]) -> list[int]:
    """A shape that is broadcast to another."""
    kept = [1 if rng.random() < 0.3 else size for size in shape]
    return kept[int(rng.integers(0, len(kept))) :] if rng.random() < 0.4 else kept


def pick(rng: Any, *choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


def poisoned(name: str, array: Any, attempt: int) -> Any:
    """Larger, smaller and near values; integers of 64 bits are indices, and stay below those that there are.

    The name of an array is a letter and a number.
    """
    chance = np.random.default_rng([attempt, int(name[1:])])
    if array.dtype == bool:
        return chance.random(array.shape) < (0.5, 0.1, 0.9)[attempt % 3]
    if array.dtype == np.int64:
        return chance.integers(0, array.max(initial=0) + 1, array.shape)
    if array.dtype.kind in "iu":
        return chance.integers(1, (100, 10, 4)[attempt % 3], array.shape).astype(array.dtype)
    far, near = chance.uniform(20, 60, array.shape), chance.uniform(-1, 1, array.shape)
    return (array + far, array - far, near)[attempt % 3].astype(array.dtype)
