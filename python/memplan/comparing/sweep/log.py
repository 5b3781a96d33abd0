"""The file of a sweep: a line of CSV for each source and planner that is done, so that what is left can be done later.

A line is written at once and brought to the disk. One that a killed process has left half written is taken away when
the file is opened again.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from ... import _core
from ...errors import SourceError
from ...files import replacing
from ..row import ComparisonRow

_GIVEN = ("source", "fingerprint", "memplan", "options", "time_limit", "planner", "order")
_COUNTS = ("peak", "lower_bound", "load", "naive", "pools", "order_bound")
_WORDS = ("winner", "error", "reason", "problem")
Key = tuple[str, str, str]  # source, planner, order
COLUMNS = (*_GIVEN, *_COUNTS, "seconds", *_WORDS)


@dataclass(frozen=True)
class Cell:
    """One source and one planner, in one order of the ops.

    Attributes
    ----------
    source, fingerprint : str
        What the source is called, and a digest of what it holds.
    planner : str
    time_limit : float or None
        Seconds.
    options : str
        All other options, as JSON.
    order : str
    """

    source: str
    fingerprint: str
    planner: str
    time_limit: float | None
    options: str
    order: str = "given"

    @property
    def key(self) -> Key:
        """What tells it from the other cells of a sweep."""
        return self.source, self.planner, self.order


class SweepLog:
    """A file that is open for more lines, and the rows that it had.

    Raises
    ------
    SourceError
        What is there is no file of a sweep, or is of one with another version of memplan, other sources, options or
        time limits.
    """

    def __init__(self, path: str | os.PathLike[str], cells: list[Cell]) -> None:
        self._path = Path(path)
        self.rows: dict[Key, ComparisonRow] = {}
        if not self._path.exists() or self._path.stat().st_size == 0:
            with replacing(self._path) as beside:
                beside.write_text(_line(COLUMNS), encoding="utf-8", newline="")
        else:
            self._read({cell.key: cell for cell in cells}, cells[0].options)
        self._file = open(self._path, "ab", buffering=0)  # noqa: SIM115  it is closed on exit

    def append(self, cell: Cell, row: ComparisonRow) -> None:
        """Write a row; it is on the disk when this returns."""
        seconds = "" if cell.time_limit is None else repr(cell.time_limit)
        given = (cell.source, cell.fingerprint, _core.__version__, cell.options, seconds, cell.planner, cell.order)
        found = (getattr(row, name) for name in (*_COUNTS, "seconds", *_WORDS))
        self._file.write(_line("" if value is None else value for value in (*given, *found)).encode())
        os.fsync(self._file.fileno())

    def __enter__(self) -> SweepLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def _read(self, cells: dict[Key, Cell], options: str) -> None:
        data = self._path.read_bytes()
        whole = data.rfind(b"\n") + 1
        try:
            text = data[:whole].decode("utf-8")
        except UnicodeDecodeError as error:
            raise SourceError(f"{self._path}: expected the CSV file of a sweep, got no UTF-8 text") from error
        lines = csv.reader(io.StringIO(text, newline=""))
        header = next(lines, [])
        if header != list(COLUMNS):
            raise SourceError(
                f"{self._path}: expected the file of a sweep, with the columns {','.join(COLUMNS)}; "
                f"got {','.join(header) or 'no line'}"
            )
        for number, values in enumerate(lines, 2):
            where = f"{self._path}: line {number}"
            if len(values) != len(COLUMNS):
                raise SourceError(f"{where}: expected {len(COLUMNS)} columns, got {len(values)}")
            entry = dict(zip(COLUMNS, values, strict=True))
            key = entry["source"], entry["planner"], entry["order"]
            _check(entry, cells.get(key), options, where)
            self.rows[key] = _row(entry, where)
        if whole < len(data):
            os.truncate(self._path, whole)


def _line(values: Any) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(values)
    return buffer.getvalue()


def _check(entry: dict[str, str], cell: Cell | None, options: str, where: str) -> None:
    """Refuse a line of a sweep that was another."""
    expected = {"memplan": _core.__version__, "options": options}
    if cell is not None:
        limit = "" if cell.time_limit is None else repr(cell.time_limit)
        expected |= {"time_limit": limit, "fingerprint": cell.fingerprint}
    for name, value in expected.items():
        if entry[name] != value:
            what = "what it holds has changed: " if name == "fingerprint" else ""
            raise SourceError(
                f"{where}: is of another sweep: source {entry['source']!r}, planner {entry['planner']!r}: {what}"
                f"expected {name} {value or 'none'}, got {entry[name] or 'none'}; give this sweep a file of its own"
            )


def _row(entry: dict[str, str], where: str) -> ComparisonRow:
    figures: dict[str, Any] = {name: _number(entry[name], int, f"{where}: {name}") for name in _COUNTS}
    figures["pools"] = figures["pools"] or 0
    figures["seconds"] = _number(entry["seconds"], float, f"{where}: seconds")
    return ComparisonRow(entry["planner"], order=entry["order"], **figures, **{name: entry[name] for name in _WORDS})  # type: ignore[arg-type]


def _number(text: str, kind: Callable[[str], Any], where: str) -> Any:
    try:
        return kind(text) if text else None
    except ValueError:
        raise SourceError(f"{where} must be a number, got {text!r}") from None
