"""Lifetimes and plans in CSV: both forms, and what is refused, with line and column."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import memplan

HEADER = "id,lower,upper,size\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lifetimes.csv"


def columns(problem: memplan.Problem) -> tuple[list[str], list[int], list[int], list[int], list[int]]:
    numbers = (problem.size, problem.first, problem.last, problem.alignment)
    return (problem.names, *(column.tolist() for column in numbers))


AB = (["a", "b"], [10, 6], [0, 1], [2, 4], [1, 1])
AB_ALIGNED = (["a", "b"], [10, 6], [0, 1], [2, 4], [1, 8])

GOOD = {
    "minimalloc": ("id,lower,upper,size\na,0,2,10\nb,1,4,6\n", AB),
    "with alignment": ("id,lower,upper,size,alignment\na,0,2,10,1\nb,1,4,6,8\n", AB_ALIGNED),
    "with offset": ("id,lower,upper,size,offset\na,0,2,10,0\nb,1,4,6,10\n", AB),
    "with both": ("id,lower,upper,size,alignment,offset\na,0,2,10,1,0\nb,1,4,6,8,16\n", AB_ALIGNED),
    "gantt": ("tensor_name,size,offset,start_time,end_time\na,10,0,0,2\nb,6,10,1,4\n", AB),
    "gantt without offsets": ("tensor_name,size,start_time,end_time\na,10,0,2\nb,6,1,4\n", AB),
    "gantt with alignment": ("tensor_name,size,start_time,end_time,alignment\na,10,0,2,1\nb,6,1,4,8\n", AB_ALIGNED),
    "any order": ("size,upper,id,alignment,lower\n10,2,a,1,0\n6,4,b,8,1\n", AB_ALIGNED),
    "byte-order mark": ("\ufeffid,lower,upper,size\na,0,2,10\nb,1,4,6\n", AB),
    "CRLF": ("id,lower,upper,size\r\na,0,2,10\r\nb,1,4,6\r\n", AB),
    "byte-order mark and CRLF": ("\ufeffid,lower,upper,size\r\na,0,2,10\r\nb,1,4,6\r\n", AB),
    "no last newline": ("id,lower,upper,size\na,0,2,10\nb,1,4,6", AB),
    "blank lines": ("id,lower,upper,size\n\na,0,2,10\n\n\nb,1,4,6\n\n", AB),
    "spaces": (" id , lower,upper ,size\na, 0 ,2, 10\nb,1,4 ,6 \n", AB),
    "signs and zeros": ("id,lower,upper,size\na,-0,+2,010\nb,1,4,6\n", AB),
    "quoted cells": ('"id","lower","upper","size"\n"a","0","2","10"\n"b","1","4","6"\n', AB),
    "no rows": (HEADER, ([], [], [], [], [])),
    "one row": (HEADER + "a,0,2,10\n", (["a"], [10], [0], [2], [1])),
    "zero size": (HEADER + "a,0,2,0\n", (["a"], [0], [0], [2], [1])),
    "negative steps": (HEADER + "a,-5,-2,3\n", (["a"], [3], [-5], [-2], [1])),
    "commas and quotes in names": (HEADER + '"a,""b""",0,2,10\n', (['a,"b"'], [10], [0], [2], [1])),
    "lines in names": (HEADER + '"a\nb",0,2,10\n', (["a\nb"], [10], [0], [2], [1])),
    "names of any script": (HEADER + "größe/重み,0,2,10\n", (["größe/重み"], [10], [0], [2], [1])),
    "largest numbers": (
        HEADER + f"a,{-(2**63)},{2**63 - 1},{2**63 - 1}\n",
        (["a"], [2**63 - 1], [-(2**63)], [2**63 - 1], [1]),
    ),
}


@pytest.mark.parametrize("case", GOOD)
def test_read(case: str, path: Path) -> None:
    text, expected = GOOD[case]
    path.write_bytes(text.encode())
    assert columns(memplan.read_problem(path)) == expected
    assert columns(memplan.capture(path)) == expected
    assert columns(memplan.read_problem(str(path))) == expected


