"""What the benchmarks of docs/benchmarks.md share: a table printed, as JSON, and in its place on that page."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from measuring import header
from rich.console import Console
from rich.table import Table

from memplan.files import write_text

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
MIB = 2**20
Rows = list[dict[str, Any]]


def arguments(doc: str | None) -> argparse.ArgumentParser:
    """The options that all of them take."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--docs", action="store_true", help="replace the table in docs/benchmarks.md")
    return parser


def report(
    section: str, head: Sequence[str], cells: Iterable[Sequence[str]], rows: Rows, options: Any
) -> dict[str, str]:
    """Print a table; write the figures as JSON, and the table into its section of the page, where asked to.

    Returns when, where and how it was measured.
    """
    about = header()
    cells = [list(row) for row in cells]
    show(head, cells)
    if options.json:
        write_text(options.json, json.dumps({"section": section, **about, "rows": rows}, indent=1))
    if options.docs:
        replace_section(section, about, head, cells)
    return about


def show(head: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    table = Table(*head)
    for row in cells:
        table.add_row(*row)
    Console(width=max(160, Console().width)).print(table)


def replace_section(
    section: str, about: Mapping[str, str], head: Sequence[str], cells: Sequence[Sequence[str]], page: Path = PAGE
) -> None:
    """Put a table between the marks of its section on the page, with when, where and how it was measured."""
    lines = [f"`{about['command']}`; {about['date']}; {about['machine']}; {about['versions']}.", ""]
    lines += [row_of(head), "|" + "---|" * len(head), *map(row_of, cells)]
    begin, end = f"<!-- begin {section} -->", f"<!-- end {section} -->"
    text = page.read_text(encoding="utf-8")
    found = re.search(f"{re.escape(begin)}\n.*?{re.escape(end)}", text, re.DOTALL)
    if not found:
        raise ValueError(f"{page} has no section {section!r}: expected {begin} and {end}")
    inside = "\n".join([begin, *lines, end])
    write_text(page, text[: found.start()] + inside + text[found.end() :])


def pivoted(
    head: Sequence[str], cells: Iterable[Sequence[str]], keys: Sequence[str], by: Sequence[str], shown: Sequence[str]
) -> tuple[list[str], list[list[str]]]:
    """The head and the cells of a shorter table: a row for what `keys` say, and a column for what `by` say.

    Each cell has those of `shown`, with slashes between them.
    """
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    columns: dict[str, None] = {}
    for row in cells:
        named = dict(zip(head, row, strict=True))
        column = ", ".join(filter(None, (named[key] for key in by)))
        columns[column] = None
        said = " / ".join(named[key] for key in shown)
        rows.setdefault(tuple(named[key] for key in keys), {})[column] = said.strip(" /")
    return [*keys, *columns], [[*row, *(found.get(column, "") for column in columns)] for row, found in rows.items()]


def row_of(cells: Iterable[str]) -> str:
    """A row of a table in Markdown."""
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def mib(size: float | None) -> str:
    """Bytes in MiB."""
    return "" if size is None else f"{size / MIB:,.2f}"


def ratio(part: float | None, whole: float) -> str:
    """A share with three digits, and nothing where there is none."""
    return "" if part is None else f"{part / max(whole, 1):.3f}"
