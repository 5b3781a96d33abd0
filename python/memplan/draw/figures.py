"""Figures of matplotlib that no window shows, in files and pages; axes of bytes, the load, and the colour of lines."""

from __future__ import annotations

import os
import warnings
from io import BytesIO, StringIO
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..files import replacing
from ..printing.units import format_bytes, tick, unit_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


Ints = npt.NDArray[np.int64]
_LOAD = "#5B6B7B"
_STAIRS = 1500  # that can be seen apart


def new_figure(inches: tuple[float, float]) -> Figure:
    """A figure that pyplot does not know."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=inches, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write it into a file; its suffix says the format (png, svg, pdf)."""
    with replacing(path) as beside, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure.savefig(beside, dpi=150)


def png(figure: Figure) -> bytes:
    """It as a PNG, for a page."""
    buffer = BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


def svg(figure: Figure) -> str:
    """It as an element of a page."""
    file = StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    text = file.getvalue()
    return text[text.index("<svg") :]


def scale_bytes(axis: Axis, highest: int, apart: int = 1) -> str:
    """Ticks at round numbers of bytes, so many times as far `apart`; returns the unit that they are counted in."""
    from matplotlib.ticker import FuncFormatter, MultipleLocator

    scale, unit = unit_of(highest)
    axis.set_major_locator(MultipleLocator(apart * tick(highest / scale) * scale))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / scale:g}"))
    return unit


def ink(ax: Axes) -> Any:
    """The colour of what is written beside the axes, which a style of matplotlib may make dark."""
    return ax.xaxis.label.get_color()


def load_shown(problem: _core.Problem, first: int, last: int, most: int) -> tuple[Ints, Ints]:
    """The load as a staircase, as of `Problem.load_curve`, with about `most` steps in [first, last) or fewer.

    Where there are more, each is the highest of several, from the first of them on, and only what is in the range is
    given: (step, bytes), of which the last ends the one before.
    """
    step, load = problem.load_curve()
    inside = slice(max(int(np.searchsorted(step, first, side="right")) - 1, 0), int(np.searchsorted(step, last)))
    every = (inside.stop - inside.start) // most
    if every < 2:
        return step, load
    starts = np.arange(inside.start, inside.stop, every)
    highest = np.maximum.reduceat(load[: inside.stop], starts)
    end = min(inside.stop, len(step) - 1)
    return np.append(step[starts], step[end]), np.append(highest, load[end])


def draw_load(problem: _core.Problem, ax: Axes, steps: tuple[int, int], filled: bool = True) -> None:
    """The load in these steps, behind all else that is in these axes."""
    step, load = load_shown(problem, *steps, _STAIRS)
    if filled:
        ax.fill_between(step, load, step="post", color=_LOAD, alpha=0.35, linewidth=0)
    label = f"load, at most {format_bytes(problem.load)}"
    ax.step(step, load, where="post", color=_LOAD, linewidth=1, label=label, zorder=0.5)


def load_figure(problem: _core.Problem) -> Figure:
    """The load over all steps of a problem that has buffers."""
    from matplotlib.ticker import MaxNLocator

    figure = new_figure((9, 2.5))
    ax = figure.add_subplot()
    steps = int(problem.first.min()), int(problem.last.max())
    draw_load(problem, ax, steps)
    ax.set_xlim(*steps)
    ax.set_ylim(0, max(problem.load, 1) * 1.08)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("step")
    ax.set_ylabel(f"load ({scale_bytes(ax.yaxis, max(problem.load, 1))})")
    ax.spines[["top", "right"]].set_visible(False)
    return figure
