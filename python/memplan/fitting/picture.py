"""Cost over capacity: as a picture with the bound below it, and as a table."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import TYPE_CHECKING

from ..draw.colours import PALETTE
from ..draw.figures import ink, new_figure, save, scale_bytes, svg
from ..printing.tables import Table, html
from ..printing.units import format_bytes, percent, unit_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .curve import Pareto, ParetoPoint

_SIZE = (8, 5)  # inches
_SPACE = "may be saved at most"


def plot_pareto(pareto: Pareto, ax: Axes | None = None) -> Axes:
    """Draw added cost over capacity, in % of the cost of all ops; for a pool, the cost of all accesses.

    A new figure has, for a pool, a strip below with what a byte is worth. Crosses are capacities for which there is no
    plan, or none was found.
    """
    if ax is not None:
        return _draw(pareto, ax, None)
    from matplotlib import pyplot as plt

    return _draw(pareto, *_axes_in(plt.figure(figsize=_SIZE, layout="constrained"), pareto))


def _axes_in(figure: Figure, pareto: Pareto) -> tuple[Axes, Axes | None]:
    if not pareto.pool:
        return figure.add_subplot(), None
    curve, strip = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    return curve, strip


def _draw(pareto: Pareto, ax: Axes, strip: Axes | None) -> Axes:
    from matplotlib.ticker import EngFormatter

    scale, label = _costs(pareto)
    (_draw_stairs if pareto.pool else _draw_points)(pareto, scale, ax)
    for proven, mark, what in ((True, "x", "no plan"), (False, "+", "none found")):
        none = [p.capacity for p in pareto if p.plan is None and p.proven is proven]
        if none:
            ax.plot(none, [0] * len(none), mark, color=PALETTE[5], markersize=9, label=what, clip_on=False)
    ax.axvline(pareto.load, color=ink(ax), linewidth=1, linestyle=":", zorder=2.1, label=_needed(pareto))
    if pareto.given is not None:  # broad and below: the other may lie there too
        given = f"{pareto.pool} as given, {format_bytes(pareto.given)}"
        ax.axvline(pareto.given, color=PALETTE[5], linewidth=3, alpha=0.5, label=given)
    ax.set_ylabel(label)
    ax.set_ylim(bottom=0)
    ax.yaxis.set_major_formatter(EngFormatter(sep=" "))
    title = f"cost over the capacity of {pareto.pool}" if pareto.pool else "cost over capacity"
    ax.set_title("interrupted" if pareto.interrupted else title, loc="left", fontsize="medium", parse_math=False)
    ax.legend(framealpha=1, edgecolor="none", fontsize="small", loc="best").set_zorder(5)
    _scale_capacities(pareto, ax if strip is None else strip)
    if strip is not None:
        _draw_worth(pareto, strip)
    return ax


def _draw_points(pareto: Pareto, scale: float, ax: Axes) -> None:
    found = sorted((p for p in pareto if p.plan is not None), key=lambda p: p.capacity)
    capacity = [p.capacity for p in found]
    added, bound = [p.added_cost / scale for p in found], [p.cost_bound / scale for p in found]
    ax.fill_between(capacity, bound, added, color=PALETTE[0], alpha=0.4, linewidth=0, label=_SPACE)
    ax.plot(capacity, added, "o-", color=PALETTE[4], label="found")
    ax.plot(capacity, bound, "--", color=ink(ax), linewidth=1, label="at least")


def _draw_stairs(pareto: Pareto, scale: float, ax: Axes) -> None:
    """What is known between the points too: a plan holds from its peak on, and a bound down from its capacity."""
    plans = [(p.peak, p.added_cost, p.capacity, p.cost_bound) for p in pareto if p.peak is not None]
    edges = sorted({peak for peak, *_ in plans} | {capacity for *_, capacity, _ in plans})
    if pieces := list(pairwise(edges)):
        added = [min(cost for peak, cost, *_ in plans if peak <= low) / scale for low, _ in pieces]
        bound = [max(least for *_, capacity, least in plans if capacity >= high) / scale for _, high in pieces]
        ax.stairs(added, edges, baseline=bound, fill=True, color=PALETTE[0], alpha=0.4, label=_SPACE)
        ax.stairs(added, edges, baseline=None, color=PALETTE[4], linewidth=1.6, label="found")
        ax.stairs(bound, edges, baseline=None, color=ink(ax), linestyle="--", label="at least")
    ax.plot([p[0] for p in plans], [p[1] / scale for p in plans], "o", color=PALETTE[4], markersize=4)


def _scale_capacities(pareto: Pareto, ax: Axes) -> None:
    unit = scale_bytes(ax.xaxis, max([pareto.load, pareto.given or 0, 1]))
    ax.set_xlabel(f"capacity of {pareto.pool} ({unit})" if pareto.pool else f"capacity ({unit})")


def _draw_worth(pareto: Pareto, ax: Axes) -> None:
    """What a byte saves, from the peak of each plan to that of the next."""
    from matplotlib.ticker import EngFormatter

    worth = {p.peak: pareto.worth.get(p.capacity, 0.0) for p in pareto if p.peak is not None}
    peaks = sorted(worth)
    if len(peaks) > 1:
        ax.stairs([worth[peak] for peak in peaks[1:]], peaks, fill=True, color=PALETTE[2], alpha=0.6)
    ax.set_ylabel("a byte saves")
    ax.set_ylim(bottom=0)
    ax.yaxis.set_major_formatter(EngFormatter(sep=" "))


def _costs(pareto: Pareto) -> tuple[float, str]:
    """What a unit of the axis of costs stands for, and its label."""
    if not pareto.pool:
        return (pareto.cost or 1.0) / 100, "added cost (% of all ops)"
    far = counted_in(pareto)
    if far is None:
        return 1.0, "cost of all accesses"
    scale, unit = unit_of(max([1, *(int(p.added_cost) for p in pareto)]))
    return scale, f"written to and read from {far} ({unit})"


def counted_in(pareto: Pareto) -> str | None:
    """The pools in which all accessed bytes are counted once, and elsewhere not: then the cost is in bytes."""
    for point in pareto:
        pools = [] if point.plan is None or point.plan.pools is None else list(point.plan.pools.values())
        if pools and {pool.cost_per_byte for pool in pools} == {0, 1}:
            return " and ".join(pool.name for pool in pools if pool.cost_per_byte == 1)
    return None


def _needed(pareto: Pareto) -> str:
    what = f"{pareto.pool} without a limit" if pareto.pool else "load"
    return f"{what}{',' * bool(pareto.pool)} {format_bytes(pareto.load)}"


def save_pareto(pareto: Pareto, path: str | os.PathLike[str]) -> None:
    """Draw into a file; its suffix says the format."""
    save(_drawn(pareto), path)


def _drawn(pareto: Pareto) -> Figure:
    figure = new_figure(_SIZE)
    _draw(pareto, *_axes_in(figure, pareto))
    return figure


def pareto_table(pareto: Pareto) -> Table:
    """A row for each capacity."""
    header = ("capacity", "of the load", "added cost", "at least", "peak", "changes")
    title = "cost over capacity"
    row = _row
    if pareto.pool:
        header = ("capacity", "peak", "cost", "at least", "of all accesses", "a byte saves")
        title, row = f"cost over the capacity of {pareto.pool}", _row_of_pool
    rows = tuple(row(point, pareto) for point in pareto)
    right = frozenset(header if pareto.pool else header[:-1])
    return Table(title + (", interrupted" if pareto.interrupted else ""), header, rows, right)


def _row(point: ParetoPoint, pareto: Pareto) -> tuple[str, ...]:
    share = f"{point.capacity / pareto.load:.0%}" if pareto.load else ""
    if point.plan is None:
        return (format_bytes(point.capacity), share, "-", "-", "-", _none(point))
    total = pareto.cost or 1.0
    costs = (percent(point.added_cost / total), percent(point.cost_bound / total))
    return (format_bytes(point.capacity), share, *costs, format_bytes(point.plan.peak), str(len(point.plan.changes)))


def _row_of_pool(point: ParetoPoint, pareto: Pareto) -> tuple[str, ...]:
    if point.plan is None or point.plan.pools is None:
        return (format_bytes(point.capacity), "-", _none(point), "-", "-", "")
    peak = format_bytes(point.peak or 0)
    costs = (f"{point.added_cost:,}", f"{point.cost_bound:,}", f"{point.added_cost / (pareto.cost or 1.0):.1%}")
    worth = pareto.worth.get(point.capacity)
    return (format_bytes(point.capacity), peak, *costs, "" if worth is None else f"{worth:,.2f}")


def _none(point: ParetoPoint) -> str:
    return "no plan" if point.proven else "none found"


def pareto_html(pareto: Pareto) -> str:
    """The picture and the table, for notebooks."""
    return f'<div class="memplan">{svg(_drawn(pareto))}</div>{html(pareto_table(pareto))}'
