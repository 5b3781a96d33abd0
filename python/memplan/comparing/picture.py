"""Planners and orders side by side: their figures as a table, their peaks as bars, and some of their plans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..draw.colours import PALETTE, colourings
from ..draw.figures import ink, new_figure
from ..draw.gantt import plot_coloured
from ..draw.highlight import steps_of
from ..printing.tables import Table
from ..printing.units import format_bytes, percent, unit_of
from ..text import printable
from .row import COLUMNS, ComparisonRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .comparison import Comparison

PLAIN, PROVEN = PALETTE[0], PALETTE[2]
SIDE_BY_SIDE = 3  # plans drawn unless told otherwise
CUT = 2.5  # bars longer than so many times the bound are cut, so that the others can be told apart
FAR = 1.5  # plans that peak higher than so many times the bound are not among those drawn unless told otherwise
_BAR, _LAYOUT = 0.26, 3.6  # inches


def comparison_table(comparison: Comparison) -> Table:
    """A row per planner and order; columns that say nothing more are left out."""
    rows = comparison.rows
    cells = {column: [column.text(row) for row in rows] for column in COLUMNS if column.title and column.shown(rows)}
    shown = [column for column, said in cells.items() if any(said)]
    return Table(
        _title(comparison),
        tuple(column.title for column in shown),
        tuple(zip(*(cells[column] for column in shown), strict=True)),
        frozenset(column.title for column in shown if column.right),
        most={"planner": None, "order": None},
    )


def label(row: ComparisonRow, orders: Sequence[str]) -> str:
    """The planner of a row, and its order where there are several."""
    return f"{row.planner}, {row.order}" if len(orders) > 1 else row.planner


def _title(comparison: Comparison) -> str:
    orders = comparison.orders
    loads = [(f"load {order}", _load(comparison, order)) for order in orders]
    figures = [("naive", comparison.naive), *(loads if len(orders) > 1 else [("load", comparison.load)])]
    if comparison.bound > (comparison.load or 0):
        figures.append(("proven bound", comparison.bound))
    if comparison.order_bound is not None:
        figures.append(("bound of all orders", comparison.order_bound))
    said = [f"{label} {format_bytes(count)}" for label, count in figures if count is not None]
    ended = ", interrupted" if comparison.interrupted else ""
    return f"{printable(comparison.source)}: {', '.join(said) or 'no plan'}{ended}"


def _load(comparison: Comparison, order: str) -> int | None:
    """The load in an order, in the row where it is least."""
    return min((row.load for row in comparison if row.order == order and row.load is not None), default=None)


def plot_comparison(
    comparison: Comparison,
    ax: Axes | None = None,
    *,
    layouts: Sequence[str | tuple[str, str]] | None = None,
    title: str | None = None,
) -> Axes:
    """Draw a comparison as `Comparison.plot` says, plans at the same scale; a tensor has one colour.

    The axes have a bar per row in the comparison's order, the load as a line, and the best proven bound if it is
    higher; of several orders, the load of each on its bars, and the bound of all. Bars beyond `CUT` times the bound are
    broken, as is the axis below them; their labels say how long they are.
    """
    from matplotlib import pyplot as plt

    if ax is not None:
        if layouts is not None:
            raise ValueError("layouts are drawn into a figure of their own, got ax too")
        return _draw_bars(comparison, ax, title)
    chosen = _chosen(comparison, layouts)
    figure = plt.figure(figsize=_inches(comparison, chosen), layout="constrained")
    return _draw(figure, comparison, chosen, title)


def figure_of(comparison: Comparison) -> Figure:
    """The drawing, in a figure of its own."""
    chosen = _chosen(comparison, None)
    figure = new_figure(_inches(comparison, chosen))
    _draw(figure, comparison, chosen, None)
    return figure


def _inches(comparison: Comparison, chosen: Sequence[ComparisonRow]) -> tuple[float, float]:
    return 12.0, _height(comparison) + (_LAYOUT if chosen else 0.0)


def _height(comparison: Comparison) -> float:
    return 1.2 + _BAR * max(len(comparison), 3)


def _chosen(comparison: Comparison, layouts: Sequence[str | tuple[str, str]] | None) -> list[ComparisonRow]:
    """The rows whose plans are drawn, the lowest peak first."""
    if layouts is not None:
        rows = [comparison[name] for name in layouts]
        for row in rows:
            if row.plan is None:
                raise ValueError(f"layouts names {label(row, comparison.orders)!r}, which has no plan here")
        return sorted(rows, key=lambda row: row.peak or 0)
    several = len(comparison.orders) > 1
    near: dict[int | str, ComparisonRow] = {}  # per order, or peak of the only one, the first
    for row in comparison:
        if row.plan is not None and len(row.plan) > 0 and row.plan.peak <= FAR * max(comparison.bound, 1):
            near.setdefault(row.order if several else row.plan.peak, row)
    rows = list(near.values())
    last = len(rows) - 1
    return [rows[k] for k in sorted({last * k // (SIDE_BY_SIDE - 1) for k in range(SIDE_BY_SIDE)})] if rows else []


def _draw(figure: Figure, comparison: Comparison, chosen: Sequence[ComparisonRow], title: str | None) -> Axes:
    if not chosen:
        return _draw_bars(comparison, figure.add_subplot(), title)
    grid = figure.add_gridspec(2, 1, height_ratios=[_height(comparison), _LAYOUT])
    bars = _draw_bars(comparison, figure.add_subplot(grid[0].subgridspec(1, 1)[0]), title)
    axes: Any = grid[1].subgridspec(1, len(chosen)).subplots(sharey=True, squeeze=False)
    plans = [row.plan for row in chosen if row.plan is not None]
    begins, ends = zip(*map(steps_of, plans), strict=True)
    drawn = zip(chosen, plans, colourings(plans), axes[0], strict=True)
    for row, plan, colours, ax in drawn:  # the highest last: it sets the scale of all
        plot_coloured(plan, ax, colours, (min(begins), max(ends)))
        name = printable(label(row, comparison.orders))
        ax.set_title(f"{name}: {format_bytes(plan.peak)}", loc="left", fontsize=10, parse_math=False)
        if (legend := ax.get_legend()) is not None:
            legend.remove()
        for name in list(ax.texts):
            name.remove()
        ax.label_outer()
    return bars


def _draw_bars(comparison: Comparison, ax: Axes, title: str | None) -> Axes:
    peaks = [row.peak or 0 for row in comparison]
    scale, unit = unit_of(max(comparison.bound, 1))
    most = min(max(peaks, default=1), CUT * max(comparison.bound, 1)) / scale
    places = range(len(comparison))
    colours = [PROVEN if row.optimal else PLAIN for row in comparison]
    bars = ax.barh(places, [min(peak / scale, most) for peak in peaks], color=colours, height=0.72)
    cut = [place for place in places if peaks[place] / scale > most]
    for place, bar, row in zip(places, bars, comparison, strict=True):
        ax.annotate(
            _bar_label(row, scale, unit),
            (bar.get_width(), place),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color="dimgray" if row.peak is None else "black",
            parse_math=False,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
        )
    _draw_bounds(comparison, ax, scale)
    names = [printable(label(row, comparison.orders)) for row in comparison]
    ax.set_yticks(places, names, fontsize=9, parse_math=False)
    ax.set_ylim(len(comparison) - 0.4, -0.6)
    ax.set_xlim(0, most * 1.3 or 1)
    ax.set_xlabel(f"peak ({unit})")
    ax.spines[["top", "right"]].set_visible(False)
    several = len(comparison.orders) > 1  # whose loads and bound are in the legend
    shown = printable(comparison.source) if several else _title(comparison)
    ax.set_title(title if title is not None else shown, loc="left", parse_math=False)
    if cut:
        _break(ax, cut, most)
        whole = "bound" if comparison.bound > (comparison.load or 0) else "load"
        ax.set_xlabel(f"peak ({unit}); a broken bar is longer than {CUT} times the {whole}")
    _add_legend(comparison, ax)
    return ax


def _break(ax: Axes, places: Sequence[int], most: float) -> None:
    """Break bars near their ends, and the axis below them: nothing right of the break can be read off the axis."""
    from matplotlib.collections import PolyCollection
    from matplotlib.ticker import FixedLocator

    left, wide, lean = 0.92 * most, 0.012 * most, 0.012 * most
    gaps = [
        [(left, place + 0.4), (left + wide, place + 0.4), (left + wide + lean, place - 0.4), (left + lean, place - 0.4)]
        for place in places
    ]
    ax.add_collection(PolyCollection(gaps, facecolors=[ax.get_facecolor()], zorder=3))
    ax.xaxis.set_major_locator(FixedLocator([tick for tick in ax.get_xticks() if 0 <= tick < left]))
    below = ax.get_xaxis_transform()
    ax.plot(
        [left, left + 2 * wide], [0, 0], color=ax.get_facecolor(), linewidth=3, transform=below, clip_on=False, zorder=5
    )
    for x in (left, left + 2 * wide):
        ends = [x - lean / 2, x + lean / 2], [-0.012, 0.012]
        ax.plot(*ends, color=ink(ax), linewidth=0.8, transform=below, clip_on=False, zorder=6)


def _bar_label(row: ComparisonRow, scale: int, unit: str) -> str:
    if row.peak is None:
        why = row.why
        return why if len(why) <= 100 else why[:99] + "…"
    figure = f"{row.peak:,} {unit}" if scale == 1 else f"{row.peak / scale:,.2f} {unit}"
    state = "optimal" if row.optimal else f"+{percent(row.gap)}"
    if row.order_bound is not None:
        state += " in any order" if row.order_optimal else " in its order"
    return ", ".join(filter(None, (figure, state, "interrupted" if row.interrupted else "")))


def _draw_bounds(comparison: Comparison, ax: Axes, scale: int) -> None:
    if comparison.load is None:
        return
    if len(comparison.orders) > 1:
        _draw_loads(comparison, ax, scale)
        return
    ax.axvline(comparison.load / scale, color=ink(ax), linewidth=1.2, label=f"load {format_bytes(comparison.load)}")
    if comparison.bound > comparison.load:
        label = f"proven lower bound {format_bytes(comparison.bound)}"
        ax.axvline(comparison.bound / scale, color=ink(ax), linewidth=1.2, linestyle="--", label=label)


def _draw_loads(comparison: Comparison, ax: Axes, scale: int) -> None:
    """The load of its order on each bar, and what no order goes below."""
    loads = [(row.load, place) for place, row in enumerate(comparison) if row.load is not None]
    ends = [load / scale for load, _ in loads], [at - 0.36 for _, at in loads], [at + 0.36 for _, at in loads]
    ax.vlines(*ends, color=ink(ax), linewidth=1.6, label="load in its order")
    if comparison.order_bound is not None:
        label = f"no order needs less than {format_bytes(comparison.order_bound)}"
        ax.axvline(comparison.order_bound / scale, color=ink(ax), linewidth=1.2, linestyle="--", label=label)


def _add_legend(comparison: Comparison, ax: Axes) -> None:
    from matplotlib.patches import Patch

    handles, _ = ax.get_legend_handles_labels()
    where = " in its order" if len(comparison.orders) > 1 else ""
    if any(row.optimal for row in comparison):
        handles.append(Patch(color=PROVEN, label=f"proven optimal{where}"))
    if any(row.peak is not None and not row.optimal for row in comparison):
        handles.append(Patch(color=PLAIN, label=f"not proven optimal{where}"))
    ax.legend(handles=handles, loc="upper right", fontsize=9)
