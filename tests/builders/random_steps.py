"""Steps of training that draw random numbers: dropout, noise, random depth, adapters; each with its loss in forward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Step = tuple[
    nn.Module, tuple[Any, ...], Callable[[Any], Tensor]
]  # a module, arguments, and the loss of what it returns
WORDS = 2000


class Field(nn.Module):
    """A radiance field: points along rays at random distances, and what is seen of them, outside of modules."""

    def __init__(self, points: int = 32, width: int = 128) -> None:
        super().__init__()
        self.points = points
        layers = [nn.Linear(39, width), *(nn.Linear(width, width) for _ in range(3))]
        self.trunk = nn.Sequential(*(part for layer in layers for part in (layer, nn.ReLU())))
        self.color = nn.Sequential(nn.Linear(width + 3, width // 2), nn.ReLU(), nn.Linear(width // 2, 3))
        self.density = nn.Linear(width, 1)

    def encoded(self, x: Tensor) -> Tensor:
        angles = (x[..., None] * 2.0 ** torch.arange(6)).flatten(-2)
        return torch.cat([x, angles.sin(), angles.cos()], -1)

    def forward(self, origin: Tensor, direction: Tensor, far: float = 4.0) -> tuple[Tensor, Tensor]:
        count = len(origin)
        near = torch.linspace(1.0, far, self.points).expand(count, -1)
        at = near + torch.rand(count, self.points) * (far - 1.0) / self.points
        features = self.trunk(self.encoded(origin[:, None] + direction[:, None] * at[..., None]))
        density = self.density(features).squeeze(-1)
        density = torch.relu(density + torch.randn_like(density) / 10)
        steps = torch.cat([at.diff(dim=-1), torch.full((count, 1), 1e3)], -1)
        seen = 1 - torch.exp(-density * steps)
        left = torch.cumprod(torch.cat([torch.ones(count, 1), 1 - seen + 1e-10], -1), -1)[:, :-1]
        weight = seen * left
        view = direction[:, None].expand(-1, self.points, -1)
        color = self.color(torch.cat([features, view], -1)).sigmoid()
        return (weight[..., None] * color).sum(1), (weight * at).sum(1)


class Layer(nn.Module):
    """A layer of a transformer with dropout, and with random depth where `depth` is above 0."""

    def __init__(self, width: int, dropout: float = 0.1, depth: float = 0.0, causal: bool = False) -> None:
        super().__init__()
        self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(4 * width, width),
            nn.Dropout(dropout),
        )
        self.dropout, self.depth, self.causal = dropout, depth, causal

    def kept(self, x: Tensor) -> Tensor:
        """A branch, without some of the samples."""
        if self.depth == 0:
            return x
        return x * (torch.rand(len(x), 1, 1) >= self.depth) / (1 - self.depth)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout, is_causal=self.causal)
        x = x + self.kept(self.out(mixed.transpose(1, 2).flatten(2)))
        return x + self.kept(self.mlp(self.norm2(x)))


class Adapted(nn.Module):
    """A frozen linear layer with an adapter of low rank."""

    def __init__(self, base: nn.Linear, rank: int = 8) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down, self.up = (
            nn.Linear(base.in_features, rank, bias=False),
            nn.Linear(rank, base.out_features, bias=False),
        )
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + self.up(self.down(self.dropout(x)))


class Experts(nn.Module):
    """Soft choices among experts with Gumbel noise."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.choice = nn.LayerNorm(width), nn.Linear(width, 4)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)) for _ in range(4)
        )

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        shares = F.gumbel_softmax(self.choice(h), dim=-1)
        return x + sum(shares[..., k, None] * expert(h) for k, expert in enumerate(self.experts))


class Words(nn.Module):
    """A language model."""

    def __init__(self, width: int, layers: list[nn.Module]) -> None:
        super().__init__()
        self.words, self.body, self.head = nn.Embedding(WORDS, width), nn.Sequential(*layers), nn.Linear(width, WORDS)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.body(self.words(ids)))


class Patches(nn.Module):
    """A classifier of pictures by patches."""

    def __init__(self, width: int, layers: list[nn.Module]) -> None:
        super().__init__()
        self.patches, self.body, self.head = nn.Conv2d(3, width, 4, 4), nn.Sequential(*layers), nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(self.patches(x).flatten(2).mT).mean(1))


