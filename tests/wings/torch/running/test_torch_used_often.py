"""Gradients of tensors that are used several times: bit for bit those of eager."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import memplan
from builders.used_often import SHAPE, Often


class Attention(nn.Module):
    """One tensor is query, key and value; its gradients lie in other ways than it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, SHAPE[-1]))

    def forward(self, x: Tensor) -> Tensor:
        p = F.elu(x * self.weight)
        y = F.scaled_dot_product_attention(p, p * 0.5, p + 1)
        return y.sum() + y.square().mean()


def check(module: nn.Module, x: Tensor) -> None:
    plan = memplan.plan(module, args=(x,), train=True, alignment=64)
    loss = module(x)
    loss.backward()
    run = plan.run(x)
    assert torch.equal(run.loss, loss)
    for name, parameter in module.named_parameters():
        if parameter.grad is not None:
            assert torch.equal(run.gradients[name], parameter.grad), name


@pytest.mark.parametrize("seed", range(3))
def test_attention_of_one_tensor(seed: int) -> None:
    check(Attention(), torch.randn(SHAPE, generator=torch.Generator().manual_seed(seed)))


@pytest.mark.few(4)
@pytest.mark.parametrize("seed", [9, 17, 24, 29, 33, 62, *range(40, 44)])
def test_networks_that_use_tensors_often(seed: int) -> None:
    network = Often(seed)
    check(network, torch.randn(SHAPE))


@pytest.mark.parametrize("shape", [(4, 12, 5), (4, 6, 5, 7)])
def test_batch_norm_of_a_transposed_tensor(shape: tuple[int, ...]) -> None:
    """torch's overload that writes into a given tensor is wrong for these."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = (nn.BatchNorm1d if len(shape) == 3 else nn.BatchNorm2d)(shape[2], track_running_stats=False)

        def forward(self, x: Tensor) -> Tensor:
            return self.norm(x.sigmoid().transpose(1, 2)).square().sum()

    check(Net(), torch.randn(shape))


class Quotient(nn.Module):
    def forward(self, x: Tensor, divisor: Tensor) -> Tensor:
        return ((x * 2) / divisor) * 1.5


def test_complex_numbers_are_not_rounded_in_place() -> None:
    """Over its dividend, a quotient is rounded otherwise."""
    draws = torch.Generator().manual_seed(0)
    for _ in range(10):
        args = [torch.randn(shape, dtype=torch.complex64, generator=draws) for shape in ((37,), ())]
        assert torch.equal(memplan.plan(Quotient(), args=args).run(*args).outputs, Quotient()(*args))
