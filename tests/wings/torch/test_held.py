"""What steps that memplan compiles, plans or fits hold: explained in whole, not the arena alone."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import memplan  # noqa: E402
from memplan.explaining.held import ARENA  # noqa: E402
from memplan.torch.training.holding import around  # noqa: E402

pytestmark = pytest.mark.usefixtures("kernels_compiled_once", "nothing_compiled")


class Net(nn.Module):
    """A convolution, whose result a kernel allocates, and an activation that saves its input."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.last = nn.Linear(8 * 64, 5)

    def forward(self, x: Any) -> Any:
        hidden = nn.functional.gelu(self.conv(x))
        return self.last((hidden.softmax(1) + hidden).flatten(1))


def net() -> Net:
    torch.manual_seed(0)
    return Net()


def trainer(model: nn.Module, run: Callable[..., Any]) -> Callable[[], Any]:
    """A step of training, which gives the loss and the gradients."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    x = torch.randn(16, 3, 8, 8, generator=torch.Generator().manual_seed(0))

    def step() -> Any:
        optimizer.zero_grad()
        loss = run(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def by_kind(found: memplan.explaining.Explanation) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for alive in found.alive:
        sizes[alive.why] = sizes.get(alive.why, 0) + alive.bytes
    return sizes


@pytest.mark.slow
def test_compiled_graphs() -> None:
    model = net()
    x = torch.randn(16, 3, 8, 8)
    torch.compile(model, backend="memplan", dynamic=False)(x).square().mean().backward()
    with torch.no_grad():
        torch.compile(model, backend="memplan", dynamic=False)(x)
    kinds, seen = {}, set()
    for graph in memplan.torch.compiled_plans():
        found = graph.explain()
        assert (found.peak, found.load) == (graph.planned, graph.load)
        assert found.what == f"{graph.name} on cpu"
        assert found.peak_step is not None
        assert sum(alive.bytes for alive in found.alive) == found.peak_step.load
        assert any(op for op in graph.held.ops)
        kinds[graph.name.split()[0]] = set(graph.held.kinds)
        seen |= {alive.name for alive in found.alive}
    assert {ARENA, "returned"} <= kinds["inference"]
    assert {"saved for backward", "returned"} <= kinds["forward"]
    given = "gradients that backward is given"
    assert {"saved for backward", "returned by forward", given, "gradients", ARENA} <= kinds["backward"]
    assert "convolution" in seen  # what forward saves is named


@pytest.mark.slow
def test_what_forward_saves_is_what_would_bring_less() -> None:
    """With all that is saved away, forward holds far less than the arena and the rest alone."""
    model = net()
    torch.compile(model, backend="memplan", dynamic=False)(torch.randn(16, 3, 8, 8)).sum().backward()
    for graph in memplan.torch.compiled_plans():
        (advice,) = [a for a in graph.explain().advice if a.kind == "saved for backward"]
        assert advice.load < graph.load
        assert advice.bytes > 0
        assert "budget" in str(graph.explain())


def test_a_planned_step() -> None:
    model = net()
    step = memplan.torch.planned(trainer(model, model), quiet=True, stacks=True)
    with pytest.raises(RuntimeError, match="not planned yet: call it 3 times"):
        step.explain()
    for _ in range(4):
        step()
    found = step.explain()
    report = step.report()
    assert report is not None
    weights = sum(weight.nbytes for weight in model.parameters())
    kinds = by_kind(found)
    assert kinds["weights"] == weights
    assert kinds["states of the optimizer"] == 2 * weights + 4 * 4  # and a count for each weight
    assert found.what == "step"
    around = sum(kinds.get(kind, 0) for kind in ("weights", "states of the optimizer", "other tensors"))
    kept = kinds.get("kept past the step", 0)
    assert found.peak == report.arena_bytes + around + kept
    names = {alive.name for alive in found.alive}
    assert {"conv.weight", "exp_avg of conv.weight"} <= names
    assert any("test_held.py" in name for name in names)
    del step, model
    gc.collect()


def test_tensors_without_bytes_of_their_own_are_passed_over() -> None:
    sparse = torch.eye(3).to_sparse().requires_grad_()
    sparse.grad = torch.eye(3).to_sparse()
    dense = torch.ones(5, 7)
    found: list[Any] = []

    def mapped(x: Any) -> Any:
        found.extend(around())
        return x

    torch.func.vmap(mapped)(dense)
    assert found.count(("float32 [5, 7]", dense.nbytes, "other tensors")) == 1
    assert not any("[3, 3]" in name for name, *_ in found)


@pytest.mark.slow
def test_a_fitted_step() -> None:
    model = nn.Sequential(*(nn.Sequential(nn.Linear(32, 128), nn.GELU(), nn.Linear(128, 32)) for _ in range(4)))
    x = torch.randn(256, 32)
    for change in (memplan.torch.checkpoint, memplan.torch.offload, memplan.torch.fit):
        with change(model, "80%", args=(x,), optimizer=torch.optim.AdamW) as fitted:
            found = fitted.explain()
        assert found.peak == found.load == fitted.after.total
        kinds = by_kind(found)
        assert kinds["weights"] == fitted.after.weights
        assert kinds["states of the optimizer"] == fitted.after.states
        assert kinds.get("gradients", 0) == fitted.after.gradients
        assert found.peak_step is not None
        assert found.peak_step.op == fitted.after.at
        assert "0.0.weight" in {alive.name for alive in found.alive}
    assert fitted.before.total > fitted.after.total


@pytest.mark.few(1)
@pytest.mark.parametrize("backend", ["inductor", "memplan"])
def test_a_planned_step_of_a_compiled_model(backend: str) -> None:
    """Losses and weights are those of the compiled model alone, and compiled code is served by the arena too."""
    plain, own = net(), net()
    alone = trainer(plain, torch.compile(plain, backend=backend, dynamic=False))
    step = memplan.torch.planned(trainer(own, torch.compile(own, backend=backend, dynamic=False)), quiet=True)
    assert all(torch.equal(alone(), step()) for _ in range(6))
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), own.parameters(), strict=True))
    report = step.report()
    assert report is not None
    assert (report.missed, report.moved) == (0, 0)
    hidden = 16 * 8 * 64 * 4  # what compiled code allocates for the activation
    assert (next(iter(step.plans.values())).problem.size >= hidden).any()
    assert report.served > report.outside
    del step
    gc.collect()
