"""The Gantt picture of a plan: steps across, bytes up, one box per buffer, or the outline of its parts."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..export.files import replacing
from ..plan import parts_by_buffer
from .outline import Part, outline
from .units import format_bytes, printable, tick, unit_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.path import Path

    from ..plan import Plan

Shapes = Mapping[int, Sequence[Part]]

# Okabe and Ito's palette, which people with any colour vision can tell apart; black is kept for lines.
PALETTE = ("#56B4E9", "#E69F00", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7")
_MOST_LABELS = 300


def plot_plan(plan: Plan, ax: Axes | None = None, *, title: str | None = None) -> Axes:
    """Draw a plan.

    Parameters
    ----------
    ax
        Where to draw; a new figure of 12 by 7 inches when not given.
    title
        By default planner, peak and gap.

    Returns
    -------
    matplotlib.axes.Axes
        With one collection for all buffers, a path for each, names where they fit, the load as a staircase, and the
        peak as a line. A shaped buffer is the union of its parts, and its name is in the largest.
    """
    from matplotlib import pyplot as plt

    if ax is None:
        _, ax = plt.subplots(figsize=(12, 7), layout="constrained")
    shown = np.flatnonzero(plan.problem.size > 0)
    shapes = parts_by_buffer(plan.problem)
    _draw_boxes(plan, shown, shapes, ax)
    _draw_lines(plan, ax)
    _scale(plan, ax)
    _label_boxes(plan, shown, shapes, ax)
    ax.set_title(title if title is not None else _default_title(plan), loc="left")
    return ax


def save_plot(plan: Plan, path: str | os.PathLike[str]) -> None:
    """Draw a plan into a file; its suffix says the format (png, svg, pdf)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 7), layout="constrained")
    FigureCanvasAgg(figure)
    plot_plan(plan, figure.add_subplot())
    with replacing(path) as beside, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure.savefig(beside, dpi=150)


def _default_title(plan: Plan) -> str:
    state = "optimal" if plan.optimal else f"at most {plan.gap:.3%} above the optimum"
    return f"{plan.planner}: {len(plan):,} buffers in {format_bytes(plan.peak)}, {state}"


def _draw_boxes(plan: Plan, shown: npt.NDArray[np.intp], shapes: Shapes, ax: Axes) -> None:
    from matplotlib.collections import PolyCollection

    problem = plan.problem
    left, right = problem.first[shown], problem.last[shown]
    bottom, top = plan.offsets[shown], plan.offsets[shown] + problem.size[shown]
    corners = np.stack([left, bottom, left, top, right, top, right, bottom], axis=1).reshape(-1, 4, 2)
    rank = np.empty(len(shown), dtype=np.int64)
    rank[np.lexsort((bottom, left))] = np.arange(len(shown))
    colours = np.array(PALETTE, dtype=object)[rank % len(PALETTE)]
    width = 0.6 if len(shown) <= 500 else 0.15
    boxes = PolyCollection(
        corners,  # type: ignore[arg-type]  # an array is what it is made for
        facecolors=colours.tolist(),
        edgecolors="black",
        linewidths=width,
        alpha=0.85,
    )
    if shapes:
        drawn = zip(shown.tolist(), boxes.get_paths(), strict=True)
        paths = [_outline(shapes[b], int(plan.offsets[b])) if b in shapes else path for b, path in drawn]
        codes: list[Any] = [path.codes for path in paths]
        boxes.set_verts_and_codes([path.vertices for path in paths], codes)
    ax.add_collection(boxes)


def _outline(parts: Sequence[Part], offset: int) -> Path:
    """The union of the parts of a buffer that lies at `offset`, as one path."""
    from matplotlib.path import Path

    loops = outline(parts)
    corners = [(x, offset + y) for loop in loops for x, y in (*loop, loop[0])]
    codes = [code for loop in loops for code in (Path.MOVETO, *[Path.LINETO] * (len(loop) - 1), Path.CLOSEPOLY)]
    return Path(np.array(corners, dtype=np.float64), codes)


def _draw_lines(plan: Plan, ax: Axes) -> None:
    from matplotlib import patheffects

    step, load = plan.problem.load_curve()
    halo = [patheffects.withStroke(linewidth=3, foreground="white")]
    ax.step(
        step,
        load,
        where="post",
        color="black",
        linewidth=1.2,
        path_effects=halo,
        label=f"load, at most {format_bytes(plan.load)}",
    )
    ax.axhline(plan.peak, color="black", linestyle="--", linewidth=1.2, label=f"peak {format_bytes(plan.peak)}")
    ax.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, frameon=False, borderaxespad=0.2)


def _scale(plan: Plan, ax: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator

    problem = plan.problem
    begin, end = (int(problem.first.min()), int(problem.last.max())) if len(problem) else (0, 1)
    ax.set_xlim(begin, end)
    ax.set_ylim(0, max(plan.peak, 1) * 1.02)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    scale, unit = unit_of(max(plan.peak, 1))
    ax.yaxis.set_major_locator(MultipleLocator(tick(max(plan.peak, 1) / scale) * scale))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / scale:g}"))
    ax.set_xlabel("step")
    ax.set_ylabel(f"address ({unit})")


def _label_boxes(plan: Plan, shown: npt.NDArray[np.intp], shapes: Shapes, ax: Axes) -> None:
    """Write names into the boxes that can hold them, the largest first; upright where that is how they fit."""
    font = 7.0
    area = ax.get_window_extent()
    points = 72 / float(ax.figure.get_dpi())
    (x0, x1), (y0, y1) = ax.get_xlim(), ax.get_ylim()
    bottom, top, left, right = _rooms(plan, shown, shapes)
    width = (right - left) * (area.width * points / (x1 - x0))
    height = (top - bottom) * (area.height * points / (y1 - y0))
    candidates = np.flatnonzero((height > 1.4 * font) & (width > 1.4 * font))
    labels = 0
    for k in candidates[np.argsort(-(width * height)[candidates], kind="stable")].tolist():
        name = printable(plan.problem.name(int(shown[k])))
        length = (len(name) + 1) * 0.6 * font
        if length <= max(width[k], height[k]):
            middle = (left[k] / 2 + right[k] / 2, bottom[k] / 2 + top[k] / 2)
            _write(ax, middle, name, fontsize=font, rotation=0 if length <= width[k] else 90)
            labels += 1
        if labels == _MOST_LABELS:
            break


def _rooms(plan: Plan, shown: npt.NDArray[np.intp], shapes: Shapes) -> tuple[npt.NDArray[np.int64], ...]:
    """Per shown buffer, the largest rectangle in it that is used as a whole: bottom, top, left, right."""
    problem, offsets = plan.problem, plan.offsets[shown]
    begin, end = np.zeros(len(shown), dtype=np.int64), problem.size[shown]
    first, last = problem.first[shown], problem.last[shown]
    for k, buffer in enumerate(shown.tolist() if shapes else []):
        if buffer in shapes:
            begin[k], end[k], first[k], last[k] = max(shapes[buffer], key=lambda p: (p[1] - p[0]) * (p[3] - p[2]))
    return offsets + begin, offsets + end, first, last


def _write(ax: Axes, middle: tuple[float, float], name: str, **style: Any) -> None:
    from matplotlib import patheffects

    halo = [patheffects.withStroke(linewidth=2, foreground="white", alpha=0.7)]
    ax.text(
        *middle,
        name,
        ha="center",
        va="center",
        clip_on=True,
        parse_math=False,
        zorder=4,
        path_effects=halo,
        **style,
    )
