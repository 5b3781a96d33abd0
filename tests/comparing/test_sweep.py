"""Sweeps: the rows of comparisons whoever computes them, and the file from which they go on."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

import memplan
from builders.interrupting import FOREVER
from builders.paths import DATA
from builders.sweeping import Here
from memplan.comparing.comparison import Comparison
from memplan.comparing.row import ComparisonRow
from memplan.comparing.sweep.log import COLUMNS
from memplan.planning import cp_sat

HARD = DATA / "minimalloc" / "A.1048576.csv"
GRAPH = DATA / "torch" / "vgg16_b1_train.json"
SOURCES = [HARD, str(GRAPH), "example:gpt2_infer"]
NAMES = ["A.1048576", "vgg16_b1_train", "gpt2_infer"]
PLANNERS = ["naive", "auto", "beam:k=2"]
CONFLICTS = memplan.Problem([4, 4], [0, 2], [2, 4], conflicts=[(0, 1)])


def figures(sweep: memplan.comparing.Sweep) -> list[tuple[Any, ...]]:
    """All that does not depend on the clock."""
    rows = ((c.source, replace(row, seconds=None)) for c in sweep for row in sorted(c, key=lambda row: row.planner))
    return [(source, row, row.gap) for source, row in rows]


@pytest.fixture(scope="module")
def here() -> memplan.comparing.Sweep:
    return memplan.sweep(SOURCES, PLANNERS, Here())


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "sweep.csv"
    memplan.sweep(SOURCES, PLANNERS, Here(), csv=path)
    return path


def test_a_sweep_is_a_comparison_per_source(here: memplan.comparing.Sweep) -> None:
    assert [comparison.source for comparison in here] == NAMES
    assert (here.planners, len(here), here.interrupted) == (tuple(PLANNERS), 3, False)
    assert "gpt2_infer" in here
    for name, source in zip(NAMES, SOURCES, strict=True):
        expected = memplan.compare(source, PLANNERS)
        for row in here[name]:
            assert replace(row, seconds=0) == replace(expected[row.planner], seconds=0)
            assert row.plan is None
    with pytest.raises(KeyError, match=r"no source 'nope'; it has A\.1048576, vgg16_b1_train"):
        here["nope"]


@pytest.mark.parametrize("executor", [None, 1, ThreadPoolExecutor(2)], ids=["processes", "one process", "threads"])
def test_any_executor_gives_the_same(executor: Any, here: memplan.comparing.Sweep) -> None:
    assert figures(memplan.sweep(SOURCES, PLANNERS, executor)) == figures(here)


@pytest.mark.slow
def test_dask_gives_the_same(here: memplan.comparing.Sweep, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, local_directory=tmp_path
    )
    with cluster, distributed.Client(cluster) as client:
        assert figures(memplan.sweep(SOURCES, PLANNERS, client.get_executor())) == figures(here)


def test_sources_are_sent_whatever_they_are(here: memplan.comparing.Sweep) -> None:
    graph, problem = memplan.capture(GRAPH).graph, memplan.read_problem(HARD)
    sources = {"graph": graph, "problem": problem, "dict": graph.to_dict(), "path": HARD}
    found = memplan.sweep(sources, ["auto"], 1)
    assert [comparison.source for comparison in found] == list(sources)
    for name, original in [("graph", NAMES[1]), ("dict", NAMES[1]), ("problem", NAMES[0]), ("path", NAMES[0])]:
        assert replace(found[name]["auto"], seconds=0) == replace(here[original]["auto"], seconds=0)


def test_options_reach_the_workers() -> None:
    options: dict[str, Any] = {"alignment": 512, "inplace": False, "place": ("intermediate",), "seed": 3}
    found = memplan.sweep([GRAPH], ["first_fit"], Here(), **options)
    assert found[0]["first_fit"].peak == memplan.plan(GRAPH, "first_fit", **options).peak
    limited = memplan.sweep([HARD], ["hill_climb:iterations=1000000000,placements=1000000000"], Here(), time_limit=0.1)
    assert 0.05 < (limited[0][0].seconds or 0) < 5


@pytest.mark.parametrize(
    ("sources", "error", "message"),
    [
        (["a/x.csv", "b/x.onnx"], FileNotFoundError, "a/x.csv"),
        (
            [HARD, DATA / "minimalloc" / ".." / "minimalloc" / HARD.name],
            ValueError,
            "two sources are called 'A.1048576'",
        ),
        ([CONFLICTS], TypeError, "sources[0] is a Problem and has no name: give sources as a dict {name: source}"),
        (CONFLICTS, TypeError, "got one source"),
        (str(HARD), TypeError, "got one source"),
        ({"tensors": [], "ops": []}, TypeError, "got one source"),
        ({1: HARD}, TypeError, "the name of a source must be a string, got 1"),
        ({"a\nb": HARD}, ValueError, "must be printable"),
        ({"a": 7}, TypeError, "source must be"),
        ([], ValueError, "got none"),
    ],
)
def test_bad_sources_are_refused_before_any_work(sources: Any, error: type[Exception], message: str) -> None:
    executor = Here()
    with pytest.raises(error, match=re.escape(message)):
        memplan.sweep(sources, PLANNERS, executor)
    assert executor.count == 0


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"planners": ["auto", "auto"]}, ValueError, "'auto' 2 times"),
        ({"executor": "dask"}, TypeError, "executor must be a concurrent.futures.Executor or a number of processes"),
        ({"executor": 0}, ValueError, "executor must be >= 1"),
        ({"nope": 1}, TypeError, "sweep takes the options of plan, got 'nope'"),
        ({"args": (1,)}, TypeError, "option args does not apply to sweeps; capture the source with it first"),
        ({"on_improvement": print}, TypeError, "option on_improvement does not apply to sweeps"),
        ({"seed": print}, TypeError, "seed must be an integer"),
        ({"keep": print}, TypeError, "options of a sweep must be numbers"),
        ({"alignment": 0}, ValueError, "alignment must be >= 1"),
        ({"dims": {"n": 1}}, TypeError, "option dims does not apply"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        memplan.sweep([HARD], **{"planners": PLANNERS, "executor": Here()} | options)


def test_a_source_that_cannot_be_read_says_why_and_the_rest_go_on(tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("id,lower\n")
    found = memplan.sweep({"bad": tmp_path / "bad.csv", "conflicts": CONFLICTS}, ["naive", "first_fit"], Here())
    assert {row.error for row in found["bad"]} == {"SourceError"}
    assert "bad.csv" in found["bad"]["naive"].reason
    assert [row.error for row in found["conflicts"]] == ["", "UnsupportedError"]
    notes = found.markdown().split("\n\n")[-2:]
    assert re.match(r"– bad: .*bad\.csv", notes[0])  # noqa: RUF001
    assert notes[1].startswith("– first_fit on conflicts: does not support conflicts")  # noqa: RUF001


def test_an_executor_that_breaks_is_raised_and_rows_stay(tmp_path: Path) -> None:
    path = tmp_path / "sweep.csv"
    with pytest.raises(RuntimeError, match="broken"):
        memplan.sweep(SOURCES, PLANNERS, Here(RuntimeError("broken"), after=5), csv=path)
    kept = len(lines(path))
    assert kept <= 5
    rest = Here()
    memplan.sweep(SOURCES, PLANNERS, rest, csv=path)
    assert rest.count == 9 - kept


# The file


def lines(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_rows_that_are_there_are_not_computed_again(log: Path, here: memplan.comparing.Sweep) -> None:
    assert len(lines(log)) == 9
    before, nobody = log.read_bytes(), Here()
    again = memplan.sweep(SOURCES, PLANNERS, nobody, csv=log)
    assert (nobody.count, log.read_bytes()) == (0, before)
    assert figures(again) == figures(here)
    assert {row.seconds for c in again for row in c} == {float(line["seconds"]) for line in lines(log)}


def test_a_sweep_is_extended_by_sources_and_planners(log: Path) -> None:
    more = Here()
    found = memplan.sweep([*SOURCES, "example:resnet50_infer"], ["auto", "first_fit"], more, csv=log)
    assert more.count == 3 + 2
    assert found["gpt2_infer"].rows[0].planner in ("auto", "first_fit")
    assert [len(comparison) for comparison in found] == [2, 2, 2, 2]
    assert len(lines(log)) == 9 + 5


@pytest.mark.parametrize("cut", [1, 30])
def test_a_line_that_was_cut_is_computed_again(cut: int, log: Path) -> None:
    whole = log.read_bytes()
    log.write_bytes(whole[:-cut])
    one = Here()
    memplan.sweep(SOURCES, PLANNERS, one, csv=log)
    assert one.count == 1
    assert {len(line) for line in csv.reader(log.read_text().splitlines())} == {len(COLUMNS)}
    assert len(lines(log)) == 9


def test_an_empty_file_is_begun(tmp_path: Path) -> None:
    (tmp_path / "sweep.csv").touch()
    memplan.sweep([HARD], ["naive"], Here(), csv=tmp_path / "sweep.csv")
    assert len(lines(tmp_path / "sweep.csv")) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": 1}, 'expected options {"seed": 1}, got {}; give this sweep a file of its own'),
        ({"time_limit": 3.0}, "expected time_limit 3.0, got none"),
        ({"sources": {"A.1048576": CONFLICTS}}, "what it holds has changed: expected fingerprint"),
    ],
)
def test_the_file_of_another_sweep_is_refused(options: dict[str, Any], message: str, log: Path) -> None:
    before, nobody = log.read_bytes(), Here()
    with pytest.raises(memplan.errors.SourceError, match=re.escape(message)):
        memplan.sweep(**{"sources": SOURCES, "planners": PLANNERS} | options, executor=nobody, csv=log)
    assert (nobody.count, log.read_bytes()) == (0, before)


def test_a_file_of_another_version_is_refused(log: Path) -> None:
    log.write_text(log.read_text().replace(f",{memplan.__version__},", ",0.0.1,"))
    with pytest.raises(memplan.errors.SourceError, match=r"expected memplan .*, got 0\.0\.1"):
        memplan.sweep(SOURCES, PLANNERS, Here(), csv=log)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"id,lower,upper,size\na,0,1,2\n", "expected the file of a sweep, with the columns source,fingerprint"),
        (b"no line end", "got no line"),
        (b"\xff\n", "no UTF-8"),
        (",".join(COLUMNS).encode() + b"\na,b\n", f"line 2: expected {len(COLUMNS)} columns, got 2"),
    ],
    ids=["columns", "no line", "bytes", "short"],
)
def test_another_file_is_refused_and_kept(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "sweep.csv"
    path.write_bytes(content)
    with pytest.raises(memplan.errors.SourceError, match=re.escape(message)):
        memplan.sweep([HARD], ["naive"], Here(), csv=path)
    assert path.read_bytes() == content


def test_a_number_that_is_none_is_refused(log: Path) -> None:
    log.write_text(log.read_text().replace(",15071232,", ",many,"))
    with pytest.raises(memplan.errors.SourceError, match=r"line \d: (peak|naive) must be a number, got 'many'"):
        memplan.sweep(SOURCES, PLANNERS, Here(), csv=log)


def test_what_may_be_mended_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that is missing; what a planner does not support, it never will."""

    def missing() -> None:
        raise memplan.errors.MissingDependencyError("planner 'cp_sat' needs OR-tools")

    monkeypatch.setattr(cp_sat, "_load", missing)
    memplan.sweep({"c": CONFLICTS}, ["cp_sat", "first_fit"], Here(), csv=tmp_path / "sweep.csv")
    assert [line["planner"] for line in lines(tmp_path / "sweep.csv")] == ["first_fit"]


