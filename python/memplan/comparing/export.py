"""Comparisons of planners as CSV and versioned JSON."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import _core
from ..files import replacing
from .row import COLUMNS, ComparisonRow

if TYPE_CHECKING:
    from .comparison import Comparison
    from .sweep import Sweep

FORMAT = "memplan.comparison"
SWEEP_FORMAT = "memplan.sweep"
VERSION = 1
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


def write_comparison_json(comparison: Comparison, path: str | os.PathLike[str]) -> None:
    """Write `comparison_dict` as UTF-8 JSON, with format and version."""
    _write_json(FORMAT, comparison_dict(comparison), path)


def write_sweep_json(sweep: Sweep, path: str | os.PathLike[str]) -> None:
    """Write the planners, the orders and a `comparison_dict` per source as UTF-8 JSON, with format and version."""
    comparisons = [comparison_dict(comparison) for comparison in sweep]
    _write_json(
        SWEEP_FORMAT, {"planners": list(sweep.planners), "orders": list(sweep.orders), "comparisons": comparisons}, path
    )


def _write_json(name: str, spec: dict[str, Any], path: str | os.PathLike[str]) -> None:
    spec = {"format": name, "version": VERSION, "memplan": _core.__version__} | spec
    with replacing(path) as beside, open(beside, "w", encoding="utf-8", newline="\n") as file:
        json.dump(spec, file, ensure_ascii=False, indent=1)
        file.write("\n")


def write_comparisons_csv(comparisons: Sequence[Comparison], path: str | os.PathLike[str]) -> None:
    """Write a line per source and planner: the source, then `FIGURES`; an empty cell is not known."""
    with replacing(path) as beside, open(beside, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["source", *FIGURES], lineterminator="\n")
        writer.writeheader()
        for comparison in comparisons:
            writer.writerows({"source": comparison.source} | figures(row) for row in comparison)
