"""The CTC loss, of which torch does not say how large its results are."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import memplan
from memplan.errors import UnsupportedError
from memplan.torch.reading import import_torch

STEPS, BATCH, LABELS = 12, 3, 7
TARGETS = torch.tensor([[1, 2, 3, 4], [2, 2, 1, 0], [5, 6, 0, 0]])
BY_NUMBERS = ([STEPS] * BATCH, (4, 3, 2))
BY_TENSORS = (torch.full((BATCH,), STEPS), torch.tensor([4, 3, 2]))
ROW = torch.cat([row[:length] for row, length in zip(TARGETS, BY_NUMBERS[1], strict=True)])


class Speech(nn.Module):
    """A layer, and the loss of what it says."""

    def __init__(self, *lengths: Any, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__()
        self.layer = nn.Linear(4, LABELS)
        self.lengths = lengths
        self.loss = nn.CTCLoss(reduction=reduction, zero_infinity=zero_infinity)

    def forward(self, x: Tensor, targets: Tensor, *lengths: Tensor) -> Tensor:
        said = self.layer(x).log_softmax(-1)
        return self.loss(said, targets, *(lengths or self.lengths))  # type: ignore[no-any-return]


def sound() -> Tensor:
    return torch.randn(STEPS, BATCH, 4, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("targets", [TARGETS, ROW])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("zero_infinity", [False, True])
def test_lengths_may_be_numbers(targets: Tensor, reduction: str, zero_infinity: bool) -> None:
    net = Speech(*BY_NUMBERS, reduction=reduction, zero_infinity=zero_infinity)
    loss = net(sound(), targets).sum()
    loss.backward()
    run = memplan.plan(net, args=(sound(), targets), train=True, alignment=64).run(sound(), targets, check=True)
    assert torch.equal(run.loss, loss)
    assert torch.equal(run.gradients["layer.weight"], net.layer.weight.grad)
    memplan.estimate(net, args=(sound(), targets), train=True)


@pytest.mark.parametrize("lengths", [BY_NUMBERS, BY_TENSORS])
def test_one_target_needs_no_batch(lengths: Any) -> None:
    net = Speech(*(length[:1] for length in lengths))
    given = sound()[:, 0], TARGETS[0]
    assert torch.equal(memplan.plan(net, args=given, alignment=64).run(*given, check=True).outputs, net(*given))


@pytest.mark.parametrize("inside", [False, True])
def test_lengths_may_be_tensors(inside: bool) -> None:
    """Then targets are as long as their rows."""
    net = Speech(*BY_TENSORS)
    given = (sound(), TARGETS) if inside else (sound(), TARGETS, *BY_TENSORS)
    plan = memplan.plan(net, args=given, train=True, alignment=64)
    loss = net(*given)
    loss.backward()
    run = plan.run(*given, check=True)
    assert torch.equal(run.loss, loss)
    assert torch.equal(run.gradients["layer.weight"], net.layer.weight.grad)
    if not inside:
        with pytest.raises(UnsupportedError, match=r"aten._ctc_loss.Tensor.*\[3, 12, 5\].*\[3, 12, 9\]"):
            plan.run(*given[:3], torch.tensor([2, 2, 2]))


@pytest.mark.parametrize("lengths", [BY_NUMBERS, BY_TENSORS])
def test_sizes_are_those_of_real_tensors(lengths: Any) -> None:
    graph = import_torch(Speech(*lengths), args=(sound(), TARGETS), train=True, kernels=True)
    real = torch._ctc_loss(sound().repeat(1, 1, 2)[..., :LABELS].log_softmax(-1), TARGETS, *lengths)
    size = {entry["name"]: entry["bytes"] for entry in graph["tensors"]}
    forward = next(op for op in graph["ops"] if op["type"].startswith("aten._ctc_loss."))
    assert [size[name] for name in forward["outputs"]] == [tensor.nbytes for tensor in real]
    backward = next(op for op in graph["ops"] if op["type"].startswith("aten._ctc_loss_backward."))
    assert backward["workspace"] == real[1].nbytes


def test_what_others_compute_meanwhile_is_as_it_was() -> None:
    from memplan.torch.reading.ctc import taken_apart

    said = sound().repeat(1, 1, 2)[..., :LABELS].log_softmax(-1).requires_grad_()
    before = nn.functional.ctc_loss(said, TARGETS, *BY_NUMBERS)
    with taken_apart(), taken_apart():
        assert torch.equal(nn.functional.ctc_loss(said, TARGETS, *BY_NUMBERS), before)
    assert torch.equal(nn.functional.ctc_loss(said, TARGETS, *BY_NUMBERS), before)
