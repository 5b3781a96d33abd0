"""The outline of a shape: rectangles that do not overlap, without the lines between them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ..plans.usage import Part

Point = tuple[int, int]  # step, byte


def outline(parts: Sequence[Part]) -> list[list[Point]]:
    """The border of the union of rectangles that do not overlap, as closed loops of corners.

    The inside is on the left of every loop: what lies apart goes round counter-clockwise and holes clockwise.
    Loops that touch at a corner stay apart. O(edges log edges), edges cut where others end on them.
    """
    loops = []
    leaving = _border(parts)
    while leaving:
        loops.append(_straightened(_loop(leaving, min(leaving))))
    return loops


def _border(parts: Sequence[Part]) -> dict[Point, list[Point]]:
    """Per point of the border, the ends of the pieces of it that start there: what two rectangles share is none."""
    leaving: dict[Point, list[Point]] = {}
    for upright in (False, True):
        lines: dict[int, dict[int, int]] = {}  # per line, where edges begin and end on it: +1 and -1 onwards, else back
        for begin, end, first, last in parts:
            low, high = (begin, end) if upright else (first, last)
            there, back = (last, first) if upright else (begin, end)
            for line, way in ((there, 1), (back, -1)):
                steps = lines.setdefault(line, {})
                steps[low] = steps.get(low, 0) + way
                steps[high] = steps.get(high, 0) - way
        for line, steps in lines.items():
            way = 0
            for low, high in pairwise(sorted(steps)):
                way += steps[low]
                a, b = ((line, low), (line, high)) if upright else ((low, line), (high, line))
                if way != 0:
                    leaving.setdefault(a if way > 0 else b, []).append(b if way > 0 else a)
    return leaving


def _loop(leaving: dict[Point, list[Point]], start: Point) -> list[Point]:
    """Follow the border from its first point back to it, turning left where two ways leave, and take it away."""
    loop = [start, leaving.pop(start)[0]]
    while loop[-1] != start:
        before, here = loop[-2:]
        ways = sorted(leaving.pop(here), key=lambda to: _turn(before, here, to))
        loop.append(ways.pop())
        if ways:
            leaving[here] = ways
    return loop[:-1]


def _turn(a: Point, b: Point, c: Point) -> int:
    """Above 0 where the way from a over b to c turns left."""
    return (b[0] - a[0]) * (c[1] - b[1]) - (b[1] - a[1]) * (c[0] - b[0])


def _straightened(loop: list[Point]) -> list[Point]:
    """The corners alone."""
    around = [loop[-1], *loop, loop[0]]
    return [b for a, b, c in zip(around, around[1:], around[2:], strict=False) if _turn(a, b, c) != 0]
