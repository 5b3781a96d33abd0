"""Training steps in one arena: losses, weights and states equal those of torch's own loop bit for bit."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn, optim

import memplan
from builders.running import shuffled
from memplan import cli

Make = Callable[..., Any]
OPTIMIZERS: dict[str, Make] = {
    "sgd": partial(optim.SGD, lr=0.1),
    "momentum": partial(optim.SGD, lr=0.1, momentum=0.9, weight_decay=0.1),
    "nesterov": partial(optim.SGD, lr=0.1, momentum=0.9, nesterov=True, maximize=True),
    "adam": partial(optim.Adam, amsgrad=True, weight_decay=0.1),
    "adamw": optim.AdamW,
    "tensor": partial(optim.AdamW, lr=torch.tensor(0.01)),
    "adagrad": partial(optim.Adagrad, lr=0.1, lr_decay=0.1, initial_accumulator_value=0.5),
    "rmsprop": partial(optim.RMSprop, momentum=0.9, centered=True),
    "adadelta": optim.Adadelta,
    "adamax": optim.Adamax,
    "nadam": optim.NAdam,
}


def convnet() -> nn.Module:
    torch.manual_seed(0)
    parts = [nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    return nn.Sequential(*parts, nn.Linear(4 * 9, 5))


class Tied(nn.Module):
    """A language model whose last layer is its first, with one layer frozen and one without use."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(11, 6)
        self.inner = nn.Linear(6, 6)
        self.frozen = nn.Linear(6, 6).requires_grad_(False)
        self.last = nn.Linear(6, 11, bias=False)
        self.last.weight = self.table.weight
        self.unused = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.frozen(torch.tanh(self.inner(self.table(x)))))  # type: ignore[no-any-return]


def images() -> Tensor:
    return torch.randn(8, 3, 8, 8)


def words() -> Tensor:
    return torch.randint(0, 11, (4, 5))


def planned(module: nn.Module, x: Tensor, optimizer: Any, **options: Any) -> memplan.Plan:
    return memplan.plan(module, "first_fit", args=(x,), train=True, optimizer=optimizer, alignment=64, **options)


def eager_step(module: nn.Module, optimizer: Any, x: Tensor) -> Tensor:
    optimizer.zero_grad()
    loss: Tensor = module(x).sum()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return loss.detach()


def same_weights(a: nn.Module, b: nn.Module) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


def same_states(a: Any, b: Any) -> bool:
    ours, theirs = a.state_dict()["state"], b.state_dict()["state"]
    if ours.keys() != theirs.keys():
        return False
    return all(list(ours[k]) == list(theirs[k]) and _all_equal(ours[k], theirs[k]) for k in ours)


def _all_equal(a: Any, b: Any) -> bool:
    return all(torch.equal(a[name], b[name]) for name in a)


def check(build: Make, batch: Make, optimizer: Any, **options: Any) -> memplan.Plan:
    """Three steps, poisoned, beside those of torch."""
    net, other = build(), build()
    plan, theirs = planned(net, batch(), optimizer, **options), optimizer(list(other.parameters()))
    for _ in range(3):
        x = batch()
        run = plan.run(x, check=True)
        assert torch.equal(run.loss, eager_step(other, theirs, x))
        assert same_weights(net, other)
        assert same_states(plan.optimizer, theirs)
        assert run.gradients == {}
    return plan


def test_an_optimizer_of_matrices() -> None:
    def build() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(192, 4, bias=False))

    check(build, images, optim.Muon)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_those_of_torch(name: str) -> None:
    check(convnet, images, OPTIMIZERS[name], order="best")


@pytest.mark.slow
def test_steps_are_those_of_torch_where_tracing_is_slow() -> None:
    check(convnet, images, optim.Rprop, order="best")