RUN = f"""
import signal, sys, memplan
signal.signal(signal.SIGINT, signal.default_int_handler)
if __name__ == "__main__":
    sources = [{str(HARD)!r}, {str(DATA / "minimalloc" / "D.1048576.csv")!r}]
    print(memplan.sweep(sources, ["naive", "first_fit", {FOREVER!r}], 3, csv=sys.argv[1]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals to a group of processes")
def test_what_is_done_stays_after_an_interrupt(tmp_path: Path) -> None:
    path, script = tmp_path / "sweep.csv", tmp_path / "run.py"
    script.write_text(RUN)
    with subprocess.Popen(
        [sys.executable, script, path],
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and (not path.exists() or len(lines(path)) < 4):
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)  # two workers are in a search without end, one waits
        out, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, "")
    assert {(line["source"], line["planner"]) for line in lines(path)} == {
        (source, planner) for source in ("A.1048576", "D.1048576") for planner in ("naive", "first_fit")
    }
    assert "gap to the best proven bound, interrupted" in out
    assert "interrupted before it had a plan" in out


# Tables and pictures


def made(gaps: dict[str, list[int | None]], sources: int) -> memplan.comparing.Sweep:
    """Peaks in percent above a bound of 100, per planner and source."""
    comparisons = []
    for s in range(sources):
        rows = [
            ComparisonRow(name, error="UnsupportedError", reason="no")
            if peaks[s] is None
            else ComparisonRow(name, 100 + (peaks[s] or 0), 100, 100, 400, 0.1)
            for name, peaks in gaps.items()
        ]
        comparisons.append(Comparison.of(f"s{s}", rows))
    return memplan.comparing.Sweep(tuple(comparisons), tuple(gaps))


FEW_SOURCES = made({"b": [50, 0], "a": [0, 0], "c": [None, 25]}, 2)
FEW_PLANNERS = made({"b": [50, 0, 0], "a": [0, 0, 0]}, 3)


def test_what_there_is_more_of_goes_down() -> None:
    def cells(text: str) -> list[list[str]]:
        rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("|")]
        return [[cell.strip() for cell in row] for row in rows if "---" not in row[0]]

    assert cells(FEW_SOURCES.markdown()) == [
        ["planner", "optimal", "mean", "s0", "s1"],
        ["a", "2 of 2", "0.000%", "optimal", "optimal"],
        ["b", "1 of 2", "22.474%", "50.000%", "optimal"],
        ["c", "0 of 2", "–", "–", "25.000%"],  # noqa: RUF001
    ]
    assert cells(FEW_PLANNERS.markdown()) == [
        ["source", "a", "b"],
        ["s0", "optimal", "50.000%"],
        ["s1", "optimal", "optimal"],
        ["s2", "optimal", "optimal"],
        ["optimal", "3 of 3", "2 of 3"],
        ["mean", "0.000%", "14.471%"],
    ]


def test_a_wide_table_is_cut_to_the_width() -> None:
    wide = made(
        {
            name: [k % 7] * 30
            for k, name in enumerate(["a_planner_of_a_long_name", *"bcdefghijklmnopqrstuvwxyzäöü01234"])
        },
        30,
    )
    text = str(wide)
    assert max(map(len, text.splitlines())) <= 120
    heads = [line.split() for line in text.splitlines() if line.split()[:1] == ["planner"]]
    assert len(heads) > 1
    assert [name for head in heads for name in head[1:]] == ["optimal", "mean", *(f"s{k}" for k in range(30))]


def test_files_hold_all_rows(tmp_path: Path, here: memplan.comparing.Sweep) -> None:
    here.to_csv(tmp_path / "s.csv")
    here.to_json(tmp_path / "s.json")
    here.to_markdown(tmp_path / "s.md")
    here.to_html(tmp_path / "s.html")
    assert [line["source"] for line in lines(tmp_path / "s.csv")] == [name for name in NAMES for _ in PLANNERS]
    assert {float(line["gap"]) for line in lines(tmp_path / "s.csv")} == {row.gap for c in here for row in c}
    spec = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))
    assert (spec["format"], spec["version"], spec["planners"]) == ("memplan.sweep", 1, PLANNERS)
    assert [c["source"] for c in spec["comparisons"]] == NAMES
    assert (tmp_path / "s.md").read_text(encoding="utf-8") == here.markdown() + "\n"
    page = (tmp_path / "s.html").read_text(encoding="utf-8")
    assert page.count("<table") == 4
    assert here._repr_html_() in page


def test_the_map_has_a_cell_per_source_and_planner() -> None:
    ax = FEW_SOURCES.plot(Figure().add_subplot())
    assert [label.get_text() for label in ax.get_xticklabels()] == ["a", "b", "c"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["s0", "s1"]
    assert [text.get_text() for text in ax.texts] == ["0", "50.0", "–", "0", "0", "25.0"]  # noqa: RUF001
    (image,) = ax.images
    colours = image.get_array()
    assert colours is not None
    assert (colours[0, 0] == colours[1, 1]).all()
    assert len({tuple(colour) for colour in colours.reshape(-1, 4).tolist()}) == 4


def test_the_map_is_drawn_into_files(tmp_path: Path) -> None:
    FEW_PLANNERS.save_picture(tmp_path / "s.svg")
    assert "<svg" in (tmp_path / "s.svg").read_text()
