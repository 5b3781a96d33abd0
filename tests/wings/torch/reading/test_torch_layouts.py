"""Strides while a network is traced: those that eager gives, those of axes of size 1 too."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

import memplan
from builders.torch_nets import Net
from memplan.torch.reading import kernels
from memplan.torch.reading.effects import flat_tensors
from memplan.torch.reading.fake import Fakes

VIEWS: list[Callable[[Tensor], Any]] = [
    lambda x: x.view(-1) if x.is_contiguous() else x.reshape(-1),
    lambda x: x.reshape(x.shape[0], -1),
    lambda x: x.reshape(-1, *x.shape[2:]),
    lambda x: x.reshape(1, *x.shape, 1),
    lambda x: x.reshape(x.shape[0], -1, *x.shape[3:]),
    lambda x: x.reshape(*x.shape[:2], -1),
    lambda x: x.transpose(1, 2).reshape(x.shape[0], x.shape[2], *reversed(x.shape[1:2]), *x.shape[3:]),
    lambda x: x.flatten(1, 2).unflatten(1, x.shape[1:3]),
    lambda x: x.squeeze().unsqueeze(0),
    lambda x: x[None, :, 0].movedim(0, -1),
    lambda x: x.permute(*reversed(range(x.dim()))).expand(3, *reversed(x.shape)),
    lambda x: [part.reshape(-1, 1) for part in x.split(1, 1)],
    lambda x: x.unfold(2, 1, 1).narrow(0, 0, 1),
    lambda x: x.view(torch.int32).view_as(x) + 0,
    lambda x: x.contiguous().to(memory_format=torch.preserve_format),
]
OTHERS: list[Callable[[Tensor], Any]] = [
    lambda x: x * 2.5,
    lambda x: x + x.flip(0, 1),
    lambda x: x.relu() + torch.copysign(x, x.sum(0)),
    lambda x: torch.heaviside(x, x.sum(1, keepdim=True)) > 0,
    lambda x: x.masked_fill(x > 0, 0.0),
    lambda x: torch.empty_like(x),
    lambda x: F.hardtanh(x),
    lambda x: x.clamp_min(x.transpose(0, 1)[:1, :1]),
    lambda x: torch.logical_xor(x, x.mean(0)),
    lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"),
    lambda x: F.batch_norm(x, torch.zeros(x.shape[1]), torch.ones(x.shape[1])),
    lambda x: F.conv2d(x, torch.ones(2, x.shape[1], 1, 1)),
    lambda x: F.max_pool2d(x, 1),
    lambda x: F.layer_norm(x, x.shape[-1:]) + F.log_softmax(x, 1) + x.softmax(-1),
    lambda x: F.gelu(x).cumsum(0) + F.avg_pool2d(x, 1) + F.interpolate(x, scale_factor=1.0),
    lambda x: F.dropout(x, 0.5) + x.sum((1, 2), keepdim=True).amax(0),
    lambda x: torch.cat([x, x], 1),
]
IMAGES: list[Callable[[Tensor], Any]] = [
    lambda x: F.group_norm(x, x.shape[1] // 2, x.new_ones(x.shape[1])),
    lambda x: F.batch_norm(x, x.new_zeros(x.shape[1]), x.new_ones(x.shape[1])),
    lambda x: F.layer_norm(x, x.shape[1:]),
    lambda x: x.roll(1, 2) + x.tril() + x.renorm(2, 1, 1.0),
    lambda x: x.sort(1)[0] + x.mean((2, 3), keepdim=True),
    lambda x: x[:, torch.tensor([0, 0])],
    lambda x: F.normalize(x, dim=1),
    lambda x: F.binary_cross_entropy_with_logits(x, torch.zeros_like(x), reduction="none"),
    lambda x: F.glu(x, 2),
    lambda x: F.pad(x, (1, 2, 1, 2), mode="reflect") * 2,
    lambda x: F.pad(x, (1, 2, 1, 2), mode="replicate") * 2,
    lambda x: F.interpolate(x, scale_factor=2, mode="nearest-exact"),
]


class Compared(TorchDispatchMode):
    """Runs each operator on stand-ins, too."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        fakes = Fakes()

        def stand_in(value: Any) -> Any:
            return fakes(value.detach(), "x") if isinstance(value, Tensor) else value

        call = pytree.tree_map(stand_in, (args, kwargs or {}))
        result = func(*args, **(kwargs or {}))
        with fakes.running(), torch.no_grad():
            fake = kernels.run(func, *call)
        for one, other in zip(flat_tensors(result), flat_tensors(fake), strict=True):
            lies = [(tuple(t.shape), t.stride(), t.storage_offset()) for t in (one, other)]
            if lies[0] != lies[1]:
                self.found.append((func, [t.stride() for t in flat_tensors(args)], lies))
        return result


def laid(rng: random.Random) -> Tensor:
    """An image with axes of size 1, its axes in memory in any order, and any strides at those of size 1."""
    sizes = [rng.choice([1, 1, 2, 3]) for _ in range(4)]
    order = rng.sample(range(4), 4)
    x = torch.randn([sizes[axis] for axis in order]).permute([order.index(axis) for axis in range(4)])
    strides = [rng.choice([s, 1, 7, 12]) if n == 1 else s for n, s in zip(x.shape, x.stride(), strict=True)]
    return x.as_strided(x.shape, strides)


@pytest.mark.parametrize("functions", [VIEWS, OTHERS], ids=["views", "others"])
def test_strides_are_those_of_eager(functions: list[Callable[[Tensor], Any]]) -> None:
    rng = random.Random(3)
    compared = Compared()
    for _ in range(5):
        x = laid(rng)
        for function in functions:
            with compared:
                function(x)
    assert compared.found == []


def images(batch: int, size: int) -> list[Tensor]:
    """Images in rows or channels last, of which one sample has the strides that kernels and views leave."""
    shape = batch, 4, size, size
    x = torch.randn(shape)
    last = x.contiguous(memory_format=torch.channels_last)
    found = [x, last, torch.randn(2 * batch, *shape[1:])[::2], torch.randn(batch, 8, size, size).to(last)[:, :4]]
    if batch == 1:
        found += [one.as_strided(shape, (other, *one.stride()[1:])) for one, other in ((x, 1), (last, 4))]
    return found


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize(("batch", "size"), [(1, 6), (2, 6), (1, 12)])
def test_gradients_of_images_lie_as_those_of_eager(batch: int, size: int) -> None:
    compared = Compared()
    for x in images(batch, size):
        for function in IMAGES:
            y = x.detach().requires_grad_()
            with compared:
                z = function(y)
                z.backward(torch.ones(z.shape))
    assert compared.found == []


@pytest.mark.parametrize("batch", [1, 2])
def test_a_convolution_of_a_view_and_its_dropout(batch: int) -> None:
    def forward(net: Net, x: Tensor) -> Tensor:
        return F.dropout(net.conv(x.transpose(1, 2).view(batch, 8, 6, 6)), 0.5)

    net, x = Net(forward), torch.randn(batch, 36, 8)
    net.conv = nn.Conv2d(8, 4, 1)
    plan = memplan.plan(net, args=(x,), train=True, alignment=64)
    torch.manual_seed(0)
    run = plan.run(x, check=True)
    torch.manual_seed(0)
    loss = net(x).sum()
    loss.backward()
    assert torch.equal(run.loss, loss)
    assert torch.equal(run.gradients["conv.weight"], net.conv.weight.grad)
