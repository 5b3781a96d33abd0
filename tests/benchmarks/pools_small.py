"""Small problems in several pools: is each plan valid, and the best? How many are proven in 50 ms?

Run: ``python tests/benchmarks/pools_small.py [--problems 10000] [--kinds pools,layouts] [--seed 0]``. Problems of 5 to
12 buffers in two or three pools, some of which take not all, with alignments and conflicts. Other kinds have shapes;
pins; reserved bytes; buffers at fixed distances; or all of it together. A plan is the best if CP-SAT, asked in a way of
its own, finds none that costs less, and none of equal cost in which the pools without a capacity peak lower. Where that
is cheap, every offset in every pool is tried besides; where it does not end, it is asked for each choice of pools
alone. Times are of the CPU.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from reporting import show

sys.path.insert(0, str(Path(__file__).parents[1]))
from builders.pools import solve
from oracles import pools as oracle

LIMIT = 0.05  # seconds of CPU time
SOLVER = 1.0  # for CP-SAT with all pools at once
MOST_TRIED = 10**9  # plans at most, where all are tried

COUNTS = (
    "problems",
    "without a plan",
    "invalid",
    "missed",
    "false proofs",
    "proven in 50 ms",
    "proven",
    "best by CP-SAT",
    "by trying all",
    "by all assignments",
)


@dataclass
class Found:
    """What came out for one kind."""

    seen: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)

    def row(self, kind: str) -> list[str]:
        at = sorted(self.seconds)
        quantiles = [f"{1e3 * at[min(len(at) - 1, int(share * len(at)))]:.2f}" for share in (0.5, 0.99, 1)]
        return [kind, *(str(self.seen[what]) for what in COUNTS), *quantiles]


def judge(made: oracle.PooledCase, name: str, found: Found) -> None:
    """Plan it, and hold what is claimed against the oracles."""
    solved = solve(made)
    found.seconds.append(solved.seconds)
    found.seen["problems"] += 1
    found.seen["proven in 50 ms"] += solved.proven and solved.seconds <= LIMIT
    found.seen["proven"] += solved.proven
    if not solved.proven or solved.seconds > LIMIT:
        print(f"{solved.seconds:.3f} s: {name}, proven: {solved.proven}", file=sys.stderr)
    value = None
    if solved.pool is None:
        found.seen["without a plan"] += 1
    else:
        value = made.value(solved.pool, solved.offset)
        if faults := made.faults(solved.pool, solved.offset):
            found.seen["invalid"] += 1
            print(f"{faults} faults: {name}", file=sys.stderr)
    less = oracle.less_by_cp_sat(made, value, SOLVER)
    found.seen["best by CP-SAT"] += less is False
    if oracle.trials(made) <= MOST_TRIED:
        best = oracle.best_by_trying(made)
        assert less is None or less == (best != value), f"the oracles differ: {name}"
        found.seen["by trying all"] += best == value
        less = best != value
    if less is None:
        less = oracle.less_by_assignments(made, value)
        found.seen["by all assignments"] += less is False
    if less is None:
        print(f"best not known: {name}, {value}", file=sys.stderr)
    if less:
        found.seen["missed"] += 1
        cheaper = value is None or oracle.less_by_assignments(made, (value[0], 0))
        found.seen["false proofs"] += bool(solved.proven and cheaper)
        print(f"missed: {name}, {value}, proven: {solved.proven}, costs less: {cheaper}", file=sys.stderr)


def main() -> int:
    """Print the table; 1 where a plan is wrong, a better one missed, or a proof false."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--problems", type=int, default=10_000, help="of each kind")
    parser.add_argument("--kinds", default=",".join(oracle.POOL_KINDS))
    parser.add_argument("--seed", type=int, default=0, help="of the first problem")
    options = parser.parse_args()
    rows, wrong = [], 0
    for kind in options.kinds.split(","):
        found, start = Found(), time.perf_counter()
        for seed in range(options.seed, options.seed + options.problems):
            judge(oracle.pooled(kind, seed), f"pooled({kind!r}, {seed})", found)
        rows.append([*found.row(kind), f"{time.perf_counter() - start:.0f}"])
        print(*rows[-1], file=sys.stderr, flush=True)
        wrong += sum(found.seen[what] for what in ("invalid", "missed", "false proofs"))
    show(("kind", *COUNTS, "median ms", "99 % ms", "most ms", "seconds in all"), rows)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
