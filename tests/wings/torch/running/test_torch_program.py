"""Networks of torch as graphs of torch.fx in the order of a plan: they run alone, and give what eager gives."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn

import memplan
from builders import models
from builders.branching import BRANCHING, branching
from builders.running import shuffled
from builders.torch_nets import Net
from builders.torch_running import gradients, same
from memplan.running.plans import program_of


def at_random(source: Any, seed: int, *args: Any, **options: Any) -> fx.GraphModule:
    """The program of a network with its ops in a random order."""
    plan = memplan.plan(source, "naive", args=args, **options)
    assert plan.graph is not None
    program: fx.GraphModule = program_of(plan).in_order(replace(plan, graph=shuffled(plan.graph, seed)))
    return program


def names(program: fx.GraphModule) -> list[str]:
    return [node.name for node in program.graph.nodes if node.op == "call_function"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n == "experts" else pytest.mark.slow) for n in BRANCHING])
def test_the_nodes_stand_in_the_order_of_the_plan(name: str) -> None:
    model, x = branching(name)
    plan = memplan.plan(model, args=(x,), order="best")
    assert plan.order != memplan.plan(model, args=(x,)).order
    program = plan.program
    assert isinstance(program, fx.GraphModule)
    assert names(program) == [op.replace(".", "_") for op in plan.order]
    program.graph.lint()
    with torch.no_grad():
        assert torch.equal(program(x), model(x))
        assert torch.equal(torch.export.export(program, (x,)).module()(x), model(x))
        assert torch.equal(torch.compile(program, backend="aot_eager")(x), model(x))
    assert plan.program is program


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n == "experts" else pytest.mark.slow) for n in BRANCHING])
def test_training_returns_the_loss_and_the_gradients(name: str) -> None:
    model, x = branching(name)
    program = memplan.plan(model, args=(x,), train=True, order="best").program
    expected = model(x).sum()
    for run in (program, torch.compile(program, backend="aot_eager")):
        loss, found = run(x)
        assert torch.equal(loss, expected)
        assert not loss.requires_grad
        assert same(found, gradients(model, model(x).sum()))


def test_weights_are_those_of_the_network() -> None:
    model, x = branching("experts")
    program = memplan.plan(model, args=(x,), order="best").program
    training = memplan.plan(model, args=(x,), train=True, order="best").program
    assert program.get_parameter("up.0.weight") is model.up[0].weight
    with torch.no_grad():
        model.up[0].weight.mul_(2)
        assert torch.equal(program(x), model(x))
        assert torch.equal(training(x)[0], model(x).sum())


def mutates(net: Net, x: Tensor) -> Any:
    y = x.exp()
    z = y.view(-1)
    z[::2] += 1
    y.unsqueeze_(0)
    buffer = torch.empty(0)
    torch.add(y, y, out=buffer)
    x.mul_(2)
    return torch.empty(4, 4).copy_(buffer[0]).relu_() + net.fc(x), z


def draws(net: Net, x: Tensor) -> Any:
    a, b = torch.rand(4, 4), nn.functional.dropout(x, 0.5)
    return {"sum": a + torch.randn(4, 4) * b, "more": [torch.bernoulli(torch.full((4, 4), 0.5)), None, 3]}


def makes_data(net: Net, x: Tensor) -> Any:
    count = torch.tensor([1.0, 2.0, 3.0, 4.0])
    count.add_(x[0])
    return count, x.chunk(2), x.max(1), net.fc(x).split([1, 3])


@pytest.mark.parametrize("function", [mutates, draws, makes_data])
@pytest.mark.parametrize("seed", range(3))
def test_random_orders(function: Callable[..., Any], seed: int) -> None:
    net, mine = Net(function), torch.randn(4, 4)
    eager = mine.clone()
    program = at_random(net, seed, mine.clone())
    for _ in range(2):
        with torch.no_grad():
            torch.manual_seed(1)
            found = program(mine)
            torch.manual_seed(1)
            assert same(found, net(eager))
        assert torch.equal(mine, eager)


def test_running_statistics_are_updated() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.BatchNorm2d(4))
    mine, x = copy.deepcopy(model), torch.randn(2, 3, 8, 8)
    program = at_random(mine, 0, x, train=True)
    for _ in range(2):
        loss, found = program(x)
        expected = model(x).sum()
        assert torch.equal(loss, expected)
        assert same(found, gradients(model, expected))
    assert same(dict(mine.named_buffers()), dict(model.named_buffers()))


def test_gradients_of_inputs() -> None:
    class Squares(nn.Module):
        def forward(self, x: Tensor, *, scale: Tensor) -> Tensor:
            return (x * x * scale).sum()

    x, scale = torch.randn(3, requires_grad=True), torch.randn(3)
    program = memplan.plan(Squares(), args=(x,), kwargs={"scale": scale}, train=True).program
    loss, found = program(x, scale=scale)
    assert not loss.requires_grad
    assert torch.equal(found["x"], torch.autograd.grad(Squares()(x, scale=scale), x)[0])


def test_a_step_of_an_optimizer() -> None:
    x = torch.randn(3, 8)
    mine, eager = (nn.Sequential(nn.Linear(8, 4), nn.Tanh(), nn.Linear(4, 2)) for _ in range(2))
    eager.load_state_dict(mine.state_dict())
    optimizers = [torch.optim.AdamW(model.parameters(), lr=0.1) for model in (mine, eager)]
    program = at_random(mine, 0, x, train=True, optimizer=optimizers[0])
    for _ in range(3):
        loss, kept = program(x)
        optimizers[1].zero_grad()
        expected = eager(x).sum()
        expected.backward()
        optimizers[1].step()
        assert torch.equal(loss, expected)
        assert kept == {}
    assert same(mine.state_dict(), eager.state_dict())
    assert same(optimizers[0].state_dict(), optimizers[1].state_dict())


class Traced(nn.Module):
    """What graphs hold besides operators: a module, a method, state, and a body."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 4)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: Tensor) -> Any:
        self.count.add_(1)
        return {"y": self.fc(x.clone().unsqueeze_(0)).relu() * self.count, "x": x.split(2)}


