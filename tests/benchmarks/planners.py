"""Every planner on a few problems: seconds, peak over load, pools.

Run: ``python tests/benchmarks/planners.py [SOURCE …] [--planners NAME,NAME:PARAMETER=VALUE] [--time-limit S]``;
without a source, three instances beside the checkout.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

import memplan

SHARED = Path(__file__).parents[3] / "shared" / "instances"
INSTANCES = ("torch/resnet50_b32_train.csv", "torch/pnasnet_b8_train.csv", "somas/pangu_2.6B.csv")


def main() -> None:
    """Print one table per source."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sources", nargs="*", default=[str(SHARED / name) for name in INSTANCES])
    parser.add_argument("--planners", help="names, with parameters if any; all without")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds for planners that search")
    options = parser.parse_args()
    names = options.planners.split(",") if options.planners else [row.name for row in memplan.planners()]
    console = Console(width=None if sys.stdout.isatty() else 140)
    for source in options.sources:
        problem = memplan.capture(source).graph
        table = Table(
            "planner", "seconds", "peak / load - 1", "pools", title=f"{Path(source).stem}: {len(problem)} buffers"
        )
        for name in names:
            table.add_row(name, *figures(problem, name, options.time_limit))
        console.print(table)


def figures(problem: memplan.Problem | memplan.Graph, planner: str, time_limit: float) -> tuple[str, str, str]:
    """Seconds, gap to the load, and pools; or why the planner refuses."""
    try:
        plan = memplan.plan(problem, planner, time_limit=time_limit)
    except (memplan.UnsupportedError, memplan.MissingDependencyError) as error:
        return "", str(error).removeprefix(f"planner '{planner}' "), ""
    return f"{plan.seconds:.4f}", f"{plan.peak / plan.load - 1:.3%}", str(plan.pools or "")


if __name__ == "__main__":
    main()
