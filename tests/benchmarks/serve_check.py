"""Random networks, planned with kernels served beside eager: forward, training and recorded steps, equal bit for bit.

Networks (`builders/random_nets.py`) take turns: one runs four times inside its plan, filled with garbage, the next in
training, the third as a step that plans itself. Some networks run other ops when they are traced. Then results equal
eager's up to rounding, and are held bit for bit against those of the same ops where nothing shares bytes, unserved.
Run: ``python tests/benchmarks/serve_check.py [--networks 10000] [--first 0] [--json F]``
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from pathlib import Path

import torch
from reporting import arguments, report

sys.path.insert(0, str(Path(__file__).parents[1]))
from builders.serving import WAYS, held

HEAD = ("way", "networks", "equal", "up to rounding", "differ", "runs that copied", "served")


def main() -> int:
    """Run them, and print which differ."""
    parser = arguments(__doc__)
    parser.add_argument("--networks", type=int, default=10000)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    counts = {way: Counter[str]() for way in WAYS}
    wrong = []
    for seed in range(options.first, options.first + options.networks):
        way, error = WAYS[seed % len(WAYS)], "differs"
        try:
            found = held(way, seed)
        except Exception as raised:
            found, error = Counter(differ=1), f"{type(raised).__name__}: {str(raised)[:200]}"
        if found["differ"]:
            wrong.append({"way": way, "seed": seed, "error": error})
            print(wrong[-1], flush=True)
        counts[way] += found + Counter(networks=1)
        if (seed + 1) % 500 == 0:
            print(seed + 1, {way: dict(count) for way, count in counts.items()}, flush=True)
    keys = ("networks", "equal", "rounding", "differ", "copied", "served")
    cells = [[way, *(str(counts[way][key]) for key in keys)] for way in WAYS]
    report("kernels served", HEAD, cells, [{"way": way, **counts[way]} for way in WAYS] + wrong, options)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
