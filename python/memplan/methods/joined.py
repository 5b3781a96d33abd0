"""Methods as one problem: their steps one after another, and what stays alive throughout."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .. import _core
from ..facade import Plan
from ..plans.usage import Ints, rectangles
from .sharing import Asked

_ALWAYS = (-(2**63), 2**63 - 1)


@dataclass(frozen=True)
class Spot:
    """Where a shared tensor lies in a method: its buffer, and its first byte there."""

    buffer: int
    inside: int


@dataclass(frozen=True)
class Joined:
    """One problem, and where in it each method's buffers are."""

    problem: _core.Problem  # first what stays, in the order in which it was asked for; then the buffers of each method
    buffers: Mapping[str, Ints]  # per method and buffer: which buffer of `problem` it is, or lies in
    # per method and buffer: where it begins, from the beginning of that buffer; negative if that lies in it
    inside: Mapping[str, Ints]

    def offsets(self, method: str, offsets: Ints) -> Ints:
        """Where the buffers of a method begin, if those of `problem` do there."""
        found: Ints = offsets[self.buffers[method]] + self.inside[method]
        found.flags.writeable = False
        return found


def spots_of(plan: Plan, shared: Sequence[Asked], method: str) -> dict[str, Spot]:
    """Where the shared tensors of a method lie."""
    found: dict[str, Spot] = {}
    for asked in shared:
        if method not in asked.tensors:
            continue
        name = asked.tensors[method][0]
        if plan.graph is None or plan.buffers is None:
            found[asked.name] = Spot(plan.buffer_of(name), 0)
        else:
            t = plan.graph.index(name)
            buffers = plan.buffers
            found[asked.name] = Spot(int(buffers.buffer_of_tensor[t]), int(buffers.offset_in_buffer[t]))
    return found


def joined(plans: Mapping[str, Plan], shared: Sequence[Asked]) -> Joined:
    """All methods as one problem."""
    return _Joining(plans, shared).done()


class _Joining:
    """Columns of the one problem, as methods are added to it."""

    def __init__(self, plans: Mapping[str, Plan], shared: Sequence[Asked]) -> None:
        self._plans, self._shared = plans, shared
        self._position = {asked.name: s for s, asked in enumerate(shared)}
        count = len(shared)
        self._size = [asked.bytes for asked in shared]
        self._first, self._last = [0] * count, [1] * count
        self._alignment, self._pins = [1] * count, [-1] * count
        self._names = [asked.name for asked in shared]
        self._branches = [""] * count  # methods are alive at different steps, so their branches never meet
        self._pinned_by: list[str] = [""] * count
        self._parts: list[list[int]] = []
        self._together: list[list[int]] = []
        self._conflicts: list[list[int]] = []
        self._reserved: dict[tuple[int, int, int, int], None] = {}
        self._buffers: dict[str, Ints] = {}
        self._inside: dict[str, Ints] = {}
        self._end = 0  # of the steps so far

    def done(self) -> Joined:
        for method, plan in self._plans.items():
            self._add(method, plan.problem, spots_of(plan, self._shared, method))
        for s in range(len(self._shared)):
            self._last[s] = max(self._end, 1)
        columns = (self._size, self._first, self._last, self._alignment, self._names)
        problem = _core.Problem(*columns, self._parts or None, self._conflicts or None)
        if self._reserved or any(pin >= 0 for pin in self._pins):
            problem = problem.with_pins(self._pins, [list(row) for row in self._reserved])
        if any(self._branches):
            problem = problem.with_branches(self._branches)
        if self._together:
            problem = problem.with_together(self._together)
        return Joined(problem, self._buffers, self._inside)

    def _add(self, method: str, problem: _core.Problem, spots: Mapping[str, Spot]) -> None:
        begin = self._end - int(problem.first.min(initial=0))
        self._end = begin + int(problem.last.max(initial=0))
        staying: dict[int, list[tuple[str, int]]] = {}
        for name, spot in spots.items():
            staying.setdefault(spot.buffer, []).append((name, spot.inside))
        rows: dict[int, list[list[int]]] = {}
        for b, *rest in rectangles(problem).tolist():
            rows.setdefault(b, []).append(rest)
        shaped = set() if problem.parts is None else set(problem.parts[:, 0].tolist())
        place, inside = np.zeros(len(problem), dtype=np.int64), np.zeros(len(problem), dtype=np.int64)
        for b in range(len(problem)):
            stays = staying.get(b, [])
            cut = self._cut(rows.get(b, []), stays) if stays else rows.get(b, []) if b in shaped else None
            if stays and not cut:
                first, _ = min(stays, key=lambda stay: stay[1])
                place[b] = self._merge(method, problem, b, first)
            else:
                place[b] = self._keep(method, problem, b, cut, begin)
                first = ""
            names = [(self._position[name], at) for name, at in stays if name != first]
            self._together += [[int(place[b]), s, at] for s, at in names]
        self._buffers[method], self._inside[method] = place, inside
        self._carry(problem, place, begin)

    def _merge(self, method: str, problem: _core.Problem, b: int, name: str) -> int:
        """A buffer in which nothing lies but what stays: where it begins, the first of that does."""
        s = self._position[name]
        self._alignment[s] = math.lcm(self._alignment[s], int(problem.alignment[b]))
        pin = -1 if problem.pins is None else int(problem.pins[b])
        if pin >= 0:
            if self._pins[s] not in (-1, pin):
                raise ValueError(
                    f"shared {name!r} is pinned to {self._pins[s]} in {self._pinned_by[s]!r}, and to {pin} in "
                    f"{method!r}"
                )
            self._pins[s], self._pinned_by[s] = pin, method
        return s

    def _keep(self, method: str, problem: _core.Problem, b: int, parts: list[list[int]] | None, begin: int) -> int:
        """A buffer of the method's own, in use only in these rectangles, if there are any."""
        at = len(self._size)
        self._size.append(int(problem.size[b]))
        self._first.append(begin + int(problem.first[b]))
        self._last.append(begin + int(problem.last[b]))
        self._alignment.append(int(problem.alignment[b]))
        self._pins.append(-1 if problem.pins is None else int(problem.pins[b]))
        self._names.append(f"{method}/{problem.name(b)}")
        self._branches.append("" if problem.branches is None else problem.branches[b])
        for low, high, first, last in parts or ():
            self._parts.append([at, low, high, begin + first, begin + last])
        return at

    def _cut(self, rows: list[list[int]], stays: list[tuple[str, int]]) -> list[list[int]]:
        """What a buffer uses besides what stays in it."""
        for name, at in stays:
            end = at + self._size[self._position[name]]
            rows = [
                [low, high, first, last]
                for begin, until, first, last in rows
                for low, high in ((begin, min(until, at)), (max(begin, end), until))
                if low < high
            ]
        return rows

    def _carry(self, problem: _core.Problem, place: Ints, begin: int) -> None:
        """What else the method's problem asks for."""
        count = len(self._shared)
        for a, b in [] if problem.conflicts is None else place[problem.conflicts].tolist():
            if a != b and min(a, b) >= count:  # what stays is alive with everything
                self._conflicts.append([a, b])
        for a, b, distance in [] if problem.together is None else problem.together.tolist():
            self._together.append([int(place[a]), int(place[b]), distance])
        for low, high, first, last in [] if problem.reserved is None else problem.reserved.tolist():
            if (first, last) == _ALWAYS:
                self._reserved[low, high, self._first_of(begin, problem), self._end] = None
            else:
                self._reserved[low, high, begin + first, begin + last] = None

    def _first_of(self, begin: int, problem: _core.Problem) -> int:
        return begin + int(problem.first.min(initial=0))
