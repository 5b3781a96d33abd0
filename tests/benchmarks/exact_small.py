"""Small problems beyond rectangles: is each plan valid, and at the optimum? How many are proven in 50 ms?

Run: ``python tests/benchmarks/exact_small.py [--problems 10000] [--kinds conflicts,shapes] [--seed 0]``. Problems of 5
to 12 buffers, with alignments: conflicts; shapes, among them steps of a life in which a buffer is not needed; partial
orders, by pairs and by vector clocks; and all of them together. Then pins; reserved bytes; buffers at fixed distances;
and all three together, with shapes and conflicts. And buffers in exclusive
branches, alone and with all of that. A plan is at the optimum if CP-SAT, asked in a way of
its own, finds none below. Where that is cheap, every offset is tried besides, and where CP-SAT does not end, the proof
of `refute` is checked. Times are of the CPU.
"""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path

from judging import Found, judged

import memplan

sys.path.insert(0, str(Path(__file__).parents[1]))
from oracles.exactness import KINDS, case, fits, fits_by_cp_sat

LIMIT = 0.05  # seconds of CPU time
PATIENT = 10.0
SOLVER = 2.0  # for CP-SAT
MOST_TRIED = 10**7  # placements of all buffers at most, where every offset is tried


COUNTS = (
    "problems",
    "invalid",
    "missed",
    "false proofs",
    "proven in 50 ms",
    "proven in 10 s",
    "optimum by CP-SAT",
    "by all offsets",
    "by a checked proof alone",
)


def judge(kind: str, seed: int, found: Found) -> None:
    """Plan a problem, and hold what is claimed against the oracles."""
    made, name = case(kind, seed), f"case({kind!r}, {seed})"
    problem = memplan.Problem(**made.arguments())
    start = time.process_time()
    plan = memplan.plan(problem, time_limit=PATIENT)
    seconds = time.process_time() - start
    found.seconds.append(seconds)
    found.seen["problems"] += 1
    found.seen["proven in 50 ms"] += plan.optimal and seconds <= LIMIT
    found.seen["proven in 10 s"] += plan.optimal
    if seconds > LIMIT:
        print(f"{seconds:.3f} s: {name}, peak {plan.peak}, bound {plan.lower_bound}", file=sys.stderr)
    if faults := made.faults(plan.offsets.tolist()):
        found.seen["invalid"] += 1
        print(f"{faults} faults: {name}", file=sys.stderr)
    less = fits_by_cp_sat(made, plan.peak - 1, SOLVER)
    found.seen["optimum by CP-SAT"] += less is False
    if math.prod(plan.peak // a + 1 for a in made.alignment) <= MOST_TRIED:
        tried = fits(made, plan.peak - 1)
        found.seen["by all offsets"] += not tried
        assert less in (None, tried), f"the oracles differ: {name}"
        less = tried
    if less is None and made.is_fixed:  # of which there are no proofs apart from plans
        less = fits_by_cp_sat(made, plan.peak - 1, 60 * SOLVER)
        found.seen["optimum by CP-SAT"] += less is False
    elif less is None and (proof := memplan.refute(problem, plan.peak - 1)) is not None:
        proof.check(problem)
        found.seen["by a checked proof alone"] += 1
        less = False
    if less is None:
        print(f"optimum not known: {name}, peak {plan.peak}, bound {plan.lower_bound}", file=sys.stderr)
    if less:
        found.seen["missed"] += 1
        found.seen["false proofs"] += plan.optimal
        print(f"missed: {name}, peak {plan.peak}, said to be optimal: {plan.optimal}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(judged(__doc__, KINDS, COUNTS, judge))
