"""A million buffers of a layered network: seconds and memory of planning and of verification.

Run: ``python tests/benchmarks/million.py [planner ...]``
"""

from __future__ import annotations

import resource
import sys
import time

from rich.console import Console
from rich.table import Table

from memplan import _core
from memplan.generate import layered


def main(planners: list[str]) -> None:
    """Print a row for each planner."""
    problem = layered(1_000_000)
    table = Table("planner", "plan (s)", "verify (s)", "peak / load - 1", "violations", "peak RSS (MiB)")
    for planner in planners:
        solution = _core.solve_problem(problem, planner)
        start = time.perf_counter()
        violations = _core.verify(problem, solution.offsets)
        seconds = time.perf_counter() - start
        rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        gap = solution.peak / solution.lower_bound - 1
        table.add_row(
            planner, f"{solution.seconds:.2f}", f"{seconds:.2f}", f"{gap:.3%}", str(len(violations)), f"{rss:.0f}"
        )
    Console().print(table)


if __name__ == "__main__":
    main(sys.argv[1:] or ["first_fit", "greedy_by_size", "auto"])
