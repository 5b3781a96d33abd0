"""Outputs over inputs that are still being read: eleven networks in int8, as kernels of TFLite Micro run them.

    python tests/benchmarks/overlap.py [--networks "MobileNet v1 0.25, 96"] [--order-seconds 20] [--json FILE]

Peaks are bytes, inputs and outputs of the network among them. "Plain" shares bytes in place alone. What is read and
written together is a row, an iteration of the outermost loop of a kernel, or a pixel, as the table of kernels says.
Planning is timed on a graph that is read already, best of three. "Best order" is that of `reorder` after so many
seconds. The networks are like those of Blacker et al., "Diagonal Memory Optimisation for Machine Learning on
Micro-controllers" (arXiv 2010.01668), who report that overlap saves up to 34.5 % in eleven models.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reporting import arguments, ratio, report

import memplan

sys.path.insert(0, str(Path(__file__).parents[1]))
from builders.micro_networks import NETWORKS, build

UNITS = ("row", "pixel")
PLACE = ("input", "intermediate", "output", "workspace")
HEAD = (
    *("network", "ops", "unit", "plain", "overlapped", "of plain", "bound", "proven", "seconds"),
    *("best order, plain", "overlapped", "of plain"),
)


def main() -> None:
    """Plan each network in each way, and print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=list(NETWORKS), metavar="NAME")
    parser.add_argument("--order-seconds", type=float, default=20.0, help="0: no orders")
    options = parser.parse_args()
    rows, cells = [], []
    for name in options.networks:
        for row in rows_of(name, options.order_seconds):
            rows.append(row)
            cells.append(cells_of(row))
            print(*cells[-1], sep="  ", flush=True)
    report("overlap", HEAD, cells, rows, options)


def rows_of(name: str, order_seconds: float) -> Iterator[dict[str, Any]]:
    """A row of figures for each unit."""
    plain = graph_of(name, "whole")
    first, ordered = planned(plain)["peak"], least(plain, order_seconds)
    for unit in UNITS:
        graph = graph_of(name, f"{unit}s")
        orders = {"plain_best_order": ordered, "best_order": least(graph, order_seconds)}
        yield {"network": name, "ops": len(graph.ops), "unit": unit, "plain": first, **planned(graph), **orders}


def graph_of(name: str, grain: str) -> Any:
    return memplan.capture(build(name, grain)).graph


def least(graph: Any, seconds: float) -> int | None:
    """The peak in the best order; None if there is no time for it."""
    if not seconds:
        return None
    ordered = memplan.reorder(graph, place=PLACE, time_limit=seconds)
    return memplan.plan(ordered, place=PLACE).peak


def planned(graph: Any) -> dict[str, Any]:
    seconds = []
    for _ in range(3):
        begin = time.perf_counter()
        plan = memplan.plan(graph, place=PLACE)
        seconds.append(time.perf_counter() - begin)
    return {"peak": plan.peak, "bound": plan.lower_bound, "proven": plan.optimal, "seconds": min(seconds)}


def cells_of(row: dict[str, Any]) -> list[str]:
    """A row of the table."""
    plain, peak, best = row["plain"], row["peak"], (row["plain_best_order"], row["best_order"])
    proven = "yes" if row["proven"] else f"+{peak - row['bound']:,}"
    cells = [row["network"], str(row["ops"]), row["unit"], f"{plain:,}", f"{peak:,}", ratio(peak, plain)]
    cells += [f"{row['bound']:,}", proven, f"{row['seconds']:.2f}"]
    return [*cells, *("" if found is None else f"{found:,}" for found in best), ratio(best[1], best[0] or 1)]


if __name__ == "__main__":
    main()
