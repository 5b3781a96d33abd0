"""Eager training with updates as gradients come: what plain training computes, with less memory, or a refusal."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import memplan  # noqa: E402
from builders.optimizing import OPTIMIZERS, Make, equal  # noqa: E402
from memplan.torch.training import updating  # noqa: E402


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Every test undoes what it changed in torch."""
    yield
    assert not list(updating._ACTIVE)
    assert torch.nn.utils.clip_grad._get_total_norm.__module__ == "torch.nn.utils.clip_grad"


def convnet() -> tuple[Any, Any]:
    parts = [torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten()]
    return torch.nn.Sequential(*parts, torch.nn.Linear(4 * 36, 5)), (lambda: torch.randn(8, 3, 8, 8))


class Tied(torch.nn.Module):
    """A language model whose last layer is its first."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(11, 6)
        self.inner = torch.nn.Linear(6, 6)
        self.last = torch.nn.Linear(6, 11, bias=False)
        self.last.weight = self.table.weight
        self.unused = torch.nn.Linear(2, 2)

    def forward(self, x: Any) -> Any:
        return self.last(torch.tanh(self.inner(self.table(x))))


def tied() -> tuple[Any, Any]:
    return Tied(), (lambda: torch.randint(0, 11, (4, 5)))


def gpt2() -> tuple[Any, Any]:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_layer=2, n_head=2, n_embd=16, vocab_size=31, n_positions=16)
    net = transformers.GPT2LMHeadModel(config)
    return net, (lambda: torch.randint(0, 31, (2, 8)))


def trained(build: Make, make: Make, as_you_go: bool, steps: int = 4, scheduled: bool = False) -> list[Any]:
    """Losses, then weights and states, of a usual loop."""
    torch.manual_seed(3)
    net, batch = build()
    optimizer = make(net.parameters())
    updates = memplan.torch.update_as_you_go(optimizer) if as_you_go else None
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=steps + 1) if scheduled else None
    found: list[Any] = []
    for _ in range(steps):
        optimizer.zero_grad()
        result = net(batch())
        loss = getattr(result, "logits", result).logsumexp(-1).square().mean()
        loss.backward()
        if as_you_go:
            assert all(p.grad is None for p in net.parameters())
        optimizer.step()
        if schedule is not None:
            schedule.step()
        found.append(loss.detach())
    if updates is not None:
        updates.remove()
    states = optimizer.state_dict()["state"]
    return [*found, *net.state_dict().values(), *(states[key][name] for key in sorted(states) for name in states[key])]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training_is_that_of_the_plain_loop(optimizer: str) -> None:
    make = OPTIMIZERS[optimizer]
    assert equal(trained(convnet, make, True), trained(convnet, make, False))


@pytest.mark.parametrize("build", [tied, pytest.param(gpt2, marks=pytest.mark.slow)])
def test_weights_that_are_tied_are_updated_once(build: Make) -> None:
    make = OPTIMIZERS["adam"]
    assert equal(trained(build, make, True), trained(build, make, False))


def test_schedulers_change_rates_and_momenta_as_ever() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for make in (OPTIMIZERS["nesterov"], OPTIMIZERS["adam"]):
            assert equal(trained(convnet, make, True, scheduled=True), trained(convnet, make, False, scheduled=True))


def layers(count: int = 12, width: int = 64) -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(count)))


def test_the_peak_of_a_step_falls_by_the_gradients() -> None:
    """Of the memory that torch's own allocator gives out in a step."""
    peaks = []
    for as_you_go in (False, True):
        net, x = layers(), torch.randn(2, 64)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        with memplan.torch.update_as_you_go(optimizer) if as_you_go else nullcontext():
            net(x).sum().backward()  # a warm-up
            optimizer.step()
            optimizer.zero_grad()
            with memplan.torch.record() as tape:
                net(x).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
        peaks.append(tape.peak)
    weights = 12 * (64 * 64 + 64) * 4
    assert peaks[0] > weights
    assert peaks[1] < weights / 3


def test_what_is_updated_later_is_updated_by_step() -> None:
    """Gradients set by hand, parameters unfrozen or added, and a handle that comes and goes."""
    results = []
    for as_you_go in (True, False):
        net, x = layers(3, 8), torch.ones(2, 8)
        net[1].requires_grad_(False)
        optimizer = torch.optim.Adam(net[:2].parameters(), lr=0.1)
        updates = memplan.torch.update_as_you_go(optimizer) if as_you_go else None
        for step in range(5):
            optimizer.zero_grad()
            net(x).square().sum().backward()
            if step == 1:
                net[1].requires_grad_(True)
                optimizer.add_param_group({"params": list(net[2].parameters()), "lr": 0.01})
                net[1].weight.grad = torch.ones(8, 8)
            optimizer.step()
            if step == 3 and updates is not None:
                assert all(p.grad is None for p in net[1].parameters())
                updates.remove()
                updates.remove()
            net[2].zero_grad()
        results.append([*net.state_dict().values()])
    assert equal(*results)


