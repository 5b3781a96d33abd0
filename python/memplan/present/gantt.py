"""The Gantt picture of a plan: steps across, bytes up, one box per buffer, or the outline of its parts.

The load is drawn where it hides no box: in a strip below the boxes, or behind them in axes that the caller brings.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..facts.moved_ops import moved_ops
from ..facts.usage import Part, parts_by_buffer, step_of_peak
from ..files import replacing
from ..text import printable
from .colours import OTHERS, SCALE, Colouring, buffers_by_name, colouring, faded
from .curve import load_shown
from .given import checked_plans, checked_titles
from .highlight import Mark, Steps, marks, window
from .labels import Shapes, label_boxes, label_marks
from .outline import outline
from .units import counted, format_bytes, optimal, tick, unit_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection
    from matplotlib.figure import Figure
    from matplotlib.path import Path

    from ..facts.plan import Plan

_LOAD = "#5B6B7B"
_RASTER = 5000  # boxes, from which on SVG and PDF hold them as an image
_STAIRS = 1500  # of the load that can be seen apart


def plot_plan(
    plan: Plan,
    ax: Axes | None = None,
    *,
    title: str | None = None,
    highlight: str | Iterable[str] = (),
    colour_by: str = "buffer",
    zoom: str | Sequence[int] | None = None,
) -> Axes:
    """Draw a plan.

    Parameters
    ----------
    ax
        Where to draw; the load is then drawn behind the boxes. By default, a new figure of 12 by 7 inches, with the
        load in a strip below the boxes.
    title
        By default, the planner, peak and gap.
    highlight
        Names of tensors or buffers to bring out. They keep their colour and get a label; the others fade. A tensor
        that lies in a buffer with others is drawn over that buffer.
    colour_by
        "buffer", "order", "size", "lifetime", "kind", "op_type" or "layer"; see `colours.colourings`. All but the first
        come with a legend or a colour bar.
    zoom
        "peak" for the steps around the peak, or the half-open range of steps (first, last). None shows all steps.

    Returns
    -------
    matplotlib.axes.Axes
        The axes of the boxes. They have one collection, with a path for each buffer in sight, the names that fit, and
        the peak as a line with a mark at its step. A shaped buffer is the union of its parts; its name is in the
        largest part. ``.figure.savefig("plan.svg")`` writes the whole figure.

    Raises
    ------
    ValueError
        An unknown name or option, or an option that needs a graph. The message says what is expected.
    """
    return _plot(
        plan, lambda: _axes_in(_new_figure(1), 1)[0] if ax is None else (ax, None), title, highlight, colour_by, zoom
    )


def _plot(
    plan: Plan,
    axes: Callable[[], tuple[Axes, Axes | None]],
    title: str | None = None,
    highlight: str | Iterable[str] = (),
    colour_by: str = "buffer",
    zoom: str | Sequence[int] | None = None,
) -> Axes:
    """`plot_plan`, into axes that are made once the options are known to be right."""
    found, colours, steps = marks(plan, highlight), colouring(plan, colour_by), window(plan, zoom)
    ax, strip = axes()
    _draw(plan, ax, strip, colours, found, steps, max(plan.peak, 1))
    _legend(ax, colours)
    shown = title if title is not None else _title(plan, ", ")
    ax.set_title(shown, loc="left", fontsize="medium", parse_math=False)
    return ax


def plot_coloured(plan: Plan, ax: Axes, colours: Colouring, steps: Steps) -> None:
    """Draw these steps of a plan into axes, in these colours."""
    _draw(plan, ax, None, colours, [], steps, max(plan.peak, 1))


def plot_plans(
    plans: Sequence[Plan],
    *,
    titles: Sequence[str] | None = None,
    highlight: str | Iterable[str] = (),
    colour_by: str = "buffer",
    zoom: str | Sequence[int] | None = None,
) -> list[Axes]:
    """Draw plans of one network side by side, at the same scale. A buffer has the same colour in all plans.

    Parameters
    ----------
    plans
        One or more, also of several orders of the ops. The first plan decides the colours and, for ``zoom="peak"``, the
        steps. A buffer whose name the first plan does not have is grey; one whose tensor lies in another's bytes there
        has the colour of these bytes.
    titles
        One for each plan. By default, its planner, peak and gap, how many buffers lie elsewhere than in the first plan,
        and how many ops run earlier or later.
    highlight, colour_by, zoom
        As in `plot_plan`.

    Returns
    -------
    list of matplotlib.axes.Axes
        One for each plan, in a new figure: ``axes[0].figure.savefig(path)`` writes it.

    Raises
    ------
    TypeError
        `plans` is not a list of plans (a dict is not), or `titles` is not a list of strings.
    ValueError
        There are no plans, or not as many titles as plans, or `plot_plan` would raise it.
    """
    plans, titles = checked_plans(plans), checked_titles(titles)
    if not plans or (titles is not None and len(titles) != len(plans)):
        got = f"{len(plans)} plans" if titles is None else f"{len(plans)} plans and {len(titles)} titles"
        raise ValueError(f"plot_plans needs at least one plan, and one title for each if any, got {got}")
    return _plot_side_by_side(lambda: _new_figure(len(plans)), plans, titles, highlight, colour_by, zoom)


def plans_picture(plans: Sequence[Plan], titles: Sequence[str]) -> bytes:
    """Plans side by side, as a PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=_inches(len(plans)), layout="constrained")
    FigureCanvasAgg(figure)
    _plot_side_by_side(lambda: figure, plans, titles)
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=100)
    return buffer.getvalue()


