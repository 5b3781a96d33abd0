"""Cost over capacity: as a picture with the bound below it, and as a table."""

from __future__ import annotations

import os
from io import StringIO
from typing import TYPE_CHECKING

from ..files import replacing
from .colours import PALETTE
from .tables import Table, html
from .units import format_bytes, percent, tick, unit_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..facts.pareto import Pareto, ParetoPoint


def plot_pareto(pareto: Pareto, ax: Axes | None = None) -> Axes:
    """Draw added cost over capacity, in % of the cost of all ops.

    Parameters
    ----------
    ax
        Where to draw; by default, a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        Crosses are capacities for which there is no plan, or none was found.
    """
    from matplotlib import pyplot as plt
    from matplotlib.ticker import FuncFormatter, MultipleLocator

    if ax is None:
        ax = plt.figure(figsize=(8, 5), layout="constrained").add_subplot()
    found = sorted((p for p in pareto if p.plan is not None), key=lambda p: p.capacity)
    total = pareto.cost or 1.0
    capacity = [p.capacity for p in found]
    added, bound = [100 * p.added_cost / total for p in found], [100 * p.cost_bound / total for p in found]
    ax.fill_between(capacity, bound, added, color=PALETTE[0], alpha=0.4, linewidth=0, label="may be saved at most")
    ax.plot(capacity, added, "o-", color=PALETTE[4], label="found")
    ax.plot(capacity, bound, "--", color="black", linewidth=1, label="at least")
    for proven, mark, label in ((True, "x", "no plan"), (False, "+", "none found")):
        none = [p.capacity for p in pareto if p.plan is None and p.proven is proven]
        if none:
            ax.plot(none, [0] * len(none), mark, color=PALETTE[5], markersize=9, label=label, clip_on=False)
    ax.axvline(pareto.load, color="black", linewidth=1, linestyle=":", label=f"load {format_bytes(pareto.load)}")
    scale, unit = unit_of(max(pareto.load, 1))
    ax.xaxis.set_major_locator(MultipleLocator(tick(max(pareto.load, 1) / scale) * scale))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / scale:g}"))
    ax.set_xlabel(f"capacity ({unit})")
    ax.set_ylabel("added cost (% of all ops)")
    ax.set_ylim(bottom=0)
    ax.set_title("interrupted" if pareto.interrupted else "cost over capacity", loc="left", fontsize="medium")
    ax.legend(frameon=False, fontsize="small")
    return ax


def save_pareto(pareto: Pareto, path: str | os.PathLike[str]) -> None:
    """Draw into a file; its suffix says the format."""
    figure = _drawn(pareto)
    with replacing(path) as beside:
        figure.savefig(beside, dpi=150)


def _drawn(pareto: Pareto) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    FigureCanvasAgg(figure)
    plot_pareto(pareto, figure.add_subplot())
    return figure


def pareto_table(pareto: Pareto) -> Table:
    """A row for each capacity."""
    header = ("capacity", "of the load", "added cost", "at least", "peak", "changes")
    rows = tuple(_row(point, pareto) for point in pareto)
    title = "cost over capacity" + (", interrupted" if pareto.interrupted else "")
    return Table(title, header, rows, frozenset(header[:-1]))


def _row(point: ParetoPoint, pareto: Pareto) -> tuple[str, ...]:
    share = f"{point.capacity / pareto.load:.0%}" if pareto.load else ""
    if point.plan is None:
        return (format_bytes(point.capacity), share, "-", "-", "-", "no plan" if point.proven else "none found")
    total = pareto.cost or 1.0
    costs = (percent(point.added_cost / total), percent(point.cost_bound / total))
    return (format_bytes(point.capacity), share, *costs, format_bytes(point.plan.peak), str(len(point.plan.changes)))


def pareto_html(pareto: Pareto) -> str:
    """The picture and the table, for notebooks."""
    file = StringIO()
    _drawn(pareto).savefig(file, format="svg", metadata={"Date": None})
    picture = file.getvalue()
    return f'<div class="memplan">{picture[picture.index("<svg") :]}</div>{html(pareto_table(pareto))}'
