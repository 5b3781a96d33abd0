"""Advice that is applied, and cost over capacity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import memplan
from builders import graphs
from builders.graphs import chain
from builders.onnx_models import model, value


def idle_plan(**options: Any) -> memplan.Plan:
    return memplan.plan(chain(8), inplace=False, **options)


@pytest.mark.parametrize("kind", ["recompute", "offload"])
def test_idle_tensors_leave_as_the_advice_says(kind: str) -> None:
    explanation = idle_plan().explain()
    [advice] = [a for a in explanation.advice if a.kind == kind]
    plan = explanation.apply(advice, transfer=0.01)
    plan.verify()
    assert plan.load <= advice.load < explanation.load
    assert {change.kind for change in plan.changes} == {kind}
    assert plan.added_cost == sum(change.cost for change in plan.changes) > 0


def test_the_first_advice_is_applied_by_default() -> None:
    explanation = idle_plan().explain()
    assert explanation.apply(transfer=0.0).load == explanation.advice[0].load


def test_options_donations_and_orders_are_applied() -> None:
    graph: dict[str, Any] = graphs.graph(
        [graphs.tensor("x", 100, "input"), *({"name": n, "bytes": 100} for n in ("t", "y"))],
        graphs.op("f", "x", "t", type="Relu", inplace=["t x"]),
        graphs.op("g", "t", "y", type="Relu", inplace=["y t"]),
        outputs="y",
    )
    explanation = memplan.plan(graph, inplace=False).explain()
    assert explanation.apply("inplace").load == 100
    donated = memplan.plan(graph).explain().apply("donate")
    assert donated.load == 0
    assert [change.kind for change in donated.changes] == ["donate"]


def test_advice_has_to_be_there() -> None:
    explanation = idle_plan().explain()
    with pytest.raises(ValueError, match="no advice of kind 'order'; there is offload, recompute"):
        explanation.apply("order")
    with pytest.raises(ValueError, match="nothing that is known lowers the load"):
        memplan.plan({"tensors": [], "ops": [], "outputs": []}).explain().apply()
    with pytest.raises(TypeError, match="of a problem"):
        memplan.plan(([4, 4], [0, 0], [2, 2])).explain().apply()


class Gradients(nn.Module):
    """Its outputs are made one after another, and idle until the end."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        made = []
        for k in range(4):
            made.append((torch.sin(x) + k).T)
        return tuple(made)


def test_outputs_are_handed_over_by_torch() -> None:
    net, x = Gradients(), torch.randn(16, 16)
    explanation = memplan.plan(net, args=(x,), alignment=64).explain()
    plan = explanation.apply("hand_over")
    assert plan.load < explanation.load
    assert {change.kind for change in plan.changes} == {"hand_over"}
    for expected, found in zip(net(x), plan.run(x, check=True).outputs, strict=True):
        assert torch.equal(expected, found)


def test_outputs_are_handed_over_by_onnx() -> None:
    from onnx import helper

    nodes = [helper.make_node("Sin", ["x"], ["a"]), helper.make_node("Cos", ["x"], ["b"])]
    nodes.append(helper.make_node("Exp", ["x"], ["c"]))
    onnx = model(nodes, [value("x", [8, 8])], [value(name, [8, 8]) for name in "abc"], [])
    explanation = memplan.plan(onnx, alignment=64).explain()
    plan = explanation.apply("hand_over")
    assert plan.load < explanation.load
    x = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
    expected = memplan.plan(onnx, alignment=64).run(x).outputs
    found = plan.run(x, check=True).outputs
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert np.array_equal(array, found[name])


# Cost over capacity


def test_cost_rises_as_the_capacity_falls() -> None:
    seen: list[memplan.fitting.ParetoPoint] = []
    curve = memplan.pareto(chain(8), inplace=False, on_point=seen.append)
    assert list(curve) == seen
    assert len(curve) == 8
    costs = [point.added_cost for point in curve]
    assert costs[0] == 0 < costs[-1]
    assert costs == sorted(costs)
    for point in curve:
        assert point.plan is not None
        assert point.plan.peak <= point.capacity
        assert point.cost_bound <= point.added_cost
    assert curve.cost == 16
    assert curve.load == memplan.plan(chain(8), inplace=False).load


def test_a_plan_has_a_curve_with_its_options(tmp_path: Path) -> None:
    curve = idle_plan().pareto(["300B", 450, 299])
    assert [point.capacity for point in curve] == [450, 300, 299]
    assert [point.plan is None for point in curve] == [False, False, True]
    assert curve.points[-1].proven
    assert "needs" in curve.points[-1].why
    assert curve.to_dict()["points"][0]["peak"] <= 450
    assert "no plan" in str(curve)
    assert "<svg" in curve._repr_html_()
    curve.save(tmp_path / "curve.png")
    assert (tmp_path / "curve.png").stat().st_size > 1000
    assert curve.plot().get_xlabel() == "capacity (B)"


def test_a_curve_ends_when_it_is_told_to() -> None:
    def stop(point: memplan.fitting.ParetoPoint) -> None:
        if point.added_cost > 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        memplan.pareto(chain(8), [900, 300, 200], inplace=False, on_point=stop)


def test_curves_are_of_graphs() -> None:
    with pytest.raises(TypeError, match="pareto takes graphs"):
        memplan.pareto(([1], [0], [1]))
    with pytest.raises(TypeError, match="capacities must be a list of bytes, got '8GiB'"):
        memplan.pareto(chain(3), "8GiB")
    with pytest.raises(TypeError, match="of a problem"):
        memplan.plan(([4], [0], [1])).pareto()
