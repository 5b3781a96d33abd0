"""Networks of many kinds, each with an input: their estimates are compared with what torch gives out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Net(nn.Module):
    """Parts, and a function of them and of inputs."""

    def __init__(self, compute: Callable[..., Any], **parts: nn.Module) -> None:
        super().__init__()
        self.compute = compute
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, *args: Tensor) -> Any:
        return self.compute(self, *args)


Made = tuple[nn.Module, tuple[Tensor, ...]]


def graph_by_index_add() -> Made:
    def compute(net: Any, x: Tensor, source: Tensor, target: Tensor) -> Tensor:
        for layer in (net.first, net.second):
            message = layer(torch.cat([x[source], x[target]], -1)).relu()
            x = torch.zeros(len(x), 64).index_add(0, target, message)
        return x

    edges = torch.randint(0, 500, (2, 6000))
    return Net(compute, first=nn.Linear(128, 64), second=nn.Linear(128, 64)), (torch.randn(500, 64), *edges)


def graph_by_scatter() -> Made:
    def compute(net: Any, x: Tensor, edge: Tensor) -> Tensor:
        score = F.leaky_relu(net.score(torch.cat([x[edge[0]], x[edge[1]]], -1)), 0.2)
        index = edge[1].unsqueeze(-1).expand_as(score)
        most = torch.full((len(x), 4), -1e9).scatter_reduce(0, index, score, "amax")
        weight = (score - most[edge[1]]).exp()
        total = torch.zeros(len(x), 4).scatter_add(0, index, weight)
        weight = weight / (total[edge[1]] + 1e-9)
        value = net.value(x).view(-1, 4, 16)[edge[0]] * weight.unsqueeze(-1)
        return torch.zeros(len(x), 64).index_add_(0, edge[1], value.flatten(1))

    return (
        Net(compute, score=nn.Linear(128, 4), value=nn.Linear(64, 64)),
        (torch.randn(400, 64), torch.randint(0, 400, (2, 5000))),
    )


def _double(inputs: int, outputs: int, rank: int) -> nn.Module:
    conv: Any = (nn.Conv2d, nn.Conv3d)[rank - 2]
    norm: Any = (nn.BatchNorm2d, nn.BatchNorm3d)[rank - 2]
    layers = [conv(inputs, outputs, 3, padding=1), norm(outputs), nn.ReLU()]
    return nn.Sequential(*layers, conv(outputs, outputs, 3, padding=1), norm(outputs), nn.ReLU())


def _unet(rank: int, size: int) -> Made:
    pool: Any = (nn.MaxPool2d, nn.MaxPool3d)[rank - 2]
    up: Any = (nn.ConvTranspose2d, nn.ConvTranspose3d)[rank - 2]
    conv: Any = (nn.Conv2d, nn.Conv3d)[rank - 2]

    def compute(net: Any, x: Tensor) -> Tensor:
        first = net.first(x)
        second = net.second(net.pool(first))
        up = net.up(second)
        return net.head(net.last(torch.cat([up, first], 1)))

    parts = {"first": _double(1, 16, rank), "second": _double(16, 32, rank), "pool": pool(2), "up": up(32, 16, 2, 2)}
    return Net(compute, **parts, last=_double(32, 16, rank), head=conv(16, 4, 1)), (torch.randn(2, 1, *[size] * rank),)


def unet_2d() -> Made:
    return _unet(2, 128)


def unet_3d() -> Made:
    return _unet(3, 24)


def lstm() -> Made:
    return Net(
        lambda net, x: net.head(net.rnn(x)[0]), rnn=nn.LSTM(64, 128, 2, batch_first=True), head=nn.Linear(128, 32)
    ), (torch.randn(16, 50, 64),)


def gru() -> Made:
    return Net(
        lambda net, x: net.head(net.rnn(x)[0].mean(1)),
        rnn=nn.GRU(64, 128, 2, batch_first=True),
        head=nn.Linear(128, 10),
    ), (torch.randn(16, 50, 64),)


def temporal_convolutions() -> Made:
    def compute(net: Any, x: Tensor) -> Tensor:
        for number in range(4):
            x = x + F.relu(getattr(net, f"conv{number}")(F.pad(x, (2 * 2**number, 0))))
        return net.head(x[:, :, -1])

    convs = {f"conv{number}": nn.Conv1d(32, 32, 3, dilation=2**number) for number in range(4)}
    return Net(compute, **convs, head=nn.Linear(32, 5)), (torch.randn(16, 32, 512),)


def mixer() -> Made:
    def compute(net: Any, x: Tensor) -> Tensor:
        x = net.patch(x).flatten(2).transpose(1, 2)
        for _ in range(3):
            x = x + net.tokens(net.norm(x).transpose(1, 2)).transpose(1, 2)
            x = x + net.channels(net.norm(x))
        return x.mean(1)

    tokens = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64))
    channels = nn.Sequential(nn.Linear(96, 384), nn.GELU(), nn.Linear(384, 96))
    parts = {"patch": nn.Conv2d(3, 96, 8, 8), "norm": nn.LayerNorm(96), "tokens": tokens, "channels": channels}
    return Net(compute, **parts), (torch.randn(16, 3, 64, 64),)


def state_space() -> Made:
    def compute(net: Any, x: Tensor) -> Tensor:
        rate = F.softplus(net.rate(x))
        decay = torch.exp(-rate)
        state, states = torch.zeros(len(x), 128), []
        for step in range(x.shape[1]):
            state = state * decay[:, step] + net.into(x[:, step]) * rate[:, step]
            states.append(state)
        return net.out(torch.stack(states, 1) * F.silu(net.gate(x)))

    parts = {name: nn.Linear(64, 128) for name in ("rate", "into", "gate")}
    return Net(compute, **parts, out=nn.Linear(128, 64)), (torch.randn(16, 48, 64),)


def capsules() -> Made:
    def squash(x: Tensor) -> Tensor:
        square = x.square().sum(-1, keepdim=True)
        return square / (1 + square) * x / (square + 1e-8).sqrt()

    def compute(net: Any, x: Tensor) -> Tensor:
        u = squash(net.conv(x).view(len(x), -1, 8))
        votes = torch.einsum("bni,noi->bno", u, net.votes.weight.view(-1, 160, 8)).view(len(x), -1, 10, 16)
        logits = torch.zeros(votes.shape[:3])
        for _ in range(2):
            out = squash((logits.softmax(2).unsqueeze(-1) * votes).sum(1))
            logits = logits + (votes * out.unsqueeze(1)).sum(-1)
        return out.norm(dim=-1)

    return Net(compute, conv=nn.Conv2d(1, 32, 9, 2), votes=nn.Linear(8, 4 * 36 * 160)), (torch.randn(8, 1, 20, 20),)


def variational() -> Made:
    def compute(net: Any, x: Tensor) -> Tensor:
        mean, log = net.encoder(x).chunk(2, -1)
        z = mean + torch.randn_like(mean) * (log / 2).exp()
        loss = F.binary_cross_entropy_with_logits(net.decoder(z), x, reduction="sum")
        return loss - 0.5 * (1 + log - mean**2 - log.exp()).sum()

    encoder = nn.Sequential(nn.Linear(784, 400), nn.ReLU(), nn.Linear(400, 40))
    decoder = nn.Sequential(nn.Linear(20, 400), nn.ReLU(), nn.Linear(400, 784))
    return Net(compute, encoder=encoder, decoder=decoder), (torch.rand(256, 784),)


def generator() -> Made:
    layers: list[nn.Module] = [nn.ConvTranspose2d(64, 128, 4, 1, 0), nn.BatchNorm2d(128), nn.ReLU()]
    for inputs, outputs in ((128, 64), (64, 32)):
        layers += [nn.ConvTranspose2d(inputs, outputs, 4, 2, 1), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.ConvTranspose2d(32, 3, 4, 2, 1), nn.Tanh()), (torch.randn(16, 64, 1, 1),)


def set_transformer() -> Made:
    def compute(net: Any, x: Tensor) -> Tensor:
        seeds = net.seeds.weight.expand(len(x), -1, -1)
        held = net.into(seeds, x, x, need_weights=False)[0]
        x = x + net.back(x, held, held, need_weights=False)[0]
        return net.head(x).amax(1)

    parts = {name: nn.MultiheadAttention(64, 4, batch_first=True) for name in ("into", "back")}
    return Net(compute, **parts, seeds=nn.Linear(64, 16), head=nn.Linear(64, 10)), (torch.randn(8, 200, 64),)


def radiance_field() -> Made:
    def compute(net: Any, x: Tensor) -> Tensor:
        angles = x.unsqueeze(-1) * 2.0 ** torch.arange(6)
        x = torch.cat([angles.sin(), angles.cos()], -1).flatten(-2)
        h = net.trunk(x)
        density, colour = F.softplus(net.density(h)), torch.sigmoid(net.colour(h))
        alpha = 1 - torch.exp(-density.squeeze(-1) * 0.1)
        kept = torch.cumprod(1 - alpha + 1e-10, 1)
        return (colour * (alpha * kept).unsqueeze(-1)).sum(1)

    trunk = nn.Sequential(nn.Linear(36, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU())
    return Net(compute, trunk=trunk, density=nn.Linear(128, 1), colour=nn.Linear(128, 3)), (torch.rand(64, 32, 3),)


def masks() -> Made:
    """Numbers times masks of true and false, of other sizes."""

    def compute(net: Any, x: Tensor, mask: Tensor) -> Tensor:
        x = net.first(x) * mask.unsqueeze(-1)
        return (net.second(x) * (x.mean(-1, keepdim=True) > 0)).sum(1) / mask.sum(1, keepdim=True)

    return Net(compute, first=nn.Linear(64, 256), second=nn.Linear(256, 256)), (
        torch.randn(32, 40, 64),
        torch.rand(32, 40) > 0.3,
    )


def bags() -> Made:
    def compute(net: Any, ids: Tensor, numbers: Tensor) -> Tensor:
        x = torch.cat([net.bag(ids), net.dense(numbers)], 1)
        pairs = torch.bmm(x.view(len(x), -1, 16), x.view(len(x), -1, 16).transpose(1, 2))
        return net.top(pairs.flatten(1))

    parts = {"bag": nn.EmbeddingBag(1000, 64, mode="sum"), "dense": nn.Linear(13, 64), "top": nn.Linear(64, 1)}
    return Net(compute, **parts), (torch.randint(0, 1000, (512, 20)), torch.randn(512, 13))


def bilinear() -> Made:
    def compute(net: Any, a: Tensor, b: Tensor) -> Tensor:
        return F.cosine_similarity(net.pair(net.one(a), net.one(b)), net.one(b)[:, :32])

    return Net(compute, one=nn.Linear(96, 64), pair=nn.Bilinear(64, 64, 32)), (
        torch.randn(256, 96),
        torch.randn(256, 96),
    )


def inverted_residuals() -> Made:
    """Convolutions of single channels, squeezing and exciting."""

    def compute(net: Any, x: Tensor) -> Tensor:
        x = net.stem(x)
        h = net.deep(net.wide(x))
        x = x + net.narrow(h * net.excite(h.mean((2, 3), keepdim=True)))
        return net.head(x.mean((2, 3)))

    def block(inputs: int, outputs: int, kernel: int, **how: Any) -> nn.Module:
        return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, **how), nn.BatchNorm2d(outputs), nn.Hardswish())

    excite = nn.Sequential(nn.Conv2d(96, 24, 1), nn.ReLU(), nn.Conv2d(24, 96, 1), nn.Hardsigmoid())
    parts = {"stem": block(3, 24, 3, stride=2, padding=1), "wide": block(24, 96, 1)}
    parts |= {"deep": block(96, 96, 5, padding=2, groups=96), "narrow": block(96, 24, 1), "excite": excite}
    return Net(compute, **parts, head=nn.Linear(24, 10)), (torch.randn(4, 3, 64, 64),)


def masked_attention() -> Made:
    def compute(net: Any, x: Tensor, padded: Tensor) -> Tensor:
        q, k, v = net.qkv(x).view(len(x), -1, 3, 4, 16).permute(2, 0, 3, 1, 4)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=~padded[:, None, None])
        x = net.norm(x + net.out(out.transpose(1, 2).flatten(2)))
        return x.masked_fill(padded.unsqueeze(-1), 0.0).sum(1)

    padded = torch.arange(100).expand(8, -1) >= torch.randint(50, 100, (8, 1))
    parts = {"qkv": nn.Linear(64, 192), "out": nn.Linear(64, 64), "norm": nn.LayerNorm(64)}
    return Net(compute, **parts), (torch.randn(8, 100, 64), padded)


def dense_blocks() -> Made:
    def compute(net: Any, x: Tensor) -> Tensor:
        for number in range(4):
            norm, conv = getattr(net, f"norm{number}"), getattr(net, f"conv{number}")
            x = torch.cat([x, conv(F.relu(norm(x)))], 1)
        return F.avg_pool2d(x, 4).flatten(1)

    convs = {f"conv{n}": nn.Conv2d(16 + 16 * n, 16, 3, padding=1) for n in range(4)}
    return Net(compute, **convs, **{f"norm{n}": nn.BatchNorm2d(16 + 16 * n) for n in range(4)}), (
        torch.randn(4, 16, 32, 32),
    )


def super_resolution() -> Made:
    def compute(net: Any, x: Tensor) -> Tensor:
        y = net.shuffle(net.body(x))
        return y + F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)

    body = nn.Sequential(
        nn.Conv2d(3, 32, 5, padding=2),
        nn.Tanh(),
        nn.Conv2d(32, 32, 3, padding=1),
        nn.Tanh(),
        nn.Conv2d(32, 12, 3, padding=1),
    )
    return Net(compute, body=body, shuffle=nn.PixelShuffle(2)), (torch.randn(4, 3, 48, 48),)


def group_norms_last() -> Made:
    """Channels beside each other."""
    net = nn.Sequential(
        *(nn.Conv2d(16, 32, 3, padding=1), nn.GroupNorm(4, 32), nn.SiLU()),
        *(nn.Conv2d(32, 32, 3, padding=1), nn.GroupNorm(4, 32), nn.SiLU(), nn.AdaptiveAvgPool2d(4)),
    )
    last = torch.channels_last
    return net.to(memory_format=last), (torch.randn(4, 16, 32, 32).to(memory_format=last),)


NETS: dict[str, Callable[[], Made]] = {
    made.__name__: made
    for made in (
        *(graph_by_index_add, graph_by_scatter, unet_2d, unet_3d, lstm, gru, temporal_convolutions, mixer, state_space),
        *(capsules, variational, generator, set_transformer, radiance_field, masks, bags, bilinear),
        *(inverted_residuals, masked_attention, dense_blocks, super_resolution, group_norms_last),
    )
}
