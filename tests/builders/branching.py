"""Small networks of branches, written in an order that holds more than they need: orders have something to do here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn


class Branches(nn.Module):
    """All branches are made, and only then all are summed up."""

    def forward(self, x: Tensor) -> Any:
        parts = [torch.exp(x.repeat(64, 1) * k) for k in range(4)]
        return sum(part.sum(0) for part in parts)


class Experts(nn.Module):
    """Every expert widens its input first, and only then all narrow what they have."""

    def __init__(self, experts: int = 6, width: int = 16, hidden: int = 128) -> None:
        super().__init__()
        self.up = nn.ModuleList(nn.Linear(width, hidden + 16 * k) for k in range(experts))
        self.down = nn.ModuleList(nn.Linear(hidden + 16 * k, width) for k in range(experts))

    def forward(self, x: Tensor) -> Tensor:
        hidden = [up(x).relu() for up in self.up]
        result = x
        for down, value in zip(self.down, hidden, strict=True):
            result = result + down(value)
        return result


class Cells(nn.Module):
    """Cells as of NASNet: pairs of convolutions and pools of what was made before, which are added and concatenated."""

    def __init__(self, cells: int = 2, width: int = 8) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.cells = nn.ModuleList(Cell(width if k < 1 else 4 * width, width) for k in range(cells))
        self.head = nn.Linear(4 * width, 10)

    def forward(self, x: Tensor) -> Tensor:
        value = self.stem(x)
        for cell in self.cells:
            value = cell(value)
        return self.head(value.relu().mean((2, 3)))


class Cell(nn.Module):
    """One of them: its widest branches come first, and the narrow ones are joined last."""

    def __init__(self, given: int, width: int) -> None:
        super().__init__()
        self.fit = nn.Conv2d(given, width, 1)
        self.wide = nn.ModuleList(nn.Conv2d(width, (5 - k) * width, 3, padding=1) for k in range(4))
        self.narrow = nn.ModuleList(nn.Conv2d((5 - k) * width, width, 1) for k in range(4))
        self.pool = nn.AvgPool2d(3, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        fitted = self.fit(x.relu())
        wide = [convolution(fitted).relu() for convolution in self.wide]
        narrow = [convolution(value) for convolution, value in zip(self.narrow, wide, strict=True)]
        return torch.cat([value + self.pool(fitted) for value in narrow], 1)


class Pyramid(nn.Module):
    """A backbone whose stages all stay alive until the heads run, from the smallest to the largest."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.stages = nn.ModuleList(nn.Conv2d(3 if k == 0 else width << k - 1, width << k, 3, 2, 1) for k in range(4))
        self.lateral = nn.ModuleList(nn.Conv2d(width << k, width, 1) for k in range(4))
        self.heads = nn.ModuleList(nn.Conv2d(width, 4 * width, 3, padding=1) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        stages = []
        for stage in self.stages:
            x = stage(x).relu()
            stages.append(x)
        laterals = [lateral(value) for lateral, value in zip(self.lateral, stages, strict=True)]
        heads = [head(value).relu() for head, value in zip(self.heads, laterals, strict=True)]
        return torch.cat([value.mean((2, 3)) for value in heads], 1)


BRANCHING: Mapping[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "experts": (Experts, (32, 16)),
    "cells": (Cells, (1, 3, 32, 32)),
    "pyramid": (Pyramid, (1, 3, 64, 64)),
}


def branching(name: str) -> tuple[nn.Module, Tensor]:
    """A network in eval mode, and an input."""
    torch.manual_seed(0)
    model, shape = BRANCHING[name]
    return model().eval(), torch.randn(shape)
