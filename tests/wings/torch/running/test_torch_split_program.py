"""Programs with ops in pieces, or that run again: graphs of torch.fx that run alone, and give what eager gives."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

import memplan
from builders.random_nets import RandomNet
from builders.split_networks import Summed, UNet, pictures, words
from builders.splitting import in_random_pieces
from memplan.torch.running.graph_module.slicing import slices_of
from memplan.torch.running.recording import View


def close(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def results(program: fx.GraphModule, *args: Tensor) -> list[Tensor]:
    """What every node makes."""
    found: list[Tensor] = []

    class Watched(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            made = super().run_node(n)
            found.extend([made] if isinstance(made, Tensor) and n.op == "call_function" else [])
            return made

    with torch.no_grad():
        Watched(program).run(*args)
    return found


@pytest.mark.slow
def test_pictures_in_pieces() -> None:
    net, x = pictures(), torch.randn(2, 3, 64, 64)
    plan = memplan.fit(net, "40%", allow=("split",), args=(x,))
    program = plan.program
    assert isinstance(program, fx.GraphModule)
    with torch.no_grad():
        expected = net(x)
        close(program(x), expected)
        close(torch.export.export(program, (x,)).module()(x), expected)
        close(torch.compile(program, backend="aot_eager")(x), expected)
    whole = 2 * 16 * 64 * 64  # elements of what is never whole
    assert all(made.untyped_storage().nbytes() < 4 * whole for made in results(program, x))


def test_a_loss_in_pieces_gives_the_gradients() -> None:
    net, x, y = words()
    plan = memplan.fit(net, "least", allow=("split",), args=(x, y), train=True)
    loss, gradients = plan.program(x, y)
    expected = net(x, y)
    expected.backward()
    close(loss, expected.detach())
    close(gradients, {name: parameter.grad for name, parameter in net.named_parameters()})
    logits = 3000 * x.numel() * 4
    assert all(made.untyped_storage().nbytes() < logits for made in results(plan.program, x, y))


@pytest.mark.slow
def test_what_is_written_over() -> None:
    torch.manual_seed(0)
    net, x = UNet().eval(), torch.randn(1, 3, 64, 64)
    plan = memplan.fit(net, "40%", allow=("split",), args=(x,))
    with torch.no_grad():
        close(plan.program(x), net(x))


class Deep(nn.Module):
    """Layers whose results backward needs, and may make again; running statistics move once."""

    def __init__(self) -> None:
        super().__init__()
        blocks = (nn.Sequential(nn.Linear(32, 256), nn.BatchNorm1d(256), nn.GELU(), nn.Linear(256, 32)) for _ in "ab")
        self.blocks = nn.Sequential(*blocks)

    def forward(self, x: Tensor) -> Tensor:
        return self.blocks(x).square().mean()  # type: ignore[no-any-return]


@pytest.mark.few(1)
@pytest.mark.parametrize("allow", [("recompute",), ("split", "recompute")])
def test_ops_that_run_again(allow: tuple[str, ...]) -> None:
    torch.manual_seed(0)
    net, eager, x = Deep(), Deep(), torch.randn(64, 32)
    eager.load_state_dict(net.state_dict())
    plan = memplan.fit(net, "60%", allow=allow, args=(x,), train=True, kernels=False)
    assert "recompute" in {change.kind for change in plan.changes}
    loss, gradients = plan.program(x)
    expected = eager(x)
    expected.backward()
    close(loss, expected.detach())
    close(gradients, {name: parameter.grad for name, parameter in eager.named_parameters()})
    close(dict(net.named_buffers()), dict(eager.named_buffers()))


def test_inputs_may_lie_anywhere() -> None:
    """Pieces are rows of what is given, wherever it lies, and in whatever order its axes lie."""

    class Patches(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            rows = x.unflatten(2, (8, 8)).unflatten(4, (8, 8)).permute(0, 2, 4, 1, 3, 5)
            return F.gelu(rows * 2).sum((-1, -2))

    net, x = Patches(), torch.randn(2, 3, 64, 64)
    plan = memplan.fit(net, "least", allow=("split",), args=(x,))
    assert plan.changes[0].pieces > 1
    program = plan.program
    other = torch.randn(3, 3, 64, 64)[1:]
    for given in (x, other, other.contiguous(memory_format=torch.channels_last)):
        close(program(given), net(given))


def test_inputs_have_the_planned_shapes() -> None:
    net, x = pictures(), torch.randn(2, 3, 64, 64)
    program = memplan.fit(net, "40%", allow=("split",), args=(x,)).program
    with pytest.raises(AssertionError, match=r"input must have the shape \[2, 3, 64, 64\]"):
        program(torch.randn(2, 3, 72, 64))


@pytest.mark.slow
def test_moves_are_not_written() -> None:
    net, x = Deep(), torch.randn(64, 32)
    plan = memplan.fit(net, "70%", allow=("offload",), args=(x,), train=True, kernels=False)
    with pytest.raises(memplan.errors.UnsupportedError, match="tensors of the plan are moved"):
        _ = plan.program


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", [*range(3), 151, 205, 256])  # the last ones: torch guesses other strides than kernels'
def test_random_networks_in_random_pieces(seed: int) -> None:
    chance = random.Random(seed)
    train = chance.random() < 0.5  # as in benchmarks/pieces_check.py
    net = RandomNet(seed).double().train(train)
    source = Summed(net) if train else net
    x = torch.randn(net.shape, dtype=torch.float64)
    whole = memplan.plan(source, "first_fit", args=(x,), train=train, alignment=16)
    plan = in_random_pieces(whole, chance)
    assert plan is not None
    run = whole.run(x)
    for program in (plan.program, whole.program):
        with torch.set_grad_enabled(train):
            found = program(x)
        torch.testing.assert_close(found, (run.loss, run.gradients) if train else run.outputs, rtol=1e-9, atol=1e-9)


def test_slices() -> None:
    def view(offset: int, sizes: tuple[int, ...], strides: tuple[int, ...]) -> View:
        end = 1 + sum((n - 1) * step for n, step in zip(sizes, strides, strict=True))
        return View(0, offset, sizes, strides, torch.float32, False, False, 4 * offset, 4 * (offset + end))

    whole = view(0, (2, 8, 5), (40, 5, 1))
    assert slices_of(whole, view(10, (2, 3, 5), (40, 5, 1))) == ((2, 8, 5), ((0, 2), (2, 5), (0, 5)))
    assert slices_of(whole, view(30, (1, 6, 5), (30, 5, 1))) == ((1, 16, 5), ((0, 1), (6, 12), (0, 5)))  # of both
    assert slices_of(whole, view(0, (2, 5, 8), (40, 1, 5))) is None
    assert slices_of(whole, view(45, (2, 4, 5), (40, 5, 1))) is None  # beyond the end
    assert slices_of(whole, replace(view(0, (2, 8, 5), (40, 5, 1)), dtype=torch.int32)) is None
