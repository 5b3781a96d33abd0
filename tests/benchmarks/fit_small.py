"""Small random graphs made to fit a capacity: is the cost that of the best of all schedules, and do bounds hold?

Run: ``python tests/benchmarks/fit_small.py [--graphs 10000] [--ops 10] [--allow recompute offload] [--seed 0]``. Each
graph is fitted by the exact search, which has to be equal to a trial of all schedules (`oracles/schedules.py`); and
by the heuristic search alone, whose cost may not be below, nor its bound above. Loads have to be within the capacity,
and the changed graph has to compute the same. There is a row for reruns alone, one for moves alone, and one for both.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

from reporting import show

sys.path.insert(0, str(Path(__file__).parents[1]))
from builders.fit_cases import check_random

KINDS = ("equal", "above", "not found", "infeasible", "wrong")
WAYS = (["recompute"], ["offload"], ["recompute", "offload"])


def main() -> int:
    """Print the table; 1 where a claim is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--graphs", type=int, default=10_000, help="of each row")
    parser.add_argument("--ops", type=int, default=10, help="at most")
    parser.add_argument("--allow", nargs="+", choices=WAYS[-1], help="one row, with these ways")
    parser.add_argument("--seed", type=int, default=0, help="of the first graph")
    options = parser.parse_args()
    rows = [row(ways, options) for ways in ([options.allow] if options.allow else WAYS)]
    show(("allowed", "graphs", *KINDS, "CPU seconds"), rows)
    return 1 if any(found != "0" for found in (row[-2] for row in rows)) else 0


def row(ways: list[str], options: argparse.Namespace) -> list[str]:
    """How often each kind came out."""
    found: Counter[str] = Counter()
    begin = time.process_time()
    for seed in range(options.seed, options.seed + options.graphs):
        try:
            found[check_random(seed, ways, options.ops)] += 1
        except AssertionError as error:
            found["wrong"] += 1
            print(f"wrong: seed {seed}: {error}", file=sys.stderr, flush=True)
    seconds = f"{time.process_time() - begin:.0f}"
    return [" and ".join(ways), str(found.total()), *(str(found[kind]) for kind in KINDS), seconds]


if __name__ == "__main__":
    sys.exit(main())
