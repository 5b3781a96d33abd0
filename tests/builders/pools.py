"""What memplan makes of a case of oracles.pools."""

from __future__ import annotations

import time
from dataclasses import dataclass

import memplan
from memplan.plans import Pool
from oracles import pools as oracle


@dataclass
class Solved:
    """What came out: pools and offsets per buffer, None if nothing fits, and whether that is proven."""

    pool: list[int] | None
    offset: list[int]
    proven: bool
    seconds: float  # of the CPU


def solve(made: oracle.PooledCase) -> Solved:
    """The plan of a case, as anyone would ask for it."""
    problem = memplan.Problem(**made.case.arguments())
    pools = [
        Pool(f"p{k}", spec.capacity, spec.alignment, accepts=[i for i, takes in enumerate(made.takes) if takes[k]])
        for k, spec in enumerate(made.pools)
    ]
    asked = {
        "pin": {f"#{i}": (f"p{p}", at) for i, (p, at) in made.pins.items()},
        "reserved": [(f"p{k}", *row) for k, spec in enumerate(made.pools) for row in spec.reserved],
    }
    start = time.process_time()
    try:
        plan = memplan.plan(problem, pools=pools, accesses=made.accesses, **{k: v for k, v in asked.items() if v})
    except memplan.InfeasibleError as error:
        return Solved(None, [], error.proven, time.process_time() - start)
    except memplan.errors.ProblemError as error:
        if "no pool takes buffer" not in str(error):
            raise
        return Solved(None, [], True, time.process_time() - start)
    seconds = time.process_time() - start
    pools = plan.pools
    assert pools is not None
    begin = [memory.begin for memory in pools.values()]
    pool = pools.of_buffer.tolist()
    offset = [at - begin[p] for at, p in zip(plan.offsets.tolist(), pool, strict=True)]
    return Solved(pool, offset, pools.cost_optimal, seconds)
