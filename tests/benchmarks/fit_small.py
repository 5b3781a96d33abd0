"""Small random graphs made to fit a capacity: is the cost that of the best of all schedules, and do bounds hold?

Run: ``python tests/benchmarks/fit_small.py [--graphs 10000] [--ops 10] [--moves] [--seed 0]``. Each graph is fitted by
the exact search, which has to be equal to a search through all schedules (`tests/fit_oracle.py`); and by the heuristic
search alone, whose cost may not be below, nor its bound above. Loads have to be within the capacity, and the changed
graph has to compute the same. With --moves, tensors may be moved out too; trying all schedules then takes seconds for
graphs of ten ops, and minutes for some.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

from reporting import show

sys.path.insert(0, str(Path(__file__).parents[1]))
from fit_cases import check_random

KINDS = ("equal", "above", "not found", "infeasible", "wrong")


def main() -> int:
    """Print the table; 1 where a claim is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--graphs", type=int, default=10_000)
    parser.add_argument("--ops", type=int, default=10, help="at most")
    parser.add_argument("--moves", action="store_true", help="tensors may be moved out, too")
    parser.add_argument("--seed", type=int, default=0, help="of the first graph")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="of CPU time, after which it ends")
    options = parser.parse_args()
    found: Counter[str] = Counter()
    begin = time.process_time()
    for seed in range(options.seed, options.seed + options.graphs):
        try:
            found[check_random(seed, options.moves, options.ops)] += 1
        except AssertionError as error:
            found["wrong"] += 1
            print(f"wrong: seed {seed}: {error}", file=sys.stderr, flush=True)
        if time.process_time() - begin > options.seconds:
            break
    seconds = f"{time.process_time() - begin:.0f}"
    show(("graphs", *KINDS, "CPU seconds"), [[str(found.total()), *(str(found[kind]) for kind in KINDS), seconds]])
    return 1 if found["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
