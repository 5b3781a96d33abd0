"""What is inside the axes of a Gantt picture: boxes, what is brought out of them, the load, the peak and the scales."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..plans.plan import Plan
from ..plans.returns import returns_of
from ..plans.usage import Part, parts_by_buffer, step_of_peak
from ..printing.units import format_bytes, unit_of
from .away import colours_of, draw_arrows, draw_away
from .bands import draw_bands
from .colours import OTHERS, Colouring, faded
from .figures import draw_load, ink, scale_bytes
from .highlight import Mark, Steps
from .labels import Shapes, label_boxes, label_marks
from .outline import outline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection
    from matplotlib.path import Path

_BARE = 1.5  # points; a thinner box has no border: a line of any width darkens the pixels that it shares
_RASTER = 5000  # boxes, from which on SVG and PDF hold them as an image


@dataclass(frozen=True)
class Panels:
    """Where a plan is drawn: its boxes, what is away, and its load; None for what has no axes of its own.

    The axes of what is away show `away_bytes`.
    """

    boxes: Axes
    away: Axes | None = None
    load: Axes | None = None
    away_bytes: int = 1


def draw(
    plan: Plan,
    panels: Panels,
    colours: Colouring,
    found: Sequence[Mark],
    steps: Steps,
    top: int,
) -> None:
    """Everything inside the axes, which show these steps and `top` bytes, and the load in the strip or behind."""
    problem, ax, strip = plan.problem, panels.boxes, panels.load
    in_sight = (problem.size > 0) & (problem.first < steps[1]) & (problem.last > steps[0])
    shown = np.flatnonzero(in_sight)
    shapes = parts_by_buffer(problem)
    strong = {mark.buffer for mark in found if mark.whole}
    palette = colours.colours if not found else [faded(colour) for colour in colours.colours]
    ax.add_collection(boxes := _boxes(plan, shown, shapes, palette))
    boxes.set(linewidths=_borders(plan, shown, steps, top, ax))
    if found:
        boxes.set_edgecolor(OTHERS)
    for buffer in sorted({mark.buffer for mark in found} & set(shown.tolist())):
        of_it = _boxes(plan, np.array([buffer]), shapes, colours.colours)
        of_it.set(zorder=3, linewidths=1.6, alpha=1 if buffer in strong else 0.4)
        ax.add_collection(of_it)
    for mark in found:
        if not mark.whole:
            _draw_inside(mark, colours.colours[mark.buffer], ax)
    draw_load(problem, ax if strip is None else strip, steps, filled=strip is not None)
    if returns := returns_of(plan):
        marked = {name for mark in found for name in (mark.slot.name, problem.name(mark.buffer))}
        draw_arrows([one for one in returns if not found or {one.left.name, one.back.name} & marked], steps, ax)
        if panels.away is not None:
            own = colours_of(plan, returns, colours.colours)
            draw_away(returns, own, steps, panels.away_bytes, panels.away)
    elif panels.away is not None:
        panels.away.set_axis_off()
    if plan.pools is None:
        _draw_peak(plan, ax)
    else:
        draw_bands(plan, ax)
    _scale(steps, top, ax)
    if strip is not None:
        _share(strip, ax, plan, top)
    lines = [line for axes in (strip, ax) if axes is not None for line in axes.get_legend_handles_labels()[0]]
    ax.legend(handles=lines, loc="lower right", bbox_to_anchor=(1, 1), frameon=False, borderaxespad=0.2)
    if found:
        label_marks(found, ax)
    else:
        label_boxes(plan, shown, shapes, ax)


def _draw_inside(mark: Mark, colour: str, ax: Axes) -> None:
    """A tensor over the buffer that it lies in."""
    from matplotlib.patches import Rectangle

    slot = mark.slot
    corner, size = (slot.first, slot.offset), (slot.last - slot.first, slot.bytes)
    ax.add_patch(Rectangle(corner, *size, facecolor=colour, edgecolor="black", linewidth=1.6, zorder=3.5))


def _boxes(plan: Plan, shown: npt.NDArray[np.intp], shapes: Shapes, colours: Sequence[str]) -> PolyCollection:
    from matplotlib.collections import PolyCollection

    problem = plan.problem
    left, right = problem.first[shown], problem.last[shown]
    bottom, top = plan.offsets[shown], plan.offsets[shown] + problem.size[shown]
    corners = np.stack([left, bottom, left, top, right, top, right, bottom], axis=1).reshape(-1, 4, 2)
    boxes = PolyCollection(
        corners,  # type: ignore[arg-type]  # an array is what it is made for
        facecolors=[colours[b] for b in shown.tolist()],
        edgecolors="black",
        alpha=0.85,
    )
    boxes.set_rasterized(len(shown) > _RASTER)
    if shapes:
        drawn = zip(shown.tolist(), boxes.get_paths(), strict=True)
        paths = [_outline(shapes[b], int(plan.offsets[b])) if b in shapes else path for b, path in drawn]
        codes: list[Any] = [path.codes for path in paths]
        boxes.set_verts_and_codes([path.vertices for path in paths], codes)
    return boxes


def _borders(plan: Plan, shown: npt.NDArray[np.intp], steps: Steps, top: int, ax: Axes) -> npt.NDArray[np.float64]:
    """How wide, in points: finer where boxes are thin, and none where they would be much of what is seen."""
    problem, window = plan.problem, ax.get_window_extent()
    points = 72 / float(ax.figure.get_dpi())
    width, height = window.width * points, window.height * points
    life = np.minimum(problem.last[shown], steps[1]) - np.maximum(problem.first[shown], steps[0])
    thickness = np.minimum(life * (width / (steps[1] - steps[0])), problem.size[shown] * (height / top))
    return np.where(thickness < _BARE, 0.0, np.minimum(thickness / 8, 0.6))


def _outline(parts: Sequence[Part], offset: int) -> Path:
    """The union of the parts of a buffer that lies at `offset`, as one path."""
    from matplotlib.path import Path

    loops = outline(parts)
    corners = [(x, offset + y) for loop in loops for x, y in (*loop, loop[0])]
    codes = [code for loop in loops for code in (Path.MOVETO, *[Path.LINETO] * (len(loop) - 1), Path.CLOSEPOLY)]
    return Path(np.array(corners, dtype=np.float64), codes)


def _draw_peak(plan: Plan, ax: Axes) -> None:
    """The peak as a line over the highest boxes, and a mark that points at its step from above."""
    from matplotlib.transforms import ScaledTranslation

    at, where = step_of_peak(plan), ""
    if at is not None:
        where = f" at step {at:,}"
        above = ax.transData + ScaledTranslation(0, 4.5 / 72, ax.figure.dpi_scale_trans)
        ax.plot([at + 0.5], [plan.peak], "v", color=ink(ax), markersize=7, transform=above, clip_on=False, zorder=5)
    label = f"peak {format_bytes(plan.peak)}{where}"
    ax.axhline(plan.peak, color=ink(ax), linestyle="--", linewidth=0.9, label=label, zorder=4)


def _share(strip: Axes, ax: Axes, plan: Plan, top: int) -> None:
    """The scale of the strip below: the steps and the unit of the boxes, and the peak."""
    from matplotlib.ticker import FixedLocator

    ax.set_xlabel("")
    strip.set_xlabel("step")
    if plan.pools is None:
        strip.axhline(plan.peak, color=ink(strip), linestyle="--", linewidth=0.9)
    strip.set_ylim(0, top * 1.15)
    _, unit = unit_of(top)
    strip.set_ylabel(f"load ({unit})")
    ticks = [tick for tick in ax.get_yticks() if 0 <= tick <= top]
    strip.yaxis.set_major_locator(FixedLocator(ticks[:: max(len(ticks) // 2, 1)]))
    strip.yaxis.set_major_formatter(ax.yaxis.get_major_formatter())
    strip.spines[["top", "right"]].set_visible(False)


def _scale(steps: Steps, highest: int, ax: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    ax.set_xlim(*steps)
    ax.set_ylim(0, highest * 1.03)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("step")
    ax.set_ylabel(f"address ({scale_bytes(ax.yaxis, highest)})")