def _plot_side_by_side(
    figure: Callable[[], Figure],
    plans: Sequence[Plan],
    titles: Sequence[str] | None = None,
    highlight: str | Iterable[str] = (),
    colour_by: str = "buffer",
    zoom: str | Sequence[int] | None = None,
) -> list[Axes]:
    """`plot_plans`, into a figure that is made once the options are known to be right."""
    names = [highlight] if isinstance(highlight, str) else list(highlight)
    found, steps = [marks(plan, names) for plan in plans], window(plans[0], zoom)
    if zoom is None:
        every = [window(plan, None) for plan in plans]
        steps = min(begin for begin, _ in every), max(end for _, end in every)
    first = colouring(plans[0], colour_by)
    axes = _axes_in(figure(), len(plans))
    for k, (plan, (ax, strip)) in enumerate(zip(plans, axes, strict=True)):
        colours = _as_in(plans[0], first, plan)
        _draw(plan, ax, strip, colours, found[k], steps, max(max(other.peak for other in plans), 1))
        ax.label_outer()
        strip.label_outer()
        moved = f"\n{_moved(plans[0], plan)}" if k else "\n" * (len(plans) > 1)
        title = titles[k] if titles is not None else _title(plan, "\n") + moved
        ax.set_title(title, loc="left", fontsize="medium", parse_math=False)
    boxes = [ax for ax, _ in axes]
    _legend(boxes[-1], first)
    return boxes


def check_options(
    plan: Plan, highlight: Iterable[str] = (), colour_by: str = "buffer", zoom: str | Sequence[int] | None = None
) -> None:
    """ValueError for options of `plot_plan` that this plan cannot be drawn with, nor any other of the same source."""
    marks(plan, highlight)
    colouring(plan, colour_by)
    window(plan, zoom)


