"""What the benchmarks share: a table printed, as JSON, and in its place on a page of the documents."""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from measuring import header
from rich.console import Console
from rich.table import Table

from memplan.files import write_text

DOCS = Path(__file__).parents[2] / "docs"
MIB = 2**20
VERSIONS = ("Python", "memplan", "torch", "transformers")  # shown above a CSV file
RUNTIMES = ("onnxruntime", "executorch")  # shown too where the benchmark's file names them
Rows = list[dict[str, Any]]
Cells = Sequence[Sequence[str]]
SHOWN = re.compile(r"^```\{csv-table\}[^\n]*\n:file: (?P<file>\S+)\n.*?^```$", re.DOTALL | re.MULTILINE)


def arguments(doc: str | None) -> argparse.ArgumentParser:
    """The options that all of them take."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--docs", action="store_true", help="replace the table in the documents")
    return parser


def report(
    section: str,
    head: Sequence[str],
    cells: Iterable[Sequence[str]],
    rows: Rows,
    options: Any,
    page: str = "benchmarks.md",
    shown: tuple[Sequence[str], Cells] | None = None,
) -> None:
    """Print a table; where asked to, write the figures as JSON, and the table, or what is shown of it, on the page."""
    about, cells = header(), list(cells)
    show(head, cells)
    if options.json:
        write_text(options.json, json.dumps({"section": section, **about, "rows": rows}, indent=1))
    if options.docs:
        replace_section(section, about, *(shown or (head, cells)), DOCS / page)


def report_of_suite(section: str, head: Sequence[str], cells: Cells, request: pytest.FixtureRequest) -> None:
    """The same for a suite that pytest runs."""
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        show(head, cells)
    if request.config.getoption("--docs"):
        command = shlex.join(["pytest", *map(str, request.config.invocation_params.args)])
        replace_section(section, {**header(), "command": command}, head, cells)


def show(head: Sequence[str], cells: Cells) -> None:
    table = Table(*head)
    for row in cells:
        table.add_row(*row)
    Console(width=max(160, Console().width)).print(table)


def replace_section(
    section: str, about: Mapping[str, str], head: Sequence[str], cells: Cells, page: Path = DOCS / "benchmarks.md"
) -> None:
    """Put a table between the marks of its section on the page, with when, where and how it was measured.

    If the section shows a CSV file, its rows go there: the directive stays, with the line above it made anew.
    """
    begin, end = f"<!-- begin {section} -->", f"<!-- end {section} -->"
    text = page.read_text(encoding="utf-8")
    found = re.search(f"{re.escape(begin)}\n.*?{re.escape(end)}", text, re.DOTALL)
    if not found:
        raise ValueError(f"{page} has no section {section!r}: expected {begin} and {end}")
    if shown := SHOWN.search(found[0]):
        write_text(page.parent / shown["file"], csv_of([head, *cells]))
        lines = [f"{briefly(about)}.", "", shown[0]]
    else:
        lines = [f"`{about['command']}`; {about['date']}; {about['machine']}; {about['versions']}.", ""]
        lines += [row_of(head), "|" + "---|" * len(head), *map(row_of, cells)]
    inside = "\n".join([begin, *lines, end])
    write_text(page, text[: found.start()] + inside + text[found.end() :])


def briefly(about: Mapping[str, str]) -> str:
    """The command, the day, the machine, and the versions of what the table depends on."""
    files = map(Path(__file__).with_name, re.findall(r"\w+\.py\b", about["command"]))
    code = "".join(file.read_text(encoding="utf-8") for file in files)
    shown = (*VERSIONS, *(name for name in RUNTIMES if name in code))
    versions = (text for text in about["versions"].split(", ") if text.split()[0] in shown)
    day, machine = about["date"].split()[0], about["machine"].split(";")[0]
    return f"`{about['command']}`; {day}; {machine}; {', '.join(versions)}"


def csv_of(rows: Iterable[Sequence[str]]) -> str:
    """Rows as the text of a CSV file."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


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