def test_states_are_saved_and_loaded_as_ever() -> None:
    net, x = layers(3, 8), torch.ones(2, 8)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
    with memplan.torch.update_as_you_go(optimizer):
        net(x).sum().backward()
        optimizer.step()
        saved, weights = optimizer.state_dict(), {key: value.clone() for key, value in net.state_dict().items()}
        copied = {key: {name: t.clone() for name, t in state.items()} for key, state in saved["state"].items()}
        net(x).sum().backward()
        optimizer.step()
        expected = [p.clone() for p in net.parameters()]
        net.load_state_dict(weights)
        optimizer.load_state_dict({**saved, "state": copied})
        net(x).sum().backward()
        optimizer.step()
        assert equal(expected, list(net.parameters()))


@pytest.fixture
def one() -> Iterator[tuple[Any, Any, Any]]:
    """A network, its input, and its optimizer, which updates as you go."""
    net = layers(2, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with memplan.torch.update_as_you_go(optimizer):
        yield net, torch.ones(3, 4), optimizer


def test_a_second_gradient_is_refused(one: tuple[Any, Any, Any]) -> None:
    net, x, optimizer = one
    message = r"a parameter, float32\[4\], gets a second gradient before optimizer.step\(\).* cannot be accumulated"
    net(x).sum().backward()
    with pytest.raises(memplan.errors.UnsupportedError, match=message):
        net(x).sum().backward()
    optimizer.zero_grad()
    net(x).sum().backward()


def test_backward_twice_through_one_graph_is_refused(one: tuple[Any, Any, Any]) -> None:
    net, x, optimizer = one
    loss = net(x).square().sum()
    loss.backward(retain_graph=True)
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):  # torch sees it: the weights are new
        loss.backward()


def test_clipping_is_refused(one: tuple[Any, Any, Any]) -> None:
    net, x, optimizer = one
    clip = torch.nn.utils.clip_grad_norm_
    clip(net.parameters(), 1.0)  # nothing was used yet
    net(x).sum().backward()
    with pytest.raises(memplan.errors.UnsupportedError, match="no gradients to clip, each was used as it came"):
        clip(net.parameters(), 1.0)
    with pytest.raises(RuntimeError):  # an error of torch's own
        torch.nn.utils.clip_grad_value_(net.parameters(), 1.0)
    optimizer.step()
    other = layers(1, 4)
    other(x).sum().backward()
    clip(other.parameters(), 1.0)


@pytest.mark.parametrize("unscale", [True, False])
def test_scaled_gradients_are_refused(one: tuple[Any, Any, Any], unscale: bool) -> None:
    net, x, optimizer = one
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(net(x).sum()).backward()
    if unscale:
        scaler.unscale_(optimizer)
    with pytest.raises(memplan.errors.UnsupportedError, match="a GradScaler scales the loss"):
        scaler.step(optimizer)
    assert not hasattr(optimizer, "grad_scale")
    off = torch.amp.GradScaler("cpu", enabled=False)
    off.step(optimizer)


def test_closures_and_hooks_of_the_step_are_refused(one: tuple[Any, Any, Any]) -> None:
    net, x, optimizer = one
    with pytest.raises(memplan.errors.UnsupportedError, match="a closure runs backward"):
        optimizer.step(lambda: net(x).sum())
    hook = optimizer.register_step_post_hook(lambda *args: None)
    with pytest.raises(memplan.errors.UnsupportedError, match="has hooks of its step"):
        optimizer.step()
    hook.remove()
    with pytest.raises(memplan.errors.UnsupportedError, match="a parameter of this SGD is updated as you go already"):
        memplan.torch.update_as_you_go(torch.optim.SGD(net.parameters()))


def test_optimizers_that_cannot() -> None:
    net = layers(2, 4)
    with pytest.raises(memplan.errors.UnsupportedError, match="the step of LBFGS needs a closure"):
        memplan.torch.update_as_you_go(torch.optim.LBFGS(net.parameters()))
    with pytest.raises(TypeError, match="takes an optimizer of torch, got a Sequential"):
        memplan.torch.update_as_you_go(net)
    with pytest.raises(TypeError, match="takes an optimizer of torch, got a type"):
        memplan.torch.update_as_you_go(torch.optim.SGD)  # type: ignore[arg-type]

    class Counts(torch.optim.SGD):
        def step(self, closure: Any = None) -> None:
            super().step(closure)
            for group in self.param_groups:
                group["count"] = group["count"] + 1

    optimizer = Counts(net.parameters())
    optimizer.param_groups[0]["count"] = 0
    with memplan.torch.update_as_you_go(optimizer):
        loss = net(torch.ones(3, 4)).sum()
        with pytest.raises(
            memplan.errors.UnsupportedError, match="the step of Counts changes 'count' of its parameter groups"
        ):
            loss.backward()


def test_an_optimizer_that_is_dropped_leaves_no_trace() -> None:
    net, x = layers(2, 4), torch.ones(3, 4)
    memplan.torch.update_as_you_go(torch.optim.SGD(net.parameters(), lr=0.1))
    gc.collect()
    assert not list(updating._ACTIVE)
    net(x).sum().backward()
    assert net[0].weight.grad is not None
    with memplan.torch.update_as_you_go(
        torch.optim.SGD(net.parameters(), lr=0.1)
    ):  # torch has its functions back after
        pass
