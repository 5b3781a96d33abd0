"""Names in a Gantt picture: in the boxes that can hold them, or beside what is brought out, with a line to it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..plans.plan import Plan
from ..plans.usage import Part
from ..printing.units import format_bytes
from ..text import printable
from .highlight import Mark

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Shapes = Mapping[int, Sequence[Part]]
Sides = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]
Area = tuple[float, float, float, float]  # left, bottom, width, height

_FONT = 7.0
_LEAST = 5  # letters of the end of a name that say something
_PART = re.compile(r"[./](?=[^./]*[^\d./])")  # before a part of a name that is more than a number
_MOST_LABELS = 300
_MOST_BESIDE = 8  # texts with a line: more would hide what they speak of


def label_boxes(plan: Plan, shown: npt.NDArray[np.intp], shapes: Shapes, ax: Axes) -> None:
    """Write names into the boxes that can hold them, the largest first; upright where that is how they fit."""
    label_rectangles([plan.problem.name(b) for b in shown.tolist()], _rooms(plan, shown, shapes), ax)


def label_rectangles(names: Sequence[str], sides: Sides, ax: Axes) -> None:
    """Write each name, or its end, into its rectangle, given as bottom, top, left, right, if it fits."""
    bottom, top, left, right = sides
    low, high = ax.get_xlim()
    left, right = np.maximum(left, np.floor(low)), np.minimum(right, np.ceil(high))  # what is in sight
    across, up = _points_per_unit(ax)
    width, height = (right - left) * across, (top - bottom) * up
    candidates = np.flatnonzero((height > 1.4 * _FONT) & (width > 1.4 * _FONT))
    labels = 0
    for k in candidates[np.argsort(-(width * height)[candidates], kind="stable")].tolist():
        flat, upright = (ending(printable(names[k]), letters_in(float(room), _FONT)) for room in (width[k], height[k]))
        name = flat if len(flat) >= len(upright) else upright
        if name:
            middle = (left[k] / 2 + right[k] / 2, bottom[k] / 2 + top[k] / 2)
            _write(ax, middle, name, fontsize=_FONT, rotation=0 if name == flat else 90)
            labels += 1
        if labels == _MOST_LABELS:
            break


def label_marks(marks: Sequence[Mark], ax: Axes) -> None:
    """Write name and bytes of each mark: into its box, or near it with a line where that is too small.

    Of many that are too small, as those of a module may be, the largest are named, as many as there is room for.
    Of what is out of sight, its steps are written near the edge behind which it lies.
    """
    font = 9.0
    across, up = _points_per_unit(ax)
    (low, high), (floor, ceiling) = ax.get_xlim(), ax.get_ylim()
    taken: list[Area] = []
    for slot in sorted((mark.slot for mark in marks), key=lambda slot: -slot.bytes):
        first, last = min(max(slot.first, low), high), max(min(slot.last, high), low)
        figures = f", {format_bytes(slot.bytes)}"
        figures += f", in steps {slot.first:,} to {slot.last - 1:,}" if first == last else ""
        name = printable(slot.name)
        text = (ending(name, letters_in((high - low) * across - 12, font) - len(figures)) or name) + figures
        middle = (first / 2 + last / 2, slot.offset / 2 + slot.end / 2)
        length = _length(text, font)
        if slot.bytes * up > 1.4 * font and length <= (last - first) * across:
            _write(ax, middle, text, fontsize=font, weight="bold")
            continue
        room = ((high - low) * across, (ceiling - floor) * up)
        there = ((middle[0] - low) * across, (middle[1] - floor) * up)
        area = _free_area(there, (length, 2 * font), room, taken)
        if area is None or len(taken) == _MOST_BESIDE:
            continue
        taken.append(area)
        x, y, _, _ = area
        at = (low + (x + length / 2) / across, floor + (y + font) / up)
        _write_beside(ax, middle, at, text, font)


def _free_area(
    point: tuple[float, float], size: tuple[float, float], room: tuple[float, float], taken: list[Area]
) -> Area | None:
    """Where a text of this size stands near a point, towards the middle of the room, off the other texts; in points.

    None where others take all the room above and below.
    """
    width, height = size
    x = point[0] + 30 if point[0] < room[0] / 2 else point[0] - 30 - width
    x = min(max(x, 6), max(room[0] - width - 6, 6))
    step = height if point[1] < room[1] / 2 else -height
    highest = max(room[1] - height, 0)
    start = min(max(point[1] + (30 if step > 0 else -30), 0), highest)
    ways = (start + k * way for way in (step, -step) for k in range(int(room[1] / height) + 1))
    for y in (y for y in ways if 0 <= y <= highest):
        if not any(x < a + w and a < x + width and y < b + h and b < y + height for a, b, w, h in taken):
            return x, y, width, height
    return None


def _write_beside(ax: Axes, point: tuple[float, float], at: tuple[float, float], text: str, font: float) -> None:
    ax.annotate(
        text,
        point,
        at,
        ha="center",
        va="center",
        fontsize=font,
        color="black",
        parse_math=False,
        zorder=6,
        annotation_clip=False,
        bbox={"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": "black", "linewidth": 0.6},
        arrowprops={
            "arrowstyle": "-|>",
            "color": "black",
            "linewidth": 0.8,
            "shrinkA": 0,
            "shrinkB": 0,
            "relpos": (0 if at[0] > point[0] else 1, 0.5),
        },
    )


def ending(name: str, most: int) -> str:
    """A name, or its longest end in at most so many letters: "…attn.addmm_3", "…addmm_3", "…dmm_3"; else nothing.

    It begins where a part begins, if that fits. A number alone, as in `norm.0`, is no part.
    """
    if len(name) <= most:
        return name
    for part in _PART.finditer(name):
        if len(name) - part.end() < most:
            return f"…{name[part.end() :]}"
    return f"…{name[1 - most :]}" if most > _LEAST else ""


def letters_in(room: float, font: float) -> int:
    """Letters that so many points hold at least."""
    return max(int(room / (0.6 * font)) - 1, 0)


def _length(text: str, font: float) -> float:
    """Points that the text takes at most, for the letters that names are made of."""
    return (len(text) + 1) * 0.6 * font


def _points_per_unit(ax: Axes) -> tuple[float, float]:
    area = ax.get_window_extent()
    points = 72 / float(ax.figure.get_dpi())
    (x0, x1), (y0, y1) = ax.get_xlim(), ax.get_ylim()
    return area.width * points / (x1 - x0), area.height * points / (y1 - y0)


def _rooms(plan: Plan, shown: npt.NDArray[np.intp], shapes: Shapes) -> Sides:
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
        color="black",
        parse_math=False,
        zorder=5,
        path_effects=halo,
        **style,
    )
