"""Small nets for the tests of the torch importer, and ways to look into the graph dicts that come of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import memplan
from memplan.torch.reading import import_torch


class Net(nn.Module):
    """A forward made from a function, with one layer for it to use."""

    def __init__(self, function: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        self.function = function
        self.fc = nn.Linear(4, 4)
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x: Tensor, y: Tensor | None = None) -> Any:
        return self.function(self, x) if y is None else self.function(self, x, y)


def imported(function: Callable[..., Any], x: Tensor, *more: Tensor, train: bool = False) -> dict[str, Any]:
    graph = import_torch(Net(function), args=(x, *more), train=train)
    memplan.plan(graph)
    return graph


def tensor(graph: dict[str, Any], name: str) -> dict[str, Any]:
    return next(entry for entry in graph["tensors"] if entry["name"] == name)


def op(graph: dict[str, Any], name: str) -> dict[str, Any]:
    return next(entry for entry in graph["ops"] if entry["name"] == name)


def names(graph: dict[str, Any], kind: str) -> list[str]:
    return [entry["name"] for entry in graph["tensors"] if entry["kind"] == kind]


def types(graph: dict[str, Any]) -> list[str]:
    return [entry["type"].removeprefix("aten.").partition(".")[0] for entry in graph["ops"]]


def aliases(graph: dict[str, Any]) -> dict[str, tuple[str, int]]:
    return {
        alias["output"]: (alias["input"], alias["offset"]) for entry in graph["ops"] for alias in entry.get("alias", ())
    }


class Hand(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3, padding=1)
        self.fc = nn.Linear(32, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(torch.relu_(self.conv(x)).view(x.shape[0], -1))  # type: ignore[no-any-return]


class Traced(nn.Module):
    """Weights, a buffer that counts, a constant, views, and an op in place."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 4)
        self.norm = nn.LayerNorm(4)
        self.register_buffer("count", torch.zeros(4))
        self.plain = torch.ones(4)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        self.count.add_(1)
        return {"y": self.norm(self.fc(x).relu_() + self.count + self.plain), "tail": x.view(-1)[2:]}
