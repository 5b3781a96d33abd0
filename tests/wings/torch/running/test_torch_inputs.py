"""What inputs and weights of a run share, and how they lie: as it was planned, or an error that names them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import memplan

PLACES = [("intermediate",), ("intermediate", "input", "weight", "output")]
both_places = pytest.mark.parametrize("place", PLACES)


class Fn(nn.Module):
    """A function as a network."""

    def __init__(self, function: Callable[..., Any], **buffers: Tensor) -> None:
        super().__init__()
        self.function = function
        for name, tensor in buffers.items():
            self.register_buffer(name, tensor)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self, *args, **kwargs)


def plan_of(function: Callable[..., Any], *args: Any, buffers: dict[str, Tensor] | None = None, **options: Any) -> Any:
    return memplan.plan(Fn(function, **(buffers or {})), "first_fit", args=args, alignment=64, **options)


def writes(_: Any, a: Tensor, b: Tensor) -> Tensor:
    a.add_(1)
    return a + b


def refused(plan: memplan.Plan, message: str, *args: Any, **options: Any) -> None:
    with pytest.raises(memplan.errors.SourceError, match=message):
        plan.run(*args, **options)


@both_places
def test_one_tensor_twice_is_planned_and_run_as_one(place: tuple[str, ...]) -> None:
    z = torch.ones(3)
    plan = plan_of(writes, z, z, place=place)
    refused(plan, "share bytes in the plan", torch.ones(3), torch.ones(3))
    again = torch.ones(3)
    assert plan.run(again, again, check=True).outputs.tolist() == [4.0] * 3
    assert again.tolist() == [2.0] * 3
    two = plan_of(writes, torch.ones(3), torch.ones(3), place=place)
    refused(two, "share no bytes in the plan", again, again)
    assert two.run(torch.ones(3), torch.ones(3), check=True).outputs.tolist() == [3.0] * 3


@both_places
def test_views_of_one_buffer_overlap_as_planned(place: tuple[str, ...]) -> None:
    base = torch.arange(10.0)
    plan = plan_of(writes, base[0:6], base[2:8], place=place)
    other = torch.arange(10.0)
    expected = writes(None, *(lambda t: (t[0:6], t[2:8]))(other.clone()))
    assert torch.equal(plan.run(other[0:6], other[2:8], check=True).outputs, expected)
    refused(plan, "share bytes in the plan", base[0:6], base[3:9])
    refused(plan, "share bytes in the plan", base[0:6].clone(), base[2:8].clone())
    apart = plan_of(writes, base[0:4], base[4:8], place=place)
    x, y = torch.rand(4), torch.rand(4)
    assert torch.equal(apart.run(x.clone(), y, check=True).outputs, x + 1 + y)
    refused(apart, "share no bytes in the plan", base[0:4], base[3:7])


def test_keywords_and_nests_are_held_against_each_other() -> None:
    def nested(_: Any, pair: Any, *, third: Tensor) -> Tensor:
        pair["a"][0].mul_(2)
        return pair["b"] + third  # type: ignore[no-any-return]

    x = torch.ones(4)
    plan = memplan.plan(Fn(nested), args=({"a": [torch.ones(4)], "b": torch.ones(4)},), kwargs={"third": x})
    assert plan.run({"a": [torch.ones(4)], "b": torch.ones(4)}, kwargs={"third": x}).outputs.tolist() == [2.0] * 4
    with pytest.raises(
        memplan.errors.SourceError, match=r"'args\.0\.a\.0' and input 'third' share no bytes in the plan"
    ):
        plan.run({"a": [x], "b": torch.ones(4)}, kwargs={"third": x})


def test_a_weight_as_an_input() -> None:
    def reads(net: Any, x: Tensor) -> Tensor:
        x.mul_(2)
        return x + net.table

    table = torch.ones(4)
    plan = plan_of(reads, torch.ones(4), buffers={"table": table})
    refused(plan, "input 'args.0' and weight 'table' share no bytes in the plan", table)
    tied = plan_of(reads, table, buffers={"table": table})
    refused(tied, "'table' and input 'args.0' share bytes in the plan", torch.ones(4))
    assert tied.run(table).outputs.tolist() == [4.0] * 4
    assert table.tolist() == [2.0] * 4


def test_weights_tied_or_untied_since() -> None:
    def tied() -> Any:
        net = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Tanh(), nn.Linear(4, 4, bias=False))
        net[2].weight = net[0].weight
        return net

    x = torch.randn(3, 4)
    net = tied()
    plan = memplan.plan(net, args=(x,), train=True, optimizer=torch.optim.SGD)
    plan.run(x)
    net[2].weight = nn.Parameter(net[0].weight.detach().clone())
    refused(plan, "share bytes in the plan|options|parameters", x)
    apart = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Tanh(), nn.Linear(4, 4, bias=False))
    plan = memplan.plan(apart, args=(x,), train=True)
    plan.run(x)
    apart[2].weight = apart[0].weight
    refused(plan, "weight '0.weight' and weight '2.weight' share no bytes in the plan", x)


READERS: dict[str, Callable[..., Any]] = {
    "as_strided": lambda _, x: x.as_strided((3, 4), (4, 1)) * 2,
    "dropout": lambda _, x: torch.nn.functional.dropout(x, 0.5),
    "rand_like": lambda _, x: torch.rand_like(x) + x,
    "view": lambda _, x: x.view(-1) * 2,
}


@pytest.mark.parametrize("name", READERS)
@both_places
def test_other_strides_are_refused(name: str, place: tuple[str, ...]) -> None:
    plan = plan_of(READERS[name], torch.randn(3, 4), place=place)
    refused(plan, r"input 'args\.0': .*strides \(4, 1\).*strides \(1, 3\).*x\.contiguous\(\)", torch.randn(4, 3).t())
    lying = torch.randn(4, 3).t()
    if name == "view":
        return
    plan = plan_of(READERS[name], lying, place=place)
    x = torch.randn(4, 3).t()
    torch.manual_seed(3)
    expected = READERS[name](None, x)
    torch.manual_seed(3)
    assert torch.equal(plan.run(x, check=True).outputs, expected)


def test_layouts_of_images_are_told_apart() -> None:
    net, x = nn.Conv2d(3, 4, 3), torch.randn(2, 3, 8, 8)
    last = x.to(memory_format=torch.channels_last)
    plan = memplan.plan(net, args=(x,))
    refused(plan, "strides", last)
    assert torch.equal(memplan.plan(net, args=(last,)).run(last).outputs, net(last))
    one = torch.randn(8, 1)
    assert torch.equal(plan_of(lambda _, x: x * 2, one).run(one.t().contiguous().t()).outputs, one * 2)


@both_places
def test_what_lies_around_an_input(place: tuple[str, ...]) -> None:
    """as_strided reads all of a storage, and from where it is told to."""
    base = torch.arange(8.0)
    for reads in (lambda _, x: x.as_strided((8,), (1,), 0) + 0, lambda _, x: x.as_strided((5,), (1,)) + 0):
        plan = plan_of(reads, base[2:6], place=place)
        other = torch.rand(8)
        assert torch.equal(plan.run(other[2:6], check=True).outputs, reads(None, other[2:6]))
        with pytest.raises(memplan.errors.SourceError, match=r"input 'args\.0'"):
            plan.run(torch.rand(4))
    absolute = plan_of(lambda _, x: x.as_strided((2,), (1,), 0) + 0, base[0:4], place=place)
    refused(absolute, "input 'args.0' begins at element 3 of its storage", torch.rand(8)[3:7])


def test_bits_of_conjugation_and_sign() -> None:
    x = torch.randn(4, dtype=torch.complex64)
    plan = plan_of(lambda _, x: x * 2, x)
    refused(plan, "conj", x.conj())
    assert torch.equal(plan_of(lambda _, x: x * 2, x.conj()).run(x.conj()).outputs, x.conj() * 2)
    negated = x.conj().imag
    assert negated.is_neg()
    plan = plan_of(lambda _, x: x * 2, negated)
    assert torch.equal(plan.run(negated, check=True).outputs, negated * 2)


def test_what_requires_a_gradient() -> None:
    net, x = nn.Linear(4, 4), torch.randn(3, 4)
    plan = memplan.plan(net, args=(x,), train=True, optimizer=torch.optim.SGD)
    refused(plan, "input 'input' requires a gradient, and did not when it was planned", x.clone().requires_grad_())
    plan.run(x)
    net.weight.requires_grad_(False)
    refused(plan, "weight 'weight' requires no gradient, and did when it was planned", x)
    net.weight.requires_grad_(True)
    plan.run(x)


def test_subclasses_and_sparse_tensors_are_refused() -> None:
    plan = plan_of(lambda _, x: x * 2, torch.ones(3, 3))
    refused(plan, "expected a dense", torch.ones(3, 3).to_sparse())


@both_places
def test_what_a_run_has_returned_may_be_given_to_the_next(place: tuple[str, ...]) -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh())
    plan = memplan.plan(net, args=(torch.randn(3, 4),), place=place, alignment=64)
    x = torch.randn(3, 4)
    expected = net(net(x))
    assert torch.equal(plan.run(plan.run(x, views=True).outputs, check=True).outputs, expected)


def test_modes_changed_since_are_seen_at_each_run() -> None:
    net, x = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)), torch.randn(3, 4)
    plan = memplan.plan(net, args=(x,))
    plan.run(x)
    net.eval()
    refused(plan, "network is not the one that was planned", x)
    net.train()
    plan.run(x)
    with torch.autocast("cpu", torch.bfloat16):
        refused(plan, "network is not the one that was planned", x)
    plain = memplan.plan(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), args=(x,))
    before = plain.run(x).outputs
    plain.source.value.eval()
    assert torch.equal(plain.run(x).outputs, before)


def test_the_networks_own_weights_in_another_layout() -> None:
    net, x = nn.Conv2d(3, 4, 3), torch.randn(2, 3, 8, 8)
    plan = memplan.plan(net, args=(x,))
    plan.run(x)
    net.to(memory_format=torch.channels_last)
    refused(plan, "weight 'weight'.*strides", x)


@pytest.mark.parametrize("exported", [False, True])
def test_a_written_input_comes_back_though_its_place_is_taken(exported: bool) -> None:
    """In the arena, its bytes are those of others after the last op that reads it."""

    def late(_: Any, x: Tensor) -> Tensor:
        x.mul_(2)
        y = x + 1
        return (y * 3 + y.exp()).tanh() + 1

    net: Any = Fn(late)
    x = torch.rand(4)
    source = torch.export.export(net, (x.clone(),)) if exported else net
    plan = memplan.plan(source, "first_fit", args=(x.clone(),), place=PLACES[1], alignment=64)
    given, expected = x.clone(), x.clone()
    assert torch.equal(plan.run(given, check=True).outputs, late(None, expected))
    assert torch.equal(given, expected)


def test_an_input_with_gaps_keeps_what_lies_in_them() -> None:
    reads = lambda _, x: x.as_strided((4,), (1,)) + 0  # noqa: E731
    plan = plan_of(reads, torch.arange(12.0)[::3], place=PLACES[1])
    x = torch.rand(12)[::3]
    assert torch.equal(plan.run(x, check=True).outputs, reads(None, x))
