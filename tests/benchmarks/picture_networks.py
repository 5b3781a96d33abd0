"""Networks of pictures whose norms go over whole maps, or over channels, of the widths of known ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

GROUPS = 32
WIDTHS = (512, 512, 256, 128)  # of the decoder of Stable Diffusion


class Block(nn.Module):
    """Two convolutions after group norms, and what goes past them."""

    def __init__(self, inside: int, out: int) -> None:
        super().__init__()
        self.first, self.last = nn.GroupNorm(GROUPS, inside), nn.GroupNorm(GROUPS, out)
        self.up, self.down = nn.Conv2d(inside, out, 3, padding=1), nn.Conv2d(out, out, 3, padding=1)
        self.past = nn.Identity() if inside == out else nn.Conv2d(inside, out, 1)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.up(F.silu(self.first(x)))
        made: Tensor = self.past(x) + self.down(F.silu(self.last(hidden)))
        return made


class Attention(nn.Module):
    """Each place attends to all."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(GROUPS, width)
        self.given, self.out = nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.given(self.norm(x)).flatten(2).transpose(1, 2)[:, None].chunk(3, -1)
        found = F.scaled_dot_product_attention(query, key, value)
        made: Tensor = x + self.out(found[:, 0].transpose(1, 2).reshape(x.shape))
        return made


def decoder(widths: Sequence[int] = WIDTHS) -> nn.Module:
    """From a latent picture to one of eight times its size."""
    width = widths[0]
    layers: list[nn.Module] = [nn.Conv2d(4, width, 3, padding=1), Block(width, width), Attention(width)]
    layers.append(Block(width, width))
    for stage, out in enumerate(widths):
        layers += [Block(width, out), Block(out, out), Block(out, out)]
        width = out
        if stage < len(widths) - 1:
            layers += [nn.Upsample(scale_factor=2), nn.Conv2d(width, width, 3, padding=1)]
    return nn.Sequential(*layers, nn.GroupNorm(GROUPS, width), nn.SiLU(), nn.Conv2d(width, 3, 3, padding=1))


class UNet(nn.Module):
    """Down and up again, with what is kept on the way down."""

    def __init__(self, widths: Sequence[int] = (64, 128, 256, 256)) -> None:
        super().__init__()
        first, wide = widths[0], widths[:0:-1]
        self.first = nn.Conv2d(3, first, 3, padding=1)
        self.down = nn.ModuleList(Block(a, b) for a, b in zip([first, *widths], widths, strict=False))
        self.narrow = nn.ModuleList(nn.Conv2d(w, w, 3, 2, 1) for w in widths[:-1])
        self.middle = nn.Sequential(Block(widths[-1], widths[-1]), Attention(widths[-1]))
        self.up = nn.ModuleList(Block(a + b, b) for a, b in zip([wide[0], *wide], widths[::-1], strict=True))
        self.last = nn.Sequential(nn.GroupNorm(GROUPS, first), nn.SiLU(), nn.Conv2d(first, 3, 3, padding=1))

    def forward(self, x: Tensor) -> Tensor:
        x, kept = self.first(x), []
        for level, block in enumerate(self.down):
            x = block(x)
            kept.append(x)
            if level < len(self.narrow):
                x = self.narrow[level](x)
        x = self.middle(x)
        for block in self.up:
            skip = kept.pop()
            x = block(torch.cat([x if x.shape == skip.shape else F.interpolate(x, skip.shape[2:]), skip], 1))
        made: Tensor = self.last(x)
        return made


class ChannelNorm(nn.LayerNorm):
    """Over the channels of each place."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class NextBlock(nn.Module):
    """Of a ConvNeXt: a window for each channel, then layers at each place."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.window = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm, self.wide, self.narrow = (
            nn.LayerNorm(width),
            nn.Linear(width, 4 * width),
            nn.Linear(4 * width, width),
        )
        self.scale = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.window(x).permute(0, 2, 3, 1))
        y = self.scale * self.narrow(F.gelu(self.wide(y)))
        return x + y.permute(0, 3, 1, 2)


def convnext(widths: Sequence[int] = (96, 192, 384), depths: Sequence[int] = (3, 3, 3)) -> nn.Module:
    """The first stages of a tiny ConvNeXt, and ten classes."""
    layers: list[nn.Module] = [nn.Conv2d(3, widths[0], 4, 4), ChannelNorm(widths[0])]
    for stage, (width, depth) in enumerate(zip(widths, depths, strict=True)):
        if stage:
            layers += [ChannelNorm(widths[stage - 1]), nn.Conv2d(widths[stage - 1], width, 2, 2)]
        layers += [NextBlock(width) for _ in range(depth)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(width), nn.Linear(width, 10))


class Windows(nn.Sequential):
    """A convolution of reflected borders and an instance norm."""

    def __init__(self, before: int, after: int, size: int, step: int = 1) -> None:
        super().__init__(
            nn.ReflectionPad2d(size // 2),
            nn.Conv2d(before, after, size, step),
            nn.InstanceNorm2d(after, affine=True),
        )


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.last = Windows(width, width, 3), Windows(width, width, 3)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = x + self.last(F.relu(self.first(x)))
        return made


def style(width: int = 32) -> nn.Module:
    """A network that paints a picture in a style."""
    relu, larger = nn.ReLU(), nn.Upsample(scale_factor=2)
    down = [
        Windows(3, width, 9),
        relu,
        Windows(width, 2 * width, 3, 2),
        relu,
        Windows(2 * width, 4 * width, 3, 2),
        relu,
    ]
    body = [Residual(4 * width) for _ in range(5)]
    up = [larger, Windows(4 * width, 2 * width, 3), relu, larger, Windows(2 * width, width, 3), relu]
    return nn.Sequential(*down, *body, *up, nn.ReflectionPad2d(4), nn.Conv2d(width, 3, 9))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], Callable[[int], Tensor]]] = {  # and what they take, by pixels
    "decoder": (decoder, lambda pixels: torch.randn(1, 4, pixels // 8, pixels // 8)),
    "unet": (UNet, lambda pixels: torch.randn(1, 3, pixels, pixels)),
    "convnext": (convnext, lambda pixels: torch.randn(1, 3, pixels, pixels)),
    "style": (style, lambda pixels: torch.randn(1, 3, pixels, pixels)),
}
