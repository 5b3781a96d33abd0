"""What a program holds when it holds most: what each block is for, by line, and what grows from step to step.

A step is found by its allocations: they come again, with the same sizes from the same lines. What a block is for
follows from when it is born and dies within steps, and from the frames of its stack.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ...explaining.explanation import Explanation
from ...explaining.held import Held
from . import walked_of
from .names import Namer
from .recorded import GRANULE, Snapshot
from .trace import ACTIONS, Walked
from .what_if import chosen

KEPT, WEIGHT, STATE, GRADIENT = "kept", "weight", "optimizer's state", "gradient"
ACTIVATION, TEMPORARY, CARRIED = "activation", "temporary", "carried into the next step"

_SHORT = 0.02  # of a step: temporaries live no longer
_ALIKE = 0.95  # of the allocations of two steps
_CANDIDATES = 200
_OPTIMIZER = re.compile(r"[/\\]optim[/\\]|optimizer|_init_group")
_BACKWARD = re.compile(r"[Bb]ackward|autograd[/\\:]|AccumulateGrad")

_OF_FRAMES = {"optimizer": STATE, "backward": GRADIENT, "other": WEIGHT}  # of blocks that stay

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class HeldByKind:
    """Blocks of one kind that are in use when most is: how many, and their bytes."""

    kind: str
    blocks: int
    bytes: int


@dataclass(frozen=True)
class HeldByLine:
    """Blocks of one kind that a line of the program allocated, in use when most is."""

    line: str
    kind: str
    blocks: int
    bytes: int


@dataclass(frozen=True)
class Growth:
    """A line whose blocks hold more after each step.

    Attributes
    ----------
    line : str
        Where the program allocates them, such as "train.py:30:step"; for stacks that say nothing, their size.
    bytes, blocks : float
        By how many they grow in a step.
    """

    line: str
    bytes: float
    blocks: float


@dataclass(frozen=True, eq=False)
class PostMortem:
    """What a program holds when it holds most. Printed, it is a report.

    Attributes
    ----------
    source : str
        The file, or "snapshot".
    device : int
        The device.
    allocated : int
        Bytes in use at that moment, rounded as the allocator does.
    asked : int or None
        Bytes for which memory did not suffice, if it ran out.
    steps : int
        Steps that the trace has, as far as they are alike; 0 if it has none.
    kinds : tuple of HeldByKind
        What is in use then, the most first.
    lines : tuple of HeldByLine
        The same by line of the program.
    growing : tuple of Growth
        What grows from step to step, the most first: a leak, if it is not meant.
    notes : tuple of str
        What the snapshot leaves out, and how that was read.
    live : array of int64, [allocations + 1]
        The bytes in use after each allocation.
    """

    source: str
    device: int
    allocated: int
    asked: int | None
    steps: int
    kinds: tuple[HeldByKind, ...]
    lines: tuple[HeldByLine, ...]
    growing: tuple[Growth, ...]
    notes: tuple[str, ...]
    live: Ints = field(repr=False)
    _held: Held = field(repr=False)

    @cached_property
    def explanation(self) -> Explanation:
        """The same moment block by block, as text, HTML, JSON and pictures."""
        return self._held.explain()

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write the explanation as a page."""
        self.explanation.to_html(path)

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write the explanation as JSON."""
        self.explanation.to_json(path)

    def __str__(self) -> str:
        from .post_mortem_text import post_mortem_text

        return post_mortem_text(self)


def post_mortem(source: str | os.PathLike[str] | Mapping[str, Any], *, device: int | None = None) -> PostMortem:
    """Say what a program held on a GPU when it held most, or when memory ran out. O(n log n) for n events.

    Parameters
    ----------
    source
        A file that ``torch.cuda.memory._dump_snapshot`` wrote, or what ``torch.cuda.memory._snapshot()`` returned.
    device
        By default the only one that has events.

    Raises
    ------
    TypeError
        The source is neither a path nor a dict.
    SourceError
        The file is no such snapshot, or it has no trace; the message says which.
    """
    _, where, devices = walked_of(source)
    return post_mortem_of(where, chosen(devices, device, where))


def post_mortem_of(where: str, walk: Walked) -> PostMortem:
    """The same of one device of a snapshot that is read."""
    blocks = _Blocks(walk)
    problem = Snapshot.of(where, [walk]).problem()
    most = blocks.peak
    kinds = blocks.kinds()
    inside = np.flatnonzero((blocks.first <= most) & (blocks.last > most)).tolist()
    by_kind: dict[str, Counter[str]] = {}
    by_line: dict[tuple[str, str], Counter[str]] = {}
    for k in inside:
        own = {"blocks": 1, "bytes": int(blocks.size[k])}
        by_kind.setdefault(kinds[k], Counter()).update(own)
        by_line.setdefault((blocks.lines[k], kinds[k]), Counter()).update(own)
    asked = [size for action, _, size, _ in walk.events if action == ACTIONS["oom"]]
    return PostMortem(
        where,
        walk.device,
        int(blocks.size[inside].sum()),
        asked[-1] if asked else None,
        max(len(blocks.boundaries) - 1, 0),
        tuple(_most(HeldByKind(kind, c["blocks"], c["bytes"]) for kind, c in by_kind.items())),
        tuple(_most(HeldByLine(line, kind, c["blocks"], c["bytes"]) for (line, kind), c in by_line.items())),
        tuple(_most(blocks.growing())),
        tuple(walk.notes),
        blocks.live,
        Held(f"device {walk.device}", problem, kinds, blocks.lines),
    )


def _most(rows: Any) -> list[Any]:
    return sorted(rows, key=lambda row: -row.bytes)


class _Blocks:
    """The blocks of a device by column: step k of `first` and `last` is the k-th allocation."""

    def __init__(self, walk: Walked) -> None:
        self.first = np.array(walk.first, np.int64)
        self.last = np.array(walk.last, np.int64)
        self.size = -(-np.array(walk.size, np.int64) // GRANULE) * GRANULE
        self._frames: Sequence[Any] = walk.frames
        namer = Namer()
        found = [namer.place(frames) for frames in walk.frames]
        self.lines = [
            line or (f"blocks of {size:,} bytes" if first else "before the trace")
            for line, size, first in zip(found, walk.size, walk.first, strict=True)
        ]
        self._of_line = {line: k for k, line in enumerate(dict.fromkeys(self.lines))}
        self.count = int(self.first.max(initial=0))
        ends = np.zeros(max(self.count, int(self.last.max(initial=0))) + 2, np.int64)
        np.add.at(ends, self.first, self.size)
        np.add.at(ends, self.last, -self.size)
        self.live = np.cumsum(ends)[: self.count + 1]  # bytes in use from each allocation to the next
        self.peak = int(np.argmax(self.live)) if len(self.live) else 0
        self.period = self._period()
        self.boundaries = self._boundaries()

    def _period(self) -> int:
        """After how many allocations the same come again; 0 for never."""
        order = np.argsort(self.first, kind="stable")
        order = order[self.first[order] > 0]
        line = np.array([self._of_line[name] for name in self.lines], np.int64)
        _, ids, counts = np.unique(
            np.stack([self.size[order], line[order]]), axis=1, return_inverse=True, return_counts=True
        )
        ids = ids.reshape(-1)
        candidates: Counter[int] = Counter()
        for rare in np.argsort(np.where(counts > 1, counts, len(ids) + 1), kind="stable")[:50].tolist():
            candidates.update(np.diff(np.flatnonzero(ids == rare)).tolist())
        again = counts > 1
        best, share = 0, 0.0
        for gap, _ in candidates.most_common(_CANDIDATES):
            if gap < 4 or 2 * gap > len(ids):
                continue
            # A step has all that comes again. A loop within a step, over layers or weights, has a part of it.
            inside = np.zeros(len(counts), bool)
            inside[ids[-gap:]] = True
            if counts[again & inside].sum() < _ALIKE * counts[again].sum():
                continue
            # After a step as much is in use as before; after a loop over layers of forward, more
            live = self.live[-2 * gap :]
            if np.abs(live[gap:] - live[:gap]).mean() > 0.1 * (live.max() - live.min()):
                continue
            alike = float((ids[gap:] == ids[:-gap])[-2 * gap :].mean())
            if alike > share + 0.005 or (alike > share - 0.005 and 0 < gap < best):
                best, share = gap, alike
        return best if share >= _ALIKE else 0

    def _boundaries(self) -> Ints:
        """The allocations after which a step ends: where least is in use within a step."""
        if not self.period:
            return np.zeros(0, np.int64)
        last = self.live[-self.period :]
        offset = (len(self.live) - self.period + int(np.argmin(last))) % self.period
        return np.arange(offset, len(self.live), self.period)

    def kinds(self) -> list[str]:
        """What each block is for."""
        forever = self.last >= self.count + 1
        # A trace without steps is taken for one
        period, ends = (self.period, self.boundaries) if self.period else (self.count + 1, np.zeros(1, np.int64))
        crossed = np.searchsorted(ends, self.last) - np.searchsorted(ends, self.first)
        lives = self.last - self.first
        start = int(ends[-2]) if len(ends) > 1 else 0
        turn = (int(np.argmax(self.live[start : start + period])) + start - int(ends[0])) % period
        into = (self.first - int(ends[0])) % period
        found = []
        for k, frames in enumerate(self._frames):
            said = _said(frames)
            if crossed[k] > 1 or self.first[k] == 0 or lives[k] > period or (not self.period and forever[k]):
                found.append(_OF_FRAMES.get(said, KEPT))
            elif lives[k] <= max(1, _SHORT * period):
                found.append(TEMPORARY)
            elif said == "optimizer":
                found.append(STATE if forever[k] else TEMPORARY)
            elif said == "backward" or into[k] > turn:
                found.append(GRADIENT)
            elif crossed[k]:
                found.append(CARRIED)
            else:
                found.append(ACTIVATION if into[k] + lives[k] > turn else TEMPORARY)
        return found

    def growing(self) -> list[Growth]:
        """Lines whose blocks hold more after each step than after the one before, from the second step on."""
        ends = self.boundaries[1:]
        if len(ends) < 3:
            return []
        line = np.array([self._of_line[name] for name in self.lines], np.int64)
        held = np.zeros((len(self._of_line), len(ends), 2), np.int64)
        for e, step in enumerate(ends.tolist()):
            inside = (self.first <= step) & (self.last > step)
            np.add.at(held[:, e, 0], line[inside], self.size[inside])
            np.add.at(held[:, e, 1], line[inside], 1)
        more = np.diff(held, axis=1)
        grows = (more[:, :, 0] > 0).all(axis=1)
        names = list(self._of_line)
        return [
            Growth(names[k], float(more[k, :, 0].mean()), float(more[k, :, 1].mean()))
            for k in np.flatnonzero(grows).tolist()
        ]


def _said(frames: Any) -> str:
    """What a stack says of a block: "optimizer", "backward", "other"; "" for none."""
    known = False
    for frame in frames if isinstance(frames, (list, tuple)) else ():
        if not isinstance(frame, dict):
            continue
        text = f"{frame.get('filename')}:{frame.get('name')}"
        if _OPTIMIZER.search(text):
            return "optimizer"
        if _BACKWARD.search(text):
            return "backward"
        known = known or text.split(":")[0].endswith(".py")
    return "other" if known else ""


__all__ = ["Growth", "HeldByKind", "HeldByLine", "PostMortem", "post_mortem"]
