"""Plans in several pools by trying everything: a slow second version, which uses nothing of what it checks."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

Buffer = tuple[int, int, int]  # bytes, first step, step after the last


@dataclass(frozen=True)
class Instance:
    """Buffers, pools as (capacity or None, alignment), the cost per buffer and pool (None: refused), and conflicts."""

    buffers: tuple[Buffer, ...]
    pools: tuple[tuple[int | None, int], ...]
    cost: tuple[tuple[int | None, ...], ...]
    conflicts: frozenset[tuple[int, int]] = frozenset()

    def apart(self, a: int, b: int) -> bool:
        """Whether two buffers may not share bytes."""
        (_, first, last), (_, other_first, other_last) = self.buffers[a], self.buffers[b]
        return (first < other_last and other_first < last) or (min(a, b), max(a, b)) in self.conflicts


def random_instance(random: random.Random, most: int = 8) -> Instance:
    """A small one: two or three pools, some that take not all, some alignments, some conflicts."""
    count, steps = random.randint(5, most), random.randint(3, 8)
    buffers = []
    for _ in range(count):
        first = random.randrange(steps)
        buffers.append((random.randint(1, 6), first, random.randint(first + 1, steps)))
    tight = max(sum(size for size, first, last in buffers if first <= step < last) for step in range(steps))
    capacities = [random.randint(1, max(1, tight * 3 // 4)) for _ in range(random.randint(1, 2))]
    unlimited = random.random() < 0.8
    pools = [(capacity, random.choice((1, 1, 2, 4))) for capacity in capacities]
    pools += [(None, random.choice((1, 1, 4)))] if unlimited else [(random.randint(tight // 2 + 1, tight + 2), 1)]
    accesses = [random.randint(0, 4) for _ in range(count)]
    takes = [[random.random() < 0.85 for _ in pools] for _ in range(count)]
    for row in takes:
        row[-1] = row[-1] or not any(row)
    cost = [
        [size * accesses[i] * p if takes[i][p] else None for p in range(len(pools))]
        for i, (size, _, _) in enumerate(buffers)
    ]
    pairs = [(a, b) for b in range(count) for a in range(b)]
    conflicts = frozenset(random.sample(pairs, random.randint(1, 3))) if random.random() < 0.3 else frozenset()
    return Instance(tuple(buffers), tuple(pools), tuple(map(tuple, cost)), conflicts)


def best(instance: Instance) -> tuple[int, int] | None:
    """The least cost, and the least sum of the peaks of pools without a capacity at that cost; None: nothing fits."""
    found: tuple[int, int] | None = None
    choices = [[p for p, cost in enumerate(row) if cost is not None] for row in instance.cost]
    for chosen in product(*choices):
        cost = sum(instance.cost[i][p] or 0 for i, p in enumerate(chosen))
        if found is not None and cost > found[0]:
            continue
        peaks = 0
        for p, (capacity, alignment) in enumerate(instance.pools):
            members = tuple(i for i, q in enumerate(chosen) if q == p)
            peak = _least_peak(instance, members, alignment)
            if capacity is not None and peak > capacity:
                break
            peaks += peak if capacity is None else 0
        else:
            found = (cost, peaks) if found is None else min(found, (cost, peaks))
    return found


@lru_cache(maxsize=100_000)
def _least_peak(instance: Instance, members: tuple[int, ...], alignment: int) -> int:
    """The least peak of buffers in one pool: all orders, each buffer as low as it can lie above those before it."""
    least = sum(-(-instance.buffers[i][0] // alignment) * alignment for i in members)

    def place(rest: Sequence[int], offsets: dict[int, int], peak: int, floor: tuple[int, int]) -> None:
        nonlocal least
        if peak >= least:
            return
        if not rest:
            least = peak
            return
        for i in rest:
            offset = 0
            for other, other_offset in offsets.items():
                if instance.apart(i, other):
                    end = other_offset + instance.buffers[other][0]
                    offset = max(offset, -(-end // alignment) * alignment)
            if (offset, i) < floor:  # the same plan, in another order
                continue
            end = offset + instance.buffers[i][0]
            place([j for j in rest if j != i], {**offsets, i: offset}, max(peak, end), (offset, i))

    place(members, {}, 0, (0, -1))
    return least