@pytest.mark.few(1)
@pytest.mark.parametrize("options", [{}, {"place": ("weight", "intermediate", "output")}, {"inplace": False}])
def test_weights_that_are_tied_frozen_or_unused(options: dict[str, Any]) -> None:
    check(Tied, words, OPTIMIZERS["momentum"], **options)
    check(Tied, words, OPTIMIZERS["adam"], **options)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["momentum", "nadam"])
def test_any_legal_order_trains_alike(name: str) -> None:
    """Ops in random orders that data and `after` allow: numbers are read, and weights overwritten, when they may be."""
    make, x = OPTIMIZERS[name], words()
    graph = memplan.capture(Tied(), args=(x,), train=True, optimizer=make).graph
    assert isinstance(graph, memplan.Graph)
    other = Tied()
    theirs = make(list(other.parameters()))
    losses = [eager_step(other, theirs, x) for _ in range(2)]
    for seed in range(4):
        net = Tied()
        optimizer = make(list(net.parameters()))
        plan = memplan.plan(shuffled(graph, seed), "first_fit", alignment=64)
        runs = [plan.run(x, source=net, train=True, optimizer=optimizer, check=True) for _ in range(2)]
        assert [run.loss for run in runs] == losses
        assert same_weights(net, other)
        assert same_states(optimizer, theirs)


@pytest.mark.slow
def test_a_language_model() -> None:
    """Of transformers, whose import takes seconds; `Tied` is one of our own."""
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        n_layer=1, n_head=2, n_embd=16, vocab_size=31, n_positions=16, attn_implementation="eager", use_cache=False
    )

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.net = transformers.GPT2LMHeadModel(config).eval()

        def forward(self, x: Tensor) -> Tensor:
            return self.net(x, labels=x).loss  # type: ignore[no-any-return]

    plan = check(Model, lambda: torch.randint(0, 31, (2, 8)), optim.AdamW, order="best")
    assert plan.peak < planned(Model(), torch.zeros(2, 8, dtype=torch.long), optim.AdamW).peak


def test_gradients_are_kept_where_asked_for() -> None:
    net, x = convnet(), images()
    run = planned(net, x, optim.SGD, keep_gradients=True).run(x, check=True)
    other = convnet()
    eager_step(other, optim.SGD(other.parameters(), lr=0), x)
    assert {name: p.grad.shape for name, p in other.named_parameters() if p.grad is not None} == {
        name: gradient.shape for name, gradient in run.gradients.items()
    }
    for name, parameter in other.named_parameters():
        assert torch.equal(run.gradients[name], parameter.grad)  # type: ignore[arg-type]


