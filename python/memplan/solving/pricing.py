"""Pairs that may share bytes at a price: the least price within a capacity, and then the lowest peak.

Say which pairs may share, and a plan is one of a problem in which the others conflict. Where none exists, one of those
others has to share too: they are a *core*. The cheapest set that has a pair of every core is a bound of the price. If a
plan exists in which only that set shares, its price is the least. If not, that is another core (implicit hitting sets;
Moreno-Centeno and Karp 2013).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import InfeasibleError
from ..facts.plan import Plan
from ..facts.pricing import Pricing
from ..options.checks import integer
from ..planning.registry import solve_problem
from ..text import offer

_PLANNER = "auto:effort=2000000"
_MOST_TRIES = 1000  # searches for a plan
_ROOM = 2**62  # bytes, where there is no capacity
_MOST_NODES = 20_000  # of a search for the cheapest set

Pair = tuple[int, int]
_Offsets = npt.NDArray[np.int64]


def prices_of(rows: Any) -> list[tuple[str, str, int]]:
    """Rows (name, name, price), checked; the names are looked up when there is a problem."""
    if isinstance(rows, str) or not isinstance(rows, Sequence):
        raise TypeError(f"price must be rows such as ('a', 'b', 3), got {rows!r}")
    found = []
    for k, row in enumerate(rows):
        if isinstance(row, str) or not isinstance(row, Sequence) or len(row) != 3:
            raise TypeError(f"price[{k}] must be (a, b, price), got {row!r}")
        for name in row[:2]:
            if not isinstance(name, str):
                raise TypeError(f"price[{k}] must name two tensors or buffers, got {name!r}")
        found.append((row[0], row[1], integer(row[2], f"price[{k}] price", 0, 2**53)))
    return found


def priced(plan: Plan, rows: Sequence[tuple[str, str, int]], capacity: int | None, time_limit: float | None) -> Plan:
    """A plan of the least price that is found, and of those the lowest; never above the capacity.

    For a graph, of the sharing by choice that the plan has.

    Raises
    ------
    ValueError
        A row names what has no place in the arena, or two tensors of one buffer.
    """
    begin = time.perf_counter()
    end = None if time_limit is None else begin + time_limit - plan.seconds
    search = _Search(plan, _pairs(plan, rows), capacity, end)
    search.run()
    seconds = plan.seconds + time.perf_counter() - begin
    peak = _core.peak_of(plan.problem, search.offsets)
    sharing = tuple((plan.problem.name(a), plan.problem.name(b)) for a, b in search.shared(search.offsets))
    facts = Pricing(search.price, search.price_bound, search.peak_bound, sharing)
    found = replace(
        plan,
        offsets=search.offsets,
        peak=peak,
        optimal=peak == plan.lower_bound,
        seconds=seconds,
        found_after=seconds,
        pricing=facts,
        interrupted=plan.interrupted or search.interrupted,
    )
    found.verify()
    return found


def _pairs(plan: Plan, rows: Sequence[tuple[str, str, int]]) -> dict[Pair, int]:
    """The price of each pair of buffers that has one."""
    problem = plan.problem
    position = {problem.name(b): b for b in range(len(problem))}
    if plan.graph is not None and plan.buffers is not None:
        inside = plan.buffers.buffer_of_tensor.tolist()
        position |= {t.name: b for t, b in zip(plan.graph.tensors, inside, strict=True) if b >= 0}
    what = "buffers" if plan.graph is None else "tensors"
    pairs: dict[Pair, int] = {}
    for k, (a, b, price) in enumerate(rows):
        for name in (a, b):
            if name not in position:
                near = offer(name, list(position), what)
                raise ValueError(f"price[{k}] must name {what} in the arena, got {name!r}; {near}")
        x, y = sorted((position[a], position[b]))
        if x == y:
            raise ValueError(f"price[{k}]: {a!r} and {b!r} both lie in {problem.name(x)!r}")
        pairs[x, y] = pairs.get((x, y), 0) + price
    return {pair: price for pair, price in pairs.items() if price > 0}


class _Found(NamedTuple):
    """What came of a search in which only some pairs may share: offsets or none, and bytes needed at least."""

    offsets: _Offsets | None
    bound: int


class _Search:
    def __init__(self, plan: Plan, price: Mapping[Pair, int], capacity: int | None, end: float | None) -> None:
        self._problem, self._of_pair, self._capacity, self._end = plan.problem, price, capacity, end
        known = plan.problem.conflicts
        self._conflicts = [] if known is None else known.tolist()
        self._tries, self.interrupted = _MOST_TRIES, False
        self.offsets: _Offsets = plan.offsets
        self.price, self.price_bound, self.peak_bound = self._paid(plan.offsets), 0, plan.placement_bound
        self._peak = plan.peak

    def run(self) -> None:
        cores: list[frozenset[Pair]] = []
        self._lower_price(cores, _ROOM if self._capacity is None else self._capacity)
        if self.price_bound == self.price:
            self._lower_peak(cores)

    def shared(self, offsets: _Offsets) -> list[Pair]:
        """Pairs with a price that share bytes."""
        end = offsets + self._problem.size
        return [(a, b) for a, b in self._of_pair if max(offsets[a], offsets[b]) < min(end[a], end[b])]

    def _lower_price(self, cores: list[frozenset[Pair]], capacity: int) -> None:
        while self.price_bound < self.price:
            sharing, bound = cheapest(cores, self._of_pair)
            self.price_bound = min(max(self.price_bound, bound), self.price)
            if self.price_bound == self.price:
                return
            found = self._plan(sharing, capacity)
            self._take(found.offsets)
            if found.bound > capacity:
                cores.append(self._core(sharing, capacity))
            elif found.offsets is None or bound < self._paid(found.offsets):
                return

    def _lower_peak(self, cores: list[frozenset[Pair]]) -> None:
        """At this price: each set of pairs that it can pay for has its lowest peak."""
        while self._peak > self.peak_bound:
            sharing, bound = cheapest(cores, self._of_pair)
            if bound > self.price:
                self.peak_bound = self._peak
                return
            if sum(self._of_pair[pair] for pair in sharing) > self.price:
                return
            found = self._plan(sharing, None)
            self._take(found.offsets)
            if found.bound < self._peak:
                return
            cores.append(self._core(sharing, self._peak - 1))

    def _paid(self, offsets: _Offsets) -> int:
        return sum(self._of_pair[pair] for pair in self.shared(offsets))

    def _take(self, offsets: _Offsets | None) -> None:
        """Keeps the cheaper plan; of two at one price, the lower."""
        if offsets is None:
            return
        price, peak = self._paid(offsets), _core.peak_of(self._problem, offsets)
        if self._capacity is not None and peak > self._capacity:
            return  # what more bytes would save
        if (price, peak) < (self.price, self._peak):
            self.offsets, self.price, self._peak = offsets, price, peak

    def _core(self, sharing: frozenset[Pair], capacity: int) -> frozenset[Pair]:
        """Of the pairs that do not share, few of which one has to; the cheapest are left out first."""
        core = [pair for pair in self._of_pair if pair not in sharing]
        for pair in sorted(core, key=lambda pair: self._of_pair[pair]):
            less = [other for other in core if other != pair]
            found = self._plan(frozenset(self._of_pair) - frozenset(less), capacity)
            self._take(found.offsets)
            if found.bound > capacity:
                core = less
        return frozenset(core)

    def _plan(self, sharing: frozenset[Pair], capacity: int | None) -> _Found:
        """A plan within the capacity in which of all pairs with a price only these may share."""
        self._tries -= 1
        left = None if self._end is None else self._end - time.perf_counter()
        if self._tries < 0 or self.interrupted or (left is not None and left <= 0):
            return _Found(None, 0)
        apart = [list(pair) for pair in self._of_pair if pair not in sharing]
        try:
            problem = self._problem.with_conflicts([*self._conflicts, *apart] or None)
            found = solve_problem(problem, _PLANNER, left, capacity=capacity)
        except _core.ProblemError:  # pins or distances make a pair share
            return _Found(None, 2**63 - 1)
        except InfeasibleError as error:
            solution: Any = error.plan
            self.interrupted |= solution is not None and solution.interrupted
            return _Found(None, error.lower_bound)
        self.interrupted |= found.interrupted
        return _Found(found.offsets, found.lower_bound)


def cheapest(cores: Sequence[frozenset[Pair]], price: Mapping[Pair, int]) -> tuple[frozenset[Pair], int]:
    """The cheapest set that has a pair of each core, and what each such set costs at least.

    Exact but for hard cases, in which the set may cost more. Depth first, on the core of the fewest pairs that is left.
    """
    best: frozenset[Pair] = frozenset(pair for core in cores for pair in core)
    cost, nodes = sum(price[pair] for pair in best), 0
    least = _apart(cores, price)

    def search(left: list[frozenset[Pair]], taken: frozenset[Pair], paid: int) -> None:
        nonlocal best, cost, nodes
        nodes += 1
        if paid + _apart(left, price) >= cost or nodes > _MOST_NODES:
            return
        if not left:
            best, cost = taken, paid
            return
        refused: frozenset[Pair] = frozenset()
        fewest = min(left, key=lambda core: len(core))
        for pair in sorted(fewest, key=lambda pair: (price[pair], pair)):
            rest = [core - refused for core in left if pair not in core]
            if all(rest):
                search(rest, taken | {pair}, paid + price[pair])
            refused |= {pair}

    if any(not core for core in cores):
        return best, sum(price.values()) + 1  # whatever shares, there is no plan
    search(list(cores), frozenset(), 0)
    return best, cost if nodes <= _MOST_NODES else least


def _apart(cores: Sequence[frozenset[Pair]], price: Mapping[Pair, int]) -> int:
    """The cheapest pairs of cores that have none in common."""
    total, seen = 0, set[Pair]()
    for core in sorted(cores, key=len):
        if seen.isdisjoint(core):
            seen |= core
            total += min((price[pair] for pair in core), default=0)
    return total
