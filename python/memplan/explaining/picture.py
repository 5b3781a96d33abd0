"""The load over time that an explanation is about, as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..draw.colours import PALETTE
from ..draw.figures import ink, new_figure, scale_bytes, svg
from ..printing.units import format_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .explanation import Explanation

_MARKS = {"peak": PALETTE[5], "load": PALETTE[3], "next-highest": "white"}


def load_svg(explanation: Explanation) -> str:
    """The load that an explanation is about, and the peak, as SVG; nothing for a plan without bytes."""
    if not explanation.curve:
        return ""
    figure = new_figure((11, 3))
    _draw_load(explanation, figure.add_subplot())
    return svg(figure)


def _draw_load(explanation: Explanation, ax: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    step, load = zip(*explanation.curve, strict=True)
    ax.fill_between(step, load, step="post", color=PALETTE[0], linewidth=0, label="load")
    ax.axhline(
        explanation.peak, color=ink(ax), linestyle="--", linewidth=1, label=f"peak {format_bytes(explanation.peak)}"
    )
    marks = {"peak": explanation.peak_step, "load": explanation.load_step, "next-highest": explanation.next_step}
    if explanation.peak_step == explanation.load_step:
        marks = {"peak and load": explanation.load_step, "next-highest": explanation.next_step}
    for what, moment in marks.items():
        if moment is not None:
            colour, label = _MARKS[what.split()[0]], f"{what}: step {moment.step}"
            ax.plot(moment.step, moment.load, "o", color=colour, markeredgecolor="black", label=label, clip_on=False)
    ax.set_xlim(step[0], step[-1])
    ax.set_ylim(0, explanation.peak * 1.08)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("step")
    ax.set_ylabel(f"in use ({scale_bytes(ax.yaxis, explanation.peak)})")
    ax.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=5, frameon=False, fontsize="small", borderaxespad=0.2)
