"""The command line: options, exit statuses, and errors of one line."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import memplan
from interrupts import FOREVER, SOON, signals
from memplan import cli

DATA = Path(__file__).parent / "data"
LIFETIMES = str(DATA / "minimalloc" / "A.1048576.csv")
PLANNERS = [row.name for row in memplan.planners()]


@pytest.fixture
def lifetimes(tmp_path: Path) -> Path:
    path = tmp_path / "lifetimes.csv"
    path.write_text("id,lower,upper,size\na,0,2,10\nb,1,4,6\nc,3,5,8\n")
    return path


@pytest.fixture
def offsets(tmp_path: Path) -> Path:
    path = tmp_path / "offsets.csv"
    path.write_text("id,lower,upper,size,offset\na,0,2,10,0\nb,1,4,6,10\nc,3,5,8,0\n")
    return path


def run(*arguments: object) -> int:
    """The exit status, also when the parser of arguments is what ends the run."""
    try:
        return cli.main([str(argument) for argument in arguments])
    except SystemExit as stop:
        return int(stop.code or 0)


def shell(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "memplan", *(str(argument) for argument in arguments)]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=60, **options)


# plan


def test_plan_prints_the_summary(
    lifetimes: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(lifetimes.parent)
    assert run("plan", lifetimes.name) == 0
    out, err = capsys.readouterr()
    assert err == ""
    figures = {line.split()[0]: line for line in out.splitlines()[1:]}
    assert out.splitlines()[0].strip() == lifetimes.name
    assert "(24 bytes)" in figures["naive"]
    assert "(16 bytes)" in figures["load"]
    assert "(16 bytes)" in figures["peak"]
    assert "optimal" in figures["proof"]
    assert "auto (" in figures["planner"]
    assert figures["planner"].rstrip().endswith(" s")


def test_plan_writes_everything(lifetimes: Path, tmp_path: Path) -> None:
    names = {"--csv": "p.csv", "--json": "p.json", "--layout": "p.txt", "--plot": "p.svg"}
    assert run("plan", lifetimes, *(x for flag, name in names.items() for x in (flag, tmp_path / name))) == 0
    plan = memplan.plan(lifetimes)
    assert memplan.read_plan(tmp_path / "p.csv").offsets.tolist() == plan.offsets.tolist()
    assert memplan.read_plan(tmp_path / "p.json").offsets.tolist() == plan.offsets.tolist()
    assert (tmp_path / "p.txt").read_text(encoding="utf-8") == plan.layout() + "\n"
    assert "<svg" in (tmp_path / "p.svg").read_text(encoding="utf-8")
    assert len(list(tmp_path.iterdir())) == 5


@pytest.mark.parametrize(
    ("given", "expected"),
    [("", {}), ("mine", {"own": 1}), ("default", {"relu": 1}), ("mine,default", {"own": 1, "relu": 1})],
)
def test_plan_hands_types_of_ops_on(
    given: str, expected: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors = [{"name": "x", "bytes": 4, "kind": "input"}, {"name": "y", "bytes": 4}, {"name": "z", "bytes": 4}]
    ops = [
        {"name": "own", "type": "mine.own", "inputs": ["x"], "outputs": ["y"]},
        {"name": "relu", "type": "aten.relu.default", "inputs": ["y"], "outputs": ["z"]},
    ]
    path = tmp_path / "graph.json"
    path.write_text(json.dumps({"tensors": tensors, "ops": ops, "outputs": ["z"]}))
    planned: list[Any] = []
    plan = memplan.api.plan
    monkeypatch.setattr(memplan.api, "plan", lambda source, *a, **k: (planned.append(source), plan(source, *a, **k))[1])
    assert run("plan", path, "--inplace-ops", given) == 0
    assert {op.name: len(op.inplace) for op in planned[-1].ops if op.inplace} == expected


def test_lifetimes_have_no_types_of_ops(lifetimes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan", lifetimes, "--inplace-ops", "default") == 2
    assert "option inplace_ops does not apply to a source of kind .csv" in capsys.readouterr().err


def test_plan_writes_nothing_unasked(lifetimes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("plan", lifetimes) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["lifetimes.csv"]


def test_csv_form(lifetimes: Path, tmp_path: Path) -> None:
    assert run("plan", lifetimes, "--csv", tmp_path / "p.csv", "--csv-form", "gantt") == 0
    assert (tmp_path / "p.csv").read_text().startswith("tensor_name,size,offset,start_time,end_time\n")


@pytest.mark.parametrize("planner", PLANNERS)
def test_planner(planner: str, lifetimes: Path, tmp_path: Path) -> None:
    assert run("plan", lifetimes, "--planner", planner, "--json", tmp_path / "p.json") == 0
    assert memplan.read_plan(tmp_path / "p.json").planner == planner


# relu may take what conv wrote and add what x holds; c is a concatenation of two.
GRAPH: dict[str, Any] = {
    "tensors": [
        {"name": "x", "bytes": 8, "kind": "input"},
        {"name": "a", "bytes": 8},
        {"name": "b", "bytes": 8},
        {"name": "c", "bytes": 16},
        {"name": "r", "bytes": 16},
        {"name": "y", "bytes": 1},
    ],
    "ops": [
        {"name": "add", "type": "Add", "inputs": ["x"], "outputs": ["a"], "inplace": [{"output": "a", "input": "x"}]},
        {"name": "mul", "type": "Mul", "inputs": ["a"], "outputs": ["b"]},
        {
            "name": "join",
            "type": "Concat",
            "inputs": ["a", "b"],
            "outputs": ["c"],
            "concat": [{"output": "c", "input": "a"}, {"output": "c", "input": "b", "offset": 8}],
        },
        {"name": "relu", "type": "Relu", "inputs": ["c"], "outputs": ["r"], "inplace": [{"output": "r", "input": "c"}]},
        {"name": "end", "type": "Sum", "inputs": ["r"], "outputs": ["y"]},
    ],
    "outputs": ["y"],
}


@pytest.mark.parametrize(
    ("arguments", "options", "shared"),
    [
        ([], {}, "1 in place, 2 parts of concatenations"),
        (["--no-inplace"], {"inplace": False}, "2 parts of concatenations"),
        (["--no-zero-copy"], {"zero_copy": False}, "1 in place"),
        (["--disable-inplace-ops", "Mul,Relu"], {"disable_inplace_ops": ["Mul", "Relu"]}, "2 parts of concatenations"),
        (["--donate", "x"], {"donate": ["x"]}, "2 in place, 1 part of a concatenation"),
        (["--no-inplace", "--no-zero-copy", "--donate", "x"], {"inplace": False, "zero_copy": False}, None),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_sharing(
    arguments: list[str],
    options: dict[str, Any],
    shared: str | None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "g.json").write_text(json.dumps(GRAPH))
    place = ["--place", "input,intermediate,output"] if "--donate" in arguments else []
    assert run("plan", tmp_path / "g.json", "--json", tmp_path / "p.json", *place, *arguments) == 0
    if place:
        options = options | {"place": ["input", "intermediate", "output"]}
    expected = memplan.plan(GRAPH, **options)
    assert memplan.read_plan(tmp_path / "p.json").problem == expected.problem
    figures = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()[1:])
    assert figures.get("shared", "").strip() == (shared or "")


def test_planner_with_parameters(lifetimes: Path, tmp_path: Path) -> None:
    planner = "beam:k=3"
    assert run("plan", lifetimes, "--planner", planner, "--json", tmp_path / "p.json") == 0
    assert memplan.read_plan(tmp_path / "p.json").planner == planner


def test_an_unknown_planner_is_refused_before_any_work(
    lifetimes: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("memplan.importers.csv.read_problem", lambda *_, **__: pytest.fail("worked first"))
    assert run("plan", lifetimes, "--planner", "magic") == 2
    assert capsys.readouterr().err.startswith("memplan: error: planner must be one of auto, naive, ")


def test_what_shares_bytes_in_parts_is_written_and_verified(tmp_path: Path) -> None:
    (tmp_path / "g.json").write_text(json.dumps(GRAPH))
    targets = {"--csv": "p.csv", "--json": "p.json", "--layout": "p.txt", "--plot": "p.svg"}
    assert run("plan", tmp_path / "g.json", *(x for f, name in targets.items() for x in (f, tmp_path / name))) == 0
    assert memplan.plan(GRAPH).problem.parts is not None
    assert run("verify", tmp_path / "p.csv", tmp_path / "p.csv") == 0
    assert "part of c" in (tmp_path / "p.txt").read_text()


def test_alignment(lifetimes: Path, tmp_path: Path) -> None:
    assert run("plan", lifetimes, "--alignment", "64", "--csv", tmp_path / "p.csv") == 0
    plan = memplan.read_plan(tmp_path / "p.csv")
    assert not (plan.offsets % 64).any()
    assert set(plan.problem.alignment.tolist()) == {64}


def test_inclusive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "l.csv").write_text("id,lower,upper,size\na,0,1,10\nb,1,1,6\n")
    assert run("plan", tmp_path / "l.csv") == 2
    assert run("plan", tmp_path / "l.csv", "--inclusive") == 0
    assert "(16 bytes)" in capsys.readouterr().out


def test_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan", "example:resnet50_infer", "--place", "weight") == 0
    weights = capsys.readouterr().out
    plan = memplan.plan("example:resnet50_infer", place=("weight",))
    assert f"({plan.peak:,} bytes)" in weights


def test_several_places(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan", "--place", "weight,input", "example:resnet50_infer") == 0
    plan = memplan.plan("example:resnet50_infer", place=("weight", "input"))
    assert f"({plan.peak:,} bytes)" in capsys.readouterr().out


def test_dims_may_come_before_the_source_and_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx = pytest.importorskip("onnx")
    floats = onnx.TensorProto.FLOAT
    x, y = (onnx.helper.make_tensor_value_info(name, floats, ["batch", "seq"]) for name in "xy")
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph([node], "g", [x], [y])), tmp_path / "m.onnx")
    assert run("plan", "--dims", "batch=8", "--dims", "seq=3", tmp_path / "m.onnx") == 0
    assert "(96 bytes)" in capsys.readouterr().out


def test_limits_seed_and_threads(lifetimes: Path) -> None:
    assert run("plan", lifetimes, "--time-limit", "0.5", "--seed", "3", "--threads", "2") == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.csv"], "missing.csv: No such file or directory"),
        (["model.txt"], "a path must end in .onnx, .json, .csv, .pt2 or .pickle, got 'model.txt'"),
        (["model"], "a path must end in .onnx, .json, .csv, .pt2 or .pickle"),
        (["example:nothing"], "there is no example 'nothing'; there are gpt2_infer"),
        ([LIFETIMES, "--dims", "batch"], "--dims takes NAME=N with N >= 0, such as batch=8, got 'batch'"),
        ([LIFETIMES, "--dims", "batch=x"], "got 'batch=x'"),
        ([LIFETIMES, "--dims", "=8"], "got '=8'"),
        ([LIFETIMES, "--dims", "batch=8"], "option dims does not apply to a source of kind .csv"),
        ([LIFETIMES, "--train"], "option train does not apply to a source of kind .csv"),
        (["example:resnet50_infer", "--inclusive"], "option inclusive does not apply to a source of kind example"),
        (["example:resnet50_infer", "--place", "params"], "place must hold kinds among input, weight"),
        ([LIFETIMES, "--planner", "magic"], "planner must be one of auto, naive, first_fit"),
        ([LIFETIMES, "--planner", "naive:k=1"], "planner 'naive' takes no parameters, got 'k=1'"),
        ([LIFETIMES, "--planner", "beam:k=x"], "parameter k must be an integer in [1, 1048576], got 'x'"),
        ([LIFETIMES, "--planner", "beam:k=16,"], "planner 'beam' takes NAME=VALUE for k, got ''"),
        ([LIFETIMES, "--planner", "naive:,"], "planner 'naive' takes no parameters, got ''"),
        ([LIFETIMES, "--planner", "beam:width=3"], "planner 'beam' takes NAME=VALUE for k, got 'width=3'"),
        ([LIFETIMES, "--planner", ""], "planner must be one of auto"),
        ([LIFETIMES, "--donate", "x"], "option donate applies to graphs"),
        ([LIFETIMES, "--disable-inplace-ops", "Add"], "option disable_inplace_ops applies to graphs"),
        (["example:resnet50_infer", "--donate", "nothing"], "donate must name graph inputs, got 'nothing'"),
        ([LIFETIMES, "--alignment", "0"], "--alignment: must be >= 1"),
        ([LIFETIMES, "--alignment", "x"], "--alignment"),
        ([LIFETIMES, "--alignment", str(2**63)], "--alignment: must be >= 1"),
        ([LIFETIMES, "--alignment", str(2**62)], "add up to at most 2^63 - 1 bytes"),
        ([LIFETIMES, "--time-limit", "0"], "time_limit must be > 0 seconds, got 0"),
        ([LIFETIMES, "--threads", "0"], "threads must be >= 1"),
        ([LIFETIMES, "--threads", str(2**40)], "threads must"),
        ([LIFETIMES, "--seed", "-1"], "seed must"),
        ([LIFETIMES, "--plot", "plan.gif"], "--plot takes a file that ends in .png, .svg or .pdf, got plan.gif"),
        ([LIFETIMES, "--csv", "missing/plan.csv"], "missing/plan.csv: the folder missing does not exist"),
        ([LIFETIMES, "--layout", "missing/plan.txt"], "missing/plan.txt: the folder missing does not exist"),
        ([LIFETIMES, "--csv", "."], "."),
        ([LIFETIMES, "--nonsense"], "--nonsense"),
        ([], "SOURCE"),
    ],
    ids=lambda value: " ".join(value).replace(LIFETIMES, "A.csv") if isinstance(value, list) else "",
)
def test_plan_errors_are_one_line(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("plan", *arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("memplan: error: ")
    assert message in err
    assert "incompatible function arguments" not in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("g.json", "{", "g.json: line 1, column 2: Expecting property name"),
        (
            "g.json",
            '{"format": "memplan.plan", "version": 2}',
            "g.json: expected a graph dict with tensors, ops and outputs, got a memplan.plan file",
        ),
        ("g.json", "[1]", "g.json: expected a graph dict with tensors, ops and outputs, got list"),
        ("g.json", "{}", "graph has no 'tensors'"),
        ("g.json", "[" * 100_000, "g.json: "),
        ("g.json", '{"tensors": [{"name": "x", "bytes": ' + "9" * 5000 + "}]}", "g.json: "),
        (
            "g.json",
            '{"tensors": [{"name": "\\ud800", "bytes": 1, "kind": "input"}], "ops": [], "outputs": []}',
            "tensors[0].name",
        ),
        ("l.csv", "id,lower,upper,size\na,0,x,1\n", "l.csv: line 2, column 3: last must be an integer, got 'x'"),
        ("l.csv", "", "l.csv: line 1: expected a header"),
    ],
    ids=[
        "cut json",
        "plan",
        "list",
        "empty dict",
        "deep json",
        "long number",
        "surrogate",
        "csv",
        "empty csv",
    ],
)
def test_bad_files_are_one_line(
    name: str, text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text(text)
    assert run("plan", tmp_path / name) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("memplan: error: ")
    assert message in err


@pytest.mark.parametrize(("name", "package"), [("l.csv", "numpy"), ("m.onnx", "onnx"), ("m.pt2", "torch")])
def test_packages_that_read_a_bad_file_say_nothing_beside(name: str, package: str, tmp_path: Path) -> None:
    pytest.importorskip(package)
    (tmp_path / name).write_text("none")
    result = shell("plan", tmp_path / name)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert result.stderr.startswith("memplan: error: ")
    assert name in result.stderr


def test_targets_are_checked_before_any_work(lifetimes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memplan.api.capture", lambda *_, **__: pytest.fail("worked first"))
    assert run("plan", lifetimes, "--plot", lifetimes.parent / "p.bmp") == 2
    assert run("plan", lifetimes, "--json", lifetimes.parent / "no" / "p.json") == 2


def test_an_interrupted_run_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("memplan.api.capture", interrupt)
    assert run("plan", LIFETIMES) == 130
    assert capsys.readouterr().err == "memplan: interrupted\n"


@pytest.mark.parametrize("name", ["resnet50_infer", "resnet50_train", "gpt2_infer", "gpt2_train"])
def test_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan", f"example:{name}") == 0
    assert f"example:{name}" in capsys.readouterr().out


def test_a_capacity_that_is_met(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan", LIFETIMES, "--planner", FOREVER, "--capacity", "1300000") == 0
    peak = re.search(r"([\d,]+) bytes\), .* below naive", capsys.readouterr().out)
    assert peak is not None
    assert int(peak[1].replace(",", "")) <= 1_300_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--capacity", "15"], "no plan fits a capacity of 15 bytes: at least 16 bytes are needed"),
        (
            ["--capacity", "20", "--planner", "naive"],
            "no plan was found that fits a capacity of 20 bytes: the best plan of planner 'naive' peaks at 24; "
            "at least 16 are needed",
        ),
    ],
)
def test_a_capacity_that_is_not(
    arguments: list[str], message: str, lifetimes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = lifetimes.parent / "p.json"
    assert run("plan", lifetimes, *arguments, "--json", target) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        message,
        "most is alive at step 1, 16 bytes of 2 buffers:",
        "  buffer 'a' with 10 bytes, alive in [0, 2)",
        "  buffer 'b' with 6 bytes, alive in [1, 4)",
    ]
    assert not target.exists()


@pytest.mark.parametrize("capacity", ["-1", "1.5", "1XB", "1e6", ""])
def test_capacities_that_are_none(capacity: str, lifetimes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan", lifetimes, f"--capacity={capacity}") == 2
    error = capsys.readouterr().err
    assert "--capacity: must be a" in error
    assert f"got '{capacity}'" in error


# verify


def test_verify_a_valid_plan(lifetimes: Path, offsets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verify", lifetimes, offsets) == 0
    assert capsys.readouterr() == ("valid: 3 buffers, peak 16 bytes, load 16 bytes\n", "")


@pytest.mark.parametrize("flag", ["--csv", "--json"])
def test_verify_what_plan_wrote(flag: str, lifetimes: Path, tmp_path: Path) -> None:
    target = tmp_path / f"plan.{flag[2:]}"
    assert run("plan", lifetimes, flag, target) == 0
    assert run("verify", lifetimes, target) == 0


def test_verify_takes_rows_in_any_order(lifetimes: Path, offsets: Path) -> None:
    header, *rows = offsets.read_text().splitlines()
    offsets.write_text("\n".join([header, *rows[::-1]]))
    assert run("verify", lifetimes, offsets) == 0


def test_verify_lists_violations(lifetimes: Path, offsets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    offsets.write_text("id,lower,upper,size,offset\na,0,2,10,0\nb,1,4,6,4\nc,3,5,8,0\n")
    assert run("verify", lifetimes, offsets) == 1
    out, err = capsys.readouterr()
    assert err == ""
    assert len(out.splitlines()) == 2
    assert "buffer 'a' at bytes [0, 10) and buffer 'b' at bytes [4, 10) share bytes [4, 10)" in out


def test_verify_uses_the_alignment_of_the_problem(
    lifetimes: Path, offsets: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lifetimes.write_text("id,lower,upper,size,alignment\na,0,2,10,1\nb,1,4,6,4\nc,3,5,8,1\n")
    assert run("verify", lifetimes, offsets) == 1
    assert capsys.readouterr().out == "buffer 'b' at offset 10 is not aligned to 4\n"


def test_verify_capacity(lifetimes: Path, offsets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verify", lifetimes, offsets, "--capacity", "16") == 0
    assert run("verify", lifetimes, offsets, "--capacity", "15") == 1
    assert "ends beyond the arena of 15 bytes" in capsys.readouterr().out


def test_verify_inclusive(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text("id,lower,upper,size\na,0,1,10\nb,1,1,6\n")
    (tmp_path / "p.csv").write_text("id,lower,upper,size,offset\na,0,1,10,0\nb,1,1,6,10\n")
    assert run("verify", tmp_path / "l.csv", tmp_path / "p.csv", "--inclusive") == 0
    assert run("verify", tmp_path / "l.csv", tmp_path / "p.csv") == 2


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("c,3,5,8,0\n", "", "buffer 'c' is not in the plan"),
        ("c,3", "d,3", "buffer 'd' is in the plan, but not in the problem"),
        ("3,5,8,0", "3,5,9,0", "buffer 'c' has size 8 in the problem and 9 in the plan"),
        ("3,5,8,0", "2,5,8,0", "buffer 'c' has start 3 in the problem and 2 in the plan"),
        ("3,5,8,0", "3,6,8,0", "buffer 'c' has end 5 in the problem and 6 in the plan"),
    ],
)
def test_verify_finds_mismatches(
    old: str, new: str, message: str, lifetimes: Path, offsets: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    offsets.write_text(offsets.read_text().replace(old, new))
    assert run("verify", lifetimes, offsets) == 1
    assert message in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_verify_limit(limit: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "l.csv").write_text("id,lower,upper,size,offset\n" + "".join(f"{i},0,1,4,0\n" for i in range(4)))
    assert run("verify", tmp_path / "l.csv", tmp_path / "l.csv", "--limit", limit) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "… and more"
    assert len(lines) == limit + 1
    assert run("verify", tmp_path / "l.csv", tmp_path / "l.csv", "--limit", "6") == 1
    assert len(capsys.readouterr().out.splitlines()) == 6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.csv", LIFETIMES], "missing.csv: No such file or directory"),
        ([LIFETIMES, "missing.csv"], "missing.csv: No such file or directory"),
        ([LIFETIMES, LIFETIMES], "column 'offset' is missing"),
        ([LIFETIMES], "PLAN"),
    ],
    ids=["no problem", "no plan", "no offsets", "one file"],
)
def test_verify_errors_are_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verify", *arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("memplan: error: ")
    assert message in err


def test_verify_refuses_a_negative_limit(lifetimes: Path, offsets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verify", lifetimes, offsets, "--limit", "-5") == 2
    err = capsys.readouterr().err
    assert "--limit: must be >= 0, got '-5'" in err
    assert err.count("\n") == 1


# planners, help


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


def test_parameters_say_what_they_can_be() -> None:
    number = SimpleNamespace(name="k", title="kept", standard=16, least=1, most=1024, words=[])
    word = SimpleNamespace(name="order", title="which first", standard="size", least=0, most=0, words=["size", "birth"])
    assert cli.planners.parameter_text(number) == "k=16 (1 to 1024): kept"
    assert cli.planners.parameter_text(word) == "order=size (size, birth): which first"


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


# As a process


def test_process_plans(lifetimes: Path, tmp_path: Path) -> None:
    result = shell("plan", lifetimes, "--json", tmp_path / "p.json")
    assert (result.returncode, result.stderr) == (0, "")
    assert "16 B (16 bytes)" in result.stdout
    assert json.loads((tmp_path / "p.json").read_text())["peak"] == 16


def test_process_says_when_a_plan_does_not_hold(lifetimes: Path, offsets: Path) -> None:
    offsets.write_text(offsets.read_text().replace("10,0", "10,4"))
    result = shell("verify", lifetimes, offsets)
    assert (result.returncode, result.stderr) == (1, "")
    assert "share bytes" in result.stdout


def test_process_without_a_command() -> None:
    result = shell()
    assert result.returncode == 2
    assert "Traceback" not in result.stderr


def test_a_reader_that_leaves_early_is_no_error() -> None:
    """As in `memplan planners | head -1`."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "memplan", "planners"]
    with os.fdopen(write, "wb") as pipe:
        result = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, text=True, timeout=60)
    assert result.stderr == ""


