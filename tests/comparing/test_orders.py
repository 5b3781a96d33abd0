"""Comparisons over orders of the ops: each order is made once, and figures say of which order they are."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from matplotlib import pyplot
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import memplan
from builders.commands import run
from builders.graphs import two_branches
from builders.sweeping import Here
from memplan import _core
from memplan.comparing import comparison, ordered
from memplan.comparing.comparison import Comparison
from memplan.comparing.row import ComparisonRow
from memplan.printing.units import percent

PLANNERS = ["auto", "first_fit", "naive"]
ORDERS = ["given", "best", "bfs"]
PROBLEM = memplan.Problem([4, 2], [0, 1], [2, 3])


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """No figure stays open."""
    yield
    pyplot.close("all")


def bound_of_all() -> int:
    """Of the two branches: 11 bytes, or 12 where it is looked at which branch ends last."""
    bound = memplan.plan(two_branches()).order_bound
    assert bound in (11, 12)
    return bound


@pytest.fixture(scope="module")
def compared() -> Comparison:
    return memplan.compare(two_branches(), PLANNERS, orders=ORDERS)


def test_rows_are_the_plans_of_all_planners_in_all_orders(compared: Comparison) -> None:
    assert sorted((row.planner, row.order) for row in compared) == sorted((p, o) for p in PLANNERS for o in ORDERS)
    assert [row.peak for row in compared] == sorted(row.peak or 0 for row in compared)
    for order in ORDERS:
        graph = memplan.reorder(two_branches(), order=order)
        for planner in PLANNERS:
            plan, row = memplan.plan(graph, planner), compared[planner, order]
            assert row.plan == plan
            assert row.lower_bound == plan.lower_bound
    assert compared["auto"] == compared["auto", "best"]
    assert compared.orders[0] == "best"
    assert repr(compared) == "<memplan.comparing.Comparison: a graph of 5 ops, 3 planners in 3 orders>"
    assert ("auto", "bfs") in compared
    assert ("auto", "lpmf") not in compared
    with pytest.raises(KeyError, match=r"no planner .'auto', 'lpmf'.; it has auto, .* in the orders best, "):
        compared["auto", "lpmf"]


def test_gaps_are_of_their_order_and_of_all(compared: Comparison) -> None:
    """The branches need 21 bytes side by side and 12 one after the other."""
    bound = bound_of_all()
    assert compared.order_bound == bound
    best, given, wasteful = compared["auto", "best"], compared["auto", "given"], compared["naive", "given"]
    assert (best.peak, best.gap, best.optimal, best.order_gap) == (12, 0, True, 12 / bound - 1)
    assert (given.peak, given.gap, given.optimal, given.order_gap) == (21, 0, True, 21 / bound - 1)
    assert (wasteful.peak, wasteful.bound, wasteful.gap, wasteful.order_gap) == (23, 21, 23 / 21 - 1, 23 / bound - 1)
    assert [row.order_optimal for row in (best, given)] == [bound == 12, False]


def test_one_order_alone_says_nothing_of_others() -> None:
    alone = memplan.compare(two_branches(), ["auto", "naive"])
    assert (alone.orders, alone.order_bound, alone["auto"].order_gap) == (("given",), None, None)
    assert not alone["auto"].order_optimal
    assert "order" not in str(alone)
    best = memplan.compare(two_branches(), ["auto"], orders=["best"])
    assert (best["auto"].peak, best.order_bound) == (12, bound_of_all())
    assert "gap in any order" in str(best)


def test_an_order_that_is_proven_is_optimal_in_any(tmp_path: Path) -> None:
    found = memplan.compare("example:resnet50_train", ["auto"], orders=["given", "best"])
    assert [row.order_optimal for row in found] == [True, False]
    assert found["auto", "given"].optimal
    found.to_csv(tmp_path / "c.csv")
    found.to_json(tmp_path / "c.json")
    with open(tmp_path / "c.csv", encoding="utf-8", newline="") as file:
        lines = [(line["order"], line["optimal"], line["order_optimal"]) for line in csv.DictReader(file)]
    assert lines == [("best", "True", "True"), ("given", "True", "False")]
    spec = json.loads((tmp_path / "c.json").read_text(encoding="utf-8"))
    assert spec["order_bound"] == found[0].peak == spec["rows"][1]["order_bound"]


def test_orders_share_bytes_as_they_are_asked() -> None:
    options: dict[str, Any] = {"place": ["input", "intermediate", "output"], "inplace": False, "alignment": 4}
    found = memplan.compare(two_branches(), ["auto"], orders=["best"], seed=1, capacity=10**6, **options)
    graph = memplan.capture(two_branches()).graph
    storage = memplan.plan(graph, **options).storage
    assert found[0].plan.graph == _core.reordered(graph, _core.order_of(graph, "best", storage).ops)  # type: ignore[union-attr]


def test_a_problem_has_no_other_orders() -> None:
    found = memplan.compare(PROBLEM, ["auto"], orders=["given", "best"])
    assert (found["auto", "given"].peak, found["auto", "best"].error) == (6, "UnsupportedError")
    assert found["auto", "best"].reason == "order 'best' applies to graphs; a problem has steps, and no ops"
    assert found.order_bound is None


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"orders": "best"}, TypeError, "orders must be a list of names from memplan.orders(), got 'best'"),
        ({"orders": [3]}, TypeError, "orders must be a list of names"),
        ({"orders": []}, ValueError, "orders must name one order at least, got none"),
        ({"orders": ["best", "given", "best"]}, ValueError, "orders names 'best' 2 times; once is enough"),
        ({"orders": ["fastest"]}, ValueError, "got 'fastest'"),
        ({"order": "best"}, TypeError, "compare takes orders, a list: orders=['given', 'best']; got order"),
    ],
)
def test_bad_orders_are_refused_before_any_work(
    options: dict[str, Any], error: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "read_once", lambda *_, **__: pytest.fail("captured"))
    with pytest.raises(error, match=re.escape(message)):
        memplan.compare(two_branches(), ["auto"], **options)


def test_an_interrupt_while_an_order_is_made_keeps_the_rows_before(monkeypatch: pytest.MonkeyPatch) -> None:
    class Cut:
        ops, bound, interrupted = range(5), 0, True

    monkeypatch.setattr(ordered._core, "order_of", lambda *_, **__: Cut())
    found = memplan.compare(two_branches(), ["auto", "naive"], orders=["given", "best"])
    assert found.interrupted
    assert [(row.planner, row.order, row.error) for row in found] == [
        ("auto", "given", ""),
        ("naive", "given", ""),
        ("auto", "best", "KeyboardInterrupt"),
        ("naive", "best", "KeyboardInterrupt"),
    ]


# Tables and pictures


def test_the_table_names_orders_and_their_loads(compared: Comparison) -> None:
    lines = compared.markdown().splitlines()
    title = "a graph of 5 ops: naive 23 B, load best 12 B, load given 21 B, load bfs 21 B"
    assert lines[0] == f"**{title}, bound of all orders {bound_of_all()} B**"
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:]]
    assert cells[0][:5] == ["planner", "order", "peak", "gap", "gap in any order"]
    assert cells[2][:4] == ["auto", "best", "12 B", "optimal"]


def test_bars_have_the_load_of_their_order(compared: Comparison) -> None:
    ax = compared.plot(Figure().add_subplot())
    assert [label.get_text() for label in ax.get_yticklabels()] == [f"{row.planner}, {row.order}" for row in compared]
    (loads,) = [found for found in ax.collections if isinstance(found, LineCollection)]
    assert [segment[0][0] for segment in loads.get_segments()] == [row.load for row in compared]
    (bound,), limit = ax.lines, bound_of_all()
    assert (bound.get_label(), list(bound.get_xdata())) == (f"no order needs less than {limit} B", [limit] * 2)
    legend = ax.get_legend()
    assert legend is not None
    assert "proven optimal in its order" in [text.get_text() for text in legend.get_texts()]
    assert "21 B, optimal in its order" in [text.get_text() for text in ax.texts]


def test_the_best_plan_of_each_order_is_drawn_and_a_tensor_has_one_colour(compared: Comparison) -> None:
    bars = compared.plot()
    drawn = [ax for ax in bars.get_figure(root=True).axes if ax is not bars]
    titles = [ax.get_title(loc="left") for ax in drawn]
    best = [compared["auto", order] for order in compared.orders]
    near = [row for row in best if (row.peak or 0) <= 1.5 * compared.bound]
    assert titles == [f"auto, {row.order}: {row.peak} B" for row in near]
    chosen = compared.plot(layouts=[("auto", "given"), ("auto", "best")])
    drawn = [ax for ax in chosen.get_figure(root=True).axes if ax is not chosen]
    assert [ax.get_title(loc="left") for ax in drawn] == ["auto, best: 12 B", "auto, given: 21 B"]
    assert len({(ax.get_xlim(), ax.get_ylim()) for ax in drawn}) == 1
    colours = []
    for ax, order in zip(drawn, ("best", "given"), strict=True):
        plan = compared["auto", order].plan
        assert plan is not None
        faces = [to_hex(colour) for colour in ax.collections[0].get_facecolor()]  # type: ignore[union-attr]
        colours.append(dict(zip([slot.name for slot in plan], faces, strict=True)))
    assert colours[0] == colours[1]


# Sweeps


SOURCES = {"branches": two_branches(), "problem": PROBLEM}


def test_a_sweep_goes_over_orders_and_resumes(tmp_path: Path) -> None:
    found = memplan.sweep(SOURCES, ["auto", "naive"], Here(), orders=["given", "best"], csv=tmp_path / "s.csv")
    assert (found.planners, found.orders) == (("auto", "naive"), ("given", "best"))
    compared = memplan.compare(two_branches(), ["auto", "naive"], orders=["given", "best"])
    for row in found["branches"]:
        other = compared[row.planner, row.order]
        assert (row.peak, row.bound, row.order_bound) == (other.peak, other.bound, other.order_bound)
    lines = (tmp_path / "s.csv").read_text().splitlines()
    assert len(lines) == 1 + 2 * 2 * 2
    again = memplan.sweep(SOURCES, ["auto", "naive"], Here(), orders=["given", "best", "bfs"], csv=tmp_path / "s.csv")
    assert (tmp_path / "s.csv").read_text().splitlines()[: len(lines)] == lines
    assert again["branches"]["naive", "best"] == found["branches"]["naive", "best"]
    with pytest.raises(TypeError, match="option order does not apply to sweeps; give orders, a list"):
        memplan.sweep(SOURCES, ["auto"], Here(), order="best")


def test_an_order_is_made_once_for_all_planners(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    order_of = _core.order_of

    def counted(graph: _core.Graph, order: str, *rest: Any, **named: Any) -> _core.Order:
        made.append(order)
        return order_of(graph, order, *rest, **named)

    monkeypatch.setattr(ordered._core, "order_of", counted)
    graph = two_branches()
    graph["ops"][0]["workspace"] = 3  # so that no other test has left its orders
    memplan.compare(graph, PLANNERS, orders=ORDERS)
    assert made == ["best", "bfs"]
    made.clear()
    memplan.sweep({"branches": graph}, PLANNERS, Here(), orders=ORDERS)
    assert made == ["best", "bfs"]


def test_gaps_of_a_sweep_over_orders_are_to_the_bound_of_all(tmp_path: Path) -> None:
    found = memplan.sweep(SOURCES, ["auto"], Here(), orders=["given", "best"])
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in found.markdown().splitlines()[2:]]
    assert found.markdown().startswith("**gap to the bound of all orders**")
    assert lines[0] == ["planner", "optimal", "mean", "branches", "problem"]
    assert lines[2][3:] == [percent(21 / bound_of_all() - 1), "optimal"]
    assert [line[0] for line in lines[2:4]] == ["auto, given", "auto, best"]
    assert lines[3][4] == "–"  # noqa: RUF001
    ax = found.plot()
    assert ax.get_title(loc="left") == "gap to the bound of all orders (%)"
    assert [label.get_text() for label in ax.get_xticklabels()] == ["auto, given", "auto, best"]
    found.to_html(tmp_path / "s.html")
    found.to_json(tmp_path / "s.json")
    assert json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))["orders"] == ["given", "best"]


def test_rows_of_a_sweep_are_of_their_order() -> None:
    rows = [ComparisonRow("a", 10, 10, 10, 20, order="given"), ComparisonRow("a", 8, 6, 6, 20, order="best")]
    found = memplan.comparing.Sweep((Comparison.of("s", rows),), ("a",), ("given", "best"))
    assert "25.000%" not in str(found)
    assert "33.333%" in str(found)  # 8 over 6, as no bound of all orders is known


# The command line


def test_orders_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "branches.json"
    source.write_text(json.dumps(two_branches()))
    assert (
        run("compare", source, "--planners", "auto,naive", "--orders", "given,best", "--csv", tmp_path / "c.csv") == 0
    )
    out = capsys.readouterr().out
    assert f"bound of all orders {bound_of_all()} B" in " ".join(out.split())
    with open(tmp_path / "c.csv", encoding="utf-8", newline="") as file:
        assert {(line["planner"], line["order"]) for line in csv.DictReader(file)} == {
            (planner, order) for planner in ("auto", "naive") for order in ("given", "best")
        }
    files = ["--resume", tmp_path / "done.csv", "--plot", tmp_path / "c.png"]
    assert run("compare", source, "--planners", "auto", "--orders", "given", "--orders", "best", *files) == 0
    assert len((tmp_path / "done.csv").read_text().splitlines()) == 3
    assert run("compare", source, "--orders", "fastest") == 2
    assert "got 'fastest'" in capsys.readouterr().err
