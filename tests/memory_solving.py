"""What memplan makes of an instance of memory_oracle."""

from __future__ import annotations

import numpy as np

import memory_oracle as oracle
import memplan
from memplan import _core


def solve(instance: oracle.Instance) -> tuple[tuple[int, int] | None, bool]:
    """Cost, and peaks of pools without a capacity; whether the cost, or that nothing fits, is proven."""
    problem = memplan.Problem(*zip(*instance.buffers, strict=True), conflicts=sorted(instance.conflicts) or None)
    pools = [(f"p{k}", capacity, alignment) for k, (capacity, alignment) in enumerate(instance.pools)]
    cost = np.array([-1 if c is None else c for row in instance.cost for c in row])
    try:
        found = _core.plan_memories(problem, pools, cost, "auto")
    except memplan.InfeasibleError as error:
        return None, error.proven
    peaks = (plan.peak for plan, pool in zip(found.plans, instance.pools, strict=True) if pool[0] is None)
    return (found.cost, sum(peaks)), found.cost == found.cost_bound
