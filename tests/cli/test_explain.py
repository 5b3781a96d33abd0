"""``memplan explain`` and ``memplan diff``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import memplan
from builders.commands import run


def test_explain_prints_and_writes(lifetimes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run(
            "explain", lifetimes, "--planner", "first_fit", "--json", tmp_path / "e.json", "--html", tmp_path / "e.html"
        )
        == 0
    )
    explanation = memplan.plan(lifetimes, "first_fit").explain()
    assert capsys.readouterr().out == f"{explanation}\n"
    assert json.loads((tmp_path / "e.json").read_text(encoding="utf-8"))["peak"] == explanation.peak == 16
    assert "best possible" in (tmp_path / "e.html").read_text(encoding="utf-8")


def test_explain_takes_what_plan_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("explain", "example:gpt2_infer", "--inplace-ops", "default", "--planner", "first_fit") == 0
    plan = memplan.plan("example:gpt2_infer", "first_fit", inplace_ops=memplan.inplace_ops.INPLACE_OPS)
    assert capsys.readouterr().out == f"{plan.explain()}\n"


def test_diff_prints_and_writes(lifetimes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = memplan.plan(lifetimes, "naive"), memplan.plan(lifetimes)
    before.to_json(tmp_path / "before.json")
    after.to_csv(tmp_path / "after.csv")
    files = (tmp_path / "before.json", tmp_path / "after.csv")
    assert run("diff", *files, "--json", tmp_path / "d.json", "--html", tmp_path / "d.html") == 0
    out = capsys.readouterr().out
    assert out.startswith("The peak falls from 24 B to 16 B")
    assert json.loads((tmp_path / "d.json").read_text(encoding="utf-8"))["after"]["peak"] == 16
    assert "24 B" in (tmp_path / "d.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("explain", "LIFETIMES", "--json", "LIFETIMES"), "is named twice"),
        (("explain", "LIFETIMES", "--planner", "nope"), "nope"),
        (("explain", "LIFETIMES", "--html", "/nowhere/e.html"), "the folder /nowhere does not exist"),
        (("diff", "LIFETIMES", "LIFETIMES"), "offset"),
        (("diff", "LIFETIMES", "LIFETIMES", "--html", "LIFETIMES"), "is named twice"),
        (("diff", "missing.json", "missing.json"), "missing.json"),
    ],
)
def test_explain_and_diff_refuse_in_one_line(
    arguments: tuple[str, ...], message: str, lifetimes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*(str(lifetimes) if a == "LIFETIMES" else a for a in arguments)) == 2
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert message in err
