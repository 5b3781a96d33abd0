"""Small problems with prices, against trying every offset: prices, peaks, proofs and seconds.

    python tests/benchmarks/prices_small.py --count 10000

Each has 4 to 6 buffers, prices for some pairs, a capacity from the load on, and a seed of its own.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import memplan
from oracles.prices import instance

_LIMIT = 0.05  # seconds within which a proof is expected


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first problem")
    options = parser.parse_args()
    seen, spent = Counter[str](), []
    for seed in range(options.first, options.first + options.count):
        made = instance(seed)
        rows = [(f"#{a}", f"#{b}", price) for (a, b), price in made.price.items()] or [("#0", "#1", 0)]
        problem = memplan.Problem(*map(list, zip(*made.buffers, strict=True)))
        begin = time.process_time()
        try:
            found = memplan.plan(problem, capacity=made.capacity, price=rows)
        except memplan.InfeasibleError:
            seen["infeasible"] += 1
            seen["wrong"] += made.better(2**60, 2**60) is not None
            continue
        spent.append(time.process_time() - begin)
        pricing, offsets = found.pricing, found.offsets.tolist()
        assert pricing is not None
        proven = pricing.price_bound == pricing.price and pricing.peak_bound == found.peak
        seen["cost something"] += pricing.price > 0
        seen["proven"] += proven
        seen["proven in 50 ms"] += proven and spent[-1] <= _LIMIT
        right = made.is_valid(offsets) and (made.paid(offsets), made.peak(offsets)) == (pricing.price, found.peak)
        better = made.better(pricing.price, found.peak)
        seen["wrong"] += not right or (proven and better is not None)
        seen["missed"] += better is not None
        if not right or better is not None:
            print(f"seed {seed}: price {pricing.price}, peak {found.peak}, proven: {proven}, better: {better}")
    spent.sort()
    middle, late = (1e3 * spent[len(spent) * share // 1000] for share in (500, 990))
    counts = ", ".join(f"{seen[what]} {what}" for what in _COUNTS)
    print(f"{options.count} problems: {counts}")
    print(f"CPU time: median {middle:.2f} ms, 99 % below {late:.2f} ms, largest {1e3 * spent[-1]:.2f} ms")
    return 1 if seen["wrong"] + seen["missed"] else 0


_COUNTS = ("infeasible", "cost something", "wrong", "missed", "proven", "proven in 50 ms")

if __name__ == "__main__":
    sys.exit(main())
