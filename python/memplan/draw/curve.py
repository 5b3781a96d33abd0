"""The load over time as a staircase with no more steps than can be seen apart, and its picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .. import _core
from ..printing.units import format_bytes
from .figures import new_figure, scale_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Ints = npt.NDArray[np.int64]
_LOAD = "#5B6B7B"
_STAIRS = 1500  # that can be seen apart


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
