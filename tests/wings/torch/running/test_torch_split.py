"""Plans with ops in pieces, run: results are those of the network, and nothing is whole that was planned in pieces."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import memplan
from builders.random_nets import RandomNet
from builders.split_networks import Summed, UNet, pictures, words
from builders.splitting import in_blocks, in_random_pieces
from memplan.torch.running import kernels


class Scores(nn.Module):
    """What is computed again is seen through a view too."""

    def forward(self, x: Tensor) -> Tensor:
        y = F.gelu(x)
        return (y @ y.transpose(0, 1)).softmax(-1) @ y


def same_gradients(plan: memplan.Plan, net: nn.Module, *args: Tensor) -> None:
    run = plan.run(*args, check=True)
    loss = net(*args)
    loss.backward()
    torch.testing.assert_close(run.loss, loss.detach())
    for name, parameter in net.named_parameters():
        torch.testing.assert_close(run.gradients[name], parameter.grad)


def test_pictures_in_pieces() -> None:
    net, x = pictures(), torch.randn(2, 3, 64, 64)
    plan = memplan.fit(net, "40%", allow=("split",), args=(x,))
    assert plan.changes[0].kind == "split"
    run = plan.run(x, check=True)
    with torch.no_grad():
        torch.testing.assert_close(run.outputs, net(x), rtol=1e-5, atol=1e-5)
    assert plan.fitting is not None
    assert run.arena_bytes == plan.peak <= plan.fitting.capacity


def test_later_runs_make_nothing_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    net, x = pictures(), torch.randn(2, 3, 64, 64)
    plan = memplan.fit(net, "40%", allow=("split",), args=(x,))
    first = plan.run(x).outputs
    for name in ("with_tensors", "with_numbers"):
        monkeypatch.setattr(kernels, name, None)
    torch.testing.assert_close(plan.run(x).outputs, first, rtol=0, atol=0)


def test_what_is_written_over_runs_in_pieces() -> None:
    torch.manual_seed(0)
    net, x = UNet().eval(), torch.randn(1, 3, 64, 64)
    plan = memplan.fit(net, "40%", allow=("split",), args=(x,))
    assert "first.2.relu_" in plan.changes[0].tensors
    run = plan.run(x, check=True)
    with torch.no_grad():
        torch.testing.assert_close(run.outputs, net(x), rtol=1e-5, atol=1e-5)


def test_a_loss_in_pieces_gives_the_gradients() -> None:
    net, x, y = words()
    plan = memplan.fit(net, "60%", allow=("split",), args=(x, y), train=True)
    assert {"head.mm", "_log_softmax"} <= set(plan.changes[0].tensors)
    same_gradients(plan, net, x, y)


def test_tokens_of_several_samples_are_in_pieces() -> None:
    """Rows of the logits are the two samples first; tokens of both are finer."""
    net, x, y = words()
    plan = memplan.fit(net, "least", allow=("split",), args=(x, y), train=True)
    same_gradients(plan, net, x, y)
    assert plan.peak < 3000 * x.numel() * 4  # the logits


@pytest.mark.slow
def test_pieces_and_ops_that_run_again(tmp_path: Path) -> None:
    net, x, y = words()
    blocks = (nn.Sequential(nn.Linear(32, 512), nn.BatchNorm1d(512), nn.Linear(512, 32)) for _ in range(2))
    net.hidden = nn.Sequential(nn.Flatten(0, 1), *blocks)  # type: ignore[assignment]
    plan = memplan.fit(net, "25%", allow=("split", "recompute"), args=(x, y), train=True, kernels=False)
    assert {change.kind for change in plan.changes} == {"split", "recompute"}
    run = plan.run(x, y, check=True)
    same_from_file(plan, tmp_path / "plan.json", net, x, y)
    net(x, y).backward()
    for name, parameter in net.named_parameters():
        torch.testing.assert_close(run.gradients[name], parameter.grad)


def test_rows_of_what_is_expanded() -> None:
    class Joined(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.add = nn.Parameter(torch.randn(1, 1, 32)), nn.Parameter(torch.randn(32))

        def forward(self, x: Tensor) -> Tensor:
            x = torch.cat([self.first.expand(x.shape[0], 1, 32), x], 1) + self.add.expand(x.shape[0], 65, 32)
            return F.gelu(x * 2).sum(1)

    net, x = Joined(), torch.randn(16, 64, 32)
    plan = memplan.fit(net, "least", allow=("split",), args=(x,))
    assert plan.changes[0].pieces > 1
    torch.testing.assert_close(plan.run(x, check=True).outputs, net(x).detach())


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(12))
def test_random_networks_in_random_pieces(seed: int) -> None:
    chance = random.Random(seed)
    net = RandomNet(seed).double().eval()
    x = torch.randn(net.shape, dtype=torch.float64)
    whole = memplan.plan(net, "first_fit", args=(x,), alignment=16)
    plan = in_random_pieces(whole, chance, whole=0.1)
    assert plan is not None
    for a, b in zip(plan.run(x, check=True).outputs, whole.run(x).outputs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_rows_are_gathered_from_blocks(seed: int) -> None:
    chance, relu = random.Random(seed), nn.ReLU()
    layers = [nn.Conv2d(3, 6, 3, padding=1), nn.GroupNorm(2, 6), relu, nn.Conv2d(6, 6, 3, 2, 1), relu]
    layers += [nn.ConvTranspose2d(6, 4, 2, 2), nn.MaxPool2d(3, 1, 1), nn.Conv2d(4, 3, 5, padding=2)]
    net = nn.Sequential(*layers).double().eval()
    x = torch.randn(2, 3, 19, 12, dtype=torch.float64)
    if seed % 2:
        x, net = x.contiguous(memory_format=torch.channels_last), net.to(memory_format=torch.channels_last)
    plan = in_blocks(memplan.plan(net, "first_fit", args=(x,), alignment=16), 2, chance)
    assert plan is not None
    assert any(piece.does == "gather" for piece in plan.fitting.pieces.does)
    with torch.no_grad():
        torch.testing.assert_close(plan.run(x, check=True).outputs, net(x), rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(plan.program(x), net(x), rtol=1e-9, atol=1e-9)


def test_kernels_see_how_the_axes_of_one_sample_lie() -> None:
    """The backward of batch norm guesses it by the stride from sample to sample, and is wrong if it is small.

    So it is in eager torch, and in a run of the whole ops. Programs lay such a gradient in rows.
    """
    seed = 5377  # a norm of samples, whose gradient comes in the other order, channels in pieces
    chance = random.Random(seed)
    assert chance.random() < 0.5  # as in benchmarks/pieces_check.py: it is trained
    net = RandomNet(seed).double().train()
    x = torch.randn(net.shape, dtype=torch.float64)
    loss = Summed(net)
    whole = memplan.plan(loss, "first_fit", args=(x,), train=True, alignment=16)
    plan = in_random_pieces(whole, chance)
    assert plan is not None
    expected, found = whole.program(x)[1], plan.run(x, check=True).gradients
    for name in expected:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-9, atol=1e-9)
    loss(x).backward()
    in_eager = whole.run(x).gradients
    assert all(torch.equal(one.grad, in_eager[name]) for name, one in loss.named_parameters())


def test_a_plan_from_a_file_leaves_blocks_again(tmp_path: Path) -> None:
    act, norms = nn.SiLU(), [nn.GroupNorm(2, 16) for _ in range(3)]
    convs = [nn.Conv2d(a, b, 3, padding=1) for a, b in ((3, 16), (16, 16), (16, 16), (16, 16), (16, 3))]
    layers = [convs[0], norms[0], act, convs[1], nn.Upsample(scale_factor=2)]
    layers += [convs[2], norms[1], act, convs[3], norms[2], act, convs[4]]
    net, x = nn.Sequential(*layers).eval(), torch.randn(1, 3, 48, 48)
    how: Any = {"args": (x,), "allow": ("split", "recompute"), "inplace": False, "kernels": False}
    plan = memplan.fit(net, int(1.3 * 16 * 96 * 96 * 4), **how)
    assert any(change.blocks for change in plan.changes)
    plan.to_json(tmp_path / "plan.json")
    again = memplan.read_plan(tmp_path / "plan.json").run(x, source=net, check=True).outputs
    assert torch.equal(again, plan.run(x).outputs)
    torch.testing.assert_close(again, net(x).detach())


@pytest.mark.parametrize("kernels", [False, True])
def test_a_plan_from_a_file_is_split_again(tmp_path: Path, kernels: bool) -> None:
    net, x = pictures(), torch.randn(2, 3, 64, 64)
    plan = memplan.fit(net, "40%", allow=("split",), args=(x,), kernels=kernels)
    plan.to_json(tmp_path / "plan.json")
    again: Any = memplan.read_plan(tmp_path / "plan.json")
    assert again.fitting == plan.fitting
    assert again.changes[0].loops[0]["extent"] == 64
    assert torch.equal(again.run(x, source=net, check=True).outputs, plan.run(x).outputs)
    other = pictures()
    other[7] = nn.Conv2d(16, 3, 3, padding=1)
    with pytest.raises(memplan.errors.SourceError, match=r"'7\.convolution' in pieces, along a loop that it has not"):
        memplan.read_plan(tmp_path / "plan.json").run(x, source=other)


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["recompute", "offload"])
def test_a_plan_from_a_file_runs_ops_again_and_moves_tensors(tmp_path: Path, kind: str) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(*(nn.Sequential(nn.Linear(32, 128), nn.GELU(), nn.Linear(128, 32)) for _ in range(4)), Scores())
    x = torch.randn(64, 32)
    plan: Any = memplan.plan(net, args=(x,), train=True).explain().apply(kind)
    assert {change.kind for change in plan.changes} == {kind}
    same_from_file(plan, tmp_path / "plan.json", net, x)


def same_from_file(plan: memplan.Plan, path: Path, net: nn.Module, *args: Tensor) -> None:
    plan.to_json(path)
    run: Any = memplan.read_plan(path).run(*args, source=net, train=True, check=True)
    expected = plan.run(*args)
    assert torch.equal(run.loss, expected.loss)
    assert all(torch.equal(run.gradients[name], gradient) for name, gradient in expected.gradients.items())


def test_advice_that_was_taken_runs() -> None:
    net, x = pictures(), torch.randn(2, 3, 64, 64)
    plan: Any = memplan.plan(net, args=(x,)).explain().apply("split")
    assert [change.kind for change in plan.changes] == ["split"]
    torch.testing.assert_close(plan.run(x, check=True).outputs, net(x), rtol=1e-5, atol=1e-5)


class Decoder(nn.Module):
    """Pictures of 64 rows from 16, with a norm over groups of channels before each convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Upsample(scale_factor=4), nn.Conv2d(4, 32, 3, padding=1)),
            *(nn.GroupNorm(4, 32), nn.SiLU(), nn.Conv2d(32, 32, 3, padding=1)),
            *(nn.GroupNorm(4, 32), nn.SiLU(), nn.Conv2d(32, 3, 3, padding=1)),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)  # type: ignore[no-any-return]


def test_maps_that_norms_go_over_are_never_whole() -> None:
    net, x = Decoder().eval(), torch.randn(1, 4, 16, 16)
    with torch.no_grad():
        expected = net(x)
    whole = memplan.plan(net, args=(x,)).peak
    plan = memplan.fit(net, int(0.4 * whole), args=(x,), allow=("split", "recompute"))
    assert any(change.reruns for change in plan.changes)
    torch.testing.assert_close(plan.run(x, check=True).outputs, expected, rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(plan.program(x), expected, rtol=1e-5, atol=1e-5)
