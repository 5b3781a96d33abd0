"""Small problems in several pools, against trying everything: costs, peaks, proofs and seconds.

    python tests/benchmarks/pools_small.py --count 10000 --most 12

Each has 5 to `most` buffers, two or three pools, refusals, alignments and conflicts, and a seed of its own.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import memory_oracle as oracle
from memory_solving import solve

_LIMIT = 0.05  # seconds within which a proof is expected


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first problem")
    parser.add_argument("--most", type=int, default=8, help="buffers of the largest problem")
    options = parser.parse_args()
    wrong, unproven, slow, infeasible, spent = 0, 0, 0, 0, []
    for seed in range(options.first, options.first + options.count):
        instance = oracle.random_instance(random.Random(seed), options.most)
        begin = time.process_time()
        found, proven = solve(instance)
        spent.append(time.process_time() - begin)
        expected = oracle.best(instance)
        infeasible += expected is None
        unproven += not proven
        slow += proven and spent[-1] > _LIMIT
        if found != expected:
            wrong += 1
            print(f"seed {seed}: expected {expected}, got {found}")
    spent.sort()
    middle, late = (1e3 * spent[len(spent) * share // 1000] for share in (500, 990))
    print(
        f"{options.count} problems, {infeasible} without a plan: {wrong} wrong, {unproven} not proven, {slow} too slow"
    )
    print(f"CPU time: median {middle:.2f} ms, 99 % below {late:.2f} ms, largest {1e3 * spent[-1]:.2f} ms")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
