"""Pictures, pages and traces of ``memplan plan``."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path

import pytest

from builders.commands import run


def test_plan_draws_what_is_asked_for(tmp_path: Path) -> None:
    source = "example:resnet50_infer"
    options = (
        "--highlight",
        "convolution_3",
        "--highlight",
        "convolution_4",
        "--colour-by",
        "op_type",
        "--zoom",
        "5:40",
    )
    assert run("plan", source, "--plot", tmp_path / "plain.svg") == 0
    assert run("plan", source, "--plot", tmp_path / "drawn.svg", *options) == 0
    assert run("plan", source, "--plot", tmp_path / "peak.svg", "--zoom", "peak") == 0
    drawn = (tmp_path / "drawn.svg").read_text()
    assert "<!-- convolution_3, " in drawn
    assert "<!-- convolution_4, " in drawn
    assert "<!-- aten.convolution.default -->" in drawn
    assert "<!-- op type -->" not in (tmp_path / "plain.svg").read_text()
    assert "<!-- op type -->" not in (tmp_path / "peak.svg").read_text()


def test_what_a_page_shows_first(tmp_path: Path) -> None:
    pytest.importorskip("bokeh")
    plain, asked = tmp_path / "plain.html", tmp_path / "asked.html"
    source = "example:resnet50_infer"
    assert run("plan", source, "--planner", "first_fit", "--html", plain) == 0
    options = ("--highlight", "convolution_3", "--colour-by", "op_type")
    assert run("plan", source, "--planner", "first_fit", "--html", asked, *options) == 0
    assert '"marked",[]' in plain.read_text()
    assert '"marked",["convolution_3"]' in asked.read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--zoom", "peak"], "--zoom needs a picture to draw: --plot F"),
        (["--html", "p.html", "--zoom", "peak"], "--zoom needs a picture to draw: --plot F"),
        (["--highlight", "a"], "--highlight and --colour-by need a picture or a page: --plot F or --html F"),
        (["--html", "p.html", "--highlight", "aa"], "highlight: the plan has no tensor or buffer named 'aa'"),
        (["--plot", "p.png", "--zoom", "3"], "argument --zoom: must be 'peak' or steps A:B, got '3'"),
        (["--plot", "p.png", "--zoom", "9:"], "argument --zoom: must be 'peak' or steps A:B, got '9:'"),
        (["--plot", "p.png", "--zoom", "9:3"], "zoom must be 'peak' or two steps (first, last)"),
        (
            ["--plot", "p.png", "--highlight", "aa"],
            "highlight: the plan has no tensor or buffer named 'aa'; there is 'a'",
        ),
        (["--plot", "p.png", "--colour-by", "kind"], "colour_by='kind' needs the plan of a graph"),
        (["--plot", "p.png", "--colour-by", "hue"], "argument --colour-by: invalid choice: 'hue'"),
    ],
)
def test_wrong_options_of_pictures(
    options: list[str],
    message: str,
    lifetimes: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(lifetimes.parent)
    assert run("plan", lifetimes, "--csv", "p.csv", *options) == 2
    assert message in capsys.readouterr().err
    assert not Path("p.png").exists()
    assert not Path("p.csv").exists()


def test_names_of_pictures_are_looked_up_before_the_search(
    lifetimes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[str] = []
    monkeypatch.setattr("memplan.cli.plan._planned", lambda *_: searched.append("searched"))
    assert run("plan", lifetimes, "--plot", tmp_path / "p.png", "--highlight", "none") == 2
    assert searched == []


def test_plan_finds_a_missing_bokeh_before_it_writes(
    lifetimes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "bokeh", None)
    assert run("plan", lifetimes, "--csv", tmp_path / "p.csv", "--html", tmp_path / "p.html") == 2
    assert "pip install 'memplan[page]'" in capsys.readouterr().err
    assert not (tmp_path / "p.csv").exists()


def test_plan_writes_traces(lifetimes: Path, tmp_path: Path) -> None:
    trace, snapshot = tmp_path / "trace.json", tmp_path / "memory.pickle"
    assert run("plan", lifetimes, "--chrome-trace", trace, "--memory-viz", snapshot) == 0
    assert {e["name"] for e in json.loads(trace.read_text())["traceEvents"] if e["ph"] == "X"} == {"a", "b", "c"}
    assert len(pickle.loads(snapshot.read_bytes())["segments"]) == 1
    assert run("plan", lifetimes, "--chrome-trace", trace, "--memory-viz", trace) == 2
