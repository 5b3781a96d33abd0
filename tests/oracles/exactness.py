"""Small problems beyond rectangles, and their optimum, both written apart from memplan: nothing here imports it.

All that a plan has to hold is told by pairs: which differences of two offsets are forbidden. `Case.forbidden` reads
that off the definitions; `fits` tries every offset, and `fits_by_cp_sat` asks a constraint solver.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Any

FIXED = ("pins", "reserved", "together", "layouts", "branches", "branched")
KINDS = ("conflicts", "shapes", "happens_before", "clocks", "mixtures", *FIXED)
REFUTED = ("lifetimes", *KINDS[:-2])  # kinds that refute takes
OPEN = 2**40  # beyond every difference

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
    pins: dict[int, int] = field(default_factory=dict)
    reserved: list[tuple[int, int, int, int]] = field(default_factory=list)
    together: list[tuple[int, int, int]] = field(default_factory=list)  # rows (a, b, offset of b less that of a)
    branches: list[str] = field(default_factory=list)

    @property
    def is_fixed(self) -> bool:
        return bool(self.pins or self.reserved or self.together or any(self.branches))

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
            "pins": [self.pins.get(i, -1) for i in range(len(self.size))] if self.pins else None,
            "reserved": self.reserved or None,
            "together": self.together or None,
            "branches": self.branches or None,
        }

    def forbidden(self) -> dict[Interval, list[Interval]]:
        """Per pair i < j, ranges of j's offset less i's, both ends included, in which they would overlap."""
        apart = self._apart()
        used = [self._used(i) for i in range(len(self.size))]
        found: dict[Interval, list[Interval]] = {}
        for i, j in combinations(range(len(self.size)), 2):
            ranges = [(1 - self.size[j], self.size[i] - 1)] if (i, j) in apart else []
            if self.exclusive(i, j):
                found[i, j] = ranges
                continue
            ranges += [
                (b1 + 1 - e2, e1 - 1 - b2)
                for b1, e1, f1, l1 in used[i]
                for b2, e2, f2, l2 in used[j]
                if max(f1, f2) < min(l1, l2)
            ]
            if self.clock is None or (i, j) in apart:
                found[i, j] = ranges
        for a, b, distance in self.together:
            i, j, d = (a, b, distance) if a < b else (b, a, -distance)
            found[i, j] = [*found.get((i, j), []), (-OPEN, d - 1), (d + 1, OPEN)]
        return found

    def exclusive(self, i: int, j: int) -> bool:
        """Whether some switch takes one branch for the one, and another for the other."""
        if not self.branches:
            return False
        taken: list[
            dict[str, str]
        ] = []  # per buffer, the branch of each switch, which is named by all that is around it
        for path in (self.branches[i], self.branches[j]):
            words = path.split("/") if path else []
            taken.append({"/".join(words[: k + 1]): words[k + 1] for k in range(0, len(words), 2)})
        return any(switch in taken[1] and taken[1][switch] != branch for switch, branch in taken[0].items())

    def places(self, i: int, end: int) -> list[int]:
        """Offsets that end at or below `end` and that buffer i may have by itself."""
        offsets = range(0, end - self.size[i] + 1, self.alignment[i])
        if i in self.pins:
            offsets = range(self.pins[i], min(end - self.size[i], self.pins[i]) + 1)
        rows = [
            (r - e + 1, s - b - 1)
            for b, e, f, m in self._used(i)
            for r, s, first, last in self.reserved
            if max(f, first) < min(m, last)
        ]
        return [offset for offset in offsets if not any(low <= offset <= high for low, high in rows)]

    def faults(self, offsets: Sequence[int]) -> int:
        """Offsets that are no multiples from 0 on, and pairs that overlap."""
        misplaced = sum(o not in self.places(i, o + self.size[i]) for i, o in enumerate(offsets))
        overlaps = sum(
            any(low <= offsets[j] - offsets[i] <= high for low, high in ranges)
            for (i, j), ranges in self.forbidden().items()
        )
        return misplaced + overlaps

    def _used(self, i: int) -> list[tuple[int, int, int, int]]:
        own = [part[1:] for part in self.parts if part[0] == i]
        return own or [(0, self.size[i], self.first[i], self.last[i])]

    def _apart(self) -> set[Interval]:
        """Pairs that conflict with all their bytes, in whatever branches they are."""
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
    if kind in FIXED:
        return _fixed(chance, made, kind)
    if kind == "shapes" or (mixed and chance.random() < 0.7):
        made.parts = [part for i in range(count) if chance.random() < 0.7 for part in shape(chance, made, i)]
    if kind == "conflicts" or (mixed and chance.random() < 0.7):
        density = chance.choice([0.1, 0.3, 0.6])
        made.conflicts = [pair for pair in combinations(range(count), 2) if chance.random() < density]
    if kind == "happens_before" or (mixed and chance.random() < 0.7):
        density = chance.choice([0.05, 0.15, 0.4])
        events = sorted({*first, *last})
        made.happens_before = sorted({*zip(first, last, strict=True)})
        made.happens_before += [pair for pair in combinations(events, 2) if chance.random() < density]
    return made


def _fixed(chance: random.Random, made: Case, kind: str) -> Case:
    """Pins, reserved bytes and distances, of which some plan exists."""
    mixed = kind in ("layouts", "branched")
    if kind.startswith("branch"):
        paths = _paths(chance, "s", chance.randint(1, 3), chance.choice([1, 1, 2]))
        made.branches = [chance.choice(paths) if chance.random() < 0.8 else "" for _ in made.size]
    if kind == "branches":
        return made
    if mixed and chance.random() < 0.4:
        made.parts = [part for i in range(len(made.size)) if chance.random() < 0.5 for part in shape(chance, made, i)]
    if mixed and chance.random() < 0.4:
        made.conflicts = [pair for pair in combinations(range(len(made.size)), 2) if chance.random() < 0.2]
    high = max(1, sum(made.size) * 2 // 3)
    if kind == "reserved" or (mixed and chance.random() < 0.7):
        for _ in range(chance.randint(1, 4)):
            begin, first = chance.randrange(high), chance.randrange(max(made.last))
            row = (begin, begin + chance.randint(1, max(made.size)), first, first + chance.randint(1, 8))
            row = row if chance.random() < 0.7 else (*row[:2], -(2**63), 2**63 - 1)
            if not any(
                max(row[0], r[0]) < min(row[1], r[1]) and max(row[2], r[2]) < min(row[3], r[3]) for r in made.reserved
            ):
                made.reserved.append(row)
    grouped: dict[int, dict[int, int]] = {}  # per buffer, its group: members and where they lie
    if kind == "together" or (mixed and chance.random() < 0.7):
        for _ in range(chance.randint(1, max(1, len(made.size) // 2))):
            join(chance, made, grouped)
    if kind == "pins" or (mixed and chance.random() < 0.7):
        pairs = made.forbidden()
        for i in range(len(made.size)):
            pin = chance.randrange(high) // made.alignment[i] * made.alignment[i]
            meets = any(
                low <= (pin - at if i > j else at - pin) <= most
                for j, at in made.pins.items()
                for low, most in pairs.get((min(i, j), max(i, j)), ())
            )
            if i not in grouped and not meets and chance.random() < 0.4 and pin in made.places(i, pin + made.size[i]):
                made.pins[i] = pin
    return made


def _paths(chance: random.Random, name: str, switches: int, depth: int, outside: str = "") -> list[str]:
    """Branches of some switches, and of switches inside of these."""
    found = []
    for switch in range(switches):
        for branch in range(chance.randint(2, 3)):
            path = f"{outside}/{name}{switch}/{branch}".removeprefix("/")
            found.append(path)
            if depth > 1 and chance.random() < 0.5:
                found += _paths(chance, "t", 1, depth - 1, path)
    return found


def join(chance: random.Random, made: Case, grouped: dict[int, dict[int, int]]) -> None:
    """Two buffers at a distance that all members of their groups allow."""
    a, b = chance.sample(range(len(made.size)), 2)
    ours, others = grouped.get(a, {a: 0}), grouped.get(b, {b: 0})
    if b in ours:
        return
    unit = math.gcd(*made.alignment, *made.size)
    distance = chance.choice([0, made.size[a], -made.size[b], unit * chance.randint(-20, 20)])
    shift = ours[a] + distance - others[b]
    pairs = made.forbidden()
    for i, x in ours.items():
        for j, y in others.items():
            d = y + shift - x if i < j else x - y - shift
            apart = any(low <= d <= high for low, high in pairs.get((min(i, j), max(i, j)), ()))
            if apart or d % math.gcd(made.alignment[i], made.alignment[j]):
                return
    made.together.append((a, b, distance))
    joined = ours | {j: y + shift for j, y in others.items()}
    grouped.update(dict.fromkeys(joined, joined))


def shape(chance: random.Random, made: Case, i: int) -> list[tuple[int, int, int, int, int]]:
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
        for offset in case.places(j, capacity):
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
    for i, (size, alignment) in enumerate(zip(case.size, case.alignment, strict=True)):
        offset.append(alignment * model.new_int_var(0, (capacity - size) // alignment, ""))
        if i in case.pins or case.reserved:
            model.add_linear_expression_in_domain(offset[i], cp_model.Domain.from_values(case.places(i, capacity)))
    for (i, j), ranges in case.forbidden().items():
        allowed = cp_model.Domain(-OPEN, OPEN)
        for low, high in ranges:
            if low <= high:
                allowed = allowed.intersection_with(cp_model.Domain(low, high).complement())
        if ranges:
            model.add_linear_expression_in_domain(offset[j] - offset[i], allowed)
    for clique in _cliques(case):
        model.add_no_overlap(model.new_fixed_size_interval_var(offset[i], case.size[i], "") for i in clique)
    solver = cp_model.CpSolver()
    solver.parameters.catch_sigint_signal = False  # or interrupts end the process from then on
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
