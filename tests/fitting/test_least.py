"""As little as can be reached: against all schedules of small graphs, and as people ask for it."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import memplan
from builders.fit_cases import APART, Dict, small_graph, training_graph
from builders.graphs import chain
from memplan import _core, cli
from memplan.importers.graph_dict import graph_of
from memplan.plans.costs import costs_of
from oracles.schedules import computed, least_added_cost


def least(graph: Dict, **options: Any) -> _core.Fitted:
    """What the core makes of a graph; its load and what it computes are checked."""
    made = graph_of(graph)
    again = _core.again_of(made)
    found = _core.fit_graph(made, costs_of(made, "auto"), again, APART, None, **options)
    assert _core.buffers_of(found.graph, APART).problem.load == found.load
    assert found.load_bound <= found.load
    assert found.cost_bound <= found.added_cost
    original = {op.name: op.name.rsplit("~", 1)[0] for op in found.graph.ops if "~" in op.name}
    assert computed(found.graph.to_dict(), original) == computed(graph, {})
    return found


def least_capacity(graph: Dict, most: int) -> int:
    """The bytes that the best of all schedules needs; it needs no more than `most`."""
    never = [op["name"] for op in graph["ops"] if op.get("recompute") is False]
    low = 0
    while low < most:
        middle = (low + most) // 2
        low, most = (middle + 1, most) if least_added_cost(graph, middle, never) is None else (low, middle)
    return low


def test_small_graphs_need_as_little_as_the_best_of_all_schedules() -> None:
    """The exact search proves it; the other finds it mostly, and claims nothing that is not so."""
    missed = 0
    for seed in range(60):
        graph = small_graph(random.Random(seed), 8)
        proven, searched = least(graph), least(graph, states=0, work=1_000_000)
        best = least_capacity(graph, proven.load)
        assert (proven.load, proven.load_bound) == (best, best)
        assert proven.added_cost == proven.cost_bound
        assert searched.load_bound <= best <= searched.load
        missed += searched.load > best
    assert missed <= 3


def test_a_time_limit_ends_it_with_what_is_reached() -> None:
    graph = training_graph(random.Random(3), 40)
    load = _core.buffers_of(graph_of(graph), APART).problem.load
    soon = least(graph, time_limit=1e-9)
    later = least(graph, work=3_000_000)
    assert later.load <= soon.load <= load
    assert later.load < load


def test_as_people_ask_for_it() -> None:
    plan = memplan.fit(chain(8), "least")
    assert (plan.peak, plan.fitting.load_bound, plan.fitting.capacity, plan.fitting.least) == (300, 300, 300, True)
    assert "the least that is reached, 300 B" in str(plan)
    assert "no schedule needs less in this order of the ops" in str(plan.fitting)
    assert "no schedule needs less" in plan.summary()
    again = memplan.fit(chain(8), plan.peak)
    assert (again.peak, again.added_cost) == (plan.peak, plan.added_cost)
    with pytest.raises(memplan.InfeasibleError):
        memplan.fit(chain(8), plan.peak - 1)
    as_it_is = memplan.fit(chain(1), "least")
    assert (as_it_is.changes, as_it_is.peak) == ((), memplan.plan(chain(1)).peak)


def test_of_several_orders_the_lower_is_taken() -> None:
    """Two branches side by side hold less one after the other."""
    tensors: list[Dict] = [{"name": "x", "bytes": 8, "kind": "input"}]
    ops = []
    for stage in range(3):
        for branch in "ab":
            size = (100, 100, 4)[stage]
            tensors.append({"name": f"{branch}{stage}", "bytes": size})
            read = "x" if stage == 0 else f"{branch}{stage - 1}"
            op = {"name": f"{branch}{stage}.op", "inputs": [read], "outputs": [f"{branch}{stage}"], "recompute": False}
            ops.append(op)
    graph = {"tensors": tensors, "ops": ops, "outputs": ["a2", "b2"]}
    given = memplan.fit(graph, "least", allow=["recompute"])
    best = memplan.fit(graph, "least")
    assert (given.peak, best.peak) == (300, 204)
    assert [change.kind for change in best.changes] == ["order"]


def test_what_is_found_is_kept_in_files(tmp_path: Path) -> None:
    plan = memplan.fit(chain(8), "least")
    plan.to_json(tmp_path / "plan.json")
    read = memplan.read_plan(tmp_path / "plan.json")
    assert read.fitting == plan.fitting
    assert "the least that is reached" in str(read)


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "g.json"
    path.write_text(json.dumps(chain(8)))
    assert cli.main(["fit", str(path), "--capacity", "least"]) == 0
    assert "no schedule needs less in this order of the ops" in capsys.readouterr().out
    assert cli.main(["fit", str(path), "--capacity", "40%"]) == 0
    assert "To fit 360 B" in capsys.readouterr().out
    assert cli.main(["fit", str(path), "--capacity", "10%", "--allow", "recompute"]) == 1
    assert "as allow holds recompute and not order" in capsys.readouterr().err


def test_a_share_is_of_the_peak_as_it_is() -> None:
    peak = memplan.plan(chain(8)).peak
    assert peak == 900
    assert memplan.fit(chain(8), "50%").fitting.capacity == 450
    assert memplan.fit(chain(8), "100 %").changes == ()
    costs = memplan.pareto(chain(8), ["50%", "100%", 450])
    assert [point.capacity for point in costs] == [900, 450]


def test_what_stopped_at_the_budget_says_so() -> None:
    """And not how far it may be from the best, which nobody asked for."""
    size = [4, 4, 6, 2, 4, 4, 2, 6, 4, 2]
    first = [0, 0, 1, 2, 3, 3, 4, 5, 6, 6]
    problem = memplan.Problem(size, first, [f + 4 for f in first])
    stacked = memplan.plan(problem, "naive", capacity=100)
    assert "within 100 B, where the search ended" in str(stacked)
    assert "gap" not in stacked.summary()
    assert "gap" in memplan.plan(problem, "naive").summary()


def test_what_is_not_allowed_is_said() -> None:
    with pytest.raises(memplan.InfeasibleError, match=r"in the given order .* as allow holds recompute and not order"):
        memplan.fit(chain(8), 299, allow=["recompute"])
    with pytest.raises(memplan.InfeasibleError) as caught:
        memplan.fit(chain(8), 299)
    assert "allow" not in str(caught.value)