def test_inclusive_ends(path: Path) -> None:
    path.write_text("id,lower,upper,size\na,0,1,10\nb,1,1,6\n")
    assert memplan.read_problem(path, inclusive=True).last.tolist() == [2, 2]
    assert memplan.capture(path, inclusive=True).last.tolist() == [2, 2]
    assert memplan.plan(path, inclusive=True).peak == 16
    with pytest.raises(
        memplan.errors.SourceError, match="line 3, column 3: the end of the lifetime must be > its start 1, got 1"
    ):
        memplan.read_problem(path)


def test_inclusive_ends_may_not_come_before_the_start(path: Path) -> None:
    path.write_text("id,lower,upper,size\na,4,3,10\n")
    with pytest.raises(
        memplan.errors.SourceError, match="line 2, column 3: the end of the lifetime must be >= its start 4, got 3"
    ):
        memplan.read_problem(path, inclusive=True)


BAD = {
    "empty file": ("", "line 1: expected a header such as id,lower,upper,size"),
    "only a byte-order mark": ("\ufeff", "line 1: expected a header"),
    "blank first line": ("\nid,lower,upper,size\n", "line 1: expected a header"),
    "no header": ("a,0,2,10\n", "line 1, column 1: expected a column id or tensor_name, got a, 0, 2, 10"),
    "semicolons": ("id;lower;upper;size\n", "line 1, column 1: expected a column id or tensor_name, got id;lower"),
    "unknown column": ("id,lower,upper,size,colour\n", "line 1, column 5: unknown column 'colour'; expected id, lower"),
    "mixed forms": ("id,lower,end_time,size\n", "line 1, column 3: unknown column 'end_time'"),
    "both names": ("id,tensor_name,lower,upper,size\n", "line 1, column 2: unknown column 'tensor_name'"),
    "column twice": ("id,lower,upper,size,lower\n", "line 1, column 5: column 'lower' comes twice"),
    "column missing": ("id,lower,size\n", "column 'upper' is missing; got id, lower, size"),
    "unnamed column": ("id,lower,upper,size,\n", "line 1, column 5: unknown column ''"),
    "row too short": (HEADER + "a,0,2,10\nb,1,4\n", "line 3, column 3: expected 4 columns, got 3"),
    "row too long": (HEADER + "a,0,2,10,7\n", "line 2, column 5: expected 4 columns, got 5"),
    "blank cell": (HEADER + "a,0,,10\n", "line 2, column 3: last must be an integer, got ''"),
    "no number": (HEADER + "a,0,2,big\n", "line 2, column 4: size must be an integer, got 'big'"),
    "float": (HEADER + "a,0,2,10.0\n", "line 2, column 4: size must be an integer, got '10.0'"),
    "exponent": (HEADER + "a,0,2,1e3\n", "line 2, column 4: size must be an integer, got '1e3'"),
    "underscores": (HEADER + "a,0,2,1_000\n", "line 2, column 4: size must be an integer, got '1_000'"),
    "digits of another script": (
        HEADER + "a,0,2,\u0661\u0660\n",
        "line 2, column 4: size must be an integer, got '\u0661\u0660'",
    ),
    "hexadecimal": (HEADER + "a,0x0,2,10\n", "line 2, column 2: first must be an integer, got '0x0'"),
    "nan": (HEADER + "a,0,nan,10\n", "line 2, column 3: last must be an integer, got 'nan'"),
    "negative size": (HEADER + "a,0,2,-10\n", "line 2, column 4: size must be >= 0, got -10"),
    "empty lifetime": (HEADER + "a,2,2,10\n", "line 2, column 3: the end of the lifetime must be > its start 2, got 2"),
    "alignment of zero": (
        "id,lower,upper,size,alignment\na,0,2,10,0\n",
        "line 2, column 5: alignment must be >= 1, got 0",
    ),
    "beyond int64": (HEADER + f"a,0,2,{2**63}\n", f"line 2, column 4: size must fit int64, got {2**63}"),
    "far beyond int64": (HEADER + "a,0,2," + "9" * 5000 + "\n", "line 2, column 4: size must fit int64"),
    "before int64": (HEADER + f"a,{-(2**63) - 1},2,1\n", "line 2, column 2: first must fit int64"),
    "duplicate id": (HEADER + "a,0,2,10\n\na,1,2,10\n", "line 4, column 1: duplicate id 'a', first on line 2"),
    "empty id": (HEADER + ",0,2,10\n", "line 2, column 1: "),
    "open quote": (HEADER + 'a,0,2,10\n"b,1,4,6\n', "line 3"),
    "text after a quote": (HEADER + 'a,0,2,10\n"b"c,1,4,6\n', "line 3"),
    "bad row after a name of two lines": (
        HEADER + '"a\nb",0,2,10\nc,0,2,x\n',
        "line 4, column 4: size must be an integer",
    ),
    "a null byte in a number": (HEADER + "a,0,2,1\x000\n", "line 2"),
}


