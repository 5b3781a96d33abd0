"""``memplan verify``: what is valid, and each way in which a plan is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.commands import LIFETIMES, refused, run


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
    assert message in refused(capsys, "verify", *arguments)


def test_verify_refuses_a_negative_limit(lifetimes: Path, offsets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--limit: must be >= 0, got '-5'" in refused(capsys, "verify", lifetimes, offsets, "--limit", "-5")


def test_verify_reports_what_matches_beside_what_does_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "l.csv").write_text("id,lower,upper,size,alignment\na,0,1,4,4\nb,0,1,4,1\n")
    (tmp_path / "p.csv").write_text("id,lower,upper,size,offset\na,0,1,4,3\nb,0,1,8,16\n")
    assert run("verify", tmp_path / "l.csv", tmp_path / "p.csv") == 1
    out = capsys.readouterr().out
    assert "buffer 'b' has size 4 in the problem and 8 in the plan" in out
    assert "buffer 'a' at offset 3 is not aligned to 4" in out


def test_a_capacity_beyond_int64_is_one_line(lifetimes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verify", lifetimes, lifetimes, "--capacity", "9" * 20) == 2
    assert "--capacity: must be >= 0 and at most 9223372036854775807" in capsys.readouterr().err
