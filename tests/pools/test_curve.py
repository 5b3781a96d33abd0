"""What each capacity of a pool costs: `memplan.pareto` with pools, as figures, table and picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest

import memplan
from memplan.fitting import pools as curves
from memplan.plans import Pool

# Four buffers, of which any two that follow one another are alive together; to access them costs 16, 10, 8 and 2.
PROBLEM = memplan.Problem([4, 2, 4, 2], [0, 1, 2, 3], [2, 3, 4, 5], 1, list("abcd"))
COUNTS = {"a": 4, "b": 5, "c": 2}
POOLS = [Pool("sram", 4), Pool("dram")]


def curve(**options: Any) -> memplan.fitting.Pareto:
    return memplan.pareto(PROBLEM, **{"pools": POOLS, "accesses": COUNTS, **options})


def test_each_capacity_has_its_least_cost() -> None:
    seen: list[memplan.fitting.ParetoPoint] = []
    found = curve(on_point=seen.append)
    assert list(found) == seen
    assert {point.capacity: point.added_cost for point in found} == {6: 0, 5: 12, 4: 12, 3: 24, 2: 24, 1: 36, 0: 36}
    for point in found:
        assert point.plan is not None
        assert point.plan.pools is not None
        assert point.cost_bound == point.added_cost == point.plan.pools.cost
        assert point.peak == point.plan.pools["sram"].peak <= point.capacity
    assert (found.pool, found.given, found.load, found.cost, found.interrupted) == ("sram", 4, 6, 36, False)


def test_a_byte_saves_what_a_smaller_plan_costs_more() -> None:
    found = curve(capacities=[6, 4, 2, 0])
    assert found.worth == {6: 6.0, 4: 6.0, 2: 6.0}
    assert found.to_dict()["pool"] == "sram"
    assert [point["peak"] for point in found.to_dict()["points"]] == [6, 4, 2, 0]


def test_another_pool_than_the_first_may_be_asked_for() -> None:
    found = curve(pools=[Pool("sram", 2), Pool("dram", 6)], pool="dram", capacities=["6B", 4, 3])
    assert [point.added_cost for point in found] == [24, 24, 0]
    assert [point.plan is None for point in found] == [False, False, True]
    assert found.points[-1].proven
    assert "fits in none of the pools" in found.points[-1].why


def test_a_plan_in_pools_has_the_curve_of_what_it_was_given(tmp_path: Path) -> None:
    plan = memplan.plan(PROBLEM, pools=POOLS, accesses=COUNTS)
    assert plan.pareto() == curve()
    assert plan.pareto([4], pool="dram").pool == "dram"
    plan.to_json(tmp_path / "plan.json")
    with pytest.raises(TypeError, match="of a problem, or from a file"):
        memplan.read_plan(tmp_path / "plan.json").pareto()


def test_a_graph_has_its_options() -> None:
    graph = memplan.capture("example:gpt2_infer").graph
    plan = memplan.plan(graph, pools=[Pool("sram", "1MiB"), Pool("dram")], inplace=False, alignment=64)
    found = plan.pareto(["1MiB", "8MiB"])
    assert [point.capacity for point in found] == [8 * 2**20, 2**20]
    assert found.points[-1].added_cost == plan.pools.cost  # type: ignore[union-attr]
    assert found.points[0].plan.storage.alignment == 64  # type: ignore[union-attr]
    assert not found.points[0].plan.storage.inplace  # type: ignore[union-attr]


def test_what_is_known_of_one_capacity_holds_for_others() -> None:
    """A bound holds for less room, and a plan for more."""
    plan = memplan.plan(PROBLEM, pools=POOLS)
    large = memplan.fitting.ParetoPoint(8, plan, 10, 6, peak=7)
    small = memplan.fitting.ParetoPoint(4, plan, 9, 3, peak=3)
    assert curves._bounded(small, [large]).cost_bound == 6
    better = curves._falling([large, small])[0]
    assert (better.capacity, better.added_cost, better.cost_bound, better.peak) == (8, 9, 6, 3)
    other = memplan.fitting.ParetoPoint(2, memplan.plan(([1], [0], [1]), pools=POOLS), 1, 1, peak=1)
    assert curves._bounded(other, [large]).cost_bound == 1
    assert curves._falling([large, other]) == (large, other)


def test_ctrl_c_keeps_the_points_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = curves.plan
    calls = []

    def interrupted(*args: Any, **options: Any) -> memplan.Plan:
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return planned(*args, **options)

    monkeypatch.setattr(curves, "plan", interrupted)
    found = curve(capacities=[6, 4, 2])
    assert found.interrupted
    assert [point.capacity for point in found] == [6, 4]
    assert "interrupted" in str(found)
    calls[:] = [1, 1]
    with pytest.raises(KeyboardInterrupt):
        curve(capacities=[6, 4, 2])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"pools": [], "pool": "sram"}, TypeError, "pool needs pools"),
        ({"pool": "flash"}, ValueError, "one of the pools, got 'flash'"),
        ({"pools": ["sram"]}, TypeError, "pools must hold memplan.plans.Pool, got 'sram'"),
        ({"capacities": "4B"}, TypeError, "capacities must be a list of bytes"),
        ({"capacity": 4}, TypeError, "takes capacities, a list"),
    ],
)
def test_bad_input_is_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        curve(**options)


# Table and picture


def test_the_table_has_a_row_per_capacity() -> None:
    text = str(curve(capacities=[6, 4, 0]))
    assert "cost over the capacity of sram" in text
    assert [line.split() for line in text.splitlines() if " B " in line] == [
        ["6", "B", "6", "B", "0", "0", "0.0%", "6.00"],
        ["4", "B", "4", "B", "12", "12", "33.3%", "6.00"],
        ["0", "B", "0", "B", "36", "36", "100.0%"],
    ]
    assert "no plan" in str(curve(pools=[Pool("sram", 2), Pool("dram", 2)], pool="dram", capacities=[8, 1]))


def test_the_picture_says_what_is_known_between_the_points(tmp_path: Path) -> None:
    found = curve(capacities=[6, 4, 2])
    ax = found.plot()
    found_, bound = (stairs.get_data() for stairs in ax.patches[1:3])
    assert found_.edges.tolist() == bound.edges.tolist() == [2, 4, 6]
    assert found_.values.tolist() == [24, 12]
    assert bound.values.tolist() == [12, 0]
    assert ax.get_ylabel() == "written to and read from dram (B)"
    strip = ax.figure.axes[1]
    assert strip.patches[0].get_data().values.tolist() == [6, 6]  # type: ignore[attr-defined]
    assert strip.get_xlabel() == "capacity of sram (B)"
    assert curve(pools=[Pool("sram", 4, cost=1), Pool("dram", cost=3)]).plot().get_ylabel() == "cost of all accesses"
    assert "<svg" in found._repr_html_()
    found.save(tmp_path / "curve.svg")
    assert "sram as given" in (tmp_path / "curve.svg").read_text()
    own = plt.figure().add_subplot()
    assert found.plot(own) is own
    assert len(own.figure.axes) == 1
    plt.close("all")


def test_a_curve_without_any_plan_is_drawn() -> None:
    ax = curve(pools=[Pool("sram", 2), Pool("dram", 2)], pool="dram", capacities=[1]).plot()
    assert next(text.get_text() for text in ax.get_legend().get_texts()) == "no plan"
    plt.close("all")