@pytest.mark.parametrize("case", BAD)
def test_refused(case: str, path: Path) -> None:
    text, message = BAD[case]
    path.write_bytes(text.encode())
    with pytest.raises(memplan.errors.SourceError, match=re.escape(message)) as error:
        memplan.read_problem(path)
    assert str(error.value).startswith(f"{path}: line ")


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_other_encodings_are_refused(encoding: str, path: Path) -> None:
    path.write_bytes((HEADER + "a,0,2,10\ngröße,0,2,10\n").encode(encoding))
    line = {"latin-1": 3, "utf-16": 1}[encoding]
    with pytest.raises(
        memplan.errors.SourceError, match=f"{re.escape(str(path))}: line {line}.*expected UTF-8 text, got byte 0x"
    ):
        memplan.read_problem(path)


def test_sums_beyond_int64_are_refused_with_the_file(path: Path) -> None:
    path.write_text(HEADER + f"a,0,2,{2**62}\nb,0,2,{2**62}\n")
    with pytest.raises(
        memplan.errors.SourceError, match=r"lifetimes.csv: .*add up to at most 2\^63 - 1 bytes.*buffer 'b'"
    ):
        memplan.read_problem(path)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nothing\.csv"):
        memplan.read_problem(tmp_path / "nothing.csv")


def test_a_hundred_thousand_rows_are_quick(path: Path) -> None:
    path.write_text(HEADER + "".join(f"t{i},{i},{i + 3},{i % 97}\n" for i in range(100_000)))
    assert len(memplan.read_problem(path)) == 100_000


# Plans


def test_read_plan(path: Path) -> None:
    path.write_text("id,lower,upper,size,alignment,offset\na,0,2,10,1,0\nb,1,4,6,8,16\nnone,0,1,0,1,0\n")
    plan = memplan.read_plan(path)
    assert plan.offsets.tolist() == [0, 16, 0]
    assert not plan.offsets.flags.writeable
    assert (plan.peak, plan.lower_bound, plan.optimal) == (22, 16, False)
    assert (plan.planner, plan.winner, plan.seconds) == ("file", "file", 0.0)
    plan.verify()


def test_read_plan_knows_a_proof(path: Path) -> None:
    path.write_text("tensor_name,size,offset,start_time,end_time\na,10,6,0,2\nb,6,0,1,4\n")
    assert memplan.read_plan(path).optimal


def test_read_plan_inclusive(path: Path) -> None:
    path.write_text("id,lower,upper,size,offset\na,0,1,10,0\nb,2,4,6,0\n")
    assert memplan.read_plan(path, inclusive=True).problem.last.tolist() == [2, 5]


def test_read_plan_refuses_a_plan_that_does_not_hold(path: Path) -> None:
    path.write_text("id,lower,upper,size,alignment,offset\na,0,2,10,1,0\nb,1,4,6,8,4\nc,1,4,6,1,-1\n")
    with pytest.raises(memplan.errors.InvalidPlanError) as error:
        memplan.read_plan(path)
    message = str(error.value)
    assert message.startswith(f"{path}: the plan is not valid:\n")
    for part in (
        "buffer 'a' at bytes [0, 10)",
        "buffer 'b' at offset 4 is not aligned to 8",
        "begins before the arena",
    ):
        assert part in message
    assert len(error.value.violations) == len(message.splitlines()) - 1 == 5


def test_read_plan_needs_offsets(path: Path) -> None:
    path.write_text(HEADER + "a,0,2,10\n")
    with pytest.raises(memplan.errors.SourceError, match="column 'offset' is missing; got id, lower, upper, size"):
        memplan.read_plan(path)


