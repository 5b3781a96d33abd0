"""``memplan plan``: options, exit statuses, and errors of one line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import memplan
from builders import graphs
from builders.commands import LIFETIMES, refused, run, shell
from builders.interrupting import FOREVER

PLANNERS = [row.name for row in memplan.planners()]


def test_plan_prints_the_summary(
    lifetimes: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(lifetimes.parent)
    assert run("plan", lifetimes.name) == 0
    out, err = capsys.readouterr()
    assert err == ""
    figures = {line.split()[0]: line for line in out.splitlines()[1:]}
    assert out.splitlines()[0].strip() == lifetimes.name
    assert "24 bytes" in figures["naive"]
    assert "16 bytes" in figures["load"]
    assert "16 bytes" in figures["peak"]
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
    assert {op.name: len(op.inplace) for op in planned[-1].graph.ops if op.inplace} == expected


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


@pytest.mark.few(10)
@pytest.mark.parametrize("planner", PLANNERS)
def test_planner(planner: str, lifetimes: Path, tmp_path: Path) -> None:
    assert run("plan", lifetimes, "--planner", planner, "--json", tmp_path / "p.json") == 0
    assert memplan.read_plan(tmp_path / "p.json").planner == planner


# relu may take what conv wrote and add what x holds; c is a concatenation of two.
GRAPH: dict[str, Any] = graphs.graph(
    "x 8 input, a 8, b 8, c 16, r 16, y 1",
    graphs.op("add", "x", "a", type="Add", inplace=["a x"]),
    graphs.op("mul", "a", "b", type="Mul"),
    graphs.op("join", "a b", "c", type="Concat", concat=["c a", "c b 8"]),
    graphs.op("relu", "c", "r", type="Relu", inplace=["r c"]),
    graphs.op("end", "r", "y", type="Sum"),
    outputs="y",
)


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
    options_of_plan = ["--planner", "first_fit", *place, *arguments]  # auto looks at other choices of sharing too
    assert run("plan", tmp_path / "g.json", "--json", tmp_path / "p.json", *options_of_plan) == 0
    if place:
        options = options | {"place": ["input", "intermediate", "output"]}
    expected = memplan.plan(GRAPH, "first_fit", **options)
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
    assert capsys.readouterr().err.startswith("memplan: error: argument --planner: must be one of auto, naive, ")


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
    assert "16 bytes" in capsys.readouterr().out


def test_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan", "example:resnet50_infer", "--place", "weight") == 0
    weights = capsys.readouterr().out
    plan = memplan.plan("example:resnet50_infer", place=("weight",))
    assert f"{plan.peak:,} bytes" in weights


def test_several_places(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan", "--place", "weight,input", "example:resnet50_infer") == 0
    plan = memplan.plan("example:resnet50_infer", place=("weight", "input"))
    assert f"{plan.peak:,} bytes" in capsys.readouterr().out


def test_dims_may_come_before_the_source_and_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx = pytest.importorskip("onnx")
    floats = onnx.TensorProto.FLOAT
    x, y = (onnx.helper.make_tensor_value_info(name, floats, ["batch", "seq"]) for name in "xy")
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph([node], "g", [x], [y])), tmp_path / "m.onnx")
    assert run("plan", "--dims", "batch=8", "--dims", "seq=3", tmp_path / "m.onnx") == 0
    assert "96 bytes" in capsys.readouterr().out


def test_values_of_inputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx = pytest.importorskip("onnx")
    parser = pytest.importorskip("onnx.parser")
    text = """<ir_version: 10, opset_import: ["": 21]> g (float[n] x, int64[2] to, bool c) => (float[a, b] y) {
        two = Constant<value_ints=[2]>()  t = Tile(x, two)  y = Reshape(t, to)
    }"""
    onnx.save(parser.parse_model(text), tmp_path / "m.onnx")
    arguments = ["plan", tmp_path / "m.onnx", "--dims", "x[0]=6", "--values", "to=3,-1", "--values", "c=true"]
    assert run(*arguments) == 0
    assert "48 bytes" in capsys.readouterr().out


def test_limits_seed_and_threads(lifetimes: Path) -> None:
    assert run("plan", lifetimes, "--time-limit", "0.5", "--seed", "3", "--threads", "2") == 0


@pytest.mark.few(14)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.csv"], "missing.csv: No such file or directory"),
        (["model.rst"], "a path must end in .json, .csv, .hlo, .onnx, .tflite, .pt2 or .pickle, got 'model.rst'"),
        (["example:nothing"], "there is no example 'nothing'; there are gpt2_infer"),
        (
            [LIFETIMES, "--dims", "batch"],
            "--dims takes NAME=N with N >= 0, such as batch=8, or a range such as batch=1:64, got 'batch'",
        ),
        ([LIFETIMES, "--dims", "=8"], "got '=8'"),
        ([LIFETIMES, "--dims", "batch=8"], "option dims does not apply to a source of kind .csv"),
        (["example:resnet50_infer", "--inclusive"], "option inclusive does not apply to a source of kind example"),
        (["example:resnet50_infer", "--place", "params"], "--place: must hold kinds among input, weight"),
        ([LIFETIMES, "--planner", "magic"], "--planner: must be one of auto, naive, first_fit"),
        ([LIFETIMES, "--planner", "beam:k=x"], "parameter k must be an integer in [1, 1048576], got 'x'"),
        ([LIFETIMES, "--planner", ""], "--planner: must be one of auto"),
        ([LIFETIMES, "--donate", "x"], "option donate applies to graphs"),
        (["example:resnet50_infer", "--donate", "nothing"], "donate must name graph inputs, got 'nothing'"),
        ([LIFETIMES, "--alignment", "0"], "--alignment: must be >= 1"),
        ([LIFETIMES, "--alignment", "x"], "--alignment"),
        ([LIFETIMES, "--alignment", str(2**62)], "add up to at most 2^63 - 1 bytes"),
        ([LIFETIMES, "--time-limit", "0"], "--time-limit: must be > 0 seconds, got 0.0"),
        ([LIFETIMES, "--threads", "0"], "--threads: must be >= 1"),
        ([LIFETIMES, "--threads", str(2**40)], "--threads: must"),
        ([LIFETIMES, "--seed", "-1"], "--seed: must"),
        ([LIFETIMES, "--plot", "plan.gif"], "--plot takes a file that ends in .png, .svg or .pdf, got plan.gif"),
        ([LIFETIMES, "--csv", "missing/plan.csv"], "missing/plan.csv: the folder missing does not exist"),
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
    err = refused(capsys, "plan", *arguments)
    assert message in err
    assert "incompatible function arguments" not in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("g.json", "{", "g.json: line 1, column 2: Expecting property name"),
        (
            "g.json",
            '{"format": "memplan.plan", "version": 1}',
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
    ids=range(9),
)
def test_bad_files_are_one_line(
    name: str, text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text(text)
    assert message in refused(capsys, "plan", tmp_path / name)


@pytest.mark.few(1)
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


def test_one_file_is_not_named_twice(lifetimes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = lifetimes.read_text()
    assert run("plan", lifetimes, "--csv", lifetimes) == 2
    assert run("plan", lifetimes, "--csv", tmp_path / "a", "--json", tmp_path / "a") == 2
    assert capsys.readouterr().err.count("is named twice") == 2
    assert lifetimes.read_text() == before
