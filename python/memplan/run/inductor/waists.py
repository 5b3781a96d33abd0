"""Where to cut the time of a graph, so that an arena for each part holds less than one arena throughout.

An arena holds its size from its first block to its last, even while few of its blocks are alive. Other blocks may need
most bytes just then. A cut at a waist, a step that few blocks live across, ends one arena and begins the next:

    bytes ▲  ┌────────────┐                ┌───┐   ┌ ─ ┐
          │  │ one arena  │   others       │   │     c     others
          │  │            │  ┌──────┐      │ a │ ┌─┴─┐┌──────┐
          │  └────────────┘  │      │      └───┘ │ b ││      │
          └──────────────────┴──────┴▶     ──────┴───┴┴──────┴▶ step

A block that lives across a cut lies in no arena. The cuts are chosen among the waists by dynamic programming: the least
peak first, then the fewest arenas.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ...inductor.wrapper import Block

_MOST = 48  # waists that are looked at: those with the fewest bytes across
_Ints = npt.NDArray[np.int64]


def split(placed: Sequence[Block], others: Sequence[Block]) -> list[list[Block]]:
    """Groups of blocks, each for an arena; blocks that live across a cut are in none.

    O(w^2 (n + t)) for w waists, n blocks and t steps.
    """
    size, first, last = _columns(placed)
    steps = int(last.max())
    need = _alive(*_columns([*placed, *others]), steps)
    cuts = _waists(size, first, last, steps)
    peaks = np.zeros((len(cuts), len(cuts)), np.int64)
    for end in range(1, len(cuts)):
        for begin in range(end):
            inside = (first >= cuts[begin]) & (last <= cuts[end])
            peaks[begin, end] = _peak(need, size[inside], first[inside], last[inside], cuts[begin], cuts[end])
    path = _path(peaks)
    parts = [(cuts[begin], cuts[end]) for begin, end in pairwise(path)]
    groups = [[block for block in placed if begin <= block.first and block.last <= end] for begin, end in parts]
    return [group for group in groups if group]


def _path(peaks: _Ints) -> list[int]:
    """The ends of the parts: among the ways with the least peak one of the fewest parts."""
    least = [0]
    for end in range(1, len(peaks)):
        least.append(min(max(least[begin], int(peaks[begin, end])) for begin in range(end)))
    parts, came = [0], [0]
    for end in range(1, len(peaks)):
        ways = [(parts[begin] + 1, begin) for begin in range(end) if peaks[begin, end] <= least[-1]]
        count, begin = min(ways, default=(len(peaks), 0))  # no way: more parts than any way has
        parts.append(count)
        came.append(begin)
    path = [len(peaks) - 1]
    while path[-1] > 0:
        path.append(came[path[-1]])
    return path[::-1]


def _peak(need: _Ints, size: _Ints, first: _Ints, last: _Ints, begin: int, end: int) -> int:
    """The most bytes in the steps of a part, if the blocks inside are in an arena of the size of their load."""
    held = need[begin:end].copy()
    if len(size):
        inner = _alive(size, first, last, end)
        hold = slice(int(first.min()), int(last.max()))
        held[hold.start - begin : hold.stop - begin] += inner.max() - inner[hold]
    return int(held.max())


def _waists(size: _Ints, first: _Ints, last: _Ints, steps: int) -> list[int]:
    """The steps before which bytes across are fewer than before one neighbour, and no more than before the other."""
    across = _alive(size, first + 1, last, steps)  # before step t: blocks with first < t < last
    before, after = np.roll(across, 1), np.roll(across, -1)
    inner = np.flatnonzero((across <= before) & (across <= after) & ((across < before) | (across < after)))
    inner = inner[(inner > 0) & (inner < steps)]
    chosen = inner[np.argsort(across[inner], kind="stable")[:_MOST]]
    return [0, *sorted(chosen.tolist()), steps]


def _alive(size: _Ints, first: _Ints, last: _Ints, steps: int) -> _Ints:
    """Bytes alive at each step below `steps`."""
    change = np.zeros(steps + 1, np.int64)
    np.add.at(change, np.minimum(first, steps), size)
    np.add.at(change, np.minimum(last, steps), -size)
    return np.cumsum(change)[:steps]


def _columns(blocks: Sequence[Block]) -> tuple[_Ints, _Ints, _Ints]:
    rows = [(block.bytes, block.first, block.last) for block in blocks]
    size, first, last = np.array(rows, np.int64).reshape(-1, 3).T
    return size, first, last
