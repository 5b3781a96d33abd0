"""Where to cut the time of a graph, so that an arena for each part holds less than one arena throughout.

An arena holds its size from its first block to its last, even while few of its blocks are alive. Other blocks may need
most bytes just then. A cut at a step that few blocks live across ends one arena and begins the next:

    bytes ▲  ┌────────────┐                ┌───┐   ┌ ─ ┐
          │  │ one arena  │   others       │   │     c     others
          │  │            │  ┌──────┐      │ a │ ┌─┴─┐┌──────┐
          │  └────────────┘  │      │      └───┘ │ b ││      │
          └──────────────────┴──────┴▶     ──────┴───┴┴──────┴▶ step

A block that lives across a cut lies in no arena. The cuts are chosen by dynamic programming: the least peak first, then
the fewest blocks in no arena, then the fewest arenas.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ..inductor.wrapper import Block

_NEVER = np.iinfo(np.int64).max
_Ints = npt.NDArray[np.int64]


class Held(Protocol):
    """Bytes that are held during the steps [first, last)."""

    @property
    def bytes(self) -> int: ...
    @property
    def first(self) -> int: ...
    @property
    def last(self) -> int: ...


def split(placed: Sequence[Block], others: Sequence[Held], most: int) -> list[list[Block]]:
    """Groups of two blocks or more, each for an arena; other blocks are in none.

    Steps with the fewest bytes across are looked at, `most` of them. O(k (n + k t)) for n blocks, t steps, and k cuts.
    """
    size, first, last = _columns(placed)
    every = _columns([*placed, *others])
    need, steps = _alive(*every, int(every[2].max())), int(last.max())
    cuts = _cuts(size, first, last, steps, most)
    peaks, costs = (np.full((len(cuts), len(cuts)), _NEVER) for _ in range(2))
    for end in range(1, len(cuts)):
        peaks[:end, end], costs[:end, end] = _parts(cuts, end, need, size, first, last)
    ends = [cuts[k] for k in _path(peaks, costs, int(need.max()))]
    groups = [[b for b in placed if begin <= b.first and b.last <= end] for begin, end in pairwise(ends)]
    return [group for group in groups if len(group) > 1]


def _parts(cuts: list[int], end: int, need: _Ints, size: _Ints, first: _Ints, last: _Ints) -> tuple[_Ints, _Ints]:
    """Of the parts from each cut to the one at `end`: the most bytes at one of their steps, and what they cost.

    The blocks inside a part are in an arena of the size of their load. A block that is born in the part and outlives it
    is allocated alone, and so is one that is inside without others. A block alone costs more than all arenas.
    """
    begins, stop = np.array(cuts[:end]), cuts[end]
    steps = np.arange(stop)
    ends_here = last <= stop
    size_in, first_in, last_in = size[ends_here], first[ends_here], last[ends_here]
    part = np.searchsorted(begins, first_in, side="right") - 1  # the last cut before a block
    change = np.zeros((end, stop + 1), np.int64)
    np.add.at(change, (part, first_in), size_in)
    np.add.at(change, (part, last_in), -size_in)
    inside = _from_the_end(np.cumsum(change, axis=1)[:, :stop], np.add)
    born, freed = np.full(end, stop), np.zeros(end, np.int64)
    np.minimum.at(born, part, first_in)
    np.maximum.at(freed, part, last_in)
    born, freed = _from_the_end(born, np.minimum), _from_the_end(freed, np.maximum)
    holds = (born[:, None] <= steps) & (steps < freed[:, None])
    held = need[:stop] + np.where(holds, inside.max(axis=1, keepdims=True) - inside, 0)
    held[steps < begins[:, None]] = 0
    outlive = (first[:, None] >= begins) & (first[:, None] < stop) & (last[:, None] > stop)
    inside_count = _from_the_end(np.bincount(part, minlength=end), np.add)
    alone = outlive.sum(axis=0) + (inside_count == 1)
    return held.max(axis=1), alone * (len(size) + 1) + (inside_count > 1)


def _from_the_end(rows: _Ints, gather: np.ufunc) -> _Ints:
    """In each row what it and all rows after it have."""
    gathered: _Ints = gather.accumulate(rows[::-1], axis=0)[::-1]
    return gathered


def _path(peaks: _Ints, costs: _Ints, load: int) -> list[int]:
    """The ends of the parts: of the ways that hold least, which is the load or more, the one that costs least."""
    least = np.zeros(len(peaks), np.int64)
    for end in range(1, len(peaks)):
        least[end] = np.maximum(least[:end], peaks[:end, end]).min()
    least_cost, came = np.zeros(len(peaks)), np.zeros(len(peaks), np.int64)
    for end in range(1, len(peaks)):
        ways = np.where(peaks[:end, end] <= max(least[-1], load), least_cost[:end] + costs[:end, end], np.inf)
        came[end] = ways.argmin()
        least_cost[end] = ways[came[end]]
    path = [len(peaks) - 1]
    while path[-1] > 0:
        path.append(int(came[path[-1]]))
    return path[::-1]


def _cuts(size: _Ints, first: _Ints, last: _Ints, steps: int, most: int) -> list[int]:
    """The begin, the end, and between them the steps with the fewest bytes across."""
    across = _alive(size, first + 1, last, steps)  # before step t: blocks with first < t < last
    inner = np.argsort(across[1:], kind="stable")[:most] + 1
    return [0, *sorted(inner.tolist()), steps]


def _alive(size: _Ints, first: _Ints, last: _Ints, steps: int) -> _Ints:
    """Bytes alive at each step below `steps`."""
    change = np.zeros(steps + 1, np.int64)
    np.add.at(change, np.minimum(first, steps), size)
    np.add.at(change, np.minimum(last, steps), -size)
    return np.cumsum(change)[:steps]


def _columns(blocks: Sequence[Held]) -> tuple[_Ints, _Ints, _Ints]:
    rows = [(block.bytes, block.first, block.last) for block in blocks]
    size, first, last = np.array(rows, np.int64).reshape(-1, 3).T
    return size, first, last