class Mixer(nn.Module):
    """Channels and tokens mixed by turns, with dropout in both."""

    def __init__(self, width: int, length: int) -> None:
        super().__init__()
        self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

        def mlp(size: int) -> nn.Module:
            return nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Dropout(0.1), nn.Linear(4 * size, size))

        self.tokens, self.channels = mlp(length), mlp(width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.tokens(self.norm(x).mT).mT
        return x + self.channels(self.norm2(x))


class Recurrent(nn.Module):
    """Two layers of a GRU with dropout in between, along words."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(WORDS, width), nn.Linear(width, WORDS)
        self.layers, self.dropout = nn.GRU(width, width, 2, batch_first=True, dropout=0.3), nn.Dropout(0.3)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.dropout(self.layers(self.words(ids))[0]))


class Autoencoder(nn.Module):
    """A variational autoencoder of pictures of 32 x 32."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            *(nn.Conv2d(3, 32, 3, 2, 1), nn.SiLU(), nn.GroupNorm(4, 32), nn.Conv2d(32, 64, 3, 2, 1), nn.SiLU()),
            *(nn.Flatten(), nn.Linear(4096, 64)),
        )
        self.decoder = nn.Sequential(
            *(nn.Linear(32, 4096), nn.Unflatten(1, (64, 8, 8)), nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.SiLU()),
            *(nn.ConvTranspose2d(32, 32, 4, 2, 1), nn.SiLU(), nn.Conv2d(32, 3, 3, 1, 1)),
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, spread = self.encoder(x).chunk(2, 1)
        return self.decoder(mean + torch.randn_like(mean) * (spread / 2).exp()), mean, spread


class Residual(nn.Module):
    """Two convolutions with group norm and dropout, and the time."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.time = nn.Linear(32, width)
        self.body = nn.Sequential(
            *(nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, width, 3, 1, 1)),
            *(nn.GroupNorm(8, width), nn.SiLU(), nn.Dropout(0.1), nn.Conv2d(width, width, 3, 1, 1)),
        )

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        return x + self.body(x + self.time(time)[:, :, None, None])


class Denoiser(nn.Module):
    """A small U-Net that finds noise which its forward adds."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.times, self.first, self.last = (
            nn.Embedding(100, 32),
            nn.Conv2d(3, width, 3, 1, 1),
            nn.Conv2d(width, 3, 3, 1, 1),
        )
        self.down, self.up = (nn.ModuleList([Residual(width), Residual(width)]) for _ in range(2))
        self.middle = Residual(width)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        time, noise = torch.randint(0, 100, (len(x),)), torch.randn_like(x)
        share = (1 - time / 100.0)[:, None, None, None]
        x, time, kept = self.first(x * share.sqrt() + noise * (1 - share).sqrt()), self.times(time), []
        for part in self.down:
            x = part(x, time)
            kept.append(x)
            x = F.avg_pool2d(x, 2)
        x = self.middle(x, time)
        for part in self.up:
            x = part(F.interpolate(x, scale_factor=2) + kept.pop(), time)
        return self.last(x), noise


def _convolutions() -> nn.Module:
    def block(first: int, last: int) -> nn.Module:
        conv = nn.Conv2d(first, last, 3, 1, 1)
        return nn.Sequential(conv, nn.GroupNorm(8, last), nn.ReLU(), nn.Dropout2d(0.2))

    body = nn.Sequential(block(3, 32), block(32, 32), nn.MaxPool2d(2), block(32, 64), block(64, 64))
    return nn.Sequential(body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 10))


def _adapted(width: int = 128) -> nn.Module:
    layers = [Layer(width, 0.0, causal=True).requires_grad_(False) for _ in range(4)]
    for layer in layers:
        layer.qkv, layer.out = Adapted(layer.qkv), Adapted(layer.out)
        layer.mlp[0], layer.mlp[3] = Adapted(layer.mlp[0]), Adapted(layer.mlp[3])
    model = Words(width, [*layers])
    for part in (model.words, model.head):
        part.requires_grad_(False)
    return model


def _of_words(model: nn.Module, batch: int = 16, length: int = 96) -> Step:
    ids = torch.randint(0, WORDS, (batch, length))
    return model, (ids,), lambda made: F.cross_entropy(made[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


def _of_pictures(model: nn.Module, batch: int = 32) -> Step:
    labels = torch.randint(0, 10, (batch,))
    return model, (torch.rand(batch, 3, 32, 32),), lambda made: F.cross_entropy(made, labels)


def _field() -> Step:
    seen = torch.rand(1024, 3)
    rays = torch.randn(2, 1024, 3)
    loss = lambda made: F.mse_loss(made[0], seen) + made[1].mean() / 100  # noqa: E731
    return Field(), (rays[0], F.normalize(rays[1], dim=-1)), loss


def _autoencoder() -> Step:
    x = torch.rand(64, 3, 32, 32)

    def loss(made: Any) -> Tensor:
        picture, mean, spread = made
        return F.mse_loss(picture, x) - (1 + spread - mean**2 - spread.exp()).mean() / 100

    return Autoencoder(), (x,), loss


STEPS: dict[str, Callable[[], Step]] = {
    "radiance field": _field,
    "adapters": lambda: _of_words(_adapted()),
    "language model": lambda: _of_words(Words(128, [Layer(128, causal=True) for _ in range(4)])),
    "random depth": lambda: _of_pictures(Patches(96, [Layer(96, depth=0.05 * k) for k in range(4)])),
    "mixer": lambda: _of_pictures(Patches(96, [Mixer(96, 64) for _ in range(4)])),
    "convolutions": lambda: _of_pictures(_convolutions()),
    "recurrent": lambda: _of_words(Recurrent(128), 32, 48),
    "autoencoder": _autoencoder,
    "denoiser": lambda: (Denoiser(), (torch.rand(16, 3, 32, 32),), lambda made: F.mse_loss(*made)),
    "experts": lambda: _of_pictures(Patches(96, [Experts(96) for _ in range(3)])),
}
