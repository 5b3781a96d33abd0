"""Sizes that depend on data: planned for what `torch._check` allows, or for what the caller says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import export

import memplan
from builders.torch_nets import Net
from memplan.errors import SourceError, UnsupportedError

X, FIVE = torch.arange(512.0).view(64, 8) / 100 - 2, torch.tensor(5)
MASK = torch.arange(64) < 20


def first(net: Net, x: Tensor, count: Tensor) -> Tensor:
    n = count.item()
    torch._check(n >= 0)
    torch._check(n <= 64)
    return (x[:n] * 2).sum(0)


def picked(net: Net, x: Tensor, mask: Tensor) -> Tensor:
    rows = x[mask]
    torch._check(rows.shape[0] <= 20)
    return (rows @ rows.T).exp().sum()


def zeros(net: Net, x: Tensor, count: Tensor) -> Tensor:
    n = count.item()
    torch._check(n >= 0)
    torch._check(n <= 64)
    return torch.zeros(n * 2, 3) + x[0, 0]


def where(net: Net, x: Tensor, mask: Tensor) -> Tensor:
    (rows,) = torch.where(mask)
    torch._check(rows.shape[0] <= 20)
    return x[rows].sin().sum(0)


def halves(net: Net, x: Tensor, lengths: Tensor) -> Tensor:
    a, b = lengths.tolist()
    torch._check(a >= 0)
    torch._check(b >= 0)
    torch._check(a + b == 64)
    left, right = x.split([a, b])
    return left.sum(0) + right.prod(0)


def branching(net: Net, x: Tensor, count: Tensor) -> Tensor:
    n = count.item()
    torch._check(n >= 0)
    torch._check(n <= 64)
    return x[:n].exp().mean(0) if n > 8 else x[:n].sum(0)


DOORS: dict[str, Callable[..., Any]] = {"module": lambda net, args: net, "program": export}


def planned(door: str, compute: Callable[..., Any], *args: Tensor, **options: Any) -> memplan.Plan:
    given = {"args": args} if door == "module" else {}
    return memplan.plan(DOORS[door](Net(compute), args), alignment=64, **given, **options)


@pytest.mark.few(3)
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("compute", "second", "most"), [(first, FIVE, 64), (zeros, FIVE, 64), (picked, MASK, 20), (where, MASK, 20)]
)
def test_the_most_that_code_allows_is_planned_for(
    door: str, compute: Callable[..., Any], second: Tensor, most: int
) -> None:
    plan = planned(door, compute, X, second)
    assert plan.peak == planned(door, compute, X, second, dims={"u0": most}).peak
    assert plan.peak > planned(door, compute, X, second, dims={"u0": 3}).peak
    [note] = plan.notes
    assert f"u0 = {most}" in note
    assert "the most that it may be" in note
    fits = torch.tensor(64) if second is FIVE else MASK
    assert torch.equal(plan.run(X, fits, check=True).outputs, Net(compute)(X, fits))
    other = torch.tensor(6) if second is FIVE else MASK.roll(1) & MASK
    with pytest.raises(UnsupportedError, match=r"the plan is for .*\(u0\), and this run makes .*dims=\{'u0': N\}"):
        plan.run(X, other)


@pytest.mark.parametrize("door", DOORS)
def test_a_size_may_be_given(door: str) -> None:
    plan = planned(door, first, X, FIVE, dims={"u0": 5})
    assert torch.equal(plan.run(X, FIVE, check=True).outputs, Net(first)(X, FIVE))
    ranged = planned(door, first, X, FIVE, dims={"u0": (1, 64)}).ranged
    assert "one plan for u0 1 to 64" in str(ranged)
    halved = planned(door, halves, X, torch.tensor([20, 44]), dims={"u0": 20, "u1": 44})
    lengths = torch.tensor([20, 44])
    assert torch.equal(halved.run(X, lengths, check=True).outputs, Net(halves)(X, lengths))


@pytest.mark.parametrize("door", DOORS)
def test_wrong_sizes_are_refused(door: str) -> None:
    with pytest.raises(SourceError, match=r"dims\['u7'\]: no such .*'u0'"):
        planned(door, first, X, FIVE, dims={"u7": 5})
    with pytest.raises(SourceError, match=r"dims\['u0'\] must be an int >= 0, got -1"):
        planned(door, first, X, FIVE, dims={"u0": -1})
    with pytest.raises(SourceError, match=r"holds for 0 to 64, got 65" if door == "program" else r"dims=\{'u0': 65\}"):
        planned(door, first, X, FIVE, dims={"u0": 65})


@pytest.mark.parametrize("door", DOORS)
def test_sizes_that_contradict_each_other_are_asked_for(door: str) -> None:
    """Each may be 64, but not both."""
    with pytest.raises(SourceError, match=r"dims=\{"):
        planned(door, halves, X, torch.tensor([20, 44]))


@pytest.mark.parametrize("door", DOORS)
def test_as_many_as_there_are_elements_is_not_what_code_says(door: str) -> None:
    def all_of(net: Net, x: Tensor, mask: Tensor) -> Tensor:
        return net.fc(x[:, :4])[mask].square().mean()

    with pytest.raises(SourceError, match=r"op 'index'|node 'index'") as caught:
        planned(door, all_of, X, MASK)
    for part in ("depends on data", "dims={'u0': N}", "torch._check(... <= N)", "at most 64"):
        assert part in str(caught.value)
    for train in (False, True):
        plan = planned(door, all_of, X, MASK, dims={"u0": 20}, train=train)
        run = plan.run(X, MASK, check=True)
    assert run.loss is not None


def test_code_that_branches_on_a_size_needs_the_size() -> None:
    with pytest.raises(SourceError, match=r"reads the value of a tensor.*dims=\{'u0': N\} plans for these sizes"):
        planned("module", branching, X, FIVE)
    for count in (5, 9):
        given = torch.tensor(count)
        plan = planned("module", branching, X, given, dims={"u0": count})
        assert torch.equal(plan.run(X, given, check=True).outputs, Net(branching)(X, given))


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", ["narrow", "select"])
def test_where_a_view_lies_may_depend_on_data(door: str, name: str) -> None:
    """Memory is the same for all places, and a run is for one."""

    def placed(net: Net, x: Tensor, at: Tensor) -> Tensor:
        n = at.item()
        torch._check(n >= 0)
        torch._check(n < 60)
        return x.narrow(0, n, 4) * 2 if name == "narrow" else x[n] * 2

    plan = planned(door, placed, X, FIVE, dims={"u0": 5})
    assert torch.equal(plan.run(X, FIVE, check=True).outputs, Net(placed)(X, FIVE))
    with pytest.raises(UnsupportedError, match=r"plan is for 5 \(u0\), and this run makes 7"):
        plan.run(X, torch.tensor(7))
    if door == "program" or name == "narrow":
        anywhere = planned(door, placed, X, FIVE)
        assert anywhere.peak == plan.peak
        with pytest.raises(UnsupportedError, match=r"\(u0\), and this run makes 7"):
            anywhere.run(X, torch.tensor(7))


def test_training() -> None:
    class Trained(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 3)

        def forward(self, x: Tensor, count: Tensor) -> Tensor:
            n = count.item()
            torch._check(n >= 0)
            torch._check(n <= 64)
            return self.layer(x[:n]).relu().sum()

    net = Trained()
    plan = memplan.plan(net, args=(X, FIVE), train=True, dims={"u0": 5}, alignment=64)
    run = plan.run(X, FIVE, check=True)
    net(X, FIVE).backward()
    assert torch.equal(run.gradients["layer.weight"], net.layer.weight.grad)
    assert memplan.plan(net, args=(X, FIVE), train=True, alignment=64).peak > plan.peak


def test_modules_without_such_sizes_take_no_dims() -> None:
    with pytest.raises(SourceError, match=r"dims\['u0'\]: no such size; a module has no symbolic sizes but those"):
        memplan.plan(Net(lambda net, x: x + 1), args=(X,), dims={"u0": 5})


def test_branches_on_data_are_refused_as_before() -> None:
    for compute in (lambda net, x: x if x.sum() > 0 else -x, lambda net, x: x * x.sum().item()):
        with pytest.raises(SourceError, match="values are not known when planning") as caught:
            memplan.plan(Net(compute), args=(X,))
        assert "dims" not in str(caught.value)