SLOW = """
import sys, time
from memplan import cli, api
capture = api.capture
pauses = {sys.argv[2]: float(sys.argv[1])}
api.capture = lambda source, **k: (time.sleep(pauses.pop(str(source), 0)), capture(source, **k))[1]
raise SystemExit(cli.main(["plan", sys.argv[2]]))
"""


def slow(seconds: float, source: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", SLOW, str(seconds), str(source)]
    return subprocess.run(command, text=True, encoding="utf-8", timeout=60, **options)


@pytest.mark.parametrize("environment", [{}, {"FORCE_COLOR": "1"}], ids=["plain", "forced colours"])
def test_no_progress_line_where_there_is_no_terminal(lifetimes: Path, environment: dict[str, str]) -> None:
    result = slow(1.3, lifetimes, capture_output=True, env=os.environ | environment)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(("seconds", "shown"), [(0.0, False), (1.6, True)], ids=["quick", "slow"])
def test_a_progress_line_on_a_terminal_after_a_second(seconds: float, shown: bool, lifetimes: Path) -> None:
    import pty

    screen, terminal = pty.openpty()
    environment = os.environ | {"TERM": "xterm"}
    try:
        result = slow(seconds, lifetimes, stdout=subprocess.DEVNULL, stderr=terminal, env=environment)
    finally:
        os.close(terminal)
    os.set_blocking(screen, False)
    try:
        written = os.read(screen, 100_000).decode()
    except OSError:  # nothing was written
        written = ""
    os.close(screen)
    assert result.returncode == 0
    assert ("reading" in written) == shown


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_live_line_shows_how_far_a_search_has_come() -> None:
    import pty

    screen, terminal = pty.openpty()
    command = [sys.executable, "-m", "memplan", "plan", LIFETIMES, "--planner", FOREVER, "--time-limit", "2.2"]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=terminal, text=True, env=environment) as process:
        os.close(terminal)
        written = b""
        with suppress(OSError):  # the end of a terminal that is closed
            while piece := os.read(screen, 100_000):
                written += piece
        assert process.stdout is not None
        assert "not proven optimal" in process.stdout.read()
    os.close(screen)
    lines = re.findall(r"planning: peak (.*?), bound 1.00 MiB, gap (.*?)%, (\d) s", written.decode())
    assert len(lines) > 1
    assert {seconds for _, _, seconds in lines} == {"1", "2"}
    gaps = [float(gap) for _, gap, _ in lines]
    assert gaps == sorted(gaps, reverse=True)


