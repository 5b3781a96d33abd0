"""Networks that were made to fit a capacity, run: they compute what they did."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from onnx import helper
from torch import Tensor, nn

import memplan
from builders.onnx_models import model, value


class Block(nn.Module):
    """What is hard to run again: batch norm updates its statistics, and relu writes over its input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.relu(self.norm(self.conv(x))) + x
        return out


def network() -> nn.Module:
    torch.manual_seed(0)
    blocks = [Block(4) for _ in range(4)]
    return nn.Sequential(nn.Conv2d(3, 4, 3), *blocks, nn.Flatten(), nn.Dropout(0.2), nn.Linear(4 * 36, 3))


@cache
def captured() -> tuple[nn.Module, memplan.importers.Network, memplan.Plan]:
    net = network()
    traced = memplan.capture(net, args=(torch.randn(2, 3, 8, 8),), train=True)
    return net, traced, memplan.plan(traced, alignment=64)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("percent", "way"), [(80, "recompute"), (60, "recompute"), (50, "recompute"), (70, "offload"), (50, "offload")]
)
def test_training_gives_the_same_gradients(percent: int, way: str) -> None:
    net, traced, whole = captured()
    x = torch.randn(2, 3, 8, 8)
    plan = memplan.fit(traced, whole.load * percent // 100, alignment=64, allow=[way], time_limit=2, kernels=False)
    assert plan.peak <= whole.load * percent // 100
    assert {change.kind for change in plan.changes} == {way}
    statistics = {name: tensor.clone() for name, tensor in net.named_buffers()}
    torch.manual_seed(1)
    expected = whole.run(x)
    updated = {name: tensor.clone() for name, tensor in net.named_buffers()}
    net.load_state_dict(statistics, strict=False)
    torch.manual_seed(1)
    found = plan.run(x, check=True)
    assert torch.equal(expected.loss, found.loss)
    assert expected.gradients.keys() == found.gradients.keys()
    for name, gradient in expected.gradients.items():
        assert torch.equal(gradient, found.gradients[name]), name
    for name, tensor in net.named_buffers():
        assert torch.equal(tensor, updated[name]), name
    added = [op for change in plan.changes for op in change.ops]
    assert any("relu_~1" in op if way == "recompute" else op.endswith("~in") for op in added)
    again = plan.run(x)  # what is kept outside is of this run
    assert torch.isfinite(again.loss)


@pytest.mark.slow
def test_another_network_is_refused() -> None:
    net, x = network(), torch.randn(2, 3, 8, 8)
    load = memplan.plan(net, args=(x,), train=True, alignment=64).load
    plan = memplan.fit(net, load // 2, args=(x,), train=True, alignment=64, time_limit=2, kernels=False)
    other = nn.Sequential(*list(network())[:-1], nn.Linear(4 * 36, 4))
    with pytest.raises(memplan.errors.SourceError, match="not the one that was planned"):
        plan.run(x, source=other, train=True)


@pytest.mark.parametrize("way", ["recompute", "offload"])
def test_an_onnx_model_gives_the_same(way: str) -> None:
    """t0 is read again at the end, through a view; the ops in between need its bytes."""
    weights = {f"w{k}": np.random.default_rng(k).standard_normal((8, 8)).astype(np.float32) for k in range(4)}
    nodes = [helper.make_node("MatMul", ["x", "w0"], ["t0"]), helper.make_node("MatMul", ["t0", "w1"], ["t1"])]
    nodes += [helper.make_node("Reshape", ["t0", "shape"], ["view"])]
    nodes += [
        helper.make_node("Concat", ["t1", "t1"], ["t2"], axis=0),
        helper.make_node("MatMul", ["t2", "w2"], ["t3"]),
    ]
    nodes.append(helper.make_node("ReduceSum", ["t3"], ["t4"], keepdims=0))
    nodes.append(helper.make_node("Add", ["view", "t4"], ["y"]))
    stored = [helper.make_tensor(k, 1, v.shape, v.tobytes(), raw=True) for k, v in weights.items()]
    stored.append(helper.make_tensor("shape", 7, [2], [4, 16]))
    onnx = model(nodes, [value("x", [8, 8])], [value("y", [4, 16])], stored)
    x = np.random.default_rng(9).standard_normal((8, 8)).astype(np.float32)
    whole = memplan.plan(onnx, alignment=64)
    plan = memplan.fit(onnx, whole.load - 256, alignment=64, allow=[way])
    assert {change.kind for change in plan.changes} == {way}
    assert any(op.name.startswith("Reshape") and "~" in op.name for op in plan.graph.ops)  # type: ignore[union-attr]
    expected, found = whole.run(x), plan.run(x, check=True)
    assert np.array_equal(expected.outputs["y"], found.outputs["y"])


def test_costs_are_measured_and_nothing_is_left_changed() -> None:
    net, x = network(), torch.randn(2, 3, 8, 8)
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    load = memplan.plan(net, args=(x,), train=True, alignment=64).load
    ways = ["recompute", "offload"]
    plan = memplan.fit(
        net,
        load * 6 // 10,
        args=(x,),
        train=True,
        alignment=64,
        cost="profile",
        allow=ways,
        time_limit=2,
        kernels=False,
    )
    assert torch.equal(torch.rand(1), expected)
    assert plan.fitting is not None
    assert 0 < plan.added_cost < plan.fitting.cost < 60
    assert plan.fitting.unit == "seconds"
    for name, tensor in net.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    with pytest.raises(TypeError, match="nothing measures the ops of this source, which is none"):
        memplan.fit({"tensors": [], "ops": [], "outputs": []}, 10, cost="profile")
    with pytest.raises(ValueError, match="does not go with device="):
        memplan.fit(net, load, args=(x,), train=True, cost="profile", device="cuda")
