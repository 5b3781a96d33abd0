"""Tables for people, and reports of sentences and tables: as text, Markdown and HTML."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as Xml

from ..text import printable

if TYPE_CHECKING:
    from rich.console import Group, RenderableType

WIDTH = 120  # of a table as text, in characters
_REPORT_WIDTH = 132

# Grey that is seen on white and on black; text has the colour of what is around it.
STYLE = """
.memplan { font-variant-numeric: tabular-nums; }
.memplan p { max-width: 62em; }
.memplan svg { max-width: 100%; height: auto; background: white; }
.memplan table { border-collapse: collapse; margin-bottom: 1.5em; font-size: 0.9em; }
.memplan caption { text-align: left; font-weight: bold; padding: 0.4em 0; }
.memplan th, .memplan td { text-align: left; padding: 0.2em 0.8em; background: none; vertical-align: top; }
.memplan .right { text-align: right; white-space: nowrap; }
.memplan thead th { border-bottom: 1px solid #8888; vertical-align: bottom; }
.memplan tbody tr:nth-child(even) { background: #8882; }
.memplan tfoot td { border-top: 1px solid #8888; }
.memplan td:not(.right) { overflow-wrap: anywhere; min-width: 9em; }
.memplan .scroll { max-width: 100%; max-height: 80vh; overflow: auto; margin-bottom: 1.5em; }
.memplan .scroll table { margin-bottom: 0; }
"""
PAGE_STYLE = """
:root { color-scheme: light dark; }
body { font-family: system-ui, sans-serif; margin: 2em auto; max-width: 88em; padding: 0 1em; overflow-wrap: anywhere; }
img { display: block; max-width: 100%; height: auto; background: white; }
.memplan thead th { cursor: pointer; position: sticky; top: 0; background: Canvas; }
.memplan th[aria-sort="ascending"]::after { content: " ▲"; }
.memplan th[aria-sort="descending"]::after { content: " ▼"; }
"""


@dataclass(frozen=True)
class Table:
    """Cells as text, under a title, with notes below.

    ``right`` names the columns of numbers. ``most`` names those that text never wraps, such as names, and says how many
    characters there is room for, or None for all: of longer cells it shows the end.
    """

    title: str
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    right: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    most: Mapping[str, int | None] = field(default_factory=dict)

    def only(self, columns: Sequence[int]) -> Table:
        """The table with these columns alone, in this order."""
        header, *rows = (tuple(row[c] for c in columns) for row in (self.header, *self.rows))
        return replace(self, header=header, rows=tuple(rows))


@dataclass(frozen=True)
class Report:
    """What a person reads first, and the tables that it rests on; those without rows and notes are left out."""

    title: str
    sentences: tuple[str, ...]
    tables: tuple[Table, ...] = ()

    def shown(self) -> list[Table]:
        return [table for table in self.tables if table.rows or table.notes]


# Text


def rich_table(table: Table, ruled: bool = True) -> Group:
    """For a console of rich: the title, the table with a rule below its head or plain and further in, the notes."""
    from rich import box
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table as RichTable
    from rich.text import Text

    plain = {"box": None, "padding": (0, 2, 0, 0), "pad_edge": False, "header_style": ""}
    made = RichTable(box=box.SIMPLE_HEAD) if ruled else RichTable(**plain)  # type: ignore[arg-type]
    for title in table.header:
        right = title in table.right
        made.add_column(
            printable(title),
            justify="right" if right else "left",
            no_wrap=right or title in table.most,
            overflow="ellipsis" if ruled else "fold",
        )
    for row in table.rows:
        made.add_row(*(Text(_end_of(cell, table.most.get(c))) for c, cell in zip(table.header, row, strict=True)))
    notes = [Text(printable(note)) for note in table.notes]
    below: list[RenderableType] = [made, *notes] if table.rows or ruled else [*notes]
    if not ruled:
        return Group(Text(f"\n{printable(table.title)}"), Padding(Group(*below), (0, 0, 0, 2)))
    return Group(*[Text(printable(table.title), style="bold")][: len(table.title)], *below)


def _end_of(cell: str, most: int | None) -> str:
    text = printable(cell)
    return text if most is None or len(text) <= most else f"…{text[1 - most :]}"


def text(table: Table, width: int = WIDTH) -> str:
    """As plain text."""
    return printed([rich_table(table)], width)


def report_text(report: Report) -> str:
    """Sentences, one a paragraph, then the tables."""
    from rich.text import Text

    sentences = [Text(printable(sentence)) for sentence in report.sentences]
    return printed([*sentences, *(rich_table(table, ruled=False) for table in report.shown())], _REPORT_WIDTH)


def printed(things: Sequence[RenderableType], width: int) -> str:
    """What a console of this many characters without colours would show."""
    from rich.console import Console

    buffer = StringIO()
    console = Console(
        file=buffer, width=width, force_jupyter=False, color_system=None, markup=False, highlight=False, emoji=False
    )
    for thing in things:
        console.print(thing)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()).strip("\n")


def markdown(table: Table) -> str:
    """As Markdown, with the title above."""
    rules = ["---:" if title in table.right else "---" for title in table.header]
    lines = ["| " + " | ".join(map(_escaped, cells)) + " |" for cells in (table.header, rules, *table.rows)]
    notes = [f"\n{_escaped(note)}" for note in table.notes]
    return "\n".join([f"**{_escaped(table.title)}**\n", *lines, *notes])


def _escaped(cell: str) -> str:
    return re.sub(r"[\\|*`<]|\b_|_\b", r"\\\g<0>", printable(cell))


# HTML


def html(table: Table) -> str:
    """As an HTML table that brings its style, for light and dark pages."""
    block = _block()
    block.append(_scrolling(table))
    return written(block)


def report_html(report: Report, picture: str = "") -> str:
    """As a piece of a page, for notebooks; `picture` is SVG that comes after the sentences."""
    block = _block()
    Xml.SubElement(block, "h2").text = printable(report.title)
    for sentence in report.sentences:
        Xml.SubElement(block, "p").text = printable(sentence)
    tables = "\n".join(written(_scrolling(table)) for table in report.shown())
    return f"{written(block).removesuffix('</div>')}{picture}{tables}</div>"


def report_page(report: Report, picture: str = "") -> str:
    """As a page that needs no other file."""
    return html_page(report.title, report_html(report, picture))


def html_page(title: str, *body: str) -> str:
    """A page around pieces of HTML."""
    name = Xml.Element("title")
    name.text = printable(title)
    head = f'<meta charset="utf-8">\n{written(name)}\n<style>{PAGE_STYLE}</style>'
    script = f"<script>{(Path(__file__).parent / 'sort.js').read_text(encoding='utf-8')}</script>"
    content = "\n".join(["<head>", head, "</head>", "<body>", *body, script, "</body>"])
    return f'<!DOCTYPE html>\n<html lang="en">\n{content}\n</html>'


def html_image(png: bytes, alt: str) -> str:
    """A picture that is part of the page; `alt` says what it shows."""
    return written(image_of(png, alt))


def image_of(png: bytes, alt: str) -> Xml.Element:
    """A picture as an element."""
    address = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    return Xml.Element("img", {"alt": printable(alt), "src": address})


def written(element: Xml.Element) -> str:
    """An element as HTML."""
    return Xml.tostring(element, encoding="unicode", method="html")


def _block() -> Xml.Element:
    """What holds tables and brings their style."""
    block = Xml.Element("div", {"class": "memplan"})
    Xml.SubElement(block, "style").text = STYLE
    return block


def _scrolling(table: Table) -> Xml.Element:
    """The table in a frame, which scrolls where it has less room than the table needs."""
    frame = Xml.Element("div", {"class": "scroll"})
    frame.append(_element(table))
    return frame


def _element(table: Table) -> Xml.Element:
    made = Xml.Element("table")
    Xml.SubElement(made, "caption").text = printable(table.title)
    head, body = Xml.SubElement(made, "thead"), Xml.SubElement(made, "tbody")
    for parent, tag, rows in ((head, "th", [table.header]), (body, "td", table.rows)):
        for row in rows:
            line = Xml.SubElement(parent, "tr")
            for title, cell in zip(table.header, row, strict=True):
                Xml.SubElement(line, tag, {"class": "right"} if title in table.right else {}).text = printable(cell)
    foot = Xml.SubElement(made, "tfoot") if table.notes else made
    for note in table.notes:
        wide = {"colspan": str(max(len(table.header), 1))}
        Xml.SubElement(Xml.SubElement(foot, "tr"), "td", wide).text = printable(note)
    return made
