"""Bytes as they are asked for: integers, or text with a unit, the same wherever they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import memplan
from memplan import cli
from memplan.sizes import budget_of, in_bytes

PROBLEM = memplan.Problem([600, 400, 1024], [0, 1, 3], [2, 3, 4])


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("4096", 4096),
        ("7 B", 7),
        ("1KB", 1000),
        ("1kib", 1024),
        ("1MiB", 2**20),
        ("2mb", 2 * 10**6),
        (" 1.5GiB ", 3 * 2**29),
        ("0.1GB", 10**8),
        ("2.2GiB", 2362232012),  # and 0.8 of a byte
        ("1TB", 10**12),
        ("1 TiB", 2**40),
        (np.int64(5), 5),
        (5, 5),
    ],
)
def test_sizes(text: Any, size: int) -> None:
    assert in_bytes(text, "capacity") == size


@pytest.mark.parametrize(
    "text", ["", "1e6", "-1", "1XB", "MiB", "1 MiB 2", "1.MiB", "0x10", "٣", "1\n2", "9" * 100, "inf"]
)
def test_text_that_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="capacity must be an integer of bytes, or text with a unit") as raised:
        in_bytes(text, "capacity")
    assert raised.match("got ")
    assert str(raised.value).isprintable()


def test_sizes_out_of_range() -> None:
    with pytest.raises(ValueError, match=r"a whole number of bytes, got '0\.3B', which is 0\.3"):
        in_bytes("0.3B", "capacity")
    with pytest.raises(ValueError, match="alignment must be >= 1 and at most 9223372036854775807, got '0KiB'"):
        in_bytes("0KiB", "alignment", 1)
    with pytest.raises(ValueError, match="at most 9223372036854775807, got '9000000TiB'"):
        in_bytes("9000000TiB", "capacity")


@pytest.mark.parametrize("value", [1.0, True, None, b"1", [1]])
def test_what_is_no_size(value: Any) -> None:
    with pytest.raises(TypeError, match="capacity must be an integer of bytes, or text"):
        in_bytes(value, "capacity")


@pytest.mark.parametrize(
    "call",
    [
        lambda size: memplan.plan(PROBLEM, capacity=size).peak,
        lambda size: memplan.compare(PROBLEM, ["auto"], capacity=size).rows[0].peak,
        lambda size: memplan.sweep({"p": PROBLEM}, ["auto"], 1, capacity=size)[0].rows[0].peak,
        lambda size: memplan.refute(PROBLEM, size),
    ],
    ids=["plan", "compare", "sweep", "refute"],
)
def test_capacities_everywhere(call: Callable[[Any], Any]) -> None:
    assert call("1KiB") == call(1024)
    with pytest.raises(ValueError, match="capacity must be an integer of bytes"):
        call("1e6")


def test_alignments() -> None:
    assert memplan.plan(PROBLEM, alignment="1KiB").offsets.tolist() == [0, 1024, 0]
    assert memplan.plan(PROBLEM, alignment="0.5kib") == memplan.plan(PROBLEM, alignment=512)


def test_a_sweep_goes_on_whatever_the_size_is_written_as(tmp_path: Any) -> None:
    path = tmp_path / "sweep.csv"
    for capacity in (2048, "2KiB"):
        memplan.sweep({"p": PROBLEM}, ["auto"], 1, capacity=capacity, csv=path)
    assert len(path.read_text().splitlines()) == 2


def test_the_command_line(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    source, plan = str(tmp_path / "p.csv"), str(tmp_path / "plan.csv")
    (tmp_path / "p.csv").write_text("id,lower,upper,size\na,0,2,600\nb,1,3,400\nc,3,4,1024\n")
    assert cli.main(["plan", source, "--capacity", "1KiB", "--alignment", "8B", "--csv", plan]) == 0
    assert cli.main(["plan", source, "--capacity", "1KB"]) == 1
    assert cli.main(["verify", source, plan, "--capacity", "1KiB"]) == 0
    assert cli.main(["verify", source, plan, "--capacity", "1KB"]) == 1
    capsys.readouterr()
    for command in (["plan", source], ["verify", source, plan]):
        with pytest.raises(SystemExit):
            cli.main([*command, "--capacity", "1XB"])
        expected = "argument --capacity: must be an integer of bytes, or text with a unit such as '1.5GiB'"
        assert expected in capsys.readouterr().err


def test_least_is_for_what_may_give_something_up() -> None:
    with pytest.raises(ValueError, match=r"capacity must be bytes or a share .*, got 'least', which memplan.fit takes"):
        memplan.plan(PROBLEM, capacity="least")
    with pytest.raises(TypeError, match=r"compare takes no option .planer.; did you mean .planner"):
        memplan.compare(PROBLEM, ["auto"], planer="x")


@pytest.mark.parametrize(
    ("text", "limit"),
    [("700", 700), ("50%", 500), ("kept + 700", 1000), ("kept+50%", 650), (" Kept  +  1KiB ", 1324), (900, 900)],
)
def test_a_budget_of_a_step(text: Any, limit: int) -> None:
    """1000 bytes, of which 300 are kept."""
    assert budget_of(text, "budget", of_step=True).of(lambda: 1000, 300) == limit


@pytest.mark.parametrize("text", ["kept", "kept + ", "kept + least", "kept + kept + 1", "kept - 5", "2GiB + kept"])
def test_what_is_no_budget_of_a_step(text: str) -> None:
    with pytest.raises(ValueError, match=r"budget( after 'kept \+')? must be"):
        budget_of(text, "budget", or_least=True, of_step=True)


def test_an_arena_keeps_nothing() -> None:
    with pytest.raises(ValueError, match=r"capacity must be .* got 'kept \+ 2GiB'"):
        budget_of("kept + 2GiB", "capacity")
