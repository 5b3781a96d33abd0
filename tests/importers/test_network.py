"""A network that is captured once: every function takes it, says the same of it, and its plans run."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import memplan
from builders.onnx_models import model, node, value

X = torch.randn(32, 16)


@pytest.fixture(scope="module")
def module() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 64), *(layer for _ in range(6) for layer in (nn.GELU(), nn.LayerNorm(64))))


@pytest.fixture(scope="module")
def network(module: nn.Module) -> memplan.importers.Network:
    found = memplan.capture(module, args=(X,), train=True)
    assert isinstance(found, memplan.importers.Network)
    return found


@pytest.mark.slow
def test_functions_say_the_same_of_it_as_of_the_source(module: nn.Module, network: memplan.importers.Network) -> None:
    reading: dict[str, Any] = {"args": (X,), "train": True}
    assert memplan.plan(network) == memplan.plan(module, **reading)
    assert memplan.fit(network, "90%") == memplan.fit(module, "90%", **reading)
    assert memplan.estimate(network) == memplan.estimate(module, **reading)
    assert memplan.reorder(network) == memplan.reorder(module, **reading)
    assert memplan.order_bound(network) == memplan.order_bound(module, **reading)
    assert memplan.capture(network) is network
    assert memplan.compare(network, ["first_fit"])["first_fit"].peak == memplan.plan(network, "first_fit").peak
    assert memplan.plan_many({"a": network, "b": network}).peak == memplan.plan(network).peak
    memplan.order_bound(network).check(network)  # type: ignore[arg-type]


def test_its_plans_run(module: nn.Module, network: memplan.importers.Network) -> None:
    for plan in (memplan.plan(network, alignment=64), memplan.fit(network, "95%", alignment=64)):
        found = plan.run(X, check=True)
        module.zero_grad()
        module(X).sum().backward()
        for name, parameter in module.named_parameters():
            assert parameter.grad is not None
            assert torch.equal(found.gradients[name], parameter.grad)


def test_so_do_those_of_a_model_of_onnx() -> None:
    relu = model(
        [node("Relu", ["x"], ["h"]), node("Add", ["h", "x"], ["y"])], [value("x", [2, 3])], [value("y", [2, 3])]
    )
    network = memplan.capture(relu)
    x = torch.tensor([[1.0, -2, 3], [-4, 5, -6]]).numpy()
    assert memplan.plan(network, alignment=64).run(x, check=True).outputs["y"].tolist() == (x.clip(0) + x).tolist()


def test_what_it_was_captured_with_is_not_said_again(network: memplan.importers.Network) -> None:
    with pytest.raises(TypeError, match="option train goes with capture; this network was captured"):
        memplan.plan(network, train=True)
    with pytest.raises(TypeError, match="go with capture"):
        memplan.estimate(network, train=True)


def test_pickles_leave_the_source_out(network: memplan.importers.Network) -> None:
    again = pickle.loads(pickle.dumps(network))
    assert (again.graph, again.source, again.notes) == (network.graph, None, network.notes)
    assert memplan.plan(again) == memplan.plan(network)
    assert repr(network).startswith("<memplan.importers.Network: ")


def test_what_has_no_ops_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "lifetimes.csv"
    path.write_text("id,lower,upper,size\na,0,2,8\nb,1,3,8\n")
    assert isinstance(memplan.capture(path), memplan.Problem)
