"""Small graphs in which bytes have many names, planned and run byte by byte; the tiny ones against all choices.

    python tests/benchmarks/sharing_small.py --count 10000

Ops read views, slices and concatenations beside what these are made from, or a tensor twice; they write in place over
some of what they read, and overwrite. Orders, planners, streams and options are drawn for each graph. Every plan runs
in the cells of oracles/cells.py, which knows permissions by op, input and output, and shares nothing with the core.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from builders.sharing_cases import against_the_least, check


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--tiny", type=int, default=None, help="graphs against all choices; a tenth if not given")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first graph")
    options = parser.parse_args()
    seen, came = Counter[str](), Counter[str]()
    for seed in range(options.first, options.first + options.count):
        found = check(seed, (3, 6, 12)[seed % 3], seen)
        seen["wrong"] += bool(found)
        if found:
            print(f"seed {seed}: {'; '.join(found[:3])}")
    for seed in range(options.first, options.first + (options.count // 10 if options.tiny is None else options.tiny)):
        result = against_the_least(seed)
        came[result] += 1
        if result in ("wrong", "above"):
            print(f"seed {seed}: {result}, against all choices of sharing")
    print(f"{options.count} graphs: {', '.join(f'{seen[what]} {what}' for what in _COUNTS)}")
    print(f"{came.total()} tiny graphs: {', '.join(f'{came[what]} {what}' for what in _CAME)}")
    return 1 if seen["wrong"] + came["wrong"] else 0


_COUNTS = ("planned", "refused", "wrong", "inplace", "slice", "concat", "two names")
_CAME = ("least", "above", "wrong", "too large")

if __name__ == "__main__":
    sys.exit(main())
