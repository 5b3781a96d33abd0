"""Small graphs in pieces: the least load that is found, and its bound, against all ways of splitting and ordering them.

    python tests/benchmarks/split_small.py --count 10000

Graphs of one to five ops with loops, windows, sums and views, and up to three rows. The least over all plays of single
iterations (oracles/iterations.py) is below what any split can reach, as a play pays nothing for where rows lie. The
least over all regions is what the search could find: every order of the ops, every set of regions, every number of
pieces, rows kept or made again, tensors between regions in blocks or whole. The bound may not be above the first, nor
the plan below either.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from builders.split_cases import loads


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first graph")
    options = parser.parse_args()
    seen, begin, above = Counter[str](), time.perf_counter(), 0.0
    for seed in range(options.first, options.first + options.count):
        found = loads(seed)
        seen["wrong"] += found.wrong()
        seen["at the least of all plays"] += found.found == found.least
        seen["at the least of all regions"] += found.found == found.tried
        seen["bound at the least of all plays"] += found.bound == found.least
        above = max(above, found.found / found.tried if found.tried else 1.0)
        if found.wrong():
            print(f"seed {seed}: {found}")
    print(f"{options.count} graphs, {time.perf_counter() - begin:.0f} s: {seen.pop('wrong')} wrong")
    for what, count in seen.items():
        print(f"{count} {what}")
    print(f"at most {above:.2f} of the least of all regions")
    return 1 if seen["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
