"""Small problems beyond rectangles, and their optimum, both written apart from memplan: nothing here imports it.

All that a plan has to hold is told by pairs: which differences of two offsets are forbidden. `Case.forbidden` reads
that off the definitions; `fits` tries every offset, and `fits_by_cp_sat` asks a constraint solver.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Any

KINDS = ("conflicts", "shapes", "happens_before", "clocks", "mixtures")
_OPEN = 2**40  # beyond every difference

Interval = tuple[int, int]


@dataclass
class Case:
    """The columns of a problem. With clocks, `first` and `last` are numbers of events, and `clock` has one for each."""

    size: list[int]
    first: list[int]
    last: list[int]
    alignment: list[int]
    parts: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    conflicts: list[tuple[int, int]] = field(default_factory=list)
    happens_before: list[tuple[int, int]] | None = None
    clock: list[list[int]] | None = None

    def arguments(self) -> dict[str, Any]:
        """What memplan.Problem takes."""
        first, last = (
            column if self.clock is None else [self.clock[event] for event in column]
            for column in (self.first, self.last)
        )
        return {
            "size": self.size,
            "first": first,
            "last": last,
            "alignment": self.alignment,
            "parts": self.parts or None,
            "conflicts": self.conflicts or None,
            "happens_before": self.happens_before,
        }

    def forbidden(self) -> dict[Interval, list[Interval]]:
        """Per pair i < j, ranges of j's offset less i's, both ends included, in which they would overlap."""
        apart = self._apart()
        used = [self._used(i) for i in range(len(self.size))]
        found: dict[Interval, list[Interval]] = {}
        for i, j in combinations(range(len(self.size)), 2):
            ranges = [(1 - self.size[j], self.size[i] - 1)] if (i, j) in apart else []
            ranges += [
                (b1 + 1 - e2, e1 - 1 - b2)
                for b1, e1, f1, l1 in used[i]
                for b2, e2, f2, l2 in used[j]
                if max(f1, f2) < min(l1, l2)
            ]
            if self.clock is None or (i, j) in apart:
                found[i, j] = ranges
        return found

    def faults(self, offsets: Sequence[int]) -> int:
        """Offsets that are no multiples from 0 on, and pairs that overlap."""
        misplaced = sum(o < 0 or o % a != 0 for o, a in zip(offsets, self.alignment, strict=True))
        overlaps = sum(
            any(low <= offsets[j] - offsets[i] <= high for low, high in ranges)
            for (i, j), ranges in self.forbidden().items()
        )
        return misplaced + overlaps

    def _used(self, i: int) -> list[tuple[int, int, int, int]]:
        own = [part[1:] for part in self.parts if part[0] == i]
        return own or [(0, self.size[i], self.first[i], self.last[i])]

    def _apart(self) -> set[Interval]:
        """Pairs that conflict with all their bytes."""
        apart = {(min(pair), max(pair)) for pair in self.conflicts}
        if self.happens_before is None and self.clock is None:
            return apart
        for i, j in combinations(range(len(self.size)), 2):
            together = self.clock is None and max(self.first[i], self.first[j]) < min(self.last[i], self.last[j])
            follows = self._reaches(self.last[i], self.first[j]) or self._reaches(self.last[j], self.first[i])
            if not together and not follows:
                apart.add((i, j))
        return apart

    def _reaches(self, a: int, b: int) -> bool:
        if self.clock is not None:
            return all(x <= y for x, y in zip(self.clock[a], self.clock[b], strict=True))
        waiting, seen = [a], {a}
        while waiting:
            event = waiting.pop()
            new = {later for earlier, later in self.happens_before or () if earlier == event} - seen
            seen |= new
            waiting += new
        return b in seen


def case(kind: str, seed: int, least: int = 5, most: int = 12) -> Case:
    """A random problem of so many buffers."""
    chance = random.Random(f"{kind} {seed}")
    count = chance.randint(least, most)
    largest = chance.choice([6, 12, 24, 60])
    unit = chance.choice([1, 1, 1, 4, 64])
    size = [unit * chance.randint(1, largest) for _ in range(count)]
    aligned = chance.choice([[1], [unit * chance.choice([2, 4, 8])], [1, 2 * unit, 4 * unit], [1, 2, 3, 4, 5, 8]])
    alignment = [chance.choice(aligned) for _ in range(count)]
    if kind == "clocks":
        return _clocked(chance, size, alignment)
    steps = chance.randint(3, 12)
    first = [chance.randrange(steps) for _ in range(count)]
    last = [f + chance.randint(1, max(1, chance.randint(1, steps) - f)) for f in first]
    made = Case(size, first, last, alignment)
    mixed = kind == "mixtures"
    if kind == "shapes" or (mixed and chance.random() < 0.7):
        made.parts = [part for i in range(count) if chance.random() < 0.7 for part in _shape(chance, made, i)]
    if kind == "conflicts" or (mixed and chance.random() < 0.7):
        density = chance.choice([0.1, 0.3, 0.6])
        made.conflicts = [pair for pair in combinations(range(count), 2) if chance.random() < density]
    if kind == "happens_before" or (mixed and chance.random() < 0.7):
        density = chance.choice([0.05, 0.15, 0.4])
        events = sorted({*first, *last})
        made.happens_before = sorted({*zip(first, last, strict=True)})
        made.happens_before += [pair for pair in combinations(events, 2) if chance.random() < density]
    return made


def _shape(chance: random.Random, made: Case, i: int) -> list[tuple[int, int, int, int, int]]:
    """Strips of bytes with lives of their own, or all bytes with steps in between in which they are not needed."""
    size, first, last = made.size[i], made.first[i], made.last[i]
    cuts = sorted({0, size, *(chance.randrange(size) for _ in range(chance.choice([0, 0, 1, 2])))})
    parts = []
    for begin, end in pairwise(cuts):
        steps = sorted({chance.randint(first, last) for _ in range(chance.choice([2, 4]))})
        parts += [(i, begin, end, f, m) for f, m in zip(steps[::2], steps[1::2], strict=False)]
    return parts


def _clocked(chance: random.Random, size: list[int], alignment: list[int]) -> Case:
    """Lives on a few cores that send messages; an event's clock counts what it knows of each core."""
    cores = chance.randint(2, 4)
    known = [[0] * cores for _ in range(cores)]
    clock: list[list[int]] = []
    on: list[int] = []
    for _ in range(chance.randint(2 * cores, 24)):
        core = chance.randrange(cores)
        if clock and chance.random() < 0.4:
            heard = chance.choice(clock)
            known[core] = [max(pair) for pair in zip(known[core], heard, strict=True)]
        known[core][core] += 1
        clock.append(list(known[core]))
        on.append(core)
    lives = [
        (a, b)
        for a in range(len(clock))
        for b in range(len(clock))
        if a != b and all(x <= y for x, y in zip(clock[a], clock[b], strict=True))
    ]
    if not lives:
        lives, clock = [(0, 1)], [[0], [1]]
    chosen = [chance.choice(lives) for _ in size]
    return Case(size, [a for a, _ in chosen], [b for _, b in chosen], alignment, clock=clock)


