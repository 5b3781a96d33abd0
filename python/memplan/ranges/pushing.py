"""Buffers pushed down: each as low as those below it let it be."""

from __future__ import annotations

import numpy as np

from .. import _core
from ..plans.usage import Ints, rectangles


def pushed_down(order: Ints, problem: _core.Problem) -> Ints:
    """Each buffer as low as those below it let it be, which is where `order` has them; O(buffers x rectangles)."""
    if problem.pins is not None or problem.reserved is not None or problem.together is not None:
        return order
    rows = rectangles(problem)
    buffer, low, high, first, last = rows.T
    conflicts: dict[int, set[int]] = {}
    for a, b in [] if problem.conflicts is None else problem.conflicts.tolist():
        conflicts.setdefault(a, set()).add(b)
        conflicts.setdefault(b, set()).add(a)
    branches = problem.branches or [""] * len(problem)
    offsets, done = np.zeros(len(problem), dtype=np.int64), np.zeros(len(problem), dtype=bool)
    alignment = problem.alignment
    for b in np.lexsort((np.arange(len(problem)), order)).tolist():
        least = 0
        below = done[buffer]
        if problem.branches is not None:
            below &= np.array([not _exclusive(branches[b], each) for each in branches])[buffer]
        always = np.isin(buffer, list(conflicts.get(b, ())))
        for r in np.flatnonzero(buffer == b).tolist():
            meets = below & (always | ((first < last[r]) & (first[r] < last)))
            if problem.parts is not None:
                meets &= order[buffer] + low <= order[b] + low[r]
            tops = offsets[buffer[meets]] + high[meets] - low[r]
            least = max(least, int(tops.max(initial=0)))
        offsets[b] = -(-least // int(alignment[b])) * int(alignment[b])
        done[b] = True
    offsets.flags.writeable = False
    return offsets


def _exclusive(one: str, other: str) -> bool:
    """Whether no run takes both branches, as "if1/then" and "if1/else": the first that differs is of one switch."""
    if one == other:
        return False
    names, others = one.split("/"), other.split("/")
    differ = [k for k, (a, b) in enumerate(zip(names, others, strict=False)) if a != b]
    return bool(differ) and differ[0] % 2 == 1
