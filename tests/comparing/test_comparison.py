"""Comparisons: rows measured alike, what is refused says why, and what people see of it."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from threading import Timer
from typing import Any
from xml.etree import ElementTree

import pytest
from matplotlib import pyplot
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

import memplan
from builders import graphs
from builders.paths import DATA
from builders.registered import PLANNERS
from memplan.comparing import comparison
from memplan.comparing.comparison import Comparison, time_limits
from memplan.comparing.picture import percent
from memplan.comparing.row import ComparisonRow
from memplan.planning import cp_sat

HARD = DATA / "minimalloc" / "A.1048576.csv"
MODULE = comparison
# Two bytes side by side at even offsets need three; the load is 2.
ABOVE_LOAD = memplan.Problem([1, 1, 1], [0, 0, 1], [1, 1, 2], 2)
CONFLICTS = memplan.Problem([4, 4], [0, 2], [2, 4], conflicts=[(0, 1)])


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """No figure stays open."""
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def all_of_resnet() -> Comparison:
    return memplan.compare("example:resnet50_train", PLANNERS, time_limit=0.2)


def first(count: int, result: Any) -> Any:
    """A `plan` that plans, and from the call after `count` on gives or raises `result`."""
    plan, calls = memplan.plan, 0

    def instead(*arguments: Any, **options: Any) -> memplan.Plan:
        nonlocal calls
        calls += arguments[0] != ([], [], [])
        if calls <= count:
            return plan(*arguments, **options)
        if isinstance(result, BaseException):
            raise result
        return replace(plan(*arguments, **options), **result)

    return instead


def test_rows_are_the_plans_by_peak() -> None:
    names = ["naive", "first_fit", "beam:k=2", "auto"]
    comparison = memplan.compare(str(HARD), names)
    assert [row.planner for row in comparison] == ["auto", "first_fit", "beam:k=2", "naive"]
    assert [comparison[k] for k in range(4)] == list(comparison)
    for name in names:
        plan, row = memplan.plan(HARD, name), comparison[name]
        assert row.plan == plan
        assert (row.peak, row.lower_bound, row.load, row.naive) == (plan.peak, plan.lower_bound, plan.load, plan.naive)
        assert (row.winner, row.objects, row.error, row.reason) == (plan.winner, plan.objects, "", "")
        assert row.saved == 1 - plan.peak / plan.naive
        assert row.seconds is not None
        assert row.seconds > 0
    assert (len(comparison), "auto" in comparison, "beam" in comparison) == (4, True, False)
    assert (comparison.source, comparison.interrupted) == ("A.1048576", False)


def test_naive_is_one_figure_in_the_title_the_bar_and_the_rows() -> None:
    graph = graphs.graph(
        "a 8, b 8, c 8",
        graphs.op("one", "", "a"),
        graphs.op("two", "a", "b", inplace=["b a"]),
        graphs.op("three", "b", "c", inplace=["c b"]),
        outputs="c",
    )
    comparison = memplan.compare(graph, ["naive", "first_fit"])
    assert comparison.naive == comparison["naive"].peak == comparison["first_fit"].naive == 24
    assert (comparison["first_fit"].peak, comparison["naive"].saved) == (8, 0)
    small = memplan.compare(graph, ["naive", "first_fit"], capacity=8)
    assert (small["naive"].error, small["first_fit"].error) == ("InfeasibleError", "")


def test_ties_are_broken_by_proof_then_by_the_registry_never_by_seconds() -> None:
    names = ["other", "coloring", "best_fit", "beam:k=2", "auto:effort=9", "squeaky_wheel", "valley", "first_fit"]
    rows = [ComparisonRow(name, 8, 5, 5, 9, seconds=1 / k) for k, name in enumerate(names, 1)]
    rows.append(ComparisonRow("exhaustive", 8, 8, 5, 9, seconds=7.0))
    order = [row.planner for row in Comparison.of("x", rows)]
    assert order[:4] == ["exhaustive", "auto:effort=9", "valley", "squeaky_wheel"]
    assert order[4:] == ["first_fit", "best_fit", "beam:k=2", "coloring", "other"]
    assert [row.planner for row in Comparison.of("x", rows[::-1])] == order


def test_gaps_are_measured_from_the_best_bound_of_all() -> None:
    """Five, each of which conflicts with two others in a ring: no three conflict, and yet they need 3 bytes."""
    ring = memplan.Problem([1] * 5, range(5), range(1, 6), conflicts=[(i, (i + 1) % 5) for i in range(5)])
    comparison = memplan.compare(ring, ["naive", "greedy_by_size", "exhaustive"])
    assert (ring.load, comparison["exhaustive"].lower_bound, comparison.bound) == (1, 3, 3)
    for row in comparison:
        assert row.peak is not None
        assert row.bound == 3
        assert row.gap == row.peak / 3 - 1
        assert row.optimal == (row.peak == 3)
    assert comparison["naive"].gap == 5 / 3 - 1
    assert (comparison["greedy_by_size"].lower_bound, comparison["greedy_by_size"].optimal) == (2, True)  # by others


def test_the_bound_of_two_problems_is_the_lower_one() -> None:
    """As where auto keeps a plan in which nothing shares bytes."""
    rows = [ComparisonRow("a", 12, 10, 10, 20, problem="shared"), ComparisonRow("b", 12, 11, 10, 20, problem="shared")]
    apart = ComparisonRow("auto", 11, 9, 9, 20, problem="apart")
    assert Comparison.of("x", rows).bound == 11
    assert Comparison.of("x", [*rows, apart]).bound == 9
    assert Comparison.of("x", [replace(apart, lower_bound=12, peak=12), *rows]).bound == 11


def test_what_is_refused_says_why_and_the_rest_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise memplan.errors.MissingDependencyError("planner 'cp_sat' needs OR-tools: pip install 'memplan[exact]'")

    monkeypatch.setattr(cp_sat, "_load", missing)
    comparison = memplan.compare(CONFLICTS, ["first_fit", "cp_sat", "mxnet"])
    assert [row.planner for row in comparison] == ["mxnet", "first_fit", "cp_sat"]
    refused, lacks = comparison["first_fit"], comparison["cp_sat"]
    assert (refused.error, lacks.error) == ("UnsupportedError", "MissingDependencyError")
    assert (refused.peak, refused.gap, refused.saved, refused.optimal, refused.plan) == (None, None, None, False, None)
    assert "does not support conflicts" in refused.reason
    assert "memplan[exact]" in lacks.reason
    assert "needs OR-tools" in str(comparison)


@pytest.mark.parametrize("error", [ValueError("odd"), RuntimeError("odd"), AssertionError("odd")], ids=repr)
def test_an_error_of_one_planner_is_a_row(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = memplan.plan

    def failing(source: Any, planner: str = "auto", **options: Any) -> memplan.Plan:
        if planner == "best_fit":
            raise error
        return plan(source, planner, **options)

    monkeypatch.setattr(MODULE, "plan", failing)
    found = memplan.compare(ABOVE_LOAD, ["first_fit", "best_fit", "naive"])
    assert (found["best_fit"].error, found["best_fit"].reason) == (type(error).__name__, "odd")
    assert found["naive"].peak == 5
    swept = memplan.sweep({"p": ABOVE_LOAD}, ["best_fit", "naive"], ThreadPoolExecutor(1), progress=False)
    assert (swept["p"]["best_fit"].reason, swept["p"]["naive"].peak) == ("odd", 5)


def test_what_is_wrong_for_all_is_raised() -> None:
    with pytest.raises(ValueError, match="pin must name buffers, got 'z'"):
        memplan.compare(ABOVE_LOAD, ["first_fit", "naive"], pin={"z": 0})

    def listen(plan: memplan.Plan) -> None:
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        memplan.compare(ABOVE_LOAD, ["first_fit", "naive"], on_improvement=listen)


def test_a_capacity_that_is_not_met_is_said_beside_the_best_plan() -> None:
    comparison = memplan.compare(HARD, ["auto", "first_fit"], capacity=1048576)
    assert comparison["auto"].error == ""
    assert comparison["first_fit"].error == "InfeasibleError"
    assert comparison["first_fit"].peak == memplan.plan(HARD, "first_fit").peak
    none = memplan.compare(HARD, ["auto", "naive"], capacity=1)
    assert {row.error for row in none} == {"InfeasibleError"}
    assert (none.bound, none.load, [row.peak for row in none]) == (0, None, [None, None])
    assert "no plan" in str(none)


def test_the_source_is_captured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    captured: list[Any] = []
    read = MODULE.read_once
    monkeypatch.setattr(MODULE, "read_once", lambda *a, **k: (captured.append(a), read(*a, **k))[1])
    plans = memplan.compare("example:gpt2_infer", ["naive", "first_fit"], inplace_ops=["softmax"], alignment=64)
    assert len(captured) == 1
    expected = memplan.plan("example:gpt2_infer", "first_fit", inplace_ops=["softmax"], alignment=64)
    assert plans["first_fit"].plan == expected


def test_by_default_all_planners_run_and_exact_ones_are_limited() -> None:
    registry = memplan.planners()
    small = memplan.Problem([4, 2], [0, 1], [2, 3])
    assert {row.planner for row in memplan.compare(small)} == {row.name for row in registry}
    names = [row.name for row in registry]
    exact = {row.name for row in registry if row.exact}
    assert {"valley", "exhaustive", "cp_sat"} <= exact
    assert time_limits(None, names, None) == [10.0 if name in exact else None for name in names]
    assert set(time_limits(None, names, 3.0)) == {3.0}
    assert set(time_limits(names, names, None)) == {None}


def test_rows_are_told_of_as_they_come() -> None:
    told: list[ComparisonRow] = []
    memplan.compare(ABOVE_LOAD, ["naive", "auto", "first_fit"], on_row=told.append)
    assert [row.planner for row in told] == ["naive", "auto", "first_fit"]


@pytest.mark.parametrize(
    ("planners", "error", "message"),
    [
        ("auto", TypeError, "planners must be a list of names"),
        ([1], TypeError, "planners must be a list of names"),
        ([], ValueError, "got none"),
        (["auto", "naive", "auto"], ValueError, "'auto' 2 times"),
        (["auto", "nope"], ValueError, "got 'nope'"),
        (["auto", "beam:j=1"], ValueError, "'beam' takes NAME=VALUE for k, got 'j=1'"),
        (["cp_sat:seconds=x"], ValueError, "seconds must be an integer"),
    ],
)
def test_bad_planners_are_refused_before_any_work(
    planners: Any, error: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MODULE, "read_once", lambda *_, **__: pytest.fail("captured"))
    with pytest.raises(error, match=re.escape(message)):
        memplan.compare(HARD, planners)


def test_bad_input_is_raised() -> None:
    with pytest.raises(ValueError, match="alignment must be >= 1"):
        memplan.compare(HARD, ["auto"], alignment=0)
    with pytest.raises(TypeError, match="nope"):
        memplan.compare(HARD, ["auto"], nope=0)
    with pytest.raises(ValueError, match="on_interrupt must be"):
        memplan.compare(HARD, ["auto"], on_interrupt="stop")  # type: ignore[arg-type]
    with pytest.raises(KeyError, match="no planner 'beam'; it has naive"):
        memplan.compare(HARD, ["naive"])["beam"]


# Interrupts


def test_an_interrupt_keeps_the_rows_until_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULE, "plan", first(2, KeyboardInterrupt()))
    comparison = memplan.compare(HARD, ["naive", "first_fit", "best_fit", "worst_fit"])
    assert comparison.interrupted
    assert [row.planner for row in comparison] == ["first_fit", "naive", "best_fit", "worst_fit"]
    assert [row.error for row in comparison] == ["", "", "KeyboardInterrupt", "KeyboardInterrupt"]
    assert "interrupted" in str(comparison).splitlines()[0]


def test_a_search_that_is_cut_short_is_marked_and_ends_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULE, "plan", first(1, {"interrupted": True}))
    comparison = memplan.compare(HARD, ["naive", "first_fit", "best_fit"])
    assert [row.interrupted for row in comparison] == [True, False, False]
    assert comparison["first_fit"].peak is not None
    assert comparison["best_fit"].error == "KeyboardInterrupt"


@pytest.mark.parametrize(("done", "options"), [(0, {}), (1, {"on_interrupt": "raise"})])
def test_an_interrupt_is_raised_without_a_plan_or_on_demand(
    done: int, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MODULE, "plan", first(done, KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        memplan.compare(HARD, ["naive", "first_fit"], **options)


@pytest.mark.skipif(sys.platform == "win32", reason="sends a signal to itself")
def test_ctrl_c_ends_a_real_search() -> None:
    timers: list[Timer] = []

    def begun(_: memplan.Plan) -> None:
        if not timers:
            timers.append(Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)))
            timers[0].start()

    hard = DATA / "minimalloc" / "D.1048576.csv"
    forever = "hill_climb:iterations=1000000000,placements=1000000000000"
    comparison = memplan.compare(hard, [forever, "naive"], on_improvement=begun)
    assert [row.error for row in comparison] == ["", "KeyboardInterrupt"]
    assert comparison[0].interrupted


# Files and tables


def test_csv_has_a_line_per_planner(tmp_path: Path) -> None:
    comparison = memplan.compare(CONFLICTS, ["naive", "first_fit", "beam"])
    comparison.to_csv(tmp_path / "c.csv")
    with open(tmp_path / "c.csv", encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["planner"] for line in lines] == ["naive", "first_fit", "beam"]
    assert {line["source"] for line in lines} == {"a problem of 2 buffers"}
    best = lines[0]
    assert [best[k] for k in ("peak", "bound", "gap", "saved", "optimal")] == ["8", "8", "0.0", "0.0", "True"]
    assert (lines[1]["peak"], lines[1]["gap"]) == ("", "")
    assert "conflicts" in lines[1]["reason"]


def test_json_is_versioned(tmp_path: Path) -> None:
    memplan.compare(ABOVE_LOAD, ["exhaustive", "naive"]).to_json(tmp_path / "c.json")
    spec = json.loads((tmp_path / "c.json").read_text(encoding="utf-8"))
    assert (spec["format"], spec["version"], spec["memplan"]) == ("memplan.comparison", 1, memplan.__version__)
    assert (spec["bound"], spec["load"], spec["naive"], spec["interrupted"]) == (3, 2, 3, False)
    assert [(row["planner"], row["peak"], row["optimal"]) for row in spec["rows"]] == [
        ("exhaustive", 3, True),
        ("naive", 5, False),
    ]


def test_text_shows_every_planner_once(all_of_resnet: Comparison) -> None:
    lines = str(all_of_resnet).splitlines()
    assert lines[0].startswith("resnet50_train: naive 328.86 MiB, load 157.86 MiB")
    assert [line.split()[0] for line in lines[4:] if line[2:3].strip()] == [row.planner for row in all_of_resnet]
    assert max(map(len, lines)) <= 120
    (naive,) = [line for line in lines if line.split()[:1] == ["naive"]]
    assert re.search(r"328\.86 MiB +108\.318% +0\.0%", naive)
    (auto,) = [line for line in lines if line.split()[:1] == ["auto"]]
    assert "optimal" in auto
    assert "exhaustive" in lines[-1] + lines[-2]


def test_a_bound_above_the_load_is_shown() -> None:
    shown = str(memplan.compare(ABOVE_LOAD, ["exhaustive", "naive"]))
    assert "load 2 B, proven bound 3 B" in shown
    assert "lower bound" in shown


def test_markdown_is_a_table(tmp_path: Path) -> None:
    comparison = Comparison.of(
        "_a|b", [ComparisonRow("beam:k=2", 10, 8, 8, 20, 0.5), ComparisonRow("x", error="E", reason="1 < 2\n")]
    )
    comparison.to_markdown(tmp_path / "c.md")
    lines = (tmp_path / "c.md").read_text(encoding="utf-8").splitlines()
    assert lines[0] == r"**\_a\|b: naive 20 B, load 8 B**"
    assert lines[2:] == [
        "| planner | peak | gap | saved | time | note |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
        "| beam:k=2 | 10 B | 25.000% | 50.0% | 0.5 s |  |",
        "| x |  |  |  |  | 1 \\< 2\\\\n |",
    ]


def test_html_is_escaped_and_takes_the_colours_of_its_page() -> None:
    comparison = Comparison.of(
        "<script>", [ComparisonRow("beam", 10, 8, 8, 20, 0.5), ComparisonRow("x", error="E", reason="1 < 2")]
    )
    shown = comparison._repr_html_()
    style, _, _ = shown.partition("</style>")
    assert "<script>" not in shown
    assert not re.search(r"[^-]color\s*:", style)
    root = ElementTree.fromstring(shown)
    cells = [[cell.text or "" for cell in row] for row in root.iter("tr")]
    assert cells[0] == ["planner", "peak", "gap", "saved", "time", "note"]
    assert cells[1][:3] == ["beam", "10 B", "25.000%"]
    assert cells[2][-1] == "1 < 2"


def test_a_page_needs_no_other_file(tmp_path: Path) -> None:
    memplan.compare(HARD, ["naive", "first_fit"]).to_html(tmp_path / "c.html")
    page = (tmp_path / "c.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "color-scheme: light dark" in page
    assert 'src="data:image/png;base64,' in page
    assert not re.search(r'(src|href)="(?!data:)', page)


@pytest.mark.parametrize(
    ("share", "said"), [(None, ""), (0.0, "0.000%"), (1e-7, "<0.001%"), (0.12345678, "12.346%"), (20, "2,000.000%")]
)
def test_what_is_above_zero_is_never_written_as_zero(share: float | None, said: str) -> None:
    assert percent(share) == said


# Pictures


def test_bars_are_the_peaks_in_order(all_of_resnet: Comparison) -> None:
    ax = all_of_resnet.plot(Figure(figsize=(8, 8)).add_subplot())
    assert [bar.get_width() for bar in ax.patches] == [(row.peak or 0) / 2**20 for row in all_of_resnet]
    assert [label.get_text() for label in ax.get_yticklabels()] == [row.planner for row in all_of_resnet]
    assert ax.get_xlabel() == "peak (MiB)"
    (load,) = ax.lines
    assert (load.get_label(), list(load.get_xdata())) == ("load 157.86 MiB", [(all_of_resnet.load or 0) / 2**20] * 2)
    texts = [text.get_text() for text in ax.texts]
    assert texts[0] == "157.86 MiB, optimal"
    assert "328.86 MiB, +108.318%" in texts
    assert texts[-1].startswith("takes at most 64 buffers")


def test_long_bars_are_cut_and_say_so() -> None:
    ax = memplan.compare(HARD, ["naive", "auto"]).plot(Figure().add_subplot())
    assert [bar.get_width() for bar in ax.patches] == [1.0, 2.5]
    assert ax.texts[1].get_text().startswith("14.37 MiB")
    assert ax.get_xlabel() == "peak (MiB); a broken bar is longer than 2.5 times the load"
    (gaps,) = [c for c in ax.collections if isinstance(c, PolyCollection)]
    assert len(gaps.get_paths()) == 1
    assert max(ax.get_xticks()) < gaps.get_paths()[0].vertices[:, 0].min() < 2.5


def test_a_bound_above_the_load_is_a_line_of_its_own() -> None:
    ax = memplan.compare(ABOVE_LOAD, ["exhaustive", "naive"]).plot(Figure().add_subplot())
    assert [line.get_label() for line in ax.lines] == ["load 2 B", "proven lower bound 3 B"]


def test_some_plans_are_drawn_on_the_same_axes(all_of_resnet: Comparison) -> None:
    bars = all_of_resnet.plot()
    plans = [ax for ax in bars.get_figure(root=True).axes if ax is not bars]
    assert len(plans) == 3
    assert len({ax.get_ylim() for ax in plans}) == 1
    peaks = [row.peak for ax in plans for row in all_of_resnet if row.planner == ax.get_title(loc="left").split(":")[0]]
    assert peaks == sorted(peaks)
    assert plans[0].get_ylim()[1] >= peaks[-1]
    assert all(any(isinstance(c, PolyCollection) for c in ax.collections) for ax in plans)


def test_the_figure_can_be_written(all_of_resnet: Comparison, tmp_path: Path) -> None:
    all_of_resnet.plot().figure.savefig(tmp_path / "c.png", dpi=30)
    assert (tmp_path / "c.png").stat().st_size > 0


def test_plans_can_be_chosen(all_of_resnet: Comparison) -> None:
    bars = all_of_resnet.plot(layouts=["naive", "first_fit"], title="mine")
    titles = [ax.get_title(loc="left") for ax in bars.get_figure(root=True).axes]
    assert titles == ["mine", "first_fit: 163.47 MiB", "naive: 328.86 MiB"]
    with pytest.raises(ValueError, match="'exhaustive', which has no plan"):
        all_of_resnet.plot(layouts=["exhaustive"])
    with pytest.raises(ValueError, match="got ax too"):
        all_of_resnet.plot(Figure().add_subplot(), layouts=["naive"])


def test_names_of_many_planners_do_not_overlap(all_of_resnet: Comparison) -> None:
    bars = all_of_resnet.plot()
    bars.get_figure(root=True).canvas.draw()
    for texts in (bars.get_yticklabels(), bars.texts):
        boxes = [text.get_window_extent() for text in texts]
        assert all(a.y0 >= b.y1 - 1 for a, b in pairwise(boxes))


def test_pictures_without_a_plan_or_a_byte(tmp_path: Path) -> None:
    memplan.compare(HARD, ["naive"], capacity=1).save_picture(tmp_path / "a.png")
    memplan.compare(([], [], []), ["naive", "auto"]).save_picture(tmp_path / "b.png")
    memplan.compare(([0], [0], [1]), ["naive"]).save_picture(tmp_path / "c.svg")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "b.png", "c.svg"]


def test_plans_that_are_no_rows_call_nobody() -> None:
    """An order is made by a plan too."""
    told: list[memplan.Plan] = []
    source = "example:gpt2_infer"
    found = memplan.compare(source, ["first_fit", "naive"], orders=["given", "bfs"], on_improvement=told.append)
    assert sorted(plan.peak for plan in told) == sorted(row.peak for row in found)