@pytest.mark.skipif(sys.platform == "win32", reason="sends an interrupt")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "memplan: interrupted; this is the best plan until then\n"),
        (["--capacity", "1048576"], "memplan: interrupted\n"),
    ],
    ids=["any", "that fits"],
)
def test_ctrl_c_keeps_the_best_plan(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "p.json"
    command = ["plan", LIFETIMES, "--planner", FOREVER, "--json", target]
    with signals(5 * SOON):
        assert run(*command, *arguments) == 130
    out, err = capsys.readouterr()
    assert err.endswith(said)
    if arguments:
        assert (out, target.exists()) == ("", False)
        assert "no plan was found that fits a capacity of 1048576 bytes" in err
        assert "when it was interrupted; at least 1048576 are needed" in err
    else:
        assert err == said
        assert ", interrupted" in out
        assert memplan.read_plan(target).interrupted


def test_files_are_written_though_nobody_reads_the_summary(tmp_path: Path) -> None:
    target = tmp_path / "plan.csv"
    command = f"{sys.executable} -m memplan plan example:gpt2_infer --csv {target} | true; exit ${{PIPESTATUS[0]}}"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    assert len(memplan.read_problem(target)) == 328


def test_what_the_terminal_cannot_show_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "é.csv").write_text("id,lower,upper,size\nü,0,1,4\n", encoding="utf-8")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "memplan", "plan", str(tmp_path / "é.csv"), "--csv", str(tmp_path / "p.csv")]
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (result.returncode, result.stderr) == (0, "")
    assert memplan.read_problem(tmp_path / "p.csv").names == ["ü"]


