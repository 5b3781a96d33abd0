"""Random shapes and tensors for calls of operators of torch."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import torch
from torch import Tensor

from oracles.poison import Case

Maker = Callable[[Random], Case]


def tensor(*shape: int, low: float = 0.1, high: float = 0.9) -> Tensor:
    """Numbers between 0 and 1, where nearly all functions are defined."""
    return torch.rand(shape, dtype=torch.float64) * (high - low) + low


def signed(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64)


def shape_of(chance: Random, least: int = 1, most: int = 4) -> list[int]:
    return [chance.randint(1, 4) for _ in range(chance.randint(least, most))]


def laid(chance: Random, whole: Tensor) -> Tensor:
    """The same numbers, laid in memory as a transposed, sliced or plain tensor."""
    way = chance.randrange(3)
    if way == 0 and whole.dim() > 1:
        order = chance.sample(range(whole.dim()), whole.dim())
        back = [order.index(k) for k in range(whole.dim())]
        return whole.permute(order).contiguous().permute(back)
    if way == 1 and whole.dim():
        axis = chance.randrange(whole.dim())
        return torch.cat([whole, whole], axis).narrow(axis, 0, whole.shape[axis])
    return whole


def broadcast(chance: Random, shape: list[int]) -> list[int]:
    """A shape that can be broadcast to this one."""
    kept = shape[chance.randint(0, len(shape)) if chance.random() < 0.4 else 0 :]
    return [1 if chance.random() < 0.25 else n for n in kept]