def test_a_graph_that_calls_modules_and_methods() -> None:
    graph, x = fx.symbolic_trace(Traced()), torch.randn(6, 8)
    eager = copy.deepcopy(graph)
    program = at_random(graph, 0, x)
    with torch.no_grad():
        for _ in range(2):
            assert same(program(x), eager(x))


@pytest.mark.parametrize("given", [True, False])
def test_an_exported_program_keeps_its_state(given: bool) -> None:
    module, x = Traced(), torch.randn(6, 8)
    exported = torch.export.export(copy.deepcopy(module), (x,))
    program = at_random(exported, 0, *([x] if given else []))
    with torch.no_grad():
        for _ in range(2):
            assert same(program(x), module(x))
    assert torch.equal(exported.state_dict["count"], module.count)


def test_a_pt2_file(tmp_path: Any) -> None:
    module, x = Traced(), torch.randn(6, 8)
    torch.export.save(torch.export.export(copy.deepcopy(module), (x,)), tmp_path / "net.pt2")
    with torch.no_grad():
        assert same(memplan.plan(tmp_path / "net.pt2").program(x), module(x))


@pytest.mark.slow
def test_control_flow_autocast_and_numbers() -> None:
    def forward(net: Net, x: Tensor) -> Tensor:
        with torch.autocast("cpu"):
            y = net.fc(x) * x.mean().item()
        return torch.cond(x.sum() > 0, lambda x, y: x + y, lambda x, y: x - y, (x, y.float()))

    net, x = Net(forward), torch.randn(4, 4)
    exported = torch.export.export(net, (x,))
    with torch.no_grad():
        for seed, value in enumerate((x, -x, 2 * x, x + 1)):
            assert torch.equal(at_random(exported, seed, x)(value), exported.module()(value))


class Held:
    """An object with a tensor, which torch knows nothing of."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


def test_objects_with_tensors() -> None:
    class Wraps(nn.Module):
        def forward(self, x: Any) -> Any:
            return Held(x.tensor + 1) if isinstance(x, Held) else [Held(x * 2), x]

    x = torch.randn(3)
    found = memplan.plan(Wraps(), args=(x,)).program(x)
    assert same(found, {"0.tensor": x * 2, "1": x})
    with pytest.raises(memplan.errors.UnsupportedError, match="an argument has tensors in a Held"):
        memplan.plan(Wraps(), args=(Held(x),)).program  # noqa: B018


def test_a_plan_without_a_network_has_no_program() -> None:
    with pytest.raises(TypeError, match="the plan holds no network"):
        memplan.plan(([1], [0], [1])).program  # noqa: B018


@pytest.mark.slow
@pytest.mark.parametrize("name", models.CATALOGUE)
def test_models(name: str) -> None:
    example = models.CATALOGUE[name]()
    inputs = models.inference_inputs(example)
    with torch.no_grad():
        expected = [tensor for _, tensor in memplan.torch.reading.fake.tensors_in(example.model(**inputs))]
        found = memplan.plan(example.model, kwargs=inputs, order="best").program(**inputs)
    assert same([tensor for _, tensor in memplan.torch.reading.fake.tensors_in(found)], expected)
    loss = example.model(**example.inputs).loss
    wanted = gradients(example.model, loss)
    program = memplan.plan(example.model, kwargs=example.inputs, train=True, order="best").program
    mine, found = program(**example.inputs)
    assert same([mine, {key: found[key] for key in wanted}], [loss.detach(), wanted])