def test_a_plan_that_was_read_verifies_again(path: Path) -> None:
    """A buffer without bytes may lie anywhere, above the peak too."""
    path.write_text("id,lower,upper,size,offset\na,0,1,10,0\nnone,0,1,0,20\n")
    memplan.read_plan(path).verify()


def test_offsets_near_int64_do_not_wrap(path: Path) -> None:
    path.write_text(f"id,lower,upper,size,offset\na,0,2,10,{2**63 - 5}\n")
    with pytest.raises(memplan.errors.InvalidPlanError, match="ends beyond the arena"):
        memplan.read_plan(path)


# What minimalloc's files may have besides


def test_gaps_are_steps_in_which_a_buffer_is_not_needed(path: Path) -> None:
    path.write_text("id,lower,upper,size,gaps\na,0,10,2,1-9\nb,5,15,2,6-14\n")
    problem = memplan.read_problem(path)
    assert problem.parts is not None
    assert problem.parts.tolist() == [[0, 0, 2, 0, 1], [0, 0, 2, 9, 10], [1, 0, 2, 5, 6], [1, 0, 2, 14, 15]]
    assert memplan.plan(path).peak == 2  # as in minimalloc's own test
    path.write_text("id,lower,upper,size,gaps\na,0,10,2,1-5\nb,5,15,2,6-14\n")
    assert memplan.plan(path).peak == 4


def test_gaps_may_leave_some_bytes_in_use(path: Path) -> None:
    rows = ["a,0,108,30,36-72@10:30 72-108@20:30", "b,36,144,50,36-72@20:30 108-144@10:40", "c,0,10,8,"]
    path.write_text("\n".join(["id,lower,upper,size,gaps", *rows]))
    problem = memplan.read_problem(path)
    assert problem.parts is not None
    assert problem.parts.tolist() == [
        [0, 0, 30, 0, 36],
        [0, 10, 30, 36, 72],
        [0, 20, 30, 72, 108],
        [1, 0, 50, 72, 108],
        [1, 10, 40, 108, 144],
        [1, 20, 30, 36, 72],
    ]


def test_gaps_with_inclusive_ends(path: Path) -> None:
    path.write_text("id,lower,upper,size,gaps\na,0,9,2,1-8\n")
    problem = memplan.read_problem(path, inclusive=True)
    assert problem.parts is not None
    assert problem.parts.tolist() == [[0, 0, 2, 0, 1], [0, 0, 2, 9, 10]]


@pytest.mark.parametrize(
    ("gaps", "message"),
    [
        ("1", "line 2, column 5: gaps must be such as 4-7 or 4-7@0:16, between spaces, got '1'"),
        ("1-2@3", "gaps must be such as .*, got '1-2@3'"),
        ("0-2", r"line 2, column 5: gap \[0, 2\) must lie in the lifetime \[1, 9\), apart from others"),
        ("8-10", r"gap \[8, 10\) must lie in"),
        ("5-5", r"gap \[5, 5\) must lie in"),
        ("2-4 3-5", r"gap \[3, 5\) must lie in the lifetime \[1, 9\), apart from others"),
        ("2-4@1:9", r"gap \[2, 4\) uses bytes \[1, 9\) of 8"),
        ("1-4 4-9", "gaps take up the whole lifetime"),
        ("1-" + "9" * 30, "a gap must fit int64"),
    ],
)
def test_gaps_that_are_none(gaps: str, message: str, path: Path) -> None:
    path.write_text(f"id,lower,upper,size,gaps\na,1,9,8,{gaps}\n")
    with pytest.raises(memplan.errors.SourceError, match=message):
        memplan.read_problem(path)


def test_hints_are_read_and_not_used(path: Path) -> None:
    path.write_text("id,lower,upper,size,hint\na,0,2,10,-1\nb,1,4,6,64\n")
    assert columns(memplan.read_problem(path)) == AB
    path.write_text("id,lower,upper,size,hint\na,0,2,10,low\n")
    with pytest.raises(memplan.errors.SourceError, match="line 2, column 5: hint must be an integer, got 'low'"):
        memplan.read_problem(path)
