"""``memplan check``: a status for continuous integration, and which tensors make a plan too large."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import memplan
from builders.commands import refused, run
from builders.graphs import graph, op

NETWORK: dict[str, Any] = graph(
    "x 64 input, conv 96, relu 96, y 32",
    op("conv1", "x", "conv"),
    op("relu1", "conv", "relu"),
    op("end", "relu", "y"),
    outputs="y",
)


@pytest.fixture
def network(tmp_path: Path) -> Path:
    path = tmp_path / "network.json"
    path.write_text(json.dumps(NETWORK))
    return path


@pytest.fixture
def baseline(tmp_path: Path) -> Path:
    """The plan of the network when relu was half as large: 144 bytes."""
    smaller = json.loads(json.dumps(NETWORK).replace('"relu", "bytes": 96', '"relu", "bytes": 48'))
    path = tmp_path / "plan.json"
    memplan.plan(smaller).to_json(path)
    return path


@pytest.mark.parametrize("allowed", [["--max", "192"], ["--max", "1KiB"]])
def test_what_fits(network: Path, allowed: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", network, *allowed) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"{network}: fine: peak 192 B, ")
    assert out.count("\n") == 1
    assert err == ""


def test_the_peak_does_not_depend_on_what_is_allowed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A search that may end at a limit ends at the first plan that fits: here at more than the least."""
    path = tmp_path / "l.csv"
    path.write_text("id,lower,upper,size\na,1,2,4\nb,2,4,2\nc,4,7,4\nd,2,5,4\n")
    least, most = memplan.plan(path), memplan.plan(path, capacity=2**60)
    assert least.peak < most.peak
    peaks = set()
    for allowed in (least.peak, most.peak, 2**60):
        assert run("check", path, "--max", allowed, "--json") == 0
        peaks.add(json.loads(capsys.readouterr().out)["peak"])
    assert peaks == {least.peak}
    most.to_json(tmp_path / "p.json")
    assert run("check", path, "--baseline", tmp_path / "p.json", "--json") == 0
    assert json.loads(capsys.readouterr().out)["peak"] == least.peak


def test_json(network: Path, baseline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", network, "--max", "1KiB", "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record.pop("seconds") > 0
    assert record == {
        "format": "memplan.check",
        "version": 1,
        "source": str(network),
        "fits": True,
        "peak": 192,
        "lower_bound": 192,
        "optimal": True,
        "max": 1024,
        "baseline": None,
        "planner": "auto",
        "order": "given",
        "reasons": [],
    }
    assert run("check", network, "--max", "191", "--baseline", baseline, "--slack", "8", "--json") == 1
    record = json.loads(capsys.readouterr().out)
    assert record["fits"] is False
    assert record["baseline"] == {"path": str(baseline), "peak": 144, "slack": 8}
    assert [reason.split(" ", 2)[0] for reason in record["reasons"]] == ["no", "The"]


def test_an_order_that_is_looked_for(network: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", network, "--max", "191", "--order", "best") == 1
    assert "no plan fits a capacity of 191 bytes: at least 192 bytes are needed" in capsys.readouterr().out


def test_what_does_not_fit_says_why(network: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", network, "--max", "191") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        f"{network}: too large: peak 192 B, 191 B at most",
        "",
        "no plan fits a capacity of 191 bytes: at least 192 bytes are needed",
        "most is alive at step 1, 192 bytes of 2 buffers:",
    ]
    assert {line.split()[1] for line in lines[4:]} == {"'conv'", "'relu'"}


def test_what_grew_since_the_baseline(network: Path, baseline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", network, "--baseline", baseline, "--max", "1KiB") == 1
    out = capsys.readouterr().out
    assert f"{network}: too large: peak 192 B, 1.00 KiB at most, 144 B in {baseline}\n" in out
    assert "The peak rises from 144 B to 192 B (+48 B, +33.3%); both are optimal." in out
    assert "what differs there: relu (+48 B)." in out
    assert "no plan" not in out


def test_slack(network: Path, baseline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", network, "--baseline", baseline, "--slack", "48") == 0
    assert run("check", network, "--baseline", baseline, "--slack", "47") == 1
    assert "The peak rises" in capsys.readouterr().out


def test_both_limits_may_be_exceeded(network: Path, baseline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", network, "--baseline", baseline, "--max", "190") == 1
    out = capsys.readouterr().out
    assert "no plan fits a capacity of 190 bytes: at least 192 bytes are needed\nmost is alive at step 1" in out
    assert "The peak rises" in out


def test_a_peak_that_is_not_proven(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The best plan found is what counts: here that of a planner that finds none below 10."""
    path = tmp_path / "l.csv"
    path.write_text("id,lower,upper,size\na,1,2,4\nb,2,4,2\nc,4,7,4\nd,2,5,4\n")
    (tmp_path / "b.csv").write_text("id,lower,upper,size,offset\na,1,2,4,0\nb,2,4,2,6\nc,4,7,4,4\nd,2,5,4,0\n")
    base = ["--baseline", tmp_path / "b.csv"]
    assert run("check", path, *base) == 0
    assert run("check", path, *base, "--planner", "first_fit", "--max", "9") == 1
    out = capsys.readouterr().out
    assert "peak 10 B, 9 B at most, 8 B in" in out
    assert "no plan was found that fits a capacity of 9 bytes: the best plan of planner 'first_fit' peaks at 10" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "check needs to know what is allowed: --max N, --baseline PLAN, or both"),
        (["--baseline", "missing.json"], "missing.json: No such file or directory"),
        (["--max", "2 apples"], "--max: "),
    ],
)
def test_errors_are_one_line(
    network: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in refused(capsys, "check", network, *arguments)


def test_an_interrupt_is_no_verdict(network: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from memplan import api

    planned = api.plan
    monkeypatch.setattr(api, "plan", lambda *args, **options: replace(planned(*args, **options), interrupted=True))
    assert run("check", network, "--max", "1KiB") == 130