def test_an_instance_is_stepped_itself_with_its_groups_and_schedules() -> None:
    nets = [convnet(), convnet()]
    steps: list[Any] = []
    for net in nets:
        groups = [{"params": net[0].parameters(), "momentum": 0.5}, {"params": net[5].parameters(), "lr": 0.01}]
        steps.append(optim.SGD(groups, lr=0.1, momentum=0.9, dampening=0.3))
    x = images()
    for net, step in zip(nets, steps, strict=True):
        eager_step(net, step, x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schedules = [optim.lr_scheduler.OneCycleLR(step, 0.5, total_steps=6) for step in steps]
        plan = planned(nets[0], x, steps[0])
        assert plan.optimizer is steps[0]
        for number in range(4):
            x = images()
            if number == 2:  # planned and eager steps take turns, and states are saved and loaded
                eager_step(nets[0], steps[0], x)
                steps[0].load_state_dict(steps[0].state_dict())
            else:
                plan.run(x, check=True)
            eager_step(nets[1], steps[1], x)
            for schedule in schedules:
                schedule.step()
            assert same_weights(*nets)
            assert same_states(*steps)


def test_an_optimizer_that_is_no_longer_what_was_planned() -> None:
    net, x = convnet(), images()
    optimizer = optim.SGD(net[:2].parameters(), lr=0.1, momentum=0.9)
    plan = planned(net, x, optimizer)
    plan.run(x)
    group = optimizer.param_groups[0]
    for key, value, message in (
        ("momentum", 0.0, "optimizer SGD: option 'momentum' changed so that its step computes otherwise"),
        ("nesterov", True, "optimizer SGD: option 'nesterov' of its group 0 was False when it was planned, got True"),
        ("lr", torch.tensor(0.1), r"option 'lr' of its group 0 was a number when it was planned, got float32\[\]"),
    ):
        kept, group[key] = group[key], value
        with pytest.raises(memplan.errors.SourceError, match=message):
            plan.run(x)
        group[key] = kept
    plan.run(x)
    optimizer.add_param_group({"params": net[5].parameters()})
    with pytest.raises(
        memplan.errors.SourceError, match="its parameters are not those of when it was planned; plan again"
    ):
        plan.run(x)


def test_graphs_of_fx_and_weights_that_are_given() -> None:
    x = torch.ones(2, 4)
    nets = [nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(2)]
    graph = torch.fx.symbolic_trace(nets[0])
    optimizer = optim.SGD(nets[0].parameters(), lr=0.1, momentum=0.9)
    plan = planned(graph, x, optimizer)
    given = {name: t.detach().clone() for name, t in nets[1].state_dict().items()}
    kept = nets[0][0].weight.detach().clone()
    run = plan.run(x, weights=given, check=True)
    assert torch.equal(run.loss, eager_step(nets[1], optim.SGD(nets[1].parameters(), lr=0.1), x))
    assert all(torch.equal(given[name], tensor) for name, tensor in nets[1].state_dict().items())
    assert torch.equal(nets[0][0].weight, kept)
    with torch.device("meta"):
        empty = nn.Linear(4, 4)
    with pytest.raises(
        memplan.errors.SourceError, match=r"weight 'weight.momentum_buffer' has no data: it is a meta tensor"
    ):
        planned(empty, x, partial(optim.SGD, momentum=0.9)).run(x, weights=nn.Linear(4, 4).state_dict())


def test_programs_and_files(tmp_path: Path) -> None:
    module, x = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), torch.ones(2, 4)
    other = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    other.load_state_dict(module.state_dict())
    torch.export.save(torch.export.export(module, (x,)), tmp_path / "net.pt2")
    program = torch.export.export(module, (x,))
    adam = optim.Adam(other.parameters())
    losses = [eager_step(other, adam, x) for _ in range(2)]
    for source, options in ((program, {"args": (x,)}), (tmp_path / "net.pt2", {})):
        plan = memplan.plan(source, train=True, optimizer="Adam", alignment=64, **options)  # type: ignore[arg-type]
        assert [plan.run(x).loss for _ in range(2)] == losses
    assert same_weights(module, other)


def test_the_command_line_takes_the_name_of_an_optimizer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(nn.Linear(4, 4), (torch.ones(2, 4),)), path)
    assert cli.main(["plan", str(path), "--train", "--optimizer", "AdamW", "--order", "best"]) == 0
    assert "peak" in capsys.readouterr().out
    assert cli.main(["plan", str(path), "--train", "--optimizer", "adamw"]) == 2
    assert "must be a name in torch.optim, one of" in capsys.readouterr().err


def test_a_plan_from_a_file_is_run_with_its_network_and_optimizer(tmp_path: Path) -> None:
    module, x = nn.Linear(4, 4), torch.ones(2, 4)
    planned(module, x, optim.SGD, keep_gradients=True).to_json(tmp_path / "plan.json")
    plan, optimizer = memplan.read_plan(tmp_path / "plan.json"), optim.SGD(module.parameters(), lr=1.0)
    before = module.weight.detach().clone()
    run = plan.run(x, source=module, train=True, optimizer=optimizer, keep_gradients=True)
    assert torch.equal(module.weight, before - run.gradients["weight"])
    with pytest.raises(TypeError, match="option optimizer goes with source="):
        planned(module, x, optim.SGD).run(x, optimizer=optimizer)
    assert memplan.plan(module, args=(x,)).optimizer is None
