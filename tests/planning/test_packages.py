"""Planners that other packages bring: tiny packages with entry points, on the path."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import memplan
from memplan import register
from memplan.cli import main

MODULE = """
from memplan.planning import Options, Parameter, Placement, PlannerInfo

def place(problem, options):
    return Placement({offsets})

ROW = PlannerInfo({name!r}, "a test", False, {supports}, "O(1)", "here", (Parameter("k", "a number", 3, 1, 9),), {run})
"""
STACKED = "[sum(problem.size[:i].tolist()) for i in range(len(problem))]"
PAIR = ([4, 4], [0, 0], [1, 1])

Install = Callable[..., None]


def code(
    name: str = "stacked",
    offsets: str = STACKED,
    supports: str = '("alignment", "shapes", "conflicts")',
    run: str = "place",
) -> str:
    return MODULE.format(name=name, offsets=offsets, supports=supports, run=run)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts a package on the path: its name, its module's text, and the names of planners whose entry points it has."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def add(package: str, text: str, *planners: str, value: str = "ROW") -> None:
        module = f"{package}_of_test_{abs(hash(tmp_path))}"  # a new one per test: modules stay imported
        (tmp_path / f"{module}.py").write_text(text)
        info = tmp_path / f"{package}-1.5.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.5\n")
        points = "\n".join(f"{planner} = {module}:{value}" for planner in planners)
        (info / "entry_points.txt").write_text(f"[memplan.planners]\n{points}\n")

    return add


def names() -> list[str]:
    return [row.name for row in memplan.planners()]


def test_it_shows_up_everywhere(install: Install, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install("shelf", code(), "stacked")
    row = memplan.planners()[-1]
    assert (row.name, row.package, row.label) == ("stacked", "shelf 1.5", "planner 'stacked' of package 'shelf 1.5'")
    plan = memplan.plan(PAIR, "stacked:k=5")
    assert (plan.offsets.tolist(), plan.planner, plan.winner) == ([0, 4], "stacked:k=5", "stacked:k=5")
    assert main(["planners"]) == 0
    assert "package shelf 1.5" in capsys.readouterr().out
    lifetimes = tmp_path / "lifetimes.csv"
    lifetimes.write_text("id,lower,upper,size\na,0,1,4\nb,0,1,4\n")
    assert main(["plan", str(lifetimes), "--planner", "stacked"]) == 0
    assert "stacked, " in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["plan", "--help"])
    assert "cp_sat, stacked" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(ValueError, match=r"planner must be one of .*, stacked, got 'stackd'"):
        memplan.plan(PAIR, "stackd")


def test_a_network_is_planned_with_it(install: Install) -> None:
    install("shelf", code(), "stacked")
    plan = memplan.plan("example:gpt2_infer", "stacked", inplace=False, zero_copy=False)
    assert plan.peak == plan.naive


def test_it_is_imported_only_when_it_is_asked_for(install: Install, tmp_path: Path) -> None:
    install("shelf", f"open({str(tmp_path / 'imported')!r}, 'w').close()\n{code()}", "stacked")
    program = f"""
import io, contextlib, sys; sys.path.insert(0, {str(tmp_path)!r})
import pathlib, memplan
def imported(): return pathlib.Path({str(tmp_path / "imported")!r}).exists()
from memplan.cli import main
memplan.plan(([4], [0], [1]))
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main(["plan", "--help"])
with contextlib.suppress(ValueError):
    memplan.plan(([4], [0], [1]), "none of these")
