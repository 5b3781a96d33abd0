"""Lifetimes and plans in CSV files, in the two forms that the field uses.

``id,lower,upper,size[,alignment][,hint][,gaps][,offset]`` (minimalloc, idealloc, OmniMalloc) and
``tensor_name,size,offset,start_time,end_time[,alignment]``. Columns may come in any order. The first form also has
memplan's own columns ``together`` ("a+64": it begins 64 bytes after a), ``apart`` ("b c": it shares bytes with
neither) and ``branch`` ("if1/then": it exists only there).
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from .. import _core
from ..errors import SourceError

_FORMS = (
    {"name": "id", "first": "lower", "last": "upper", "size": "size"},
    {"name": "tensor_name", "first": "start_time", "last": "end_time", "size": "size"},
)
_OPTIONAL = ("alignment", "offset")
_OF_MINIMALLOC = ("hint", "gaps", "together", "apart", "branch")
_DISTANCE = re.compile(r"(.+?)(?:([+-])([0-9]+))?")
_FREE = -1  # the pin of a buffer that has none
_INTEGER = re.compile(r"[+-]?[0-9]+")
_GAP = re.compile(r"([+-]?[0-9]+)-([+-]?[0-9]+)(?:@([0-9]+):([0-9]+))?")  # steps, and the bytes used in them


@dataclass
class Rows:
    """The columns of a file: names, and int columns of equal length; `offset` is empty without that column.

    `parts` (buffer, begin, end, first, last), `conflicts`, `pins`, `reserved`, `together` and `branches` are as for a
    Problem.
    """

    name: list[str] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    last: list[int] = field(default_factory=list)
    alignment: list[int] = field(default_factory=list)
    offset: list[int] = field(default_factory=list)
    parts: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    conflicts: list[tuple[int, int]] = field(default_factory=list)
    pins: list[int] = field(default_factory=list)
    reserved: list[tuple[int, int, int, int]] = field(default_factory=list)
    together: list[tuple[int, int, int]] = field(default_factory=list)
    branches: list[str] = field(default_factory=list)

    def problem(self) -> _core.Problem:
        """The buffers, without their offsets."""
        size, first, last, alignment = (
            np.array(column, dtype=np.int64) for column in (self.size, self.first, self.last, self.alignment)
        )
        found = _core.Problem(size, first, last, alignment, self.name, self.parts or None, self.conflicts or None)
        found = found.with_branches(self.branches or None)
        found = found.with_pins(self.pins or None, self.reserved or None) if self.pins or self.reserved else found
        return found.with_together(self.together) if self.together else found


def read_problem(path: str | os.PathLike[str], *, inclusive: bool = False, pins: bool = True) -> _core.Problem:
    """Read buffers from a CSV file; a column of hints is ignored.

    Parameters
    ----------
    inclusive
        Read the ends of lifetimes as the last step alive, as TFLM, Vela, OpenVINO and ExecuTorch write them,
        and not as the step after it.
    pins
        Buffers with an offset are pinned to it. False: offsets are ignored, as those of a plan that is made anew.

    Raises
    ------
    SourceError
        Naming file, line and column: unknown, missing or repeated columns, bad numbers, duplicate ids, empty
        lifetimes.
    """
    rows = read_rows(path, inclusive=inclusive)
    return problem_of(rows if pins else replace(rows, pins=[]), path)


def problem_of(rows: Rows, path: str | os.PathLike[str]) -> _core.Problem:
    """The rows' buffers; SourceError names the file where they make no problem."""
    try:
        return rows.problem()
    except ValueError as error:
        raise SourceError(f"{path}: {error}") from None


def read_rows(path: str | os.PathLike[str], *, inclusive: bool = False, offsets: bool = False) -> Rows:
    """Read the columns of a file, whose offsets are pins; those of a plan, if `offsets` must be there."""
    data = Path(path).read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SourceError(f"{path}: line {line}: expected UTF-8 text, got byte {data[error.start]:#04x}") from None
    return _Reader(path, inclusive, offsets).read(csv.reader(io.StringIO(text, newline=""), strict=True))


