"""Many sources, many planners: their gaps as a table and as a map of colours."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...draw.figures import new_figure, png
from ...printing.tables import WIDTH, Table, html, html_image, html_page, text
from ...printing.units import percent
from ...text import printable
from ..picture import PROVEN, comparison_table, label
from ..row import ComparisonRow, gap, order_gap

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from . import Sweep

TITLE = "gap to the best proven bound"
IN_ANY_ORDER = "gap to the bound of all orders"
NO_PLAN = "–"  # noqa: RUF001  a dash
_CELL, _LINE = 0.52, 0.3  # inches
_MOST = 1.0  # gaps from here on have one colour


def gap_table(sweep: Sweep) -> Table:
    """A gap per source and planner; per planner, how many sources are proven optimal, and the mean of all gaps.

    Of several orders, each planner and order has its own, and gaps are those to the bound of all orders.

    Whatever there is more of, sources or planners, goes down; the best planners come first. The mean is the geometric
    one of the peaks over their bounds; a planner that has no plan for some source has none.
    """
    lines = [["planner", "optimal", "mean", *(comparison.source for comparison in sweep)]]
    for pair in ranked(sweep):
        rows = [comparison[pair] for comparison in sweep]
        cells = [(order_gap if _any_order(row, sweep) else gap)(row) + "†" * row.interrupted or NO_PLAN for row in rows]
        count = f"{sum(_share(row, sweep) == 0 for row in rows)} of {len(rows)}"
        lines.append([label(rows[0], sweep.orders), count, percent(_mean_gap(sweep, pair)) or NO_PLAN, *cells])
    if len(sweep) > len(lines) - 1:
        first, *others = ([line[0], *line[3:], *line[1:3]] for line in lines)
        lines = [list(column) for column in zip(first, *others, strict=True)]
        lines[0][0] = "source"
    header, *cells_by_line = map(tuple, lines)
    title = _title(sweep) + (", interrupted" if sweep.interrupted else "")
    return Table(title, header, tuple(cells_by_line), frozenset(header[1:]), _notes(sweep), {header[0]: None})


def _title(sweep: Sweep) -> str:
    return IN_ANY_ORDER if len(sweep.orders) > 1 else TITLE


def _any_order(row: ComparisonRow, sweep: Sweep) -> bool:
    """Whether its gap is that to the bound of all orders."""
    return len(sweep.orders) > 1 and row.order_bound is not None


def _share(row: ComparisonRow, sweep: Sweep) -> float | None:
    """The gap that is shown."""
    return row.order_gap if _any_order(row, sweep) else row.gap


def ranked(sweep: Sweep) -> list[tuple[str, str]]:
    """The planners, each in each order, by mean gap; those that have no plan for some source come last."""

    def rank(pair: tuple[str, str]) -> tuple[bool, float]:
        mean = _mean_gap(sweep, pair)
        return mean is None, mean or 0.0

    return sorted(((planner, order) for planner in sweep.planners for order in sweep.orders), key=rank)


def _mean_gap(sweep: Sweep, pair: tuple[str, str]) -> float | None:
    gaps = [_share(comparison[pair], sweep) for comparison in sweep]
    known = [share for share in gaps if share is not None]
    return math.expm1(sum(map(math.log1p, known)) / len(known)) if len(known) == len(gaps) else None


def _notes(sweep: Sweep) -> tuple[str, ...]:
    """Why there is no plan: once for a source that no planner plans, else once per planner and kind of error."""
    notes: list[str] = []
    refusals: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for comparison in sweep:
        reasons = {row.reason for row in comparison}
        if len(reasons) == 1 and "" not in reasons and len(comparison) > 1:
            notes.append(f"{NO_PLAN} {comparison.source}: {reasons.pop()}")
            continue
        for row in comparison:
            if row.reason:
                who = label(row, sweep.orders)
                refusals.setdefault((who, row.error), []).append((comparison.source, row.why))
    for (planner, _), where in refusals.items():
        source, why = where[0]
        more = f" and {len(where) - 1} more" if len(where) > 1 else ""
        notes.append(f"{NO_PLAN} {planner} on {source}{more}: {why}")
    if any(row.interrupted for comparison in sweep for row in comparison):
        notes.append("† interrupted")
    return tuple(notes)


def gap_tables(sweep: Sweep, width: int) -> list[Table]:
    """The table in as many parts as fit a width in characters, each with the first column."""
    table = gap_table(sweep)
    widths = [max(len(row[c]) for row in (table.header, *table.rows)) + 3 for c in range(len(table.header))]
    parts: list[list[int]] = [[0]]
    for column in range(1, len(widths)):
        if len(parts[-1]) > 1 and sum(widths[c] for c in parts[-1]) + widths[column] > width - 2:
            parts.append([0])
        parts[-1].append(column)
    cut = [table.only(part) for part in parts]
    return [replace(t, title=t.title if t is cut[0] else "", notes=t.notes if t is cut[-1] else ()) for t in cut]


def sweep_text(sweep: Sweep, width: int = WIDTH) -> str:
    """The table as plain text."""
    return "\n\n".join(text(table, width) for table in gap_tables(sweep, width))


def sweep_page(sweep: Sweep) -> str:
    """A page with the table, all figures per source, and the map."""
    tables = [gap_table(sweep), *map(comparison_table, sweep)]
    title = _title(sweep)
    return html_page(title, *map(html, tables), html_image(png(figure_of(sweep)), f"{title}, as a map"))


def plot_sweep(sweep: Sweep, ax: Axes | None = None, *, title: str | None = None) -> Axes:
    """Draw a sweep as `Sweep.plot` says; a new figure is large enough."""
    from matplotlib import pyplot as plt

    if ax is None:
        ax = plt.figure(figsize=_inches(sweep), layout="constrained").add_subplot()
    return _draw(sweep, ax, title)


def figure_of(sweep: Sweep) -> Figure:
    """The map, in a figure of its own."""
    figure = new_figure(_inches(sweep))
    _draw(sweep, figure.add_subplot(), None)
    return figure


def _inches(sweep: Sweep) -> tuple[float, float]:
    return max(2.6 + _CELL * len(sweep.planners) * len(sweep.orders), 4.5), 2.2 + _LINE * len(sweep)


def _draw(sweep: Sweep, ax: Axes, title: str | None) -> Axes:
    from matplotlib import colormaps
    from matplotlib.colors import PowerNorm, to_rgba

    pairs = ranked(sweep)
    gaps = np.array([[_share(comparison[pair], sweep) for pair in pairs] for comparison in sweep], dtype=np.float64)
    norm = PowerNorm(0.5, vmin=0.0, vmax=_MOST, clip=True)  # small gaps differ visibly beside large ones
    colours = colormaps["YlOrRd"](norm(np.nan_to_num(gaps)))
    colours[gaps == 0] = to_rgba(PROVEN, 0.45)
    colours[np.isnan(gaps)] = to_rgba("#dddddd")
    ax.imshow(colours, aspect="auto")
    for (line, column), share in np.ndenumerate(gaps):
        ink = "white" if share > 0.4 * _MOST else "black"
        ax.text(column, line, _short(float(share)), ha="center", va="center", fontsize=7, color=ink)
    names = [printable(label(sweep[0][pair], sweep.orders)) for pair in pairs]
    ax.set_xticks(
        range(len(names)), names, rotation=60, ha="right", rotation_mode="anchor", fontsize=8, parse_math=False
    )
    ax.set_yticks(range(len(sweep)), [printable(c.source) for c in sweep], fontsize=8, parse_math=False)
    ax.hlines(np.arange(1, len(sweep)) - 0.5, -0.5, len(names) - 0.5, color="white", linewidth=1)
    ax.vlines(np.arange(1, len(names)) - 0.5, -0.5, len(sweep) - 0.5, color="white", linewidth=1)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_title(title if title is not None else f"{_title(sweep)} (%)", loc="left", fontsize=10, parse_math=False)
    return ax


def _short(share: float) -> str:
    """A gap in percent, in five characters at most."""
    if not np.isfinite(share):
        return NO_PLAN
    points = 100 * share
    if points == 0:
        return "0"
    if points < 0.01:
        return "<.01"
    return f"{points:.2g}" if points < 1 else f"{points:.1f}" if points < 100 else f"{points:.0f}"
