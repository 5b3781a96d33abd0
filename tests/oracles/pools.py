"""Small problems in several pools, and their best plans, both written apart from memplan: nothing here imports it.

What holds in one pool is that of `exactness.Case`. Best is the least cost, then the least sum of the peaks of the pools
without a capacity. `best_by_trying` tries all pools and offsets, and `less_by_cp_sat` asks a constraint solver.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from typing import Any

from oracles import exactness
from oracles.exactness import Case

POOL_KINDS = ("pools", "shapes", "pins", "reserved", "together", "layouts")
_ALWAYS = (-(2**63), 2**63 - 1)

Found = tuple[int, int]  # the cost, and the peaks of pools without a capacity


@dataclass
class PoolCase:
    capacity: int | None
    alignment: int
    reserved: list[tuple[int, int, int, int]] = field(default_factory=list)


@dataclass
class PooledCase:
    """Buffers, and pools that they may lie in: `accesses` per buffer, and what `takes` it; pool p costs p a byte."""

    case: Case
    pools: list[PoolCase]
    accesses: list[int]
    takes: list[list[bool]]
    pins: dict[int, tuple[int, int]] = field(default_factory=dict)  # per buffer its pool and its offset there

    def cost(self, i: int, p: int) -> int | None:
        """Of a buffer in a pool; None where it may not lie."""
        may = self.takes[i][p] and self.pins.get(i, (p, 0))[0] == p
        return self.case.size[i] * self.accesses[i] * p if may else None

    def inside(self, p: int, members: Sequence[int]) -> Case:
        """These buffers, alone in a pool."""
        case, pool, place = self.case, self.pools[p], {i: k for k, i in enumerate(members)}
        return Case(
            [case.size[i] for i in members],
            [case.first[i] for i in members],
            [case.last[i] for i in members],
            [math.lcm(case.alignment[i], pool.alignment) for i in members],
            [(place[i], *part) for i, *part in case.parts if i in place],  # type: ignore[misc]
            [(place[a], place[b]) for a, b in case.conflicts if a in place and b in place],
            pins={place[i]: offset for i, (_, offset) in self.pins.items() if i in place},
            reserved=pool.reserved,
            together=[(place[a], place[b], d) for a, b, d in case.together if a in place and b in place],
        )

    def faults(self, pool: Sequence[int], offset: Sequence[int]) -> int:
        """What is wrong with buffers in these pools at these offsets there."""
        found = sum(self.cost(i, p) is None for i, p in enumerate(pool))
        found += sum(pool[a] != pool[b] for a, b, _ in self.case.together)
        for p, spec in enumerate(self.pools):
            members = [i for i, q in enumerate(pool) if q == p]
            case = self.inside(p, members)
            found += case.faults([offset[i] for i in members])
            if spec.capacity is not None:
                found += sum(offset[i] + self.case.size[i] > spec.capacity for i in members)
        return found

    def value(self, pool: Sequence[int], offset: Sequence[int]) -> Found:
        """The cost, and the peaks of the pools without a capacity."""
        ends = [0] * len(self.pools)
        for i, p in enumerate(pool):
            ends[p] = max(ends[p], offset[i] + self.case.size[i])
        cost = sum(self.cost(i, p) or 0 for i, p in enumerate(pool))
        return cost, sum(end for end, spec in zip(ends, self.pools, strict=True) if spec.capacity is None)

    @property
    def high(self) -> int:
        """No best plan reaches above, in any pool."""
        unit = math.lcm(*self.case.alignment, *(pool.alignment for pool in self.pools))
        rows = [row for pool in self.pools for row in pool.reserved]
        fixed = max([self.case.size[i] + at for i, (_, at) in self.pins.items()] + [end for _, end, *_ in rows] + [0])
        return fixed + sum(size + 2 * unit for size in self.case.size) + sum(abs(d) for *_, d in self.case.together)


def pooled(kind: str, seed: int, least: int = 5, most: int = 12) -> PooledCase:
    """A random problem of so many buffers in two or three pools, some of which take not all."""
    chance = random.Random(f"pooled {kind} {seed}")
    base = exactness.case(f"pooled {kind}", seed, least, most)
    count = len(base.size)
    if kind in ("pools", "layouts") and chance.random() < 0.3:
        base.conflicts = chance.sample(list(combinations(range(count), 2)), chance.randint(1, 3))
    if kind == "shapes" or (kind == "layouts" and chance.random() < 0.4):
        base.parts = [part for i in range(count) if chance.random() < 0.5 for part in exactness.shape(chance, base, i)]
    load = max(
        sum(size for size, first, last in zip(base.size, base.first, base.last, strict=True) if first <= step < last)
        for step in base.first
    )
    unit = math.gcd(*base.size)
    pools = [
        PoolCase(chance.randint(1, max(1, load * 3 // 4)), chance.choice((1, 1, unit, 2 * unit, 4 * unit)))
        for _ in range(chance.choice((1, 1, 2)))
    ]
    unlimited = chance.random() < 0.8
    capacity = None if unlimited else chance.randint(load // 2 + 1, 2 * load)
    pools.append(PoolCase(capacity, chance.choice((1, 1, 4 * unit)) if unlimited else 1))
    takes = [[chance.random() < 0.85 for _ in pools] for _ in base.size]
    for row in takes:
        row[-1] = row[-1] or not any(row)
    made = PooledCase(base, pools, [chance.randint(0, 4) for _ in base.size], takes)
    if kind in ("reserved", "layouts"):
        _reserve(chance, made)
    if kind in ("together", "layouts"):
        grouped: dict[int, dict[int, int]] = {}
        for _ in range(chance.randint(1, count // 2)):
            exactness.join(chance, base, grouped)
    if kind in ("pins", "layouts"):
        _pin(chance, made)
    return made


def _reserve(chance: random.Random, made: PooledCase) -> None:
    for pool in made.pools:
        high = pool.capacity or sum(made.case.size) * 2 // 3 + 1
        for _ in range(chance.randint(0, 2)):
            begin, first = chance.randrange(high), chance.randrange(max(made.case.last))
            row = (begin, begin + chance.randint(1, max(made.case.size)), first, first + chance.randint(1, 8))
            row = row if chance.random() < 0.7 else (*row[:2], *_ALWAYS)
            if not any(
                max(row[0], r[0]) < min(row[1], r[1]) and max(row[2], r[2]) < min(row[3], r[3]) for r in pool.reserved
            ):
                pool.reserved.append(row)


def _pin(chance: random.Random, made: PooledCase) -> None:
    """Pins, of which each pool has a plan."""
    whole = _groups(made.case)
    for i, size in enumerate(made.case.size):
        if chance.random() > 0.3 or any(j in made.pins for j in whole[i]):
            continue
        p = chance.choice([p for p, takes in enumerate(made.takes[i]) if takes])
        spec = made.pools[p]
        unit = math.lcm(made.case.alignment[i], spec.alignment)
        offset = chance.randrange(max(1, (spec.capacity or 2 * sum(made.case.size) // 3) - size + 1)) // unit * unit
        pins = made.pins | {j: (p, offset + d) for j, d in whole[i].items()}
        members = [j for j, (q, _) in pins.items() if q == p]
        taken = all(made.takes[j][p] for j in members)
        if taken and not made.inside(p, members).faults([pins[j][1] for j in members]):
            made.pins[i] = (p, offset)


def _groups(case: Case) -> list[dict[int, int]]:
    """Per buffer, all that lie at fixed distances from it."""
    known: list[dict[int, int]] = [{i: 0} for i in range(len(case.size))]
    for _ in case.together:
        for a, b, d in case.together:
            known[a] |= {j: d + e for j, e in known[b].items()}
            known[b] |= {j: e - d for j, e in known[a].items()}
    return known


def best_by_trying(made: PooledCase) -> Found | None:
    """The least that any plan has; None: there is no plan. For few buffers and bytes."""
    found: Found | None = None
    choices = [[p for p in range(len(made.pools)) if made.cost(i, p) is not None] for i in range(len(made.case.size))]
    known: dict[tuple[int, tuple[int, ...]], int | None] = {}
    for chosen in product(*choices):
        cost = sum(made.cost(i, p) or 0 for i, p in enumerate(chosen))
        if (found is not None and cost > found[0]) or any(chosen[a] != chosen[b] for a, b, _ in made.case.together):
            continue
        peaks = 0
        for p, spec in enumerate(made.pools):
            key = p, tuple(i for i, q in enumerate(chosen) if q == p)
            if key not in known:
                known[key] = _least_peak(made, *key)
            peak = known[key]
            if peak is None:
                break
            peaks += peak if spec.capacity is None else 0
        else:
            found = (cost, peaks) if found is None else min(found, (cost, peaks))
    return found


def _least_peak(made: PooledCase, p: int, members: tuple[int, ...]) -> int | None:
    """The least peak of buffers in one pool; None where they do not fit."""
    case, capacity = made.inside(p, members), made.pools[p].capacity
    if not members:
        return 0
    if capacity is not None:  # how high is of no interest
        return capacity if exactness.fits(case, capacity) else None
    return next((peak for peak in range(max(case.size), made.high + 1) if exactness.fits(case, peak)), None)


def less_by_cp_sat(made: PooledCase, found: Found | None, seconds: float = 60) -> bool | None:
    """Whether there is a better plan than what was found, or any if nothing was, by OR-tools; None: not known."""
    from ortools.sat.python import cp_model

    count, case = range(len(made.case.size)), made.case
    model = cp_model.CpModel()
    inside = [made.inside(p, count) for p in range(len(made.pools))]
    lies = [[model.new_bool_var("") for _ in made.pools] for _ in count]
    offset = [model.new_int_var(0, made.high, "") for _ in count]
    for i in count:
        model.add_exactly_one(lies[i])
        for p, spec in enumerate(made.pools):
            places = inside[p].places(i, made.high if spec.capacity is None else spec.capacity)
            if made.cost(i, p) is None or not places:
                model.add(lies[i][p] == 0)
            else:
                domain = cp_model.Domain.from_values(places)
                model.add_linear_expression_in_domain(offset[i], domain).only_enforce_if(lies[i][p])
    for a, b, distance in case.together:
        model.add(offset[b] == offset[a] + distance)
        for p in range(len(made.pools)):
            model.add(lies[a][p] == lies[b][p])
    for (i, j), ranges in replace(case, together=[]).forbidden().items():
        allowed = cp_model.Domain(-exactness.OPEN, exactness.OPEN)
        for low, high in ranges:
            if low <= high:
                allowed = allowed.intersection_with(cp_model.Domain(low, high).complement())
        for p in range(len(made.pools)) if ranges else ():
            rule = model.add_linear_expression_in_domain(offset[j] - offset[i], allowed)
            rule.only_enforce_if(lies[i][p], lies[j][p])
    _tighten(model, made, lies, offset)
    if found is not None:
        cheaper = model.new_bool_var("")
        cost = sum((made.cost(i, p) or 0) * lies[i][p] for i in count for p in range(len(made.pools)))
        model.add(cost <= found[0] - 1).only_enforce_if(cheaper)
        model.add(cost <= found[0]).only_enforce_if(~cheaper)
        peaks = [model.new_int_var(0, made.high, "") for spec in made.pools]
        for p in range(len(made.pools)):
            for i in count:
                model.add(peaks[p] >= offset[i] + case.size[i]).only_enforce_if(lies[i][p])
        unlimited = [peaks[p] for p, spec in enumerate(made.pools) if spec.capacity is None]
        model.add(sum(unlimited) <= found[1] - 1).only_enforce_if(~cheaper)
    solver = cp_model.CpSolver()
    solver.parameters.catch_sigint_signal = False  # or interrupts end the process from then on
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = seconds
    status = solver.solve(model)
    return None if status == cp_model.UNKNOWN else bool(status != cp_model.INFEASIBLE)


def _tighten(model: Any, made: PooledCase, lies: list[list[Any]], offset: list[Any]) -> None:
    """Says what follows anyway: what is in use at one step is apart, and fits."""
    case = made.case
    shaped = {part[0] for part in case.parts}
    for p, spec in enumerate(made.pools):
        interval = [
            model.new_optional_fixed_size_interval_var(at, size, in_pool[p], "")
            for at, size, in_pool in zip(offset, case.size, lies, strict=True)
        ]
        for step in {*case.first, *(part[3] for part in case.parts)}:
            alive = [
                i for i, (first, last) in enumerate(zip(case.first, case.last, strict=True)) if first <= step < last
            ]
            model.add_no_overlap(interval[i] for i in alive if i not in shaped)
            used = [(i, case.size[i]) for i in alive if i not in shaped]
            used += [(i, end - begin) for i, begin, end, first, last in case.parts if first <= step < last]
            if spec.capacity is not None:
                model.add(sum(size * lies[i][p] for i, size in used) <= spec.capacity)


def less_by_assignments(made: PooledCase, found: Found | None, seconds: float = 60) -> bool | None:
    """The same by all assignments of buffers to pools: whether CP-SAT can place what lies in each."""
    known: dict[tuple[int, tuple[int, ...], int], bool | None] = {}

    def fits(p: int, members: tuple[int, ...], capacity: int) -> bool | None:
        key = p, members, capacity
        if key not in known:
            inside = made.inside(p, members)
            known[key] = exactness.fits_by_cp_sat(inside, capacity, seconds) if members else capacity >= 0
        return known[key]

    chosen: list[int] = []

    def choose(cost: int) -> bool | None:
        """Whether what is chosen can be completed to a better plan."""
        if found is not None and cost > found[0]:
            return False
        if any(max(a, b) < len(chosen) and chosen[a] != chosen[b] for a, b, _ in made.case.together):
            return False
        answers: list[bool | None] = []
        for p, spec in enumerate(made.pools):
            members = tuple(i for i, q in enumerate(chosen) if q == p)
            if spec.capacity is not None:
                answers.append(fits(p, members, spec.capacity))
            elif found is not None and cost == found[0]:
                answers.append(fits(p, members, found[1] - 1))
            elif made.case.together:  # which not every alignment allows
                answers.append(fits(p, members, made.high))
            if answers and answers[-1] is False:
                return False
        i = len(chosen)
        if i == len(made.case.size):
            at_most = found is None or cost < found[0] or any(spec.capacity is None for spec in made.pools)
            return (None if None in answers else True) if at_most else False
        unknown = False
        for p in range(len(made.pools)):
            own = made.cost(i, p)
            if own is None:
                continue
            chosen.append(p)
            answer = choose(cost + own)
            chosen.pop()
            if answer:
                return True
            unknown |= answer is None
        return None if unknown else False

    return choose(0)


def trials(made: PooledCase) -> int:
    """How many plans `best_by_trying` may look at."""
    unit = math.gcd(*made.case.alignment, *(pool.alignment for pool in made.pools))
    high = max(sum(made.case.size), *(pool.capacity or 0 for pool in made.pools)) // unit
    return int(math.prod(sum(row) for row in made.takes) * min(high, 10**3) ** len(made.case.size))
