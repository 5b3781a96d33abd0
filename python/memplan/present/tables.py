"""Tables for people, in three forms: text, Markdown and HTML."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING
from xml.etree import ElementTree as Xml

from .units import printable

if TYPE_CHECKING:
    from rich.console import Group

WIDTH = 120  # of a table as text, in characters

# Grey that is seen on white and on black; text has the colour of what is around it.
STYLE = """
.memplan { border-collapse: collapse; margin-bottom: 1.5em; font-size: 0.9em; font-variant-numeric: tabular-nums; }
.memplan caption { text-align: left; font-weight: bold; padding: 0.4em 0; }
.memplan th, .memplan td { text-align: left; padding: 0.2em 0.8em; background: none; }
.memplan .right { text-align: right; white-space: nowrap; }
.memplan thead th { border-bottom: 1px solid #8888; vertical-align: bottom; }
.memplan tbody tr:nth-child(even) { background: #8882; }
.memplan tfoot td { border-top: 1px solid #8888; }
"""
PAGE_STYLE = """
:root { color-scheme: light dark; }
body { font-family: system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em; }
img { display: block; max-width: 100%; background: white; }
"""


@dataclass(frozen=True)
class Table:
    """Cells as text. Columns that `right` names by position hold numbers; `notes` come below."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()
    notes: tuple[str, ...] = ()

    def only(self, columns: Sequence[int]) -> Table:
        """The table with these columns alone, in this order."""
        rows = tuple(tuple(row[c] for c in columns) for row in self.rows)
        right = frozenset(k for k, c in enumerate(columns) if c in self.right)
        return Table(self.title, tuple(self.header[c] for c in columns), rows, right, self.notes)


def rich_table(table: Table) -> Group:
    """For a console of rich: the title, the table, the notes."""
    from rich import box
    from rich.console import Group
    from rich.table import Table as RichTable
    from rich.text import Text

    made = RichTable(box=box.SIMPLE_HEAD)
    for k, title in enumerate(table.header):
        right = k in table.right
        made.add_column(printable(title), justify="right" if right else "left", no_wrap=right or k == 0)
    for row in table.rows:
        made.add_row(*(Text(printable(cell)) for cell in row))
    above = [Text(printable(table.title), style="bold")] if table.title else []
    return Group(*above, made, *(Text(printable(note)) for note in table.notes))


def text(table: Table, width: int = WIDTH) -> str:
    """As plain text."""
    from rich.console import Console

    buffer = StringIO()
    console = Console(
        file=buffer, width=width, force_jupyter=False, color_system=None, markup=False, highlight=False, emoji=False
    )
    console.print(rich_table(table))
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()).strip("\n")


def markdown(table: Table) -> str:
    """As Markdown, with the title above."""
    rules = ["---:" if k in table.right else "---" for k in range(len(table.header))]
    lines = ["| " + " | ".join(map(_escaped, cells)) + " |" for cells in (table.header, rules, *table.rows)]
    notes = [f"\n{_escaped(note)}" for note in table.notes]
    return "\n".join([f"**{_escaped(table.title)}**\n", *lines, *notes])


def _escaped(cell: str) -> str:
    return re.sub(r"[\\|*`<]|\b_|_\b", r"\\\g<0>", printable(cell))


def html(table: Table) -> str:
    """As an HTML table that brings its style, for light and dark pages."""
    made = Xml.Element("table", {"class": "memplan"})
    Xml.SubElement(made, "caption").text = printable(table.title)
    head = Xml.SubElement(Xml.SubElement(made, "thead"), "tr")
    _add_cells(head, "th", table.header, table.right)
    body = Xml.SubElement(made, "tbody")
    for row in table.rows:
        _add_cells(Xml.SubElement(body, "tr"), "td", row, table.right)
    foot = Xml.SubElement(made, "tfoot") if table.notes else made
    for note in table.notes:
        cell = Xml.SubElement(Xml.SubElement(foot, "tr"), "td", {"colspan": str(len(table.header))})
        cell.text = printable(note)
    return f"<style>{STYLE}</style>\n{_written(made)}"


def _add_cells(row: Xml.Element, tag: str, cells: Sequence[str], right: frozenset[int]) -> None:
    for k, cell in enumerate(cells):
        Xml.SubElement(row, tag, {"class": "right"} if k in right else {}).text = printable(cell)


def html_page(title: str, body: str, png: bytes) -> str:
    """A page with tables and a picture that needs no other file."""
    name, image = Xml.Element("title"), Xml.Element("img")
    name.text = printable(title)
    image.set("alt", f"{printable(title)}: peaks as bars, and plans side by side")
    image.set("src", f"data:image/png;base64,{base64.b64encode(png).decode()}")
    head = f'<meta charset="utf-8">\n{_written(name)}\n<style>{PAGE_STYLE}</style>'
    content = f"<head>\n{head}\n</head>\n<body>\n{body}\n{_written(image)}\n</body>"
    return f'<!DOCTYPE html>\n<html lang="en">\n{content}\n</html>'


def _written(element: Xml.Element) -> str:
    return Xml.tostring(element, encoding="unicode", method="html")
