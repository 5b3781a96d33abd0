"""The double of a module: traced in its place, so that nothing of the module is fake at any time."""

from __future__ import annotations

import functools
import threading
import types
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import memplan
from builders.torch_nets import Net
from memplan.torch.reading import import_torch

X = torch.randn(2, 4)


def layer() -> nn.Module:
    return Net(lambda net, x: net.fc(x).relu())


def _closure(net: nn.Module) -> nn.Module:
    old = net.forward
    net.forward = lambda x: old(x) * 2
    return net


def _method(net: nn.Module) -> nn.Module:
    net.forward = types.MethodType(lambda self, x: self.fc(x).exp(), net)
    return net


def _partial(net: nn.Module) -> nn.Module:
    old = net.forward
    net.forward = functools.update_wrapper(functools.partial(lambda part, x: part.kept(x) + 1, net), old)
    net.kept = old
    return net


def _parent(net: nn.Module) -> nn.Module:
    net.child = Net(lambda child, x: child.parents[0].fc(x) + child.parent().fc(x.sin()))
    net.child.parents, net.child.parent = [net], weakref.ref(net)
    net.function = lambda net, x: net.child(x)
    return net


class Holder:
    def __init__(self, part: nn.Module) -> None:
        self.part: Any = part
        self.last: Any = None

    def call(self, x: Tensor) -> Tensor:
        self.last = self.part(x)
        return self.last


def _object(net: nn.Module) -> nn.Module:
    net.holder = Holder(net.fc)
    net.function = lambda net, x: net.holder.call(x)
    return net


def _hook(net: nn.Module) -> nn.Module:
    net.other = nn.Linear(4, 4)
    net.other.weight = net.fc.weight
    net.fc.register_forward_hook(lambda part, given, result: result + net.other(given[0]))
    return net


def _recurrent(net: nn.Module) -> nn.Module:
    net.rnn = nn.LSTM(4, 4)
    net.function = lambda net, x: net.rnn(net.fc(x)[:, None])[0]
    return net


def _compiled(net: nn.Module) -> nn.Module:
    net.compiled, net.also = torch.compile(nn.Linear(4, 4)), torch.compile(net.fc.forward)
    net.function = lambda net, x: net.compiled(x) + net.also(x)
    return net


WHERE = nn.Linear(4, 4)


class Elsewhere(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = WHERE

    def forward(self, x: Tensor) -> Tensor:
        return WHERE(self.fc(x))


WAYS = [_closure, _method, _partial, _parent, _object, _hook, _recurrent, _compiled, lambda net: Elsewhere()]


@pytest.mark.few(6)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("train", [False, True])
def test_weights_are_those_of_the_module_however_they_are_reached(
    way: Callable[[nn.Module], nn.Module], train: bool
) -> None:
    net = way(layer())
    run = memplan.plan(net, args=(X,), train=train, alignment=64).run(X, check=True)
    if not train:
        with torch.no_grad():
            assert torch.equal(run.outputs, net(X))
        return
    net.zero_grad()
    loss = net(X).sum()
    loss.backward()
    assert torch.equal(run.loss, loss)
    expected = {name: p.grad for name, p in net.named_parameters() if p.grad is not None}
    assert run.gradients.keys() >= expected.keys()  # one that is tied has each of its names
    assert all(torch.equal(run.gradients[name], gradient) for name, gradient in expected.items())


def test_what_the_module_shares_with_its_double_is_as_it_was() -> None:
    net, hidden = _object(layer()), nn.Linear(4, 4)
    net.settings = types.SimpleNamespace(count=0, seen=[])
    gradient = torch.ones(4, 4)
    hidden.weight.grad = gradient

    def forward(net: Any, x: Tensor) -> Tensor:
        net.settings.count += 1
        net.settings.seen.append(x)
        return hidden(net.holder.call(x))  # its weights are no parameters of the net

    net.function = forward
    import_torch(net, args=(X,), train=True)
    assert (net.settings.count, net.settings.seen, net.holder.last) == (0, [], None)
    assert hidden.weight.grad is gradient
    assert hidden.bias.grad is None


class Meanwhile(nn.Module):
    """Has another thread run the whole network, which the class knows."""

    net: nn.Module
    seen: list[Tensor]

    def forward(self, x: Tensor) -> Tensor:
        if threading.current_thread() is threading.main_thread():
            with ThreadPoolExecutor(1) as others:
                Meanwhile.seen.append(others.submit(Meanwhile.net, X).result())
        return x


@pytest.mark.parametrize("how", ["capture", "train", "estimate"])
def test_another_thread_may_run_the_module_meanwhile(how: str) -> None:
    net = nn.Sequential(nn.Linear(4, 4), Meanwhile(), nn.BatchNorm1d(4).eval())
    Meanwhile.net, Meanwhile.seen = net, []
    if how == "estimate":
        memplan.estimate(net, args=(X,), train=True)
    else:
        memplan.capture(net, args=(X,), train=how == "train")
    assert Meanwhile.seen
    want = net(X)
    assert all(type(result) is Tensor and torch.equal(result, want) for result in Meanwhile.seen)


def test_first_runs_in_two_threads() -> None:
    net = nn.Sequential(*(nn.Linear(4, 4) for _ in range(8)))
    want = net(X)
    plans = [memplan.plan(net, args=(X,), alignment=64) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(lambda plan: plan.run(X).outputs, plans))
    assert all(torch.equal(result, want) for result in results)
