"""Small transformers, and a loss of them."""

from __future__ import annotations

from typing import Any

import torch


class Block(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        layers = [torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width)]
        self.mlp, self.dropout = torch.nn.Sequential(*layers), torch.nn.Dropout(0.2)

    def forward(self, x: Any) -> Any:
        return x + self.dropout(self.mlp(self.norm(x)))


def transformer(blocks: int = 2) -> tuple[Any, Any]:
    torch.manual_seed(0)
    return torch.nn.Sequential(*[Block(32) for _ in range(blocks)]), torch.randn(256, 32)


def squares(out: Any) -> Any:
    return out.square().sum()
