"""What a fitted plan has given up, in pictures: gaps in the lives of tensors as boxes, and arrows to their return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..plans.plan import Plan
from ..plans.returns import Return
from ..printing.units import counted
from .colours import OTHERS, buffers_by_name
from .figures import scale_bytes
from .highlight import Steps
from .labels import label_rectangles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch

KINDS = {"recompute": "computed again", "offload": "moved out, and fetched"}
HATCH = "////"
MOST_ARROWS = 8  # more would hide the boxes


def stacked(returns: Sequence[Return]) -> npt.NDArray[np.int64]:
    """Where each gap lies in a picture of its own: the longest at the bottom, none over another. O(n^2) for n gaps."""
    offsets = np.zeros(len(returns), dtype=np.int64)
    placed: list[int] = []
    for k in sorted(range(len(returns)), key=lambda k: returns[k].left.last - returns[k].back.first):
        one = returns[k]
        beside = [j for j in placed if returns[j].left.last < one.back.first and one.left.last < returns[j].back.first]
        for j in sorted(beside, key=lambda j: int(offsets[j])):
            if offsets[k] + one.back.bytes <= offsets[j]:
                break
            offsets[k] = max(offsets[k], offsets[j] + returns[j].back.bytes)
        placed.append(k)
    return offsets


def height(returns: Sequence[Return]) -> int:
    """Bytes up to which the gaps lie in their picture; at least 1."""
    return max([1, *(int(offset) + one.back.bytes for offset, one in zip(stacked(returns), returns, strict=True))])


def largest(returns: Sequence[Return]) -> list[Return]:
    """Those that get an arrow: the most bytes for the most steps."""
    return sorted(returns, key=lambda one: one.back.bytes * (one.left.last - one.back.first))[:MOST_ARROWS]


def colours_of(plan: Plan, returns: Sequence[Return], colours: Sequence[str]) -> list[str]:
    """The colour that each tensor has when it is back."""
    buffers = buffers_by_name(plan)
    return [colours[buffers[one.back.name]] if one.back.name in buffers else OTHERS for one in returns]


def draw_arrows(returns: Sequence[Return], steps: Steps, ax: Axes) -> None:
    """From where the largest were last used to where they come back; those that are in sight at both ends."""
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.patheffects import Normal, Stroke

    for one in largest(returns):
        if steps[0] <= one.left.last and one.back.first <= steps[1]:
            arrow = FancyArrowPatch(*ends_of(one), arrowstyle="-|>", mutation_scale=9, shrinkA=0, shrinkB=0, zorder=4.5)
            arrow.set(color="black", linewidth=1, linestyle="--" if one.kind == "offload" else "-")
            arrow.set_connectionstyle("arc3", rad=-0.12)
            arrow.set_path_effects([Stroke(linewidth=3, foreground="white", alpha=0.7), Normal()])
            ax.add_patch(arrow)


def ends_of(one: Return) -> tuple[tuple[int, float], tuple[int, float]]:
    """Where an arrow begins and ends: step and address."""
    left, back = one.left, one.back
    return (left.last, left.offset + left.bytes / 2), (back.first, back.offset + back.bytes / 2)


def draw_away(returns: Sequence[Return], colours: Sequence[str], steps: Steps, highest: int, ax: Axes) -> None:
    """A box per gap, from the last use to the return, on axes that are so many bytes high."""
    from matplotlib.collections import PolyCollection

    left, right = (np.array(ends, dtype=np.int64) for ends in zip(*spans(returns), strict=True))
    bottom = stacked(returns)
    top = bottom + np.array([one.back.bytes for one in returns], dtype=np.int64)
    corners = np.stack([left, bottom, left, top, right, top, right, bottom], axis=1).reshape(-1, 4, 2)
    for kind in KINDS:
        own = [k for k, one in enumerate(returns) if one.kind == kind]
        if own:
            boxes = PolyCollection(corners[own], facecolors=[colours[k] for k in own], edgecolors="black")  # type: ignore[arg-type]
            boxes.set(linewidth=0.4, alpha=0.85, hatch=None if kind == "recompute" else HATCH)
            ax.add_collection(boxes)
    _scale(highest, steps, ax)
    kinds = [kind for kind in KINDS if any(one.kind == kind for one in returns)]
    ax.legend(
        handles=[_sample(kind, sum(one.kind == kind for one in returns)) for kind in kinds],
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=len(kinds),
        frameon=False,
        fontsize="small",
        borderaxespad=0.2,
    )
    label_rectangles([one.tensor for one in returns], (bottom, top, left, right), ax)


def _sample(kind: str, count: int) -> Patch:
    from matplotlib.patches import Patch

    hatch = None if kind == "recompute" else HATCH
    return Patch(facecolor="white", edgecolor="black", hatch=hatch, label=f"{counted(count, 'tensors')} {KINDS[kind]}")


def _scale(highest: int, steps: Steps, ax: Axes) -> None:
    ax.set_xlim(*steps)
    ax.set_ylim(0, highest * 1.03)
    ax.tick_params(labelleft=True)
    ax.set_ylabel(f"away ({scale_bytes(ax.yaxis, highest, 2)})")


def spans(returns: Sequence[Return]) -> list[tuple[int, int]]:
    """The steps of each gap, half-open; at least one."""
    return [(one.left.last, max(one.back.first, one.left.last + 1)) for one in returns]
