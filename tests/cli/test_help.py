"""``memplan planners``, ``memplan orders``, help and the version."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

import memplan
from builders.commands import LIFETIMES, run
from builders.graphs import two_branches
from memplan import cli
from memplan.cli.terminal import Progress

PLANNERS = [row.name for row in memplan.planners()]


def test_planners_lists_every_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("planners") == 0
    out = capsys.readouterr().out
    first = [line.split()[0] for line in out.splitlines() if line.strip()]
    assert [word for word in first if word in PLANNERS] == PLANNERS
    for row in memplan.planners():  # long cells go over several lines
        assert {*row.title.split(), *row.complexity.split(), *row.source.split()} <= set(out.split())
        assert set(row.supports) <= set(out.replace(",", " ").split())
        for parameter in row.parameters:
            assert {f"{parameter.name}={parameter.standard}", *parameter.title.split()} <= set(out.split())
            assert set(parameter.words) <= set(re.split(r"[ ,()]+", out))


def test_orders_lists_every_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("orders") == 0
    out = capsys.readouterr().out
    for row in memplan.orders():
        assert {row.name, *row.title.split(), *row.complexity.split(), *row.source.split()} <= set(out.split())
        assert {f"{parameter.name}={parameter.standard}" for parameter in row.parameters} <= set(out.split())


def test_an_order_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan", "example:resnet50_train", "--planner", "naive", "--order", "windows:start=growth,work=10") == 0
    assert run("explain", "example:gpt2_infer", "--order", "lpmf") == 0
    capsys.readouterr()
    for wrong, message in [("fast", "order must be one of given, best"), ("lpmf:k=1", "order 'lpmf' takes no param")]:
        assert run("plan", "example:gpt2_infer", "--order", wrong) == 2
        assert message in capsys.readouterr().err


def test_barriers_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "branches.json"
    path.write_text(json.dumps(two_branches()), encoding="utf-8")
    for barrier, peak in [([], 12), (["--barrier", "right"], 21), (["--barrier", "join,right"], 21)]:
        assert run("plan", path, "--order", "best", *barrier, "--json", tmp_path / "plan.json") == 0
        assert memplan.read_plan(tmp_path / "plan.json").peak == peak
    assert run("explain", path, "--order", "best", "--barrier", "right") == 0
    assert run("compare", path, "--planners", "auto", "--orders", "given,best", "--barrier", "right") == 0
    assert run("fit", path, "--capacity", "12", "--allow", "order") == 0
    assert run("fit", path, "--capacity", "12", "--allow", "order", "--barrier", "right") == 1
    capsys.readouterr()
    assert run("plan", path, "--barrier", "rigth") == 2
    assert "barrier must name ops, got 'rigth'; did you mean 'right'" in capsys.readouterr().err
    assert run("plan", LIFETIMES, "--barrier", "right") == 2
    assert "option barrier applies to graphs" in capsys.readouterr().err


def test_a_line_says_how_far_the_search_for_an_order_has_come() -> None:
    progress = Progress()
    assert str(progress) == "planning: 0 s"
    memplan.reorder(two_branches(), on_order=progress.show_order)
    assert str(progress) == "ordering: load 12 B, bound of all orders 12 B, 0 s"
    progress.show(memplan.plan(two_branches()))
    assert str(progress).startswith("planning: peak 21 B")


def test_parameters_say_what_they_can_be() -> None:
    number = SimpleNamespace(name="k", title="kept", standard=16, least=1, most=1024, words=[])
    word = SimpleNamespace(name="order", title="which first", standard="size", least=0, most=0, words=["size", "birth"])
    assert cli.planners.parameter_text(number) == "k=16 (1 to 1024): kept"
    assert cli.planners.parameter_text(word) == "order=size (size, birth): which first"


def test_planners_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("planners", "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["format"], record["version"]) == ("memplan.planners", 1)
    rows = {row["name"]: row for row in record["planners"]}
    assert list(rows) == [row.name for row in memplan.planners()]
    assert rows["megengine"]["alias"] == "pushdown"
    assert "conflicts" in rows["auto"]["supports"]
    fields = {"name", "alias", "title", "exact", "complexity", "source", "package", "supports", "parameters"}
    assert set(rows["beam"]) == fields
    (k,) = (it for it in rows["beam"]["parameters"] if it["name"] == "k")
    assert (k["standard"], k["least"], k["words"]) == (16, 1, [])


@pytest.mark.parametrize("command", [[], ["plan"], ["verify"], ["planners"], ["orders"]], ids=" ".join)
def test_help_has_examples(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*command, "--help") == 0
    out = capsys.readouterr().out
    assert out.startswith("usage: memplan")
    assert "examples:\n  memplan " in out


def test_help_names_options_and_planners(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan", "--help") == 0
    out = " ".join(capsys.readouterr().out.split())
    flags = (
        "planner alignment dims place train inclusive csv csv-form json layout plot time-limit capacity seed threads"
    )
    flags += " inplace-ops no-inplace disable-inplace-ops donate no-zero-copy"
    for flag in flags.split():
        assert f"--{flag}" in out
    assert ", ".join(PLANNERS) in out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out == f"memplan {memplan.__version__}\n"
