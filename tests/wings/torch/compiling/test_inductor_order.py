"""torch.compile with the kernels in an order of memplan's: the same results, and fewer bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import memplan

pytest.importorskip("torch")

import torch
import torch._inductor.config
from torch import Tensor

from builders.branching import BRANCHING, branching
from memplan.torch.compiling import backend, compiling
from memplan.torch.compiling.settings import settings_of

pytestmark = pytest.mark.usefixtures("kernels_compiled_once", "nothing_compiled")


def compiled(model: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    memplan.torch.clear_compiled_plans()
    by_torch = {"backend": "inductor"}
    return torch.compile(model, dynamic=False, **({"backend": "memplan", "options": options} if options else by_torch))


WIDTHS = [128 + 16 * k for k in range(6)]


def net() -> tuple[Callable[..., Any], list[Tensor]]:
    """Products that widen first, and then narrow: kernels that need no compiler. And the inputs."""
    torch.manual_seed(0)
    shapes = [(32, 16), *((16, width) for width in WIDTHS), *((width, 16) for width in WIDTHS)]

    def forward(x: Tensor, *weights: Tensor) -> list[Tensor]:
        wide = [x @ weight for weight in weights[: len(WIDTHS)]]
        return [value @ weight for value, weight in zip(wide, weights[len(WIDTHS) :], strict=True)]

    return forward, [torch.randn(shape) for shape in shapes]


def test_inference() -> None:
    forward, inputs = net()
    expected = compiled(forward)(*inputs)
    load = {}
    for order in ("given", "best", "bfs"):
        assert all(map(torch.equal, compiled(forward, order=order)(*inputs), expected))
        (found,) = memplan.torch.compiled_plans()
        found.plan.verify()
        load[order] = found.load
    assert load["best"] < load["bfs"] == load["given"]  # an order that holds more is not taken


@pytest.mark.slow
def test_training() -> None:
    forward, inputs = net()
    results = []
    for options in ({}, {"order": "best"}):
        weights = [weight.clone().requires_grad_() for weight in inputs[1:]]
        found = compiled(forward, **options)(inputs[0], *weights)
        torch.autograd.backward(found, [torch.ones_like(value) for value in found])
        results.append([*found, *(weight.grad for weight in weights)])
    assert all(map(torch.equal, *results))


def draws(x: Tensor) -> Tensor:
    wide = [torch.rand(64, 64) * x for _ in range(3)]
    return sum((w.sum() for w in wide), torch.zeros(()))


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"fallback_random": True}])
def test_random_numbers(options: dict[str, Any]) -> None:
    results = []
    for order in ("given", "best"):
        run = compiled(draws, order=order, **options)
        torch.manual_seed(0)
        results.append(run(torch.ones(64, 64)))
    assert torch.equal(*results)


def mutates(x: Tensor, state: Tensor) -> Tensor:
    before = [torch.cat([x * k + state] * 8, 1).softmax(1) for k in range(3)]
    state.add_(x.mean(0))
    return sum((w.sum(1, keepdim=True) for w in before), state * 2)


@pytest.mark.slow
def test_a_buffer_that_changes() -> None:
    x, states = torch.randn(4, 4), [torch.zeros(4), torch.zeros(4)]
    for _ in range(2):
        results = [
            compiled(mutates, order=order)(x, state) for order, state in zip(("given", "best"), states, strict=True)
        ]
        assert torch.equal(*results)
        assert torch.equal(*states)


@pytest.mark.slow
def test_networks() -> None:
    for name in BRANCHING:
        model, x = branching(name)
        with torch.no_grad():
            assert torch.equal(compiled(model, order="best")(x), compiled(model)(x))


def test_errors_leave_the_order_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("broken")

    forward, inputs = net()
    expected = compiled(forward)(*inputs)
    monkeypatch.setattr(compiling, "in_order", fail)
    with pytest.warns(RuntimeWarning, match="torch's order is kept, for memplan fails: RuntimeError: broken"):
        found = compiled(forward, order="best")(*inputs)
    assert all(map(torch.equal, found, expected))
    assert len(memplan.torch.compiled_plans()) == 1


def test_an_unknown_order() -> None:
    for wrong, message in (("fast", "order must be one of given, best"), (3, "order must be a name")):
        with pytest.raises((TypeError, ValueError), match=message):
            backend(None, [], options={"order": wrong})


def test_caches_keep_orders_apart() -> None:
    keys = {settings_of({"order": order}, {}, set())[0].key for order in ("given", "best", "lpmf")}
    assert len(keys) == 3


def test_an_order_is_asked_for_or_refused_where_inductor_would_not_ask() -> None:
    off = "reorder_for_peak_memory"
    assert settings_of({"order": "best"}, {}, {off})[1] == {off: True}
    assert settings_of({"order": "given", off: False}, {}, {off})[1] == {off: False}
    with pytest.raises(ValueError, match=f"order='best' needs Inductor's {off}, got False"):
        settings_of({"order": "best", off: False}, {}, {off})
