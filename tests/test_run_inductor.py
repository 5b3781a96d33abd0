"""torch.compile with the backend of memplan: results, plans, what the wrapper code says, caches, and what is refused."""

from __future__ import annotations

import copy
import functools
import logging
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import memplan
from memplan.run.inductor import backend

pytest.importorskip("torch")

import torch
import torch._inductor.config
from torch import nn
from torch._dynamo.utils import counters
from torch._inductor.utils import run_and_get_code

functional = nn.functional


class Block(nn.Module):
    """A block of a transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(32), nn.Linear(32, 96), nn.Linear(32, 32)
        self.mlp = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.unflatten(-1, (4, 8)).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1))
        x = x + self.out(((q @ k.mT).softmax(-1) @ v).transpose(1, 2).flatten(2))
        return x + self.mlp(x)


def net() -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    return nn.Sequential(Block(), Block()), torch.randn(2, 12, 32)


@pytest.fixture(scope="module", autouse=True)
def cache_of_torch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Kernels are compiled once for all tests here, with no trial of the processor; nothing is left behind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("inductor")))
        with torch._inductor.config.patch({"cpp.simdlen": 1, "fx_graph_cache": False}):
            yield


@pytest.fixture(autouse=True)
def nothing_compiled() -> Iterator[None]:
    torch._dynamo.reset()
    memplan.run.clear_compiled_plans()
    yield
    torch._dynamo.reset()


def compiled(model: Callable[..., Any], by: Any = backend, **options: Any) -> Callable[..., Any]:
    return torch.compile(model, backend=by, dynamic=False, options=options or None)


def gradients(model: nn.Module, run: Callable[..., Any], x: torch.Tensor) -> list[torch.Tensor]:
    model.zero_grad()
    result = run(x)
    result.square().sum().backward()
    return [result.detach(), *(parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None)]


def equal(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return len(one) == len(other) and all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_inference() -> None:
    model, x = net()
    with torch.no_grad():
        expected = compiled(model, "inductor")(x)
        torch._dynamo.reset()
        assert torch.equal(compiled(model)(x), expected)
    (found,) = memplan.compiled_plans()
    assert found.name.startswith("inference")
    assert found.device == "cpu"
    assert (found.plan.offsets % 64 == 0).all()
    found.plan.verify()
    assert found.load <= found.planned
    assert found.load <= found.default


def test_training() -> None:
    model, x = net()
    expected = gradients(model, compiled(model, "inductor"), x)
    torch._dynamo.reset()
    assert equal(gradients(model, compiled(model), x), expected)
    assert [found.name.split()[0] for found in memplan.compiled_plans()] == ["forward", "backward"]