def fits(case: Case, capacity: int) -> bool:
    """Whether a plan of at most so many bytes exists, by trying every offset for every buffer."""
    forbidden = case.forbidden()
    offsets: list[int] = []

    def place(j: int) -> bool:
        if j == len(case.size):
            return True
        for offset in range(0, capacity - case.size[j] + 1, case.alignment[j]):
            if not any(low <= offset - offsets[i] <= high for i in range(j) for low, high in forbidden.get((i, j), ())):
                offsets.append(offset)
                if place(j + 1):
                    return True
                offsets.pop()
        return False

    return place(0)


def fits_by_cp_sat(case: Case, capacity: int, seconds: float = 60) -> bool | None:
    """The same of OR-tools: a variable per buffer, and the differences that pairs may have as domains.

    None: not known within the seconds.
    """
    from ortools.sat.python import cp_model

    if any(size > capacity for size in case.size):
        return False
    model = cp_model.CpModel()
    offset = []
    for size, alignment in zip(case.size, case.alignment, strict=True):
        offset.append(alignment * model.new_int_var(0, (capacity - size) // alignment, ""))
    for (i, j), ranges in case.forbidden().items():
        allowed = cp_model.Domain(-_OPEN, _OPEN)
        for low, high in ranges:
            if low <= high:
                allowed = allowed.intersection_with(cp_model.Domain(low, high).complement())
        if ranges:
            model.add_linear_expression_in_domain(offset[j] - offset[i], allowed)
    for clique in _cliques(case):
        model.add_no_overlap(model.new_fixed_size_interval_var(offset[i], case.size[i], "") for i in clique)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = seconds
    status = solver.solve(model)
    return None if status == cp_model.UNKNOWN else bool(status != cp_model.INFEASIBLE)


def _cliques(case: Case) -> set[tuple[int, ...]]:
    """For each buffer some of which every two are apart with all their bytes."""
    count = len(case.size)
    whole = {(i, j) for (i, j), ranges in case.forbidden().items() if (1 - case.size[j], case.size[i] - 1) in ranges}
    cliques = set()
    for start in range(count):
        members = [start]
        for i in range(count):
            if all((min(i, m), max(i, m)) in whole for m in members):
                members.append(i)
        cliques.add(tuple(sorted(members)))
    return {clique for clique in cliques if len(clique) > 1}
