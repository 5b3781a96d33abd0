"""Eager training within a budget where tensors share bytes, with versions of their own, and are changed in place."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import memplan  # noqa: E402
from builders.shared_bytes import ROWS, WIDTH, network, trained  # noqa: E402
from memplan.torch.training.offloading import Store, _Outside  # noqa: E402
from memplan.torch.training.replaced_forward import replaced_forward  # noqa: E402

X = torch.randn(ROWS, WIDTH)


class Fn(torch.nn.Module):
    """A linear layer, and what a function makes of its result."""

    def __init__(self, function: Callable[[Any, Any], Any], width: int = 2 * WIDTH) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(WIDTH, width)
        self.function = function
        self.register_buffer("table", torch.rand(width))

    def forward(self, x: Any) -> Any:
        return self.function(self, self.layer(x))


def parts(net: Any, y: Any) -> Any:
    a, b = y.unsafe_chunk(2, 1)
    return a.sigmoid_() * b.sigmoid_()


def moved(net: Any, y: Any) -> Any:
    kept = y.sigmoid()
    y = kept * 2
    kept.data.mul_(0.5)  # autograd does not see that
    return y


def learned(net: Any, y: Any) -> Any:
    """A table that forward moves on, as codebooks are."""
    y = (y * net.table).tanh()
    net.table.data.mul_(0.9).add_(y.detach().mean(0), alpha=0.1)
    return y


def kept_twice(net: Any, y: Any) -> Any:
    """autograd keeps a tensor before and after its parts change."""
    aside = y.square()  # that is read by nobody, and there until the end
    for part in y.unsafe_chunk(2, 1):
        part.tanh_()
    return y.sin() if aside.requires_grad else y


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", [15, 17])
def test_random_networks_train_as_in_eager(seed: int) -> None:
    model, expected = network(seed)
    for way in (memplan.torch.offload, memplan.torch.checkpoint):
        with way(model, "least", args=(X,)):
            assert all(map(torch.equal, trained(copy.deepcopy(model)), expected))


def test_parts_that_share_a_storage_are_moved_out_one_by_one() -> None:
    model, gru = Fn(parts), torch.nn.GRU(WIDTH, 16, batch_first=True)
    sequence = torch.randn(4, 8, WIDTH)
    for net, x, loss in ((model, X, lambda y: y.square().sum()), (gru, sequence, lambda y: y[0].square().sum())):
        loss(net(x)).backward()
        expected = [p.grad for p in net.parameters()]
        net.zero_grad()
        with replaced_forward(net, [""], partial(_Outside, store=Store(None))):
            loss(net(x)).backward()
        assert all(torch.equal(p.grad, grad) for p, grad in zip(net.parameters(), expected, strict=True))


@pytest.mark.parametrize(
    ("way", "function"),
    [("offload", moved), ("offload", kept_twice), ("checkpoint", moved), ("checkpoint", learned)],
)
def test_modules_whose_bytes_change_unseen_stay_as_they_are(way: str, function: Any) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[torch.nn.Sequential(Fn(function), torch.nn.Linear(2 * WIDTH, WIDTH)) for _ in "ab"])
    expected = trained(copy.deepcopy(model), rows=256)
    found = getattr(memplan.torch, way)(model, "least", args=(torch.randn(256, WIDTH),))
    assert not {"0", "0.0"} & {*found.modules}
    assert all(map(torch.equal, trained(model, rows=256), expected))


def test_a_budget_that_needs_such_a_module_names_the_line() -> None:
    with pytest.raises(
        memplan.InfeasibleError, match=r"aten\.mul_.* at .*test_shared_bytes\.py:\d+, `kept\.data\.mul_"
    ):
        memplan.torch.offload(Fn(moved), "1KiB", args=(X,))


def test_what_stays_does_not_keep_what_has_made_it() -> None:
    net = Fn(lambda net, y: y.tanh(), 4)
    gc.collect()
    gc.disable()
    try:
        with replaced_forward(net, [""], partial(_Outside, store=Store(None))):
            y = net(X[:2])
            gone = weakref.ref(y)
            del y
            assert gone() is None
    finally:
        gc.enable()


def tied() -> Any:
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH) for _ in "abc"])
    model[2].weight = torch.nn.Parameter(model[0].weight.data)  # the same bytes, and a version of its own
    return model


def test_parameters_that_share_bytes_are_updated_in_the_step() -> None:
    expected, model = trained(tied()), tied()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    with memplan.torch.update_as_you_go(optimizer):
        for step in range(3):
            x = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(step))
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
    assert all(map(torch.equal, model.state_dict().values(), expected[-6:]))


@pytest.mark.parametrize("how", ["data", "detach"])
def test_updates_that_come_too_early_are_left_out(how: str) -> None:
    """The first layer reads the weight of the last one, without a gradient."""

    class Peeks(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, WIDTH)

        def forward(self, x: Any) -> Any:
            weight = self.last.weight.data if how == "data" else self.last.weight.detach()
            return self.last(torch.nn.functional.linear(self.first(x), weight).tanh())

    model = Peeks()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    assert memplan.torch.fit(model, "least", args=(X,), optimizer=optimizer).updates is None
    with pytest.raises(memplan.errors.UnsupportedError, match="leave 'update' out of allow"):
        memplan.torch.fit(model, "least", args=(X,), optimizer=optimizer, allow=["update"])
