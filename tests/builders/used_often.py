"""Random networks whose tensors are used two to four times: views, attention, complex numbers, transforms among them.

So gradients are added up, and their layouts differ: those of attention, of transposed and of expanded tensors.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SHAPE = (3, 2, 16, 6)
ONE: dict[str, Callable[[Tensor], Tensor]] = {
    "elu": F.elu,
    "tanh": torch.tanh,
    "gelu": F.gelu,
    "silu": F.silu,
    "hardtanh": F.hardtanh,
    "hardswish": F.hardswish,
    "leaky_relu": F.leaky_relu,
    "logsigmoid": F.logsigmoid,
    "softplus": F.softplus,
    "mish": F.mish,
    "softmax": lambda x: x.softmax(-2),
    "log_softmax": lambda x: x.transpose(1, 2).log_softmax(1).transpose(1, 2),
    "transposed": lambda x: x.transpose(2, 3).contiguous().transpose(2, 3),
    "last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "norm": lambda x: F.layer_norm(x, SHAPE[-1:]),
    "batch": lambda x: F.batch_norm(x, None, None, training=True),
    "fft": lambda x: torch.fft.irfft(torch.fft.rfft(x, dim=2) * 0.5, n=x.shape[2], dim=2),
    "rolled": lambda x: torch.fft.fft(x, dim=-1).real,
    "complex": lambda x: torch.view_as_real(torch.exp(1j * x) * torch.complex(x, x + 1)).sum(-1),
    "split": lambda x: torch.cat(x.chunk(2, 2)[::-1], 2),
    "mean": lambda x: x - x.mean((0, 2), keepdim=True),
    "padded": lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect")[..., 1:-1, 1:-1],
    "power": lambda x: 2.0**x,
    "viewed": lambda x: x.reshape(6, 96).view(SHAPE),
}
MORE: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "attention": lambda x, y, z: F.scaled_dot_product_attention(x, y * 0.5, z + 1),
    "product": lambda x, y, z: x * y - z,
    "einsum": lambda x, y, z: torch.einsum("bhij,bhkj,bhkl->bhil", x, y, z) * 0.1,
    "where": lambda x, y, z: torch.where(x > 0, y, z * 0.5),
    "loss": lambda x, y, z: F.smooth_l1_loss(x, y) + F.mse_loss(y, z) * x,
    "lerp": lambda x, y, z: torch.lerp(x, y, z.sigmoid()),
    "convolved": lambda x, y, z: torch.fft.irfft(torch.fft.rfft(x, n=12) * torch.fft.rfft(y, n=12), n=12)[..., :6] + z,
    "distance": lambda x, y, z: torch.hypot(x, y + 2) + torch.logaddexp(y, z),
}


class Often(nn.Module):
    """Operators on a pool of tensors, each of which may be used again."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        draw = random.Random(seed)
        self.weight = nn.Parameter(torch.randn(SHAPE[-1]))
        self.bias = nn.Parameter(torch.randn(SHAPE[1], 1, 1))
        names = [draw.choice([*ONE, *MORE, *MORE]) for _ in range(draw.randint(3, 7))]
        self.steps: list[tuple[str, list[float]]] = [(name, [draw.random() ** 0.7 for _ in "abc"]) for name in names]

    def forward(self, x: Tensor) -> Any:
        pool = [x * self.weight, x + self.bias]
        for name, places in self.steps:
            a, b, c = (pool[int(place * len(pool))] for place in places)
            pool.append(ONE[name](a) if name in ONE else MORE[name](a, b, c))
        return sum((y.sum() + y.square().mean() for y in pool[-2:]), pool[0].mean())
