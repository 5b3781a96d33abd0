"""Random networks of kernels that allocate for themselves: convolutions, attention, pooling, norms, losses."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Layer = Callable[[Tensor], Tensor]
_MOST_ROWS = 4096  # that are multiplied with each other


class RandomNet(nn.Module):
    """Layers on images or on rows of features, chosen by chance. It gives a loss, its last features and some before.

    Parameters
    ----------
    seed
        The same seed gives the same network.
    in_place
        Whether results may be written over. Autograd needs some of them.
    """

    def __init__(self, seed: int, in_place: bool = True) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self._chance, self._in_place = random.Random(seed), in_place
        self.parts = nn.ModuleList()
        self.steps: list[tuple[bool, Layer]] = []  # whether a result is returned, too
        dims = self._chance.choice((1, 2, 2, 2, 3))
        side = {1: 24, 2: 10, 3: 6}[dims]
        self.shape = (self._chance.choice((1, 2, 3)), self._chance.choice((4, 8)), *[side] * dims)
        value = torch.zeros(self.shape)
        with torch.no_grad():
            value = self._add(value, self._convolution(dims, self.shape[1], side, residual=False))
            for _ in range(self._chance.randrange(1, 6)):
                value = self._add(value, self._spatial(value))
            value = self._add(value, lambda x: x.flatten(2).transpose(1, 2))
            for _ in range(self._chance.randrange(1, 5)):
                value = self._add(value, self._rows(value))
        self.loss = self._loss(value)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        kept = []
        for returned, layer in self.steps:
            x = layer(x)
            if returned:
                kept.append(x * 1)
        return (self.loss(x), x, *kept)

    def _add(self, value: Tensor, layer: Layer) -> Tensor:
        self.steps.append((self._chance.random() < 0.1, layer))
        return layer(value.clone())

    def _part(self, part: nn.Module) -> Any:
        self.parts.append(part)
        return part

    def _spatial(self, x: Tensor) -> Layer:
        chance, dims, channels, side = self._chance, x.dim() - 2, x.shape[1], min(x.shape[2:])
        kinds = ("conv", "conv", "conv", "deconv", "pool", "norm", "norm", "act", "resize", "join", "flip", "residual")
        kind = chance.choice(kinds)
        if kind in ("conv", "residual"):
            return self._convolution(dims, channels, side, kind == "residual")
        if kind == "deconv":
            layer = getattr(nn, f"ConvTranspose{dims}d")
            options = {"kernel_size": chance.choice((1, 2, 3)), "stride": chance.choice((1, 1, 2)) if side < 16 else 1}
            return self._part(layer(channels, chance.choice((4, 6, 8)), **options))
        if kind == "pool" and side >= 4:
            name = chance.choice(("max_pool", "avg_pool", "adaptive_avg_pool", "adaptive_max_pool"))
            size = 2 if name.endswith(("max_pool", "avg_pool")) and not name.startswith("adaptive") else side - 1
            pool = getattr(F, f"{name}{dims}d")
            return lambda x: pool(x, size)
        if kind == "norm":
            norms = {"batch": getattr(nn, f"BatchNorm{dims}d"), "instance": getattr(nn, f"InstanceNorm{dims}d")}
            which = chance.choice(("batch", "instance", "group") if channels % 2 == 0 else ("batch", "instance"))
            return self._part(nn.GroupNorm(2, channels) if which == "group" else norms[which](channels))
        if kind == "resize" and side < 16:
            return lambda x: F.interpolate(x, scale_factor=2)
        if kind == "join":
            return lambda x: torch.cat([x.tanh(), x[:, :2], x.exp().neg().sigmoid()], 1)
        if kind == "flip":
            return lambda x: x.flip(-1).transpose(-1, 1).contiguous().transpose(-1, 1)
        return self._activation()

    def _convolution(self, dims: int, channels: int, side: int, residual: bool) -> Layer:
        chance = self._chance
        groups = chance.choice([n for n in (1, 1, 2, channels) if channels % n == 0])
        out = channels if residual else groups * chance.choice((1, 2, 4))
        size, dilation = chance.choice((1, 3, 3, 5)), chance.choice((1, 1, 2))
        reach = dilation * (size - 1) // 2
        options: dict[str, Any] = {"groups": groups, "dilation": dilation, "bias": chance.random() < 0.7}
        options |= {"padding": reach, "stride": 1 if residual or side < 4 else chance.choice((1, 1, 2))}
        layer = self._part(getattr(nn, f"Conv{dims}d")(channels, out, size, **options))
        if dims == 2 and chance.random() < 0.2:
            return lambda x: layer(x.contiguous(memory_format=torch.channels_last))
        return (lambda x: x + layer(x)) if residual else layer  # type: ignore[no-any-return]

    def _activation(self) -> Layer:
        plain: list[Layer] = [torch.relu, F.gelu, F.silu, torch.tanh, F.softplus, lambda x: F.dropout(x, 0.3)]
        over: list[Layer] = [lambda x: (x * 2).relu_(), lambda x: (x + 1).mul_(0.5).clamp_(-2, 2)]
        return self._chance.choice(plain + (over if self._in_place else []))

    def _rows(self, x: Tensor) -> Layer:
        chance, width = self._chance, x.shape[-1]
        kind = chance.choice(("linear", "attention", "norm", "softmax", "matmul", "act", "window", "sort", "gather"))
        if kind == "linear":
            return self._part(nn.Linear(width, chance.choice((4, 6, 8))))
        if kind == "attention":
            q = self._part(nn.Linear(width, 3 * 4))
            causal = chance.random() < 0.5

            def attention(x: Tensor) -> Tensor:
                one, two, three = (part[:, None] for part in q(x).chunk(3, -1))
                return F.scaled_dot_product_attention(one, two, three, is_causal=causal)[:, 0]

            return attention
        if kind == "norm":
            return self._part(nn.LayerNorm(width))
        if kind == "softmax":
            over = chance.choice((F.softmax, F.log_softmax))
            return lambda x: over(x, -1)
        if kind == "matmul" and x.shape[1] <= _MOST_ROWS:
            return lambda x: torch.bmm(x, x.transpose(1, 2)).tanh() @ x
        if kind == "window":
            return lambda x: x[:, ::2].repeat_interleave(2, 1)[:, : x.shape[1]]
        if kind == "sort":
            return lambda x: x.sort(1).values + x.cumsum(1)
        if kind == "gather":
            return lambda x: x.gather(1, x.argsort(1)) + x.index_select(1, torch.arange(x.shape[1]).flip(0))
        return self._activation()

    def _loss(self, x: Tensor) -> Layer:
        kind = self._chance.choice(("square", "cross entropy", "huber", "bce"))
        if kind == "cross entropy":
            target = torch.arange(x.shape[0] * x.shape[1]) % x.shape[2]
            return lambda x: F.cross_entropy(x.flatten(0, 1), target)
        if kind == "huber":
            return lambda x: F.smooth_l1_loss(x, torch.ones_like(x))
        if kind == "bce":
            return lambda x: F.binary_cross_entropy_with_logits(x, torch.ones_like(x))
        return lambda x: x.square().mean()
