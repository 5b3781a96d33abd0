"""The command line as a process: what a terminal shows, interrupts, and readers that leave."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import memplan
from builders.commands import LIFETIMES, run, shell
from builders.interrupting import FOREVER, SOON, signals


def test_process_plans(lifetimes: Path, tmp_path: Path) -> None:
    result = shell("plan", lifetimes, "--json", tmp_path / "p.json")
    assert (result.returncode, result.stderr) == (0, "")
    assert "16 bytes" in result.stdout
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


@pytest.mark.few(1)
@pytest.mark.parametrize("environment", [{}, {"FORCE_COLOR": "1"}], ids=["plain", "forced colours"])
def test_no_progress_line_where_there_is_no_terminal(lifetimes: Path, environment: dict[str, str]) -> None:
    result = slow(1.3, lifetimes, capture_output=True, env=os.environ | environment)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.few(1)
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


@pytest.mark.slow
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


@pytest.mark.few(1)
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
