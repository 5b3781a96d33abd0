"""Small random problems, planned and held against optima that are found apart from memplan."""

from __future__ import annotations

import memplan
from oracles.exactness import case, fits, fits_by_cp_sat


def proven(planner: str, kind: str, seeds: range, most: int) -> int:
    """How many problems of a kind were proven; all plans are valid and at the optimum."""
    count = 0
    for seed in seeds:
        made = case(kind, seed, most=most)
        plan = memplan.plan(memplan.Problem(**made.arguments()), planner)
        assert made.faults(plan.offsets.tolist()) == 0, (kind, seed)
        small = plan.peak ** len(made.size) <= 10**6
        better = fits(made, plan.peak - 1) if small else fits_by_cp_sat(made, plan.peak - 1, 2)
        assert not better, (kind, seed)
        count += plan.optimal
    return count