class _Reader:
    def __init__(self, path: str | os.PathLike[str], inclusive: bool, offsets: bool) -> None:
        self.path = path
        self.inclusive = inclusive
        self.offsets = offsets
        self.pinning = False  # whether offsets are pins: known from the header
        self.line = 1
        self.links: list[tuple[int, int, str, int]] = []  # line, buffer, cell, column: of others, known at the end

    def read(self, lines: Iterator[list[str]]) -> Rows:
        try:
            header = next(lines, None)
            if not header:
                raise self._error("expected a header such as id,lower,upper,size, got an empty line or file")
            column_of = self._columns([cell.strip() for cell in header])
            rows = Rows()
            seen: dict[str, int] = {}
            for cells in lines:
                self.line = lines.line_num  # type: ignore[attr-defined]
                if cells:
                    self._append(rows, cells, column_of, len(header), seen)
            self._link(rows, {name: i for i, name in enumerate(rows.name)}, column_of)
            return rows
        except csv.Error as error:
            self.line = lines.line_num  # type: ignore[attr-defined]
            raise self._error(str(error)) from None

    def _columns(self, header: list[str]) -> dict[str, int]:
        for form in _FORMS:
            if form["name"] in header:
                return self._columns_of_form(header, form)
        expected = " or ".join(form["name"] for form in _FORMS)
        raise self._error(f"expected a column {expected}, got {', '.join(header)}", 1)

    def _columns_of_form(self, header: list[str], form: dict[str, str]) -> dict[str, int]:
        self.pinning = form["name"] == "id" and not self.offsets  # the other form is that of a plan, to be made anew
        optional = (*_OPTIONAL, *(_OF_MINIMALLOC if form["name"] == "id" else ()))
        role_of = {column: role for role, column in form.items()} | {column: column for column in optional}
        column_of: dict[str, int] = {}
        for i, column in enumerate(header):
            if column not in role_of:
                raise self._error(f"unknown column {column!r}; expected {', '.join(role_of)}", i + 1)
            if role_of[column] in column_of:
                raise self._error(f"column {column!r} comes twice", i + 1)
            column_of[role_of[column]] = i
        required = [*form.items(), *([("offset", "offset")] if self.offsets else [])]
        for role, column in required:
            if role not in column_of:
                raise self._error(f"column {column!r} is missing; got {', '.join(header)}", len(header))
        return column_of

    def _append(
        self, rows: Rows, cells: list[str], column_of: dict[str, int], width: int, seen: dict[str, int]
    ) -> None:
        if len(cells) != width:
            column = min(len(cells), width) + (len(cells) > width)
            raise self._error(f"expected {width} columns, got {len(cells)}", column)
        name = cells[column_of["name"]]
        if not name:
            raise self._error("the id is empty", column_of["name"] + 1)
        if name in seen:
            raise self._error(f"duplicate id {name!r}, first on line {seen[name]}", column_of["name"] + 1)
        seen[name] = self.line
        rows.name.append(name)
        left_out = ["name", "gaps", "together", "apart", "branch"]
        if "branch" in column_of:
            rows.branches.append(cells[column_of["branch"]].strip())
        for role in ("together", "apart"):
            if role in column_of and (cell := cells[column_of[role]].strip()):
                self.links.append((self.line, len(rows.size), cell, column_of[role]))
        if "offset" in column_of and self.pinning:
            if not (cell := cells[column_of["offset"]].strip()):
                left_out.append("offset")
            elif cell.startswith("-"):
                problem = f"offset must be >= 0, or empty where the buffer is not pinned, got {cell}"
                raise self._error(problem, column_of["offset"] + 1)
        numbers = {role: i for role, i in column_of.items() if role not in left_out}
        number = {role: self._integer(cells[i], role, i) for role, i in numbers.items()}
        self._check(number, column_of)
        if "gaps" in column_of:
            rows.parts += self._parts(len(rows.size), cells[column_of["gaps"]], number, column_of["gaps"] + 1)
        rows.size.append(number["size"])
        rows.first.append(number["first"])
        rows.last.append(number["last"] + self.inclusive)
        rows.alignment.append(number.get("alignment", 1))
        if "offset" in column_of and self.offsets:
            rows.offset.append(number["offset"])
        elif "offset" in column_of and self.pinning:
            rows.pins.append(number.get("offset", _FREE))

    def _link(self, rows: Rows, position: dict[str, int], column_of: dict[str, int]) -> None:
        """What cells say of other buffers, by their names."""

        def named(name: str) -> int:
            if name not in position:
                raise self._error(f"expected the id of a buffer, got {name!r}", column + 1)
            return position[name]

        for line, buffer, cell, column in self.links:
            self.line = line
            if column == column_of.get("apart"):
                rows.conflicts += [(buffer, other) for other in map(named, cell.split())]
                continue
            name, distance = cell, 0
            if name not in position and (found := _DISTANCE.fullmatch(cell)) and found[2]:
                name, distance = found[1], int(found[2] + found[3])
            rows.together.append((named(name), buffer, distance))

    def _check(self, number: dict[str, int], column_of: dict[str, int]) -> None:
        if number["size"] < 0:
            raise self._error(f"size must be >= 0, got {number['size']}", column_of["size"] + 1)
        if number["last"] + self.inclusive <= number["first"]:
            than = ">=" if self.inclusive else ">"
            problem = f"the end of the lifetime must be {than} its start {number['first']}, got {number['last']}"
            raise self._error(problem, column_of["last"] + 1)
        if number.get("alignment", 1) < 1:
            raise self._error(f"alignment must be >= 1, got {number['alignment']}", column_of["alignment"] + 1)

    def _parts(
        self, buffer: int, cell: str, number: dict[str, int], column: int
    ) -> list[tuple[int, int, int, int, int]]:
        """What a buffer with gaps uses: all of it outside of them, and in them their bytes, if they name any."""
        parts, size, step, last = [], number["size"], number["first"], number["last"] + self.inclusive
        for begin, end, low, high in sorted(self._gap(text, column) for text in cell.split()):
            if not step <= begin < end <= last:
                life = f"[{number['first']}, {last})"
                raise self._error(f"gap [{begin}, {end}) must lie in the lifetime {life}, apart from others", column)
            if high > size:
                raise self._error(f"gap [{begin}, {end}) uses bytes [{low}, {high}) of {size}", column)
            parts += [(buffer, 0, size, step, begin)] if step < begin else []
            parts += [(buffer, low, high, begin, end)] if low < high else []
            step = end
        parts += [(buffer, 0, size, step, last)] if step < last else []
        if not parts:
            raise self._error("gaps take up the whole lifetime", column)
        return parts if cell.split() and size > 0 else []

    def _gap(self, text: str, column: int) -> tuple[int, int, int, int]:
        """The steps of a gap, half-open, and the bytes that are used in them: "4-7" or "4-7@0:16"."""
        found = _GAP.fullmatch(text)
        if found is None:
            raise self._error(f"gaps must be such as 4-7 or 4-7@0:16, between spaces, got {text!r}", column)
        begin, end, low, high = (self._integer(piece or "0", "a gap", column - 1) for piece in found.groups())
        return begin, end + self.inclusive, low, high

    def _integer(self, cell: str, role: str, column: int) -> int:
        text = cell.strip()
        if not _INTEGER.fullmatch(text):
            raise self._error(f"{role} must be an integer, got {text!r}", column + 1)
        most = 2**63 - 1 - (self.inclusive and role == "last")
        if len(text) > 20 or not -(2**63) <= int(text) <= most:
            raise self._error(f"{role} must fit int64, got {text}", column + 1)
        return int(text)

    def _error(self, problem: str, column: int | None = None) -> SourceError:
        where = f"line {self.line}" + (f", column {column}" if column else "")
        return SourceError(f"{self.path}: {where}: {problem}")