def save_plot(plan: Plan, path: str | os.PathLike[str], **options: Any) -> None:
    """Draw a plan into a file; its suffix says the format (png, svg, pdf), `options` are those of `plot_plan`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=_inches(1), layout="constrained")
    FigureCanvasAgg(figure)
    _plot(plan, lambda: _axes_in(figure, 1)[0], **options)
    with replacing(path) as beside, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure.savefig(beside, dpi=150)


def _new_figure(count: int) -> Figure:
    from matplotlib import pyplot as plt

    return plt.figure(figsize=_inches(count), layout="constrained")


def _inches(count: int) -> tuple[float, float]:
    return 12 if count == 1 else min(8 * count, 32), 7


def _axes_in(figure: Figure, count: int) -> list[tuple[Axes, Axes]]:
    """Per plan, the axes of its boxes and those of its load below them, on the same steps."""
    axes: Any = figure.subplots(2, count, sharex=True, sharey="row", squeeze=False, height_ratios=(6, 1))
    return list(zip(*axes.tolist(), strict=True))


def _title(plan: Plan, separator: str) -> str:
    state = optimal(bool(plan.order)) if plan.optimal else f"at most {plan.gap:.3%} above the optimum"
    return f"{plan.planner}: {len(plan):,} buffers in {format_bytes(plan.peak)}{separator}{state}"


def _as_in(model: Plan, colours: Colouring, plan: Plan) -> Colouring:
    """The colours that buffers of these names, or the bytes that these tensors lie in, have in another plan."""
    if plan is model:
        return colours
    of_name = {name: colours.colours[b] for name, b in buffers_by_name(model).items()}
    return replace(colours, colours=[of_name.get(plan.problem.name(b), OTHERS) for b in range(len(plan))])


def _moved(model: Plan, plan: Plan) -> str:
    """How many buffers, and where the order differs, ops are elsewhere than in another plan."""
    there = {model.problem.name(b): offset for b, offset in enumerate(model.offsets.tolist())}
    offsets = {plan.problem.name(b): offset for b, offset in enumerate(plan.offsets.tolist())}
    count = sum(there.get(name) != offset for name, offset in offsets.items())
    ops = len(moved_ops(model.order, plan.order))
    text = f"{count:,} buffers elsewhere than in the first"
    return f"{text}, {counted(ops, 'ops')} earlier or later" if ops else text


def _draw(
    plan: Plan,
    ax: Axes,
    strip: Axes | None,
    colours: Colouring,
    found: Sequence[Mark],
    steps: Steps,
    top: int,
) -> None:
    """Everything inside the axes, which show these steps and `top` bytes, and the load in the strip or behind."""
    problem = plan.problem
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
    _draw_load(plan, ax if strip is None else strip, steps, filled=strip is not None)
    _draw_peak(plan, ax)
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
    """Points: finer where boxes are thin, which would be all border otherwise."""
    problem, window = plan.problem, ax.get_window_extent()
    points = 72 / float(ax.figure.get_dpi())
    width, height = window.width * points, window.height * points
    life = np.minimum(problem.last[shown], steps[1]) - np.maximum(problem.first[shown], steps[0])
    thickness = np.minimum(life * (width / (steps[1] - steps[0])), problem.size[shown] * (height / top))
    borders: npt.NDArray[np.float64] = np.clip(thickness / 8, 0.05, 0.6)
    return borders


def _outline(parts: Sequence[Part], offset: int) -> Path:
    """The union of the parts of a buffer that lies at `offset`, as one path."""
    from matplotlib.path import Path

    loops = outline(parts)
    corners = [(x, offset + y) for loop in loops for x, y in (*loop, loop[0])]
    codes = [code for loop in loops for code in (Path.MOVETO, *[Path.LINETO] * (len(loop) - 1), Path.CLOSEPOLY)]
    return Path(np.array(corners, dtype=np.float64), codes)


def _draw_load(plan: Plan, ax: Axes, steps: Steps, filled: bool) -> None:
    """The load as a staircase, behind all that is in these axes."""
    step, load = load_shown(plan.problem, *steps, _STAIRS)
    if filled:
        ax.fill_between(step, load, step="post", color=_LOAD, alpha=0.35, linewidth=0)
    label = f"load, at most {format_bytes(plan.load)}"
    ax.step(step, load, where="post", color=_LOAD, linewidth=1, label=label, zorder=0.5)


def _draw_peak(plan: Plan, ax: Axes) -> None:
    """The peak as a line over the highest boxes, and a mark that points at its step from above."""
    from matplotlib.transforms import ScaledTranslation

    at, where = step_of_peak(plan), ""
    if at is not None:
        where = f" at step {at:,}"
        above = ax.transData + ScaledTranslation(0, 4.5 / 72, ax.figure.dpi_scale_trans)
        ax.plot([at + 0.5], [plan.peak], "v", color="black", markersize=7, transform=above, clip_on=False, zorder=5)
    label = f"peak {format_bytes(plan.peak)}{where}"
    ax.axhline(plan.peak, color="black", linestyle="--", linewidth=0.9, label=label, zorder=4)


def _share(strip: Axes, ax: Axes, plan: Plan, top: int) -> None:
    """The scale of the strip below: the steps and the unit of the boxes, and the peak."""
    from matplotlib.ticker import FixedLocator

    ax.set_xlabel("")
    strip.set_xlabel("step")
    strip.axhline(plan.peak, color="black", linestyle="--", linewidth=0.9)
    strip.set_ylim(0, top * 1.15)
    _, unit = unit_of(top)
    strip.set_ylabel(f"load ({unit})")
    ticks = [tick for tick in ax.get_yticks() if 0 <= tick <= top]
    strip.yaxis.set_major_locator(FixedLocator(ticks[:: max(len(ticks) // 2, 1)]))
    strip.yaxis.set_major_formatter(ax.yaxis.get_major_formatter())
    strip.spines[["top", "right"]].set_visible(False)


def _scale(steps: Steps, highest: int, ax: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator

    ax.set_xlim(*steps)
    ax.set_ylim(0, highest * 1.03)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    scale, unit = unit_of(highest)
    ax.yaxis.set_major_locator(MultipleLocator(tick(highest / scale) * scale))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / scale:g}"))
    ax.set_xlabel("step")
    ax.set_ylabel(f"address ({unit})")


def _powers_of_two(low: int, high: int) -> list[int]:
    """At most 8 powers of two, evenly apart, from `low` to `high`; `low` where there are none."""
    powers = range((low - 1).bit_length(), high.bit_length())
    return [1 << power for power in powers[:: -(-len(powers) // 8) or 1]] or [low]


def _ticked(tick: int, by: str) -> str:
    scale, unit = unit_of(tick)
    return f"{tick / scale:g} {unit}" if by == "size" else f"{tick:,}"


def _legend(ax: Axes, colours: Colouring) -> None:
    """What the colours mean, on the right: a bar for a scale, else the groups."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LogNorm, Normalize
    from matplotlib.patches import Patch

    if colours.limits is not None:
        low, high = colours.limits
        norm = (Normalize if colours.by == "order" else LogNorm)(low, max(high, low + 1))
        scale, least = ScalarMappable(norm, SCALE), "min" if colours.by == "size" else "neither"
        bar = ax.figure.colorbar(scale, ax=ax, pad=0.01, aspect=40, extend=least)
        bar.set_label({"order": "born at step", "size": "size", "lifetime": "lifetime (steps)"}[colours.by])
        if colours.by != "order":
            bar.set_ticks(ticks := _powers_of_two(low, high), labels=[_ticked(tick, colours.by) for tick in ticks])
            bar.minorticks_off()
    elif colours.legend:
        entries, every = colours.entries()
        patches = [Patch(color=colour, label=printable(group)) for group, colour in entries]
        title = colours.title + (f", every {every}." if every > 1 else "")
        lines = ax.get_legend()
        groups = ax.legend(
            handles=patches, title=title, loc="upper left", bbox_to_anchor=(1, 1), fontsize="small", frameon=False
        )
        for text in groups.get_texts():
            text.set_parse_math(False)
        if lines is not None:
            ax.add_artist(lines)
            lines.set_clip_on(False)
