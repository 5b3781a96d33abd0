"""Networks whose ops run in pieces."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def pictures() -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.SiLU()]
    return nn.Sequential(*layers, nn.MaxPool2d(2), nn.Upsample(scale_factor=2), nn.Conv2d(16, 3, 5, padding=2)).eval()


class Words(nn.Module):
    """A language model's head and its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.hidden = nn.Embedding(3000, 32), nn.Linear(32, 32)
        self.head = nn.Linear(32, 3000, bias=False)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        logits = self.head(F.gelu(self.hidden(self.embedding(x))))
        return F.cross_entropy(logits.view(-1, 3000), y.view(-1))


class Summed(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        loss, *kept = self.net(x)
        return loss.sum() + sum(one.square().mean() for one in kept)


def words() -> tuple[Words, Tensor, Tensor]:
    torch.manual_seed(0)
    x, y = torch.randint(0, 3000, (2, 2, 64)).unbind()
    y[0, :9] = -100
    return Words(), x, y


class UNet(nn.Module):
    """Activations write over what they read, and sums over their first part, as people write such networks."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.down = self.block(3, 8), self.block(8, 16)
        self.up, self.last = nn.ConvTranspose2d(16, 8, 2, 2), nn.Conv2d(16, 2, 1)

    @staticmethod
    def block(channels: int, width: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(inplace=True))

    def forward(self, x: Tensor) -> Tensor:
        skip = self.first(x)
        low = self.down(F.max_pool2d(skip, 2))
        low += F.hardswish(low, inplace=True)
        return self.last(torch.cat([skip, self.up(low)], 1))
