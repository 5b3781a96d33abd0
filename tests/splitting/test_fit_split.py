"""`memplan.fit` with "split": what it reaches, what it costs, and what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

import memplan
from builders.mobilenet import mobilenet_v2


def test_mobilenet_in_pieces_repeats_no_multiplication() -> None:
    net = mobilenet_v2()
    assert memplan.plan(net).peak == 1_505_280
    plan = memplan.fit(net, 162_176, allow=("split",))
    assert plan.peak <= 162_176
    multiplications = sum(op["cost"] for op in net["ops"])
    parts = sum(op.cost for op in plan.graph.ops if op.type != "memplan.keep")
    assert parts == pytest.approx(multiplications, rel=1e-9)
    kept = [change for change in plan.changes if change.kind == "split"]
    assert plan.added_cost == pytest.approx(sum(2 * change.kept for change in kept))  # rows that are moved
    assert plan.cost_bound == 0  # nothing is proven of it


def test_the_least_is_lower_and_says_what_it_is_made_of() -> None:
    net = mobilenet_v2(96, 0.35)
    plan = memplan.fit(net, "least", allow=("split",))
    assert plan.peak <= 0.15 * memplan.plan(net).peak
    assert plan.fitting.load_bound <= plan.peak
    first = next(change for change in plan.changes if change.kind == "split")
    assert first.pieces > 1
    assert set(first.tensors) <= {tensor["name"] for tensor in net["tensors"]}
    assert "pieces, so that" in first.why
    assert "split" in str(plan.fitting)


def test_a_plan_with_pieces_is_saved_and_read(tmp_path: Path) -> None:
    plan = memplan.fit(mobilenet_v2(96, 0.35), "30%", allow=("split",))
    plan.to_json(tmp_path / "plan.json")
    assert memplan.read_plan(tmp_path / "plan.json").changes == plan.changes


def test_a_call_has_a_price() -> None:
    net = mobilenet_v2(96, 0.35)
    free = memplan.fit(net, "30%", allow=("split",))
    dear = memplan.fit(net, "30%", allow=("split",), call=1000)
    calls = len(free.graph.ops) - len(net["ops"])
    assert dear.added_cost >= free.added_cost + 1000 * min(calls, 1)
    with pytest.raises(ValueError, match="call needs 'split' among what allow holds"):
        memplan.fit(net, "30%", call=3)
    with pytest.raises(ValueError, match="max_pieces must be >= 2"):
        memplan.fit(net, "30%", allow=("split",), max_pieces=1)


def test_no_pieces_below_the_floor() -> None:
    net = mobilenet_v2(96, 0.35)
    with pytest.raises(memplan.InfeasibleError, match="while an op runs one iteration") as error:
        memplan.fit(net, 1000, allow=("split",))
    assert error.value.proven
    with pytest.raises(memplan.InfeasibleError, match="in pieces, the least load found is"):
        memplan.fit(net, 13_000, allow=("split",))


def test_networks_of_torch_are_split_and_do_not_run_yet() -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(16, 256), torch.nn.GELU(), torch.nn.Linear(256, 16))
    x = torch.randn(64, 16)
    plan = memplan.fit(model, "25%", allow=("split",), args=(x,))
    assert plan.peak <= 0.25 * memplan.plan(model, args=(x,)).peak
    with pytest.raises(memplan.UnsupportedError, match="the plan has ops in pieces, which"):
        plan.run(x)
