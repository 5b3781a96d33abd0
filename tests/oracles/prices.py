"""Plans with prices by trying every offset: a slow second version, which uses nothing of what it checks."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import combinations


@dataclass(frozen=True)
class Instance:
    """Buffers as (bytes, first, last), prices of pairs, and a capacity."""

    buffers: tuple[tuple[int, int, int], ...]
    price: dict[tuple[int, int], int]
    capacity: int

    def apart(self, a: int, b: int) -> bool:
        (_, first, last), (_, other_first, other_last) = self.buffers[a], self.buffers[b]
        return first < other_last and other_first < last

    def paid(self, offsets: list[int]) -> int:
        return sum(price for (a, b), price in self.price.items() if self._meet(a, offsets[a], b, offsets[b]))

    def peak(self, offsets: list[int]) -> int:
        return max(offset + size for offset, (size, _, _) in zip(offsets, self.buffers, strict=True))

    def is_valid(self, offsets: list[int]) -> bool:
        pairs = combinations(range(len(self.buffers)), 2)
        return self.peak(offsets) <= self.capacity and not any(
            self.apart(a, b) and self._meet(a, offsets[a], b, offsets[b]) for a, b in pairs
        )

    def better(self, price: int, peak: int) -> list[int] | None:
        """Offsets of less price, or of that price and below that peak."""
        offsets: list[int] = []

        def place(paid: int) -> bool:
            b = len(offsets)
            if b == len(self.buffers):
                return True
            size = self.buffers[b][0]
            for offset in range(self.capacity - size + 1):
                if any(self.apart(a, b) and self._meet(a, offsets[a], b, offset) for a in range(b)):
                    continue
                more = paid + sum(self.price.get((a, b), 0) for a in range(b) if self._meet(a, offsets[a], b, offset))
                tops = [o + s for o, (s, _, _) in zip(offsets, self.buffers, strict=False)]
                if (more, max([*tops, offset + size])) >= (price, peak):
                    continue
                offsets.append(offset)
                if place(more):
                    return True
                offsets.pop()
            return False

        return offsets if place(0) else None

    def _meet(self, a: int, at: int, b: int, offset: int) -> bool:
        return max(at, offset) < min(at + self.buffers[a][0], offset + self.buffers[b][0])


def instance(seed: int) -> Instance:
    """4 to 6 buffers of few bytes, some pairs with prices, and a capacity from the load on."""
    chance = random.Random(seed)
    count, steps = chance.randint(4, 6), chance.randint(3, 7)
    buffers = []
    for _ in range(count):
        first = chance.randrange(steps)
        buffers.append((chance.randint(1, 4), first, first + chance.randint(1, max(1, steps - first))))
    load = max(sum(size for size, first, last in buffers if first <= step < last) for step in range(2 * steps))
    density = chance.choice([0.3, 0.6, 1.0])
    price = {pair: chance.randint(1, 9) for pair in combinations(range(count), 2) if chance.random() < density}
    return Instance(tuple(buffers), price, min(load + chance.choice([0, 0, 1, 2, 4]), max(load, 11)))
