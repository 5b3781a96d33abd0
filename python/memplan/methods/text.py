"""Several methods in one arena, for people: a table, and all of them side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..draw.gantt import plot_plan
from ..draw.labels import ending, letters_in
from ..plans.usage import Ints
from ..printing.tables import Table
from ..printing.units import format_bytes, gap_text, shortened, with_bytes
from ..text import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .result import MethodsPlan

_FONT = 8.0
_PAD = 2.0  # points
_ABOVE = 18.0  # points: a line of text, and the mark of the peak
_UPRIGHT = 16  # letters
_LINE: dict[str, Any] = {"color": "#777777", "linewidth": 0.8, "linestyle": "--"}


def methods_table(plan: MethodsPlan) -> Table:
    """A row per method: what it needs at least, and of the common arena; the notes say what stays."""
    rows = tuple(
        (
            name,
            f"{len(method.order):,}" if method.order else "",
            f"{len(method):,}",
            format_bytes(method.lower_bound),
            format_bytes(method.peak),
        )
        for name, method in plan.methods.items()
    )
    header = ("method", "ops", "buffers", "needs", "highest end")
    stays = sum(stays.bytes for stays in plan.shared)
    names = ", ".join(stays.name for stays in plan.shared[:5]) + (", …" if len(plan.shared) > 5 else "")
    notes = (
        f"stays between methods: {format_bytes(stays)}: {names}" if plan.shared else "nothing stays between methods",
        f"an arena for each method: at least {format_bytes(plan.separate)}",
    )
    title = f"{len(plan)} methods in one arena of {with_bytes(plan.peak)}, {gap_text(plan.peak, plan.lower_bound)}"
    return Table(title, header, rows, frozenset(header[1:]), notes, {"method": None})


def plot_methods(plan: MethodsPlan, ax: Axes | None = None, *, title: str | None = None, **options: Any) -> Axes:
    """Draw all methods one after another; a dashed line is between them, and their names are above."""
    found = plot_plan(plan.whole, ax, title=_title(plan) if title is None else title, **options)
    low, high = found.get_xlim()
    for k, (name, (first, last)) in enumerate(zip(plan.methods, _steps(plan), strict=True)):
        if k and low < first < high:
            found.axvline(first, **_LINE)
        begin, end = max(first, low), min(last, high)
        if begin < end:
            _write_name(printable(name), begin, end, found)
    _raise(found)
    return found


def _write_name(name: str, begin: float, end: float, ax: Axes) -> None:
    """The name of a method between its lines: as much of it as there is room for, upright where that is more."""
    low, high = ax.get_xlim()
    room = ax.get_window_extent().width * 72 / float(ax.figure.get_dpi()) * (end - begin) / (high - low) - 2 * _PAD
    if room < _FONT:
        return
    flat, upright = ending(name, letters_in(room, _FONT)), shortened(name, _UPRIGHT)
    ax.annotate(
        flat or upright,
        ((begin + end) / 2, 1),
        (0, -_PAD),
        xycoords=ax.get_xaxis_transform(),
        textcoords="offset points",
        bbox={"facecolor": ax.get_facecolor(), "edgecolor": "none", "alpha": 0.8, "pad": 1},
        rotation=0 if flat else 90,
        ha="center",
        va="top",
        fontsize=_FONT,
        parse_math=False,
        zorder=6,
    )


def _raise(ax: Axes) -> None:
    """Make room for the names, above the peak and its mark."""
    height = ax.get_window_extent().height * 72 / float(ax.figure.get_dpi())
    low, high = ax.get_ylim()
    ax.set_ylim(low, low + (high - low) * height / max(height - _ABOVE, height / 2))


def _title(plan: MethodsPlan) -> str:
    good = gap_text(plan.peak, plan.lower_bound)
    return f"{len(plan)} methods in {format_bytes(plan.peak)}, {good}; at least {format_bytes(plan.separate)} apart"


def _steps(plan: MethodsPlan) -> list[tuple[int, int]]:
    """The steps of each method in the one problem."""
    found, end = [], 0
    for method in plan.methods.values():
        columns: list[Ints] = [method.problem.first, method.problem.last]
        steps = int(columns[1].max(initial=0)) - int(columns[0].min(initial=0))
        found.append((end, end + steps))
        end += steps
    return found
