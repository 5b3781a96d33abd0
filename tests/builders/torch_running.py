"""Plans of torch, run, and held against eager."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

import memplan
from memplan.torch.reading.fake import tensors_in


def same(a: Any, b: Any) -> bool:
    """Whether two nests hold the same tensors, NaN being NaN."""
    pairs = zip(tensors_in(a), tensors_in(b), strict=True)
    return all(
        x.shape == y.shape and x.dtype == y.dtype and torch.equal(x.isnan(), y.isnan()) and equal_numbers(x, y)
        for (_, x), (_, y) in pairs
    )


def equal_numbers(x: Tensor, y: Tensor) -> bool:
    return torch.equal(x.nan_to_num(), y.nan_to_num()) if x.is_floating_point() else torch.equal(x, y)


def planned(module: nn.Module, *args: Any, **options: Any) -> memplan.Plan:
    return memplan.plan(module, "first_fit", args=args, alignment=64, **options)


def check(module: nn.Module, *args: Any, **options: Any) -> Any:
    """Run a module inside its plan, poisoned, and hold it against eager."""
    plan = planned(module, *args, **options)
    run = plan.run(*args, check=True)
    with torch.no_grad():
        assert same(run.outputs, module(*args))
    assert run.arena_bytes == plan.peak
    return run


def gradients(module: nn.Module, loss: Tensor) -> dict[str, Tensor]:
    module.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    return {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
