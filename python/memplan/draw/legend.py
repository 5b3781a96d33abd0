"""The legend of a Gantt picture: what its colours mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..printing.units import unit_of
from ..text import printable
from .colours import SCALE, Colouring

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_BESIDE_POOLS = 1.12  # of the width of the axes, on the right of which the names of pools stand


def _powers_of_two(low: int, high: int) -> list[int]:
    """At most 8 powers of two, evenly apart, from `low` to `high`; `low` where there are none."""
    powers = range((low - 1).bit_length(), high.bit_length())
    return [1 << power for power in powers[:: -(-len(powers) // 8) or 1]] or [low]


def _ticked(tick: int, by: str) -> str:
    scale, unit = unit_of(tick)
    return f"{tick / scale:g} {unit}" if by == "size" else f"{tick:,}"


def legend(ax: Axes, colours: Colouring) -> None:
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
        corner = (_BESIDE_POOLS if ax.child_axes else 1, 1)
        groups = ax.legend(
            handles=patches, title=title, loc="upper left", bbox_to_anchor=corner, fontsize="small", frameon=False
        )
        for text in groups.get_texts():
            text.set_parse_math(False)
        if lines is not None:
            ax.add_artist(lines)
            lines.set_clip_on(False)
