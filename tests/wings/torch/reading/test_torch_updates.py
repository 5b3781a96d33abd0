"""The step of an optimizer in the graph of a training step: its ops, its states, and what cannot be traced."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn, optim

import memplan
from builders.torch_nets import names, op, tensor
from memplan.torch.reading import import_torch
from memplan.torch.reading.late_numbers import LateNumber, late_numbers, restored, value_of
from memplan.torch.reading.stepping import Creations

X = torch.ones(3, 4)


def two_layers() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def traced(optimizer: Any, module: nn.Module | None = None, **options: Any) -> dict[str, Any]:
    module = two_layers() if module is None else module
    graph = import_torch(module, args=(X,), train=True, optimizer=optimizer, **options)
    memplan.plan(graph, order="best")
    return graph


def updates_of(graph: dict[str, Any], name: str) -> list[str]:
    prefix = f"update.{name}."
    return [entry["name"].removeprefix(prefix) for entry in graph["ops"] if entry["name"].startswith(prefix)]


def test_a_gradient_dies_in_the_update_of_its_parameter() -> None:
    graph = traced(optim.SGD)
    assert graph["outputs"] == ["loss"]
    assert [entry["name"] for entry in graph["ops"][-4:]] == [
        f"update.{name}.add_" for name in ("0.weight", "0.bias", "2.weight", "2.bias")
    ]
    update = op(graph, "update.2.weight.add_")
    assert "grad.2.weight" in update["inputs"]
    assert update["alias"] == [{"output": "update.2.weight.add_", "input": "2.weight", "offset": 0}]
    assert "backward.2.mm" in update["after"]  # which reads the old weight
    assert tensor(graph, "2.weight")["kind"] == "weight"


def test_gradients_are_kept_where_asked_for() -> None:
    graph = traced(optim.SGD, keep_gradients=True)
    assert graph["outputs"] == ["loss", "grad.0.weight", "grad.0.bias", "grad.2.weight", "grad.2.bias"]


def test_states_are_weights_and_numbers_are_read_before_they_are_used() -> None:
    graph = traced(optim.AdamW)
    states = [f"{name}.{key}" for name in two_layers().state_dict() for key in ("step", "exp_avg", "exp_avg_sq")]
    assert set(names(graph, "weight")) == {*two_layers().state_dict(), *states}
    assert tensor(graph, "0.weight.exp_avg")["bytes"] == 128
    assert op(graph, "update.0.weight.item")["inputs"] == ["update.0.weight.add_"]
    assert op(graph, "update.0.weight.div")["after"] == ["update.0.weight.item"]
    assert "update.0.weight.item" in op(graph, "update.0.weight.addcdiv_")["after"]


def test_order_best_updates_as_gradients_come() -> None:
    module = nn.Sequential(*(nn.Linear(64, 64, bias=False) for _ in range(6)))
    options: dict[str, Any] = {"args": (torch.ones(1, 64),), "train": True, "optimizer": optim.SGD}
    given, best = memplan.plan(module, **options), memplan.plan(module, **options, order="best")
    assert best.peak < given.peak / 3
    steps = {name: step for step, name in enumerate(best.order)}
    made = sorted((steps[f"backward.{k}.mm"], steps[f"update.{k}.weight.add_"]) for k in range(6))
    assert all(update < gradient for (_, update), (gradient, _) in pairwise(made))


def test_frozen_and_unused_parameters_are_not_updated_and_tied_ones_once() -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4))
    module[1].requires_grad_(False)
    module[2].weight = module[0].weight
    module.register_parameter("unused", nn.Parameter(torch.ones(2)))
    graph = traced(partial(optim.SGD, momentum=0.9), module)
    assert updates_of(graph, "0.weight") == ["mul_", "add_", "add__1"]
    assert updates_of(graph, "2.bias") == ["mul_", "add_", "add__1"]
    others = ("update.1", "update.2.weight", "update.unused")
    assert not [entry["name"] for entry in graph["ops"] if entry["name"].startswith(others)]


def test_groups_have_options_of_their_own() -> None:
    module = two_layers()
    groups = [{"params": module[0].parameters(), "weight_decay": 0.1}, {"params": module[2].parameters()}]
    graph = traced(optim.SGD(groups, lr=0.1), module)
    assert updates_of(graph, "0.weight") == ["add", "add_"]
    assert updates_of(graph, "2.weight") == ["add_"]


def test_rates_may_be_tensors() -> None:
    graph = traced(partial(optim.AdamW, lr=torch.tensor(0.1)))
    assert tensor(graph, "optimizer.0.lr")["bytes"] == 4


def test_a_tensor_of_the_network_may_have_the_name_of_an_option() -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.optimizer = nn.ModuleDict({"0": nn.Module()})
            self.optimizer["0"].lr = nn.Parameter(torch.ones(3))

        def forward(self, x: Tensor) -> Tensor:
            return x.sum() * self.optimizer["0"].get_parameter("lr").sum()

    graph = traced(partial(optim.AdamW, lr=torch.tensor(0.1)), Named())
    assert tensor(graph, "optimizer.0.lr")["bytes"] == 12
    assert tensor(graph, "optimizer.0.lr_")["bytes"] == 4


def test_a_state_that_is_there_is_the_source() -> None:
    module = two_layers()
    optimizer = optim.SGD(module.parameters(), lr=0.1, momentum=0.9, dampening=0.5)
    message = "optimizer SGD: its state 'momentum_buffer' begins with what the first step computes; make one step"
    with pytest.raises(memplan.errors.SourceError, match=message):
        traced(optimizer, module)
    module(X).sum().backward()
    optimizer.step()
    before = [p.clone() for p in module.parameters()]
    graph = traced(optimizer, module)
    assert "0.weight.momentum_buffer" in names(graph, "weight")
    assert all(torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True))


class Own(optim.Optimizer):
    """An optimizer whose update is a function of a parameter and its state."""

    def __init__(self, parameters: Any, update: Callable[[Tensor, dict[str, Any]], None]) -> None:
        super().__init__(parameters, {"rate": 0.1, "often": 2})
        self.update = update

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                self.update(parameter, self.state[parameter])


def replaces(p: Tensor, state: dict[str, Any]) -> None:
    state.setdefault("mean", torch.zeros_like(p))
    state["mean"] = state["mean"] + p.grad


def counts(p: Tensor, state: dict[str, Any]) -> None:
    state["count"] = state.get("count", 0) + 1


def begins(p: Tensor, state: dict[str, Any]) -> None:
    first = "mean" not in state
    mean = state.setdefault("mean", torch.zeros_like(p))
    if first:
        mean.copy_(p)
    mean.mul_(0.5)


def loses(p: Tensor, state: dict[str, Any]) -> None:
    state.setdefault("step", torch.zeros(()))
    p.mul_(math.sqrt(state["step"].item()))


def rounds(p: Tensor, state: dict[str, Any]) -> None:
    p.mul_(int(p.sum().item()))


def branches(p: Tensor, state: dict[str, Any]) -> None:
    if p.sum().item():
        p.zero_()


def fails(p: Tensor, state: dict[str, Any]) -> None:
    p.mul_(torch.ones(7, 7))


def reads(p: Tensor, state: dict[str, Any]) -> None:
    if p.sum() > 0:
        p.zero_()


@pytest.mark.parametrize(
    ("optimizer", "message"),
    [
        (optim.LBFGS, "optimizer LBFGS: its step needs a closure, which computes gradients several times"),
        (optim.SparseAdam, "optimizer SparseAdam: .*does not support dense gradients"),
        (optim.RAdam, "optimizer RAdam: it branches on a number that is only known when it runs, such as a count"),
        (optim.Adafactor, "optimizer Adafactor: it branches on a number"),
        (optim.ASGD, "optimizer ASGD: it makes a tensor of a number that is only known when it runs"),
        (partial(optim.SGD, differentiable=True), "optimizer SGD: with differentiable=True it keeps all"),
        ("Adamw", "optimizer must be a name in torch.optim, one of .*AdamW.*, got 'Adamw'"),
        (lambda p: optim.SGD([nn.Parameter(X)]), r"its group 0 has a parameter, float32\[3, 4\], that the network has"),
        (partial(Own, update=replaces), "optimizer Own: its state 'mean' begins with what the first step"),
        (partial(Own, update=counts), "optimizer Own: its step counts in Python, in the state 'count'"),
        (partial(Own, update=begins), "optimizer Own: its first step computes otherwise than later ones do"),
        (partial(Own, update=loses), "optimizer Own: it computes with a number .* in a way that is not followed"),
        (partial(Own, update=rounds), "optimizer Own: it needs a whole number that is only known when it runs"),
        (partial(Own, update=branches), "optimizer Own: it branches on a number"),
        (partial(Own, update=fails), "optimizer Own: RuntimeError: .*length 7"),
        (partial(Own, update=reads), "optimizer Own: it reads the value of a tensor"),
    ],
)
def test_what_cannot_be_traced_is_named(optimizer: Any, message: str) -> None:
    with pytest.raises(memplan.errors.SourceError, match=message):
        traced(optimizer)


def test_a_state_that_is_replaced_is_refused() -> None:
    module = two_layers()
    optimizer = Own(module.parameters(), replaces)
    optimizer.state.update({p: {"mean": torch.zeros_like(p)} for p in module.parameters()})
    message = "optimizer Own: its step puts another tensor in place of the state 'mean', and has to write to a tensor"
    with pytest.raises(memplan.errors.SourceError, match=message):
        traced(optimizer, module)


def test_options_that_do_not_go_together() -> None:
    module = two_layers()
    with pytest.raises(TypeError, match="option optimizer needs train=True"):
        memplan.capture(module, args=(X,), optimizer=optim.SGD)
    with pytest.raises(TypeError, match="option keep_gradients needs an optimizer"):
        memplan.capture(module, args=(X,), train=True, keep_gradients=True)
    with pytest.raises(
        TypeError, match=r"option optimizer does not apply to a source of kind dict; it applies to: torch, .pt2"
    ):
        memplan.capture({"tensors": [], "ops": [], "outputs": []}, optimizer=optim.SGD)
    with pytest.raises(TypeError, match=r"optimizer must be an optimizer of torch, a class .*, got 3"):
        memplan.capture(module, args=(X,), train=True, optimizer=3)
    with pytest.raises(TypeError, match="got what makes a list"):
        memplan.capture(module, args=(X,), train=True, optimizer=list)
    with pytest.raises(memplan.errors.SourceError, match="optimizer: the network has no parameters"):
        memplan.capture(nn.ReLU(), args=(X.requires_grad_(),), train=True, optimizer=optim.SGD)
    X.requires_grad_(False)
    hooked = optim.SGD(module.parameters())
    hooked.register_step_pre_hook(lambda *args: None)
    with pytest.raises(memplan.errors.SourceError, match="optimizer SGD: it has hooks of its step"):
        memplan.capture(module, args=(X,), train=True, optimizer=hooked)


def test_late_numbers_compute_when_they_are_known() -> None:
    count = LateNumber(lambda: 0)
    result: Any = -(2 - 0.9**count) / (1 + count * 3) + abs(-count) % 4 // 1
    assert math.isnan(result)
    for n in (1.0, 5.0):
        assert value_of(result, {id(count): n}) == -(2 - 0.9**n) / (1 + n * 3) + abs(-n) % 4 // 1
    assert restored(float(result)) is result
    assert [id(number) for number in late_numbers(([float(count)], {"a": 1.0}))] == [id(count)]
    assert math.isnan(restored(float("nan")))
    with pytest.raises(TypeError, match="unsupported operand"):
        count + "x"


def test_late_numbers_that_are_lost_between_python_and_operators_are_refused() -> None:
    number, x = LateNumber(lambda: 2.0), torch.ones(2)
    with Creations() as seen:
        x.mul(number)
        with pytest.raises(
            memplan.errors.SourceError, match=r"only known when it runs is lost on the way to aten.mul.Tensor"
        ):
            x.mul(float("nan"))
    assert seen.others == [torch.ops.aten.mul.Tensor]


def test_late_numbers_with_a_value_are_compared_and_guarded() -> None:
    guards: list[Any] = []
    rate: Any = LateNumber(lambda: 7.0, now=7.0, name="rate", guards=guards)
    assert rate * 2 > 13
    assert rate != 0
    assert bool(rate)
    assert int(rate) == 7
    assert [outcome for *_, outcome in guards] == [True, True, True, True]
    with pytest.raises(memplan.errors.SourceError, match="branches on a number"):
        assert rate > LateNumber(lambda: 1.0)
    assert hash(rate) == id(rate)
