"""Reports of sentences and tables, as text and as HTML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from io import StringIO
from typing import TYPE_CHECKING

from .units import printable

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Section:
    """A table with a title, and a line under it; columns whose numbers are to be compared are aligned at the right.

    ``most`` says for columns of names how many characters text has room for: of longer ones it shows the end.
    """

    title: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    right: frozenset[str] = frozenset()
    note: str = ""
    most: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    """What a person reads first, and the tables that it rests on; sections without rows and note are left out."""

    title: str
    sentences: tuple[str, ...]
    sections: tuple[Section, ...] = field(default=())

    def shown(self) -> list[Section]:
        return [section for section in self.sections if section.rows or section.note]


def report_text(report: Report, width: int = 132) -> str:
    """Sentences, one a paragraph, then the tables."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    buffer = StringIO()
    out = Console(
        file=buffer, width=width, force_jupyter=False, color_system=None, markup=False, highlight=False, emoji=False
    )
    for sentence in report.sentences:
        out.print(Text(printable(sentence)))
    for section in report.shown():
        out.print(Text(f"\n{printable(section.title)}"))
        if section.rows:
            out.print(Padding(_table(section), (0, 0, 0, 2)))
        if section.note:
            out.print(Padding(Text(printable(section.note)), (0, 0, 0, 2)))
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()).strip("\n")


def _table(section: Section) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="")
    for title in section.columns:
        right = title in section.right
        fixed = right or title in section.most
        table.add_column(title, justify="right" if right else "left", no_wrap=fixed, overflow="fold")
    for row in section.rows:
        cells = zip(section.columns, map(printable, row), strict=True)
        table.add_row(*(_end_of(cell, section.most.get(title)) for title, cell in cells))
    return table


def _end_of(text: str, most: int | None) -> str:
    return text if most is None or len(text) <= most else f"…{text[1 - most :]}"


STYLE = """
.memplan { font: 14px/1.45 system-ui, sans-serif; color: #1a1a1a; background: #fff; max-width: 88em;
  padding: 0 1em 1em; overflow-x: auto; }
.memplan h2 { font-size: 1.35em; margin: 1em 0 .5em; }
.memplan h3 { font-size: 1.05em; margin: 1.6em 0 .4em; }
.memplan p.first { font-size: 1.08em; margin: .45em 0; max-width: 62em; }
.memplan table { border-collapse: collapse; font-size: .92em; }
.memplan th { text-align: left; border-bottom: 1px solid #888; padding: .2em 1.2em .2em 0; font-weight: 600; }
.memplan td { text-align: left; border-bottom: 1px solid #e4e4e4; padding: .2em 1.2em .2em 0; vertical-align: top; }
.memplan th.right, .memplan td.right { text-align: right; white-space: nowrap; }
.memplan p.note { color: #555; margin: .4em 0; }
.memplan svg { max-width: 100%; height: auto; }
"""


def report_html(report: Report, picture: str = "") -> str:
    """The report as a piece of a page; `picture` is SVG that comes after the sentences."""
    parts = [f"<style>{STYLE}</style>", '<div class="memplan">', f"<h2>{_html(report.title)}</h2>"]
    parts += [f'<p class="first">{_html(sentence)}</p>' for sentence in report.sentences]
    parts.append(picture)
    for section in report.shown():
        parts.append(f"<h3>{_html(section.title)}</h3>")
        if section.rows:
            parts.append(_html_table(section))
        if section.note:
            parts.append(f'<p class="note">{_html(section.note)}</p>')
    return "\n".join([*parts, "</div>"])


def report_page(report: Report, picture: str = "") -> str:
    """The report as a page that needs no other file."""
    head = f'<meta charset="utf-8"><title>{_html(report.title)}</title>'
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>\n{report_html(report, picture)}\n</body></html>'


def _html_table(section: Section) -> str:
    sides = ['class="right"' if title in section.right else "" for title in section.columns]
    head = "".join(f"<th {side}>{_html(title)}</th>" for side, title in zip(sides, section.columns, strict=True))
    rows = [
        "".join(f"<td {side}>{_html(cell)}</td>" for side, cell in zip(sides, row, strict=True)) for row in section.rows
    ]
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def _html(text: str) -> str:
    return escape(printable(text))
