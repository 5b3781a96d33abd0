"""What `memplan.estimate` predicts of a training step on a GPU, beside what snapshots of real GPUs recorded.

Run: ``python tests/benchmarks/cuda_predicted.py``. It needs the snapshots beside the checkout.

The snapshots are of a transformer: pre-norm, RMSNorm, SwiGLU, rotary positions, a vocabulary of 10,000, batch 4, and an
AdamW of its own. It is rebuilt here from the sizes of its allocations. From 512 positions on, the steps ran under
autocast to bfloat16.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

import memplan
from builders.cuda_traces import of_instance
from builders.paths import SHARED

WIDTH, LAYERS, HEADS, INNER, WORDS = 1024, 24, 16, 4096, 10_000


class Linear(nn.Module):
    def __init__(self, ins: int, outs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outs, ins, device="meta"))

    def forward(self, x: Tensor) -> Tensor:
        return torch.einsum("...i,oi->...o", x, self.weight)


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(WIDTH, device="meta"))

    def forward(self, x: Tensor) -> Tensor:
        x32 = x.to(torch.float32)
        return (x32 * torch.rsqrt(x32.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, length: int) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (Linear(WIDTH, WIDTH) for _ in range(4))
        self.register_buffer("cos", torch.empty(length, WIDTH // HEADS // 2, device="meta"), persistent=False)
        self.register_buffer("sin", torch.empty(length, WIDTH // HEADS // 2, device="meta"), persistent=False)

    def turned(self, x: Tensor, at: Tensor) -> Tensor:
        a, b, cos, sin = x[..., 0::2], x[..., 1::2], self.cos[at], self.sin[at]
        return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = (part(x).view(batch, length, HEADS, -1).transpose(1, 2) for part in (self.q, self.k, self.v))
        at = torch.arange(length, device=x.device)
        q, k = self.turned(q, at), self.turned(k, at)
        mask = torch.tril(torch.ones(length, length, dtype=torch.bool, device=x.device))
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(WIDTH // HEADS)
        scores = torch.where(mask, scores, float("-inf"))
        likely = torch.exp(scores - scores.max(dim=-1, keepdim=True).values)
        likely = likely / likely.sum(-1, keepdim=True)
        seen = torch.einsum("bhqk,bhkd->bhqd", likely, v)
        return self.o(seen.transpose(1, 2).contiguous().view(batch, length, WIDTH))


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = Linear(WIDTH, INNER), Linear(INNER, WIDTH), Linear(WIDTH, INNER)

    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x)
        return self.b(y * torch.sigmoid(y) * self.c(x))


class Block(nn.Module):
    def __init__(self, length: int) -> None:
        super().__init__()
        self.first, self.attention, self.second, self.gated = Norm(), Attention(length), Norm(), Gated()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.first(x))
        return x + self.gated(self.second(x))


class Transformer(nn.Module):
    def __init__(self, length: int) -> None:
        super().__init__()
        self.words = nn.Parameter(torch.empty(WORDS, WIDTH, device="meta"))
        self.blocks = nn.ModuleList(Block(length) for _ in range(LAYERS))
        self.norm, self.head = Norm(), Linear(WIDTH, WORDS)

    def forward(self, words: Tensor, target: Tensor) -> Tensor:
        x = self.words[words]
        for block in self.blocks:
            x = block(x)
        scores = self.head(self.norm(x)).flatten(0, 1)
        scores = scores - scores.max(-1, keepdim=True).values
        said = scores.gather(-1, target.flatten().unsqueeze(-1)).squeeze(-1)
        return (torch.log(torch.exp(scores).sum(-1)) - said).mean()


class AdamW(torch.optim.Optimizer):
    """Each step makes new moments."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": 1e-3})

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for p in (p for group in self.param_groups for p in group["params"]):
            own = self.state[p]
            if not own:
                own["m"], own["v"] = torch.zeros_like(p.data), torch.zeros_like(p.data)
            own["m"] = 0.9 * own["m"] + 0.1 * p.grad
            own["v"] = 0.95 * own["v"] + 0.05 * p.grad * p.grad
            p.data -= 1e-3 * own["m"] / (torch.sqrt(own["v"]) + 1e-8)
            p.data -= 1e-5 * p.data


def main() -> None:
    table = Table("positions", "allocated, GiB", "estimate", "error", "reserved, GiB", "estimate", "error")
    for length, dtype in ((128, None), (512, torch.bfloat16), (1024, torch.bfloat16)):
        real = memplan.torch.read_snapshot(of_instance(SHARED / "snapshots" / f"medium_train_{length}.json.gz"))
        words = torch.zeros(4, length, dtype=torch.long)
        found = memplan.estimate(
            Transformer(length), args=(words, words), train=True, optimizer=AdamW, autocast=dtype, device="cuda"
        )
        row = [str(length)]
        for was, says in ((real.allocated, found.total), (real.reserved, found.reserved or 0)):
            row += [f"{was / 2**30:.2f}", f"{says / 2**30:.2f}", f"{says / was - 1:+.1%}"]
        table.add_row(*row)
    Console().print(table)


if __name__ == "__main__":
    main()
