"""The benchmarks run; what they measure is not judged here."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import memplan
from builders.paths import BENCHMARKS
from memplan.generate import tight


@pytest.mark.slow
def test_the_table_of_the_optimiser(tmp_path: Path) -> None:
    script = str(BENCHMARKS / "optimiser.py")
    options = ["--rows", "python,small", "--peers", "none", "--seeds", "0", "--mirrored", "--shuffled-seeds", "1"]
    figures = tmp_path / "figures.json"
    command = [sys.executable, script, *options, "--details", "--json", str(figures)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    for text in ("date: ", "command: ", "50 buffers, from Python", "somas/resnet50, iopddl/G_1, shuffled"):
        assert text in printed
    lines: list[dict[str, Any]] = json.loads(figures.read_text())["lines"]
    assert [line["row"] for line in lines] == ["python", "small", "small", "small"]
    trials = lines[1]["trials"]["iopddl/G_1"]
    assert trials[0]["peak"] >= trials[0]["load"] == 3030937746


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return pytest.importorskip("peer_planners")


def test_peers_are_checked(peers: Any) -> None:
    problem = memplan.Problem([4, 4], [0, 1], [2, 3])
    assert peers.checked(problem, memplan.plan(problem, "naive").offsets) == 8
    with pytest.raises(AssertionError, match="a peer's plan is wrong"):
        peers.checked(problem, problem.first)


@pytest.mark.parametrize("name", ["supermalloc", "cp_sat"])
def test_peers_plan(peers: Any, name: str) -> None:
    if name not in peers.available():
        pytest.skip("not installed")
    problem = tight(12, units=16, unit=100, seed=1)
    found = peers.Peers([name], 5.0).run(name, "a puzzle", problem)
    assert (found.peak, found.proven) == (1600, True)


def test_cp_sat_with_a_capacity(peers: Any) -> None:
    pytest.importorskip("ortools")
    problem = memplan.Problem([300, 200, 300, 200], [0, 0, 2, 2], [2, 3, 4, 4])  # load 700
    fits, too_little = (peers.cp_sat(problem, 5.0, capacity, 1) for capacity in (700, 600))
    assert (fits.peak, fits.proven) == (700, False)
    assert (too_little.peak, too_little.proven) == (None, True)


def test_a_section_of_the_page_is_replaced(peers: Any, tmp_path: Path) -> None:
    reporting = pytest.importorskip("reporting")
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- begin a -->\nold\n<!-- end a -->\nafter\n")
    about = {"command": "run", "date": "today", "machine": "here", "versions": "all"}
    for cells in ([["1|2", "3"]], [["4", "5"]]):
        reporting.replace_section("a", about, ["x", "y"], cells, page)
        row = reporting.row_of(cells[0])
        table = f"`run`; today; here; all.\n\n| x | y |\n|---|---|\n{row}\n"
        assert page.read_text() == f"before\n<!-- begin a -->\n{table}<!-- end a -->\nafter\n"
    with pytest.raises(ValueError, match="has no section 'b'"):
        reporting.replace_section("b", about, ["x"], [["1"]], page)


def test_a_file_that_a_section_shows_is_replaced(peers: Any, tmp_path: Path) -> None:
    reporting = pytest.importorskip("reporting")
    page, figures = tmp_path / "page.md", tmp_path / "figures.csv"
    shown = "```{csv-table} Title\n:file: figures.csv\n:header-rows: 1\n```\n"
    page.write_text(f"before\n<!-- begin a -->\nold\n\n{shown}<!-- end a -->\nafter\n")
    about = {"command": "run", "date": "today", "machine": "here", "versions": "torch 2.13.0, numpy 2.4.6"}
    for cells, said in (([["1|2", "3,4"]], '1|2,"3,4"'), ([["4", "5"]], "4,5")):
        reporting.replace_section("a", about, ["x", "y"], cells, page)
        assert figures.read_text() == f"x,y\n{said}\n"
        assert (
            page.read_text()
            == f"before\n<!-- begin a -->\n`run`; today; here; torch 2.13.0.\n\n{shown}<!-- end a -->\nafter\n"
        )


@pytest.mark.parametrize(
    ("file", "shown"), [("fit.py", "torch 2.13.0"), ("onnx_pieces.py", "torch 2.13.0, onnxruntime 1.32.0")]
)
def test_a_runtime_has_its_version_where_the_benchmark_names_it(peers: Any, file: str, shown: str) -> None:
    reporting = pytest.importorskip("reporting")
    versions = "torch 2.13.0, numpy 2.4.6, onnxruntime 1.32.0, executorch 1.5.1"
    about = {"command": f"python {file} --docs", "date": "today", "machine": "here", "versions": versions}
    assert reporting.briefly(about) == f"`python {file} --docs`; today; here; {shown}"


def test_the_page_has_every_section() -> None:
    docs = BENCHMARKS.parents[1] / "docs"
    page = (docs / "benchmarks.md").read_text()
    for section in ("planners", "torch.compile", "executorch", "runtimes", "real peaks"):
        begin, end = (page.index(f"<!-- {edge} {section} -->") for edge in ("begin", "end"))
        [file] = re.findall(r"^:file: (\S+)$", page[begin:end], re.MULTILINE)
        assert len((docs / file).read_text().splitlines()) > 3, section


def test_memory_in_a_profile_of_onnx_runtime(peers: Any) -> None:
    runtimes = pytest.importorskip("runtimes")
    kernel = {"name": "k", "args": {"mem_bytes_in_use": "7", "provider": "CPU"}}
    run = {"name": "model_run", "args": {}}
    first, second = runtimes.runs_of([kernel, kernel, run, kernel, run])
    assert (len(first), second) == (2, [{"mem_bytes_in_use": 7}])


def test_the_suite_of_planners() -> None:
    pytest.importorskip("pytest_benchmark")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(BENCHMARKS / "bench_planners.py")]
    run = subprocess.run([*command, "-k", "first_fit and GPT-2"], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stdout
    assert "2 passed" in run.stdout
    assert "`first_fit`" in run.stdout


def test_training_steps_and_eager_updates_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    torch = pytest.importorskip("torch")
    steps, eager = pytest.importorskip("training_steps"), pytest.importorskip("as_you_go")
    module = steps.Loss(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 64), torch.nn.Linear(64, 64)))
    inputs = {"pixel_values": torch.ones(1, 3, 2, 2), "labels": torch.zeros(1, dtype=torch.long)}
    row = steps.measured(module, inputs, "AdamW")
    assert row["bound"] <= row["best"] < row["given"]
    assert steps.cells_of({"network": "n", "optimizer": "AdamW", **row})[:2] == ["n", "AdamW"]

    class Result(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, **inputs: Any) -> Any:
            return SimpleNamespace(loss=self.module(**inputs))

    row = eager.measured(lambda: (Result(), inputs), torch.optim.SGD, 1)
    assert row["equal"]
    assert row["peaks"][1] < row["peaks"][0]
    assert eager.cells_of({"network": "n", "optimizer": "SGD", **row})[-1] == "yes"


@pytest.mark.slow
def test_the_table_of_conflicts_and_shapes(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    script = str(BENCHMARKS / "general.py")
    options = ["--rows", "shapes", "--only", "idle, 50", "--seconds", "0.5", "--planners", "auto,squeaky_wheel"]
    command = [sys.executable, script, *options, "--json", str(figures)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    assert "squeaky_wheel" in printed
    rows = json.loads(figures.read_text())
    assert [row["problem"] for row in rows] == ["idle, 50, seed 0", "idle, 50, seed 1"]
    assert all(row["bound"] <= row["peaks"]["auto"] <= row["peaks"]["squeaky_wheel"] for row in rows)


def test_what_a_file_has_is_not_paid_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    paid = pytest.importorskip("paid")
    said, ran = {"eager": 4.0, "planned": 3.0, "inductor": 2.0, "memplan": 1.0}, list[str]()

    def in_process(name: str, way: str, mode: str) -> dict[str, Any]:
        ran.append(way)
        figures = dict.fromkeys(paid.FIGURES, said[way] * 2**20)
        return {"error": "killed"} if name == "broken" else {**figures, "result": way[0]}

    monkeypatch.setattr(paid, "in_process", in_process)
    figures = tmp_path / "figures.json"

    def table(count: int) -> Any:
        rows = paid.rows_of(figures, "training")
        for name in ("small", "broken"):
            for way in said:
                paid.measured(rows, name, way, "training", count, lambda: None)
        figures.write_text(json.dumps({"rows": rows}))
        return paid.shown(rows, rows)

    head, lines = table(1)
    assert head == ["network", *said]
    assert lines[0][2:] == ["0.750 / 0.750 *", "2.00 / 2.00", "0.500 / 0.500 *"]
    assert lines[1:] == [
        ["broken", *["killed"] * 4],
        ["median", "", "0.750 / 0.750", "", "0.500 / 0.500"],
    ]
    assert len(ran) == 12  # two of each network fill the compiler's cache
    table(2)
    assert ran[12:16] == list(said)
    assert table(0)[1][1] == ["broken", *[""] * 4]
    assert len(ran) == 22  # what failed is tried again
    with pytest.raises(SystemExit, match="has rows of mode 'training'; expected rows of 'inference'"):
        paid.rows_of(figures, "inference")


def test_pieces_are_fitted_within_half_of_what_inductor_takes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    paid, split_runs = map(pytest.importorskip, ("paid", "split_runs"))
    said, ran = {"eager": 4.0, "inductor": 2.0, "split": 0.5, "within": 1.0}, list[str]()

    def in_process(name: str, way: str, mode: str) -> dict[str, Any]:
        ran.append(way)
        figures = dict.fromkeys(paid.FIGURES, said[way.partition(":")[0]] * 2**20)
        return {**figures, "result": "", "ops": 8, "difference": 0.0} if name == "tcn" else {"error": "killed"}

    monkeypatch.setattr(paid, "in_process", in_process)
    monkeypatch.setattr(
        sys, "argv", ["", "--networks", "tcn,clip", "--modes", "inference", "--json", str(tmp_path / "f")]
    )
    split_runs.main()
    printed = capsys.readouterr().out
    assert "tcn inference 4.00 2.00 0.50 0.250 4.00 2.00 0.50 0.250 0.12 0.0e+00" in printed
    assert "tcn inference 8 1.00 0.500 1.00 0.500 0.25 0.50 0.0e+00" in printed
    assert "clip inference killed" in printed
    assert {*ran} == {"eager", "inductor", "split", f"within:{2**20}"}
    ran.clear()
    split_runs.main()
    assert ran == ["eager", "inductor", "inductor", "split"]  # of what failed
