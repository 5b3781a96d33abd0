"""Some of a problem's buffers, with all that holds among them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import _core


def selected(problem: _core.Problem, buffers: Sequence[int], *, named: bool = False) -> _core.Problem:
    """Some buffers of a problem, with all that holds of and among them, and with what is reserved.

    `named` keeps names such as "#3" where buffers have none.
    """
    rows = np.asarray(buffers, dtype=np.int64)
    columns = (problem.size, problem.first, problem.last, problem.alignment)
    position = np.full(len(problem), -1, dtype=np.int64)
    position[rows] = np.arange(len(rows))
    parts, conflicts = problem.parts, problem.conflicts
    if parts is not None:
        parts = np.column_stack([position[parts[:, 0]], parts[:, 1:]])
        parts = parts[parts[:, 0] >= 0]
    if conflicts is not None:
        conflicts = position[conflicts]
        conflicts = conflicts[(conflicts >= 0).all(axis=1)]
    names = [problem.name(b) for b in buffers] if problem.names or named else None
    size, first, last, alignment = (column[rows] for column in columns)
    found = _core.Problem(size, first, last, alignment, names, parts, conflicts)
    pins = None if problem.pins is None else problem.pins[rows]
    branches = None if problem.branches is None else [problem.branches[b] for b in buffers]
    return found.with_branches(branches).with_pins(pins, problem.reserved).with_together(_together(problem, position))


def _together(problem: _core.Problem, position: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[list[int]]:
    """Distances of those that are left from the first of their group, by others that may be gone."""
    edges: dict[int, list[tuple[int, int]]] = {}
    for a, b, distance in [] if problem.together is None else problem.together.tolist():
        edges.setdefault(a, []).append((b, distance))
        edges.setdefault(b, []).append((a, -distance))
    rows, seen = list[list[int]](), set[int]()
    for start in edges:
        if position[start] < 0 or start in seen:
            continue
        lies, waiting = {start: 0}, [start]
        while waiting:
            a = waiting.pop()
            for b, distance in edges[a]:
                if b not in lies:
                    lies[b] = lies[a] + distance
                    waiting.append(b)
        seen |= lies.keys()
        rows += [
            [int(position[start]), int(position[b]), at] for b, at in lies.items() if position[b] >= 0 and b != start
        ]
    return rows
