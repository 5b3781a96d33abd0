"""torch.compile with memplan: what backward is given and no kernel reads is let go before the first kernel."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from memplan.torch.compiling.compiled import loaded_since, times_loaded  # noqa: E402
from oracles.allocator import peak  # noqa: E402

pytestmark = pytest.mark.usefixtures("kernels_compiled_once", "nothing_compiled")


def figures(since: int) -> dict[str, dict[str, int]]:
    return {graph.name.split()[0]: graph.figures["cpu"] for graph in loaded_since(since)}


@pytest.mark.slow
def test_what_was_pooled_goes_at_once() -> None:
    """The backward of pooling is given what was pooled, and needs its shape alone."""
    torch.manual_seed(0)
    made = torch.nn.Conv2d(3, 16, 3, padding=1)
    module, x = torch.nn.Sequential(made, torch.nn.AvgPool2d(4)), torch.randn(8, 3, 32, 32)
    size, before = made(x).nbytes, times_loaded()
    run = torch.compile(module, backend="memplan")

    def step() -> Any:
        out = run(x)
        out.sum().backward()
        return out

    out = run(x)
    out.sum().backward(retain_graph=True)
    once = [weight.grad.clone() for weight in module.parameters()]
    out.sum().backward(retain_graph=True)  # of the same saved tensors
    assert all(torch.equal(weight.grad, 2 * first) for weight, first in zip(module.parameters(), once, strict=True))

    del out
    module.zero_grad()
    real, found = peak(step), figures(before)
    assert found["backward"]["default"] >= 2 * size  # it, and its gradient
    assert found["backward"]["planned"] < 2 * size
    assert real <= max(each["planned"] for each in found.values()) + 64


class Product(torch.autograd.Function):
    """x @ x @ y. The gradient of x is taken to be x @ x, as it lies or as a view: no kernel of backward reads that."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any, transposed: bool) -> Any:
        squared = x @ x
        ctx.save_for_backward(squared, y)
        ctx.transposed = transposed
        return squared @ y

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        squared, y = ctx.saved_tensors
        return squared.t() if ctx.transposed else squared, gradient @ y, None


@pytest.mark.parametrize("transposed", [False, True])
def test_what_is_returned_stays(transposed: bool) -> None:
    torch.manual_seed(0)
    x, y = (torch.randn(16, 16, requires_grad=True) for _ in range(2))
    run = torch.compile(lambda x, y: Product.apply(x, y, transposed), backend="memplan")
    run(x, y).backward(torch.ones(16, 16))
    squared = x @ x
    assert torch.equal(x.grad, squared.t() if transposed else squared)
    assert torch.equal(y.grad, torch.ones(16, 16) @ y)
