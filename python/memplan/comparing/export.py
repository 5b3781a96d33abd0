"""Comparisons of planners as CSV, versioned JSON, Markdown and pages."""

from __future__ import annotations

import csv
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from .. import _core
from ..draw.figures import save
from ..files import replacing, write_json, write_text
from ..printing.tables import Table, html, markdown
from .row import COLUMNS, ComparisonRow

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .comparison import Comparison

VERSION = 1  # of the JSON
FIGURES = tuple(column.name for column in COLUMNS if column.exported)


def figures(row: ComparisonRow) -> dict[str, Any]:
    """A row as plain Python objects; None is what is not known."""
    return {name: getattr(row, name) for name in FIGURES}


def comparison_dict(comparison: Comparison) -> dict[str, Any]:
    """A comparison as plain Python objects.

    ``bound`` is the best proven of all rows in the order of the first, ``order_bound`` that of all orders, ``load`` and
    ``naive`` are those of the source; sizes are in bytes, ``gap`` and ``saved`` shares. What is null is not known: a
    planner without a plan has an ``error`` and a ``reason``.
    """
    return {
        "source": comparison.source,
        "load": comparison.load,
        "naive": comparison.naive,
        "bound": comparison.bound,
        "order_bound": comparison.order_bound,
        "interrupted": comparison.interrupted,
        "rows": [figures(row) for row in comparison],
    }


class Written(ABC):
    """What a comparison and a sweep can be written as: tables, pages and files."""

    _form: ClassVar[str]  # of its JSON

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write a line per source and planner: the source, then all figures; an empty cell is not known."""
        with replacing(path) as beside, open(beside, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, ["source", *FIGURES], lineterminator="\n")
            writer.writeheader()
            for comparison in self._comparisons():
                writer.writerows({"source": comparison.source} | figures(row) for row in comparison)

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write it as versioned JSON."""
        write_json(path, {"format": self._form, "version": VERSION, "memplan": _core.__version__} | self._spec())

    def to_markdown(self, path: str | os.PathLike[str]) -> None:
        """Write the table as Markdown."""
        write_text(path, self.markdown())

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write a page with all tables and the picture, which needs no other file."""
        write_text(path, self._page())

    def markdown(self) -> str:
        """The table as Markdown."""
        return markdown(self._table())

    def save_picture(self, path: str | os.PathLike[str]) -> None:
        """Draw the whole picture into a file; its suffix says the format (png, svg, pdf)."""
        save(self._figure(), path)

    def _repr_html_(self) -> str:
        return html(self._table())

    @abstractmethod
    def _comparisons(self) -> Sequence[Comparison]: ...

    @abstractmethod
    def _spec(self) -> dict[str, Any]: ...

    @abstractmethod
    def _table(self) -> Table: ...

    @abstractmethod
    def _page(self) -> str: ...

    @abstractmethod
    def _figure(self) -> Figure: ...