assert not imported()
memplan.plan(([4], [0], [1]), "stacked")
assert imported()
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("text", "value", "message"),
    [
        ("import nothing_of_that_name", "ROW", "cannot be imported: ModuleNotFoundError: No module named 'nothing_of"),
        ("1 / 0", "ROW", "cannot be imported: ZeroDivisionError: division by zero"),
        (code(), "GONE", "cannot be imported: AttributeError: .*'GONE'"),
        (code(), "place", r"must be a PlannerInfo, got <function place"),
        (code(name="other"), "ROW", "calls itself 'other'"),
        (code(name="two words"), "ROW", "cannot be imported: ValueError: name must be a word .*, got 'two words'"),
        (
            code(supports='("pages",)'),
            "ROW",
            "supports must be among alignment, shapes, conflicts, pins, reserved, branches, start, got 'pages'",
        ),
        (code(supports='"shapes"'), "ROW", "TypeError: supports must be a tuple of str, got 'shapes'"),
        (code(run="None"), "ROW", "has no run: a function from a Problem and Options to a Placement"),
        (code(run="3"), "ROW", "TypeError: run must be callable with a Problem and Options, got 3"),
    ],
)
def test_a_broken_one_is_named_and_breaks_no_other(install: Install, text: str, value: str, message: str) -> None:
    install("broken", text, "stacked", value=value)
    install("shelf", code(name="tidy"), "tidy")
    message = rf"planner 'stacked' of package 'broken 1\.5', \w+:{value}, .*{message}"
    with pytest.warns(RuntimeWarning, match=f"left out: {message}"):
        assert names()[-1] == "tidy"
    with pytest.raises(memplan.errors.PlannerError, match=message):
        memplan.plan(PAIR, "stacked")
    assert memplan.plan(PAIR, "tidy").peak == memplan.plan(PAIR).peak == 8


def test_a_broken_one_is_named_on_the_command_line(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    install("broken", "1 / 0", "stacked")
    assert main(["planners"]) == 0
    assert "memplan: left out: planner 'stacked' of package 'broken 1.5'" in capsys.readouterr().err


def test_memplans_own_names_stay_its_own(install: Install) -> None:
    install("rival", code(name="first_fit"), "first_fit")
    with pytest.warns(RuntimeWarning, match=r"'rival 1\.5', .* the name 'first_fit' is taken by memplan's own"):
        assert names().count("first_fit") == 1
    assert memplan.plan(PAIR, "first_fit").peak == 8


def test_of_two_packages_with_one_name_neither_is_taken(install: Install) -> None:
    install("shelf", code(), "stacked")
    install("another", code(), "stacked")
    with pytest.warns(RuntimeWarning, match="left out"):
        assert "stacked" not in names()
    with pytest.raises(memplan.errors.PlannerError, match=r"several packages, .*: 'another 1\.5', 'shelf 1\.5'"):
        memplan.plan(PAIR, "stacked")


@pytest.mark.parametrize(
    ("offsets", "error", "message"),
    [
        ("[0, 0]", memplan.errors.InvalidPlanError, r"planner 'stacked' of package 'shelf 1\.5' made an invalid plan"),
        (
            "[0]",
            memplan.errors.PlannerError,
            r"planner 'stacked' of package 'shelf 1\.5' must give one integer per buffer",
        ),
        ("1 / 0", memplan.errors.PlannerError, r"'stacked' of package 'shelf 1\.5' failed: ZeroDivisionError"),
    ],
)
def test_what_it_does_wrong_names_the_package(
    install: Install, offsets: str, error: type[Exception], message: str, tmp_path: Path
) -> None:
    install("shelf", code(offsets=offsets), "stacked")
    with pytest.raises(error, match=message):
        memplan.plan(PAIR, "stacked")
    lifetimes = tmp_path / "lifetimes.csv"
    lifetimes.write_text("id,lower,upper,size\na,0,1,4\nb,0,1,4\n")
    assert main(["plan", str(lifetimes), "--planner", "stacked"]) == 2


def test_what_it_lacks_names_the_package(install: Install) -> None:
    install("shelf", code(supports="()"), "stacked")
    with pytest.raises(
        memplan.errors.UnsupportedError, match=r"'stacked' of package 'shelf 1\.5' does not support alignment"
    ):
        memplan.plan(PAIR, "stacked", alignment=8)


def test_a_name_of_a_package_cannot_be_registered(install: Install) -> None:
    install("shelf", code(), "stacked")
    with pytest.raises(ValueError, match="'stacked' cannot be registered: the name is taken by an installed package"):
        register(memplan.planners()[-1])


@pytest.mark.parametrize(
    ("offsets", "error"), [("[0] * len(problem)", "InvalidPlanError"), ("[1 // (len(problem) == 0)]", "PlannerError")]
)
def test_what_it_does_wrong_is_a_row_of_a_comparison(install: Install, offsets: str, error: str) -> None:
    install("shelf", code(offsets=offsets), "stacked")
    comparison = memplan.compare(PAIR, ["first_fit", "stacked"] if error == "InvalidPlanError" else None, time_limit=1)
    assert comparison["first_fit"].peak == 8
    row = comparison["stacked"]
    assert (row.peak, row.error) == (None, error)
    assert "shelf 1.5" in row.reason
