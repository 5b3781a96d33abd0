"""Training graphs of 14 to 30 ops made to fit: how far is the search from the best schedule, and how far the bound?

Run: ``python tests/benchmarks/fit_middle.py [--graphs 300] [--seconds 10] [--seed 0]``. The best schedule in stages is
found by an integer program (`tests/fit_stages.py`); it ends after some seconds, and graphs where that proves nothing
are left out. The exact search for small graphs is switched off.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from statistics import mean, median

from reporting import show

sys.path.insert(0, str(Path(__file__).parents[1]))
from builders.fit_cases import check_training

WAYS = (["recompute"], ["offload"], ["recompute", "offload"])
HEADER = (
    *("allowed", "graphs", "open", "infeasible", "not found", "free", "equal", "above"),
    *("mean above", "most above", "bound / least, median", "least", "CPU seconds"),
)


def main() -> int:
    """Print the table; 1 where a claim is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--graphs", type=int, default=300, help="of each row")
    parser.add_argument("--seconds", type=float, default=10, help="of the integer program, for each graph")
    parser.add_argument("--seed", type=int, default=0, help="of the first graph")
    options = parser.parse_args()
    wrong: list[str] = []
    show(HEADER, [row(ways, options, wrong) for ways in WAYS])
    print(*wrong, sep="\n", file=sys.stderr)
    return 1 if wrong else 0


def row(ways: list[str], options: argparse.Namespace, wrong: list[str]) -> list[str]:
    """What came out for one choice of ways."""
    begin, found = time.process_time(), []
    for seed in range(options.seed, options.seed + options.graphs):
        try:
            found.append(check_training(seed, ways, options.seconds))
        except AssertionError as error:
            wrong.append(f"wrong: seed {seed}, {' and '.join(ways)}: {error}")
    closed = [one for one in found if one.proven]
    least = [one for one in closed if one.least is not None]
    above = [one.found / one.least - 1 for one in least if one.least and one.found is not None]
    bounds = [one.bound / one.least for one in least if one.least and one.found is not None]
    counts = (
        *(len(found), len(found) - len(closed), len(closed) - len(least), sum(one.found is None for one in least)),
        *(sum(one.least == 0 for one in least), sum(part == 0 for part in above), sum(part > 0 for part in above)),
    )
    shares = mean(above), max(above), median(bounds), min(bounds)
    seconds = f"{time.process_time() - begin:.0f}"
    return [" and ".join(ways), *map(str, counts), *(f"{share:.1%}" for share in shares), seconds]


if __name__ == "__main__":
    sys.exit(main())
