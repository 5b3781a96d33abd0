"""The file of a sweep: a line of CSV for each row that is done, so that what is left can be done later."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path
from typing import Any

from ... import _core
from ...errors import SourceError
from ...files import replacing
from ..row import COLUMNS as FIGURES
from ..row import ComparisonRow
from .cells import Cell

_READ = {column.name: column.kind for column in FIGURES if column.kind is not None}
_ASKED = ("source", "fingerprint", "memplan", "options", "time_limit")
COLUMNS = (*_ASKED, *_READ)


class SweepLog:
    """A file that gets more lines, and the rows that it had.

    SourceError: what is there is no file of a sweep, or is of one with another version of memplan, other sources,
    options or time limits.
    """

    def __init__(self, path: str | os.PathLike[str], cells: list[Cell]) -> None:
        self._path = Path(path)
        self.rows: dict[tuple[str, str, str], ComparisonRow] = {}
        lines = self._read() if self._path.exists() and self._path.stat().st_size else []
        expected = {cell.key: _asked(cell) for cell in cells}
        shared = {name: _asked(cells[0])[name] for name in ("memplan", "options")}
        for number, line in enumerate(lines, 2):
            where = f"{self._path}: line {number}"
            key = line["source"], line["planner"], line["order"]
            _check(line, expected.get(key, shared), where)
            self.rows[key] = _row(line, where)
        with replacing(self._path) as beside, open(beside, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(lines)

    def append(self, cell: Cell, row: ComparisonRow) -> None:
        """Write a row."""
        found = {name: getattr(row, name) for name in _READ}
        with open(self._path, "a", encoding="utf-8", newline="") as file:
            csv.DictWriter(file, COLUMNS, lineterminator="\n").writerow(_asked(cell) | found)

    def _read(self) -> list[dict[str, str]]:
        """All whole lines: one that has no end is left out, so that it is computed again."""
        try:
            text = self._path.read_bytes().decode()
        except UnicodeDecodeError as error:
            raise SourceError(f"{self._path}: expected the CSV file of a sweep, got no UTF-8 text") from error
        header, *lines = list(csv.reader(io.StringIO(text[: text.rfind("\n") + 1], newline=""))) or [[]]
        if header != list(COLUMNS):
            raise SourceError(
                f"{self._path}: expected the file of a sweep, with the columns {','.join(COLUMNS)}; "
                f"got {','.join(header) or 'no line'}"
            )
        for number, line in enumerate(lines, 2):
            if len(line) != len(COLUMNS):
                raise SourceError(f"{self._path}: line {number}: expected {len(COLUMNS)} columns, got {len(line)}")
        return [dict(zip(COLUMNS, line, strict=True)) for line in lines]


def _asked(cell: Cell) -> dict[str, str]:
    """What a row is of, as in the file."""
    seconds = "" if cell.time_limit is None else repr(cell.time_limit)
    values = (cell.source, cell.fingerprint, _core.__version__, cell.options, seconds)
    return dict(zip(_ASKED, values, strict=True))


def _check(line: dict[str, str], expected: dict[str, str], where: str) -> None:
    """Refuse a line of a sweep that was another."""
    for name, value in expected.items():
        if line[name] != value:
            what = "what it holds has changed: " if name == "fingerprint" else ""
            raise SourceError(
                f"{where}: is of another sweep: source {line['source']!r}, planner {line['planner']!r}: {what}"
                f"expected {name} {value or 'none'}, got {line[name] or 'none'}; give this sweep a file of its own"
            )


def _row(line: dict[str, str], where: str) -> ComparisonRow:
    figures: dict[str, Any] = {}
    for name, kind in _READ.items():
        try:
            figures[name] = kind(line[name]) if line[name] or kind is str else None
        except ValueError:
            raise SourceError(f"{where}: {name} must be a number, got {line[name]!r}") from None
    return ComparisonRow(**figures)