def test_verify_reports_what_matches_beside_what_does_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "l.csv").write_text("id,lower,upper,size,alignment\na,0,1,4,4\nb,0,1,4,1\n")
    (tmp_path / "p.csv").write_text("id,lower,upper,size,offset\na,0,1,4,3\nb,0,1,8,16\n")
    assert run("verify", tmp_path / "l.csv", tmp_path / "p.csv") == 1
    out = capsys.readouterr().out
    assert "buffer 'b' has size 4 in the problem and 8 in the plan" in out
    assert "buffer 'a' at offset 3 is not aligned to 4" in out


def test_one_file_is_not_named_twice(lifetimes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = lifetimes.read_text()
    assert run("plan", lifetimes, "--csv", lifetimes) == 2
    assert run("plan", lifetimes, "--csv", tmp_path / "a", "--json", tmp_path / "a") == 2
    assert capsys.readouterr().err.count("is named twice") == 2
    assert lifetimes.read_text() == before


def test_a_capacity_beyond_int64_is_one_line(lifetimes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verify", lifetimes, lifetimes, "--capacity", "9" * 20) == 2
    assert "--capacity: must be >= 0 and at most 9223372036854775807" in capsys.readouterr().err


# pictures and traces


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


# explain and diff


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
    plan = memplan.plan("example:gpt2_infer", "first_fit", inplace_ops=memplan.INPLACE_OPS)
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
