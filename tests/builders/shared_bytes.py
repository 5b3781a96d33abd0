"""Random networks whose tensors share bytes, and that change them in place: valid in eager, or not drawn.

A block keeps a pool of tensors of one size. It draws views of them, with a version of their own or without, parts that
share a storage, operators that keep what they read or what they make, and writes to any of these. So bytes may change
after autograd has kept them, where no version says so: eager reads what is there then.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

ROWS, WIDTH = 32, 64  # of the tensors in the pool: 8 KiB


def _no_grad_view(x: Tensor) -> Tensor:
    with torch.no_grad():
        return x.view(WIDTH, ROWS).view(ROWS, WIDTH)


VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "view": lambda x: x.view(-1).view(ROWS, WIDTH),
    "detach": lambda x: x.detach(),
    "data": lambda x: x.data,
    "unsafe_view": lambda x: torch.ops.aten._unsafe_view(x, [ROWS, WIDTH]),
    "no_grad": _no_grad_view,
    "rows": lambda x: x.t().t(),
}
PARTS: dict[str, Callable[[Tensor, int], Any]] = {
    "chunk": lambda x, axis: x.chunk(2, axis),
    "split": lambda x, axis: x.split(x.shape[axis] // 2, axis),
    "unsafe_chunk": lambda x, axis: x.unsafe_chunk(2, axis),
    "unsafe_split": lambda x, axis: x.unsafe_split(x.shape[axis] // 2, axis),
    "data": lambda x, axis: x.data.chunk(2, axis),
}
KEEPS: dict[str, Callable[[Tensor], Tensor]] = {
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "square": torch.square,
    "softmax": lambda x: x.softmax(-1),
    "relu": torch.relu,
    "sin": torch.sin,
    "scaled": lambda x: x * 0.5,
}
WRITES: dict[str, Callable[[Tensor], Any]] = {
    "sigmoid_": lambda x: x.sigmoid_(),
    "tanh_": lambda x: x.tanh_(),
    "add_": lambda x: x.add_(0.25),
    "mul_": lambda x: x.mul_(0.75),
    "relu_": lambda x: x.relu_(),
    "zero_": lambda x: x.zero_(),
    "clamp_": lambda x: x.clamp_(-0.5, 0.5),
    "data.mul_": lambda x: x.data.mul_(0.5),
    "detach.add_": lambda x: x.detach().add_(0.125),
}


class Block(nn.Module):
    """Some operators, drawn one by one, on a pool of tensors."""

    def __init__(self, draw: random.Random, depth: int = 0) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)
        self.scale = nn.Parameter(torch.ones(WIDTH))
        self.register_buffer("seen", torch.full((WIDTH,), 0.5))
        inner = 2 if depth < 2 and draw.random() < 0.6 else 0
        self.inner = nn.ModuleList(Block(draw, depth + 1) for _ in range(inner))
        self.steps: list[tuple[Any, ...]] = []

    def drawn(self, draw: random.Random) -> tuple[Any, ...]:
        """One more operator."""
        kinds = ["view", "parts", "keep", "write", "write", "product", "copy", "layer"]
        kind = draw.choice(kinds + ["inner"] * 2 * len(self.inner) + ["buffer"] * draw.randint(0, 1))
        names = {"view": VIEWS, "parts": PARTS, "keep": KEEPS, "write": WRITES}.get(kind, {"": None})
        return kind, draw.choice(list(names)), draw.random(), draw.random(), draw.randint(0, 1)

    def forward(self, x: Tensor) -> Tensor:
        pool = [self.layer(x), x] if x.requires_grad else [self.layer(x)]
        for kind, name, first, second, side in self.steps:
            a, b = (pool[int(where * len(pool))] for where in (first, second))
            if kind == "view":
                pool.append(VIEWS[name](a))
            elif kind == "parts":
                parts = PARTS[name](a, side)
                for part in parts[: 1 + int(second * 2)]:
                    WRITES[list(WRITES)[int(first * 7)]](part)
                pool.append(torch.cat([part.tanh() for part in parts], side) if side else parts[0].repeat(2, 1) * a)
            elif kind == "keep":
                pool.append(KEEPS[name](a))
            elif kind == "write":
                WRITES[name](a)
            elif kind == "copy":
                with torch.set_grad_enabled(bool(side)):
                    a.copy_(b)
            elif kind == "product":
                pool.append(a * b * self.scale)
            elif kind == "layer":
                pool.append(self.layer(a))
            elif kind == "inner":
                pool.append(self.inner[side](a))
            elif kind == "buffer":
                pool.append(a * self.seen)
                self.seen.data.mul_(0.9)
        return torch.stack(pool[-3:]).sum(0)


def trained(model: nn.Module, steps: int = 3, rows: int = ROWS) -> list[Tensor]:
    """Losses and gradients of some steps, and the state after them."""
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    found = []
    for step in range(steps):
        x = torch.randn(rows, WIDTH, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        found += [loss.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]
        optimizer.step()
    return found + [value.clone() for value in model.state_dict().values()]


def network(seed: int, tries: int = 30) -> tuple[nn.Module, list[Tensor]]:
    """Blocks with operators that eager takes, drawn one by one, and what training gives."""
    torch.manual_seed(seed)
    draw = random.Random(seed)
    model = nn.Sequential(*(Block(draw) for _ in range(draw.randint(2, 3))))
    blocks = [part for part in model.modules() if isinstance(part, Block)]
    expected = trained(copy.deepcopy(model))
    for _ in range(tries):
        block = draw.choice(blocks)
        before = list(block.steps)
        block.steps.insert(draw.randint(0, len(before)), block.drawn(draw))
        try:
            found = trained(copy.deepcopy(model))
        except RuntimeError:  # autograd needs what was written to
            block.steps = before
            continue
        if all(value.isfinite().all() for value in found):
            expected = found
        else:
            block.steps = before
    return model, expected
