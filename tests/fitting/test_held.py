"""What a percentage is of, and what a run of a plan holds: kernels' memory counted, unless the arena alone is asked."""

from __future__ import annotations

import pickle
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import memplan
from builders.graphs import chain
from memplan.plans.beside import beside

IMAGE = torch.zeros(1, 4, 48, 48)


def wide() -> nn.Module:
    """A convolution that makes much of little, and one that makes little of much."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(4, 32, 3, padding=1), nn.Tanh(), nn.Conv2d(32, 16, 3, padding=1), nn.Tanh()]
    return nn.Sequential(*layers, nn.Conv2d(16, 4, 3, padding=1)).eval()


def eager(module: nn.Module, **how: Any) -> int:
    """What a step holds besides weights and inputs."""
    found = memplan.estimate(module, args=(IMAGE,), **how)
    return found.total - found.kept


@pytest.mark.parametrize("train", [False, True])
def test_a_share_is_of_what_the_network_holds_when_it_runs(train: bool) -> None:
    how: dict[str, Any] = {"args": (IMAGE,), "train": train, "allow": ["split", "recompute"]}
    plan = memplan.fit(wide(), "60%", **how)
    assert plan.fitting is not None
    assert plan.fitting.capacity == eager(wide(), train=train) * 3 // 5
    assert plan.held == plan.peak <= plan.fitting.capacity
    assert plan.fitting.share.endswith("what the network holds when it runs as it is, kernels' memory counted")
    assert plan.fitting.share in str(plan)
    assert {op.workspace > 0 for op in plan.graph.ops if "convolution" in op.type} == {True}  # type: ignore[union-attr]


def test_unless_the_arena_alone_is_asked_for() -> None:
    how: dict[str, Any] = {"args": (IMAGE,), "kernels": False}
    peak = memplan.plan(wide(), **how).peak
    plan = memplan.fit(wide(), "60%", allow=["split"], **how)
    assert plan.fitting is not None
    assert (plan.fitting.capacity, plan.fitting.share[:7]) == (peak * 3 // 5, "60% of ")
    assert plan.peak <= peak * 3 // 5 < plan.held
    network = memplan.capture(wide(), **how)
    assert memplan.fit(network, "60%", allow=["split"]).peak == plan.peak
    network = memplan.capture(wide(), args=(IMAGE,))
    assert memplan.fit(network, "60%", allow=["split"], kernels=False).peak == plan.peak


@pytest.mark.parametrize("capacity", ["100%", 10**7])
def test_what_fits_as_it_is_stays_so(capacity: int | str) -> None:
    """The arena with room for what kernels allocate is larger than what eager holds: results lie beside that room."""
    assert memplan.plan(wide(), args=(IMAGE,), kernels=True).peak > eager(wide())
    plan = memplan.fit(wide(), capacity, args=(IMAGE,))
    assert plan.changes == ()
    assert plan.peak < plan.held <= eager(wide())


def test_of_a_graph_it_is_of_the_peak() -> None:
    plan = memplan.fit(chain(8), "75%", allow=["recompute"], inplace=False)
    assert plan.fitting is not None
    assert plan.fitting.capacity == memplan.plan(chain(8), inplace=False).peak * 3 // 4
    assert plan.fitting.share.endswith("the peak of the network as it is")


def test_a_curve_is_over_the_same_shares() -> None:
    curve = memplan.pareto(wide(), ["60%"], args=(IMAGE,), allow=["split"])
    assert [point.capacity for point in curve] == [eager(wide()) * 3 // 5]
    alone = memplan.pareto(wide(), ["60%"], args=(IMAGE,), allow=["split"], kernels=False)
    assert [point.capacity for point in alone] == [memplan.plan(wide(), args=(IMAGE,)).peak * 3 // 5]
    [as_it_is] = memplan.pareto(wide(), ["100%"], args=(IMAGE,))
    assert as_it_is.plan is not None
    assert (as_it_is.added_cost, as_it_is.peak) == (0, as_it_is.plan.held)


def test_where_a_step_without_data_fails_it_is_of_the_peak() -> None:
    """A size that depends on data is given."""

    class Chosen(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x[x > 0].exp().sum()  # type: ignore[no-any-return]

    how: dict[str, Any] = {"args": (IMAGE,), "dims": {"u0": 500}}
    assert "the peak of" in memplan.fit(Chosen(), "100%", **how).fitting.share  # type: ignore[union-attr]


@pytest.mark.skipif(sys.platform != "linux", reason="kernels are served on Linux only")
def test_held_is_what_runs_hold() -> None:
    x = torch.randn(2, 4, 96, 96)
    plan = memplan.plan(wide(), args=(x,), alignment=64)
    found = [plan.run(x) for _ in range(3)][-1]
    assert found.outside is not None
    assert 2 * plan.peak > plan.held > 1.2 * plan.peak
    assert abs(plan.held - found.arena_bytes - found.outside) < 0.05 * plan.held
    assert f"{plan.held / 2**20:.2f} MiB held with kernels' own memory" in str(plan)
    assert "the peak is the arena alone" in plan.summary()
    room = memplan.plan(wide(), args=(x,), alignment=64, kernels=True)
    assert room.held == room.peak
    assert "kernels" not in str(room)


def test_files_and_pickles_keep_it(tmp_path: Path) -> None:
    plan = memplan.plan(wide(), args=(IMAGE,))
    plan.to_json(tmp_path / "plan.json")
    again = memplan.read_plan(tmp_path / "plan.json")
    assert again.held == pickle.loads(pickle.dumps(plan)).held == plan.held > plan.peak
    text = (tmp_path / "plan.json").read_text()
    (tmp_path / "wrong.json").write_text(text.replace('"scratch": {', '"scratch": {"x": -1, '))
    with pytest.raises(ValueError, match=r"scratch\['x'\] must be >= 0 bytes, got -1"):
        memplan.read_plan(tmp_path / "wrong.json")


def test_scratch_is_of_ops_by_the_names_that_they_had() -> None:
    """An op that runs again needs it again, and a piece its share; what the arena has free is no more."""
    plan = memplan.plan(chain(3), inplace=False)
    names = plan.order
    most = {name: {name: 10**6} for name in names}

    def found(scratch: dict[str, int], ops: list[str]) -> int:
        graph = plan.graph
        assert graph is not None
        renamed = [memplan.Op(name, op.type, op.inputs, op.outputs) for name, op in zip(ops, graph.ops, strict=True)]
        other = replace(plan, graph=memplan.Graph(graph.tensors, renamed, graph.outputs), scratch=scratch)
        return beside(other)

    whole = found(most[names[0]], list(names))
    assert whole > 10**6 - plan.peak
    assert found({"a": 10**6}, ["a~1", *names[1:]]) == whole
    assert found({"a": 4 * 10**6}, ["a/2of4~1", *names[1:]]) == whole
    assert found({"a": 10**6}, list(names)) == 0
    assert found({names[0]: 1}, list(names)) <= 1


def test_the_largest_size_counts_what_kernels_allocate() -> None:
    found = memplan.largest(wide(), "4MiB", args=(IMAGE,), axes={"input": 0}, fit=True)
    assert found.total is not None
    plan = memplan.fit(wide(), 2**22, args=(torch.zeros(found.size, 4, 48, 48),), alignment=64)
    outside = memplan.estimate(wide(), args=(torch.zeros(found.size, 4, 48, 48),)).kept
    assert plan.held <= found.total - outside < 2**22
    assert memplan.plan(wide(), args=(torch.zeros(found.size + 1, 4, 48, 48),)).peak + outside < 2**22
