"""Small problems in several pools: is each plan valid, and the best? How many are proven in 50 ms?

Run: ``python tests/benchmarks/pools_small.py [--problems 10000] [--kinds pools,layouts] [--seed 0]``. Problems of 5 to
12 buffers in two or three pools, some of which take not all, with alignments and conflicts. Other kinds have shapes;
pins; reserved bytes; buffers at fixed distances; or all of it together. A plan is the best if CP-SAT, asked in a way of
its own, finds none that costs less, and none of equal cost in which the pools without a capacity peak lower. Where that
is cheap, every offset in every pool is tried besides; where it does not end, it is asked for each choice of pools
alone. Times are of the CPU.
"""

from __future__ import annotations

import sys
from pathlib import Path

from judging import Found, judged

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


def judge(kind: str, seed: int, found: Found) -> None:
    """Plan a problem, and hold what is claimed against the oracles."""
    made, name = oracle.pooled(kind, seed), f"pooled({kind!r}, {seed})"
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


if __name__ == "__main__":
    sys.exit(judged(__doc__, oracle.POOL_KINDS, COUNTS, judge))
