"""``memplan compare``: one source as a table, several as a matrix, and files of both."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import memplan
from builders.commands import LIFETIMES, refused, run, shell
from memplan.cli.values import names_with_parameters

PLANNERS = ["auto", "naive", "xla_heap:order=spatial,fit=lowest"]


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.csv"
    path.write_text("id,lower,upper,size\na,0,2,10\nb,1,4,6\nc,3,5,8\n")
    return path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("auto", ["auto"]),
        ("auto,naive", ["auto", "naive"]),
        ("beam:k=3", ["beam:k=3"]),
        ("auto,beam:k=3,naive", ["auto", "beam:k=3", "naive"]),
        ("xla_heap:order=best,fit=lowest,naive", ["xla_heap:order=best,fit=lowest", "naive"]),
        ("beam:k=3,beam:k=4", ["beam:k=3", "beam:k=4"]),
        ("auto,", ["auto"]),
        ("k=3", ["k=3"]),
    ],
)
def test_what_follows_a_comma_and_has_a_value_belongs_to_the_planner_before_it(text: str, expected: list[str]) -> None:
    assert names_with_parameters(text) == expected


def test_one_source_is_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("compare", LIFETIMES, "--planners", ",".join(PLANNERS)) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("A.1048576: naive 14.37 MiB, load 1.00 MiB")
    rows = [line.split() for line in out.splitlines()[4:] if line.strip()]
    assert [row[0] for row in rows] == ["auto", PLANNERS[2], "naive"]
    assert "optimal" in rows[0]


def test_all_planners_by_default(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("compare", small) == 0
    out = capsys.readouterr().out
    assert {line.split()[0] for line in out.splitlines()[4:] if line.strip()} == {r.name for r in memplan.planners()}


def test_several_sources_are_a_matrix(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["compare", LIFETIMES, small, "--planners", "auto,naive", "--planners", "first_fit", "--jobs", "2"]
    assert run(*command) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines[1] == ["planner", "optimal", "mean", "A.1048576", "small"]
    assert [line[0] for line in lines[3:]] == ["auto", "first_fit", "naive"]
    assert lines[3][-2:] == ["optimal", "optimal"]
    assert lines[5][-1] == "50.000%"


@pytest.mark.parametrize("many", [False, True], ids=["one", "several"])
def test_every_file_is_written(many: bool, small: Path, tmp_path: Path) -> None:
    names = {"--csv": "c.csv", "--json": "c.json", "--markdown": "c.md", "--html": "c.html", "--plot": "c.png"}
    sources = [small, LIFETIMES] if many else [small]
    files = [word for flag, name in names.items() for word in (flag, tmp_path / name)]
    assert run("compare", *sources, "--planners", "auto,naive", *files) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"small.csv", *names.values()}
    with open(tmp_path / "c.csv", encoding="utf-8", newline="") as file:
        peaks = {(line["source"], line["planner"]): line["peak"] for line in csv.DictReader(file)}
    assert peaks["small", "auto"] == "16"
    assert len(peaks) == 2 * len(sources)
    name = "memplan.sweep" if many else "memplan.comparison"
    assert json.loads((tmp_path / "c.json").read_text(encoding="utf-8"))["format"] == name
    assert (tmp_path / "c.md").read_text(encoding="utf-8").startswith("**")
    assert "<table" in (tmp_path / "c.html").read_text(encoding="utf-8")
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")


def test_without_a_plan_the_status_is_1(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pinned = ("--pin", "a=0")
    assert run("compare", small, "--planners", "first_fit,naive", *pinned) == 0
    assert run("compare", small, "--planners", "first_fit,best_fit", *pinned) == 1
    assert "does not support pins" in capsys.readouterr().out
    other = small.with_name("pinned.csv")
    other.write_text("id,lower,upper,size,offset\na,0,2,10,0\n")
    assert run("compare", small, other, "--planners", "first_fit,best_fit") == 1


def test_options_reach_the_planners(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--planners", "auto", "--alignment", "8", "--inclusive", "--csv", tmp_path / "c.csv"]
    assert run("compare", small, *options) == 0
    with open(tmp_path / "c.csv", encoding="utf-8", newline="") as file:
        (line,) = csv.DictReader(file)
    problem = memplan.read_problem(small, inclusive=True)
    assert int(line["peak"]) == memplan.plan(problem, alignment=8).peak != memplan.plan(small).peak


def test_what_is_done_is_not_done_again(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = tmp_path / "done.csv"
    assert run("compare", small, "--planners", "auto", "--resume", done) == 0
    first = done.read_text(encoding="utf-8")
    assert run("compare", small, LIFETIMES, "--planners", "auto,naive", "--resume", done) == 0
    assert done.read_text(encoding="utf-8").startswith(first)
    assert len(done.read_text(encoding="utf-8").splitlines()) == 5
    capsys.readouterr()
    assert run("compare", small, "--planners", "auto", "--resume", done, "--seed", "1") == 2
    assert "is of another sweep" in capsys.readouterr().err


def test_a_resumed_source_alone_is_a_table_too(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("compare", small, "--planners", "auto,naive", "--jobs", "2", "--plot", tmp_path / "c.svg") == 0
    assert capsys.readouterr().out.startswith("small: naive 24 B, load 16 B")
    assert (tmp_path / "c.svg").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([LIFETIMES, "missing.csv"], "missing.csv: No such file or directory"),
        ([LIFETIMES, "--planners", "auto,nope"], "got 'nope'"),
        ([LIFETIMES, LIFETIMES], "two sources are called 'A.1048576'"),
        ([LIFETIMES, "--csv", LIFETIMES], "is named twice"),
        ([LIFETIMES, "--jobs", "0"], "--jobs: must be from 1 to 1024, got '0'"),
        ([LIFETIMES, "--resume", LIFETIMES], "is named twice"),
        ([], "SOURCE"),
    ],
    ids=str,
)
def test_errors_are_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert message in refused(capsys, "compare", *arguments)


def test_help_has_examples_and_says_how_planners_are_separated(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("compare", "--help") == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "examples: memplan compare " in out
    assert "auto,beam:k=16,xla_heap:order=best,fit=lowest" in out


def test_as_a_process(small: Path) -> None:
    result = shell("compare", small, LIFETIMES, "--planners", "auto,naive")
    assert (result.returncode, result.stderr) == (0, "")
    assert "optimal" in result.stdout


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_bar_shows_how_far_a_sweep_has_come(small: Path) -> None:
    import pty

    screen, terminal = pty.openpty()
    slow = "hill_climb:iterations=1000000000,placements=1000000000000"
    command = [sys.executable, "-m", "memplan", "compare", LIFETIMES, small, "--planners", f"naive,{slow}"]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(
        [*command, "--time-limit", "1"], stdout=subprocess.DEVNULL, stderr=terminal, env=environment
    ) as process:
        os.close(terminal)
        written = b""
        with suppress(OSError):  # the end of a terminal that is closed
            while piece := os.read(screen, 100_000):
                written += piece
    os.close(screen)
    assert process.returncode == 0
    assert "A.1048576, naive" in written.decode()
    assert re.search(r"[1-4]/4", written.decode())
