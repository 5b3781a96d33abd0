"""Fitting a budget: what it costs to train within 90, 80, ... 40 % of the load, beside the rules of others.

Run: ``python tests/benchmarks/fit.py [--instances FOLDER] [--json F] [--docs] [NETWORK ...]``; the larger instances are
beside the checkout. Costs are in % of the cost of all ops, the bytes that they touch.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fit_rules import Flow, Reruns, dtr, knapsacks, segments
from reporting import arguments, replace_section, report

import memplan
from memplan import _core
from memplan.fitting.again import again_of
from memplan.fitting.costs import costs_of

SECTION = "fit"
HEAD = ("network", "ops", "% of load", "memplan", "bound", "CPU seconds", "DTR", "knapsack", "segments")
PAGE = Path(__file__).parents[2] / "docs" / "fit.md"
INSTANCES = Path(__file__).parents[3] / "shared" / "instances" / "torch"
PERCENT = (90, 80, 70, 60, 50, 40)


def main() -> None:
    """Fit, compare, print."""
    parser = arguments(__doc__)
    parser.add_argument("networks", nargs="*", help="names of instances; all training graphs by default")
    parser.add_argument("--instances", type=Path, default=INSTANCES, help="a folder of graph dicts")
    options = parser.parse_args()
    paths = [options.instances / f"{name}.json" for name in options.networks]
    rows: list[dict[str, Any]] = []
    for path in paths or sorted(options.instances.glob("*_train.json")):
        rows += measured(path)
    cells = [cells_of(row) for row in rows]
    docs, options.docs = options.docs, False
    about = report(SECTION, HEAD, cells, rows, options)
    if docs:
        replace_section(SECTION, about, HEAD, cells, PAGE)


def measured(path: Path) -> list[dict[str, Any]]:
    """A row for each capacity: costs as shares of all."""
    graph = memplan.capture(path)
    assert isinstance(graph, _core.Graph)
    cost, again = costs_of(graph, "bytes"), [again_of(op) for op in graph.ops]
    storage = _core.StorageOptions()
    load, total = _core.buffers_of(graph, storage).problem.load, sum(cost)
    flow = Flow(graph, cost)
    tried: dict[Any, tuple[int, float] | None] = {}

    def of(reruns: Reruns | None) -> tuple[int, float] | None:
        """The load and the cost of a graph with reruns."""
        key = None if reruns is None else tuple(reruns)
        if key not in tried:
            tried[key] = None if reruns is None else _run(graph, cost, again, storage, reruns)
        return tried[key]

    of_knapsacks, of_segments = [of(r) for r in knapsacks(flow)], [of(r) for r in segments(flow)]
    rows = []
    for percent in PERCENT:
        capacity = load * percent // 100
        row: dict[str, Any] = {"network": path.stem, "ops": len(graph.ops), "percent": percent}
        begin = time.process_time()
        try:
            found = _core.fit_graph(graph, cost, again, storage, capacity)
            row |= {"added": found.added_cost / total, "bound": found.cost_bound / total}
        except memplan.InfeasibleError as error:
            row |= {"added": None, "floor": error.lower_bound / load, "proven": error.proven}
        row["seconds"] = time.process_time() - begin
        of_dtr = [of(dtr(flow, capacity * share // 100)) for share in (106, 103, 100, 97, 94, 90)]
        for name, found_by in (("dtr", of_dtr), ("knapsack", of_knapsacks), ("segments", of_segments)):
            row[name] = _least(found_by, capacity, total)
        rows.append(row)
        print(cells_of(row), flush=True)
    return rows


def _run(
    graph: _core.Graph, cost: list[float], again: list[Any], storage: _core.StorageOptions, reruns: Reruns
) -> tuple[int, float]:
    found = _core.rerun_graph(graph, cost, again, storage, reruns)
    return found.load, found.added_cost


def _least(found: Iterable[tuple[int, float] | None], capacity: int, total: float) -> float | None:
    return min((cost / total for load, cost in filter(None, found) if load <= capacity), default=None)


def cells_of(row: dict[str, Any]) -> list[str]:
    """A row of the table; "-" where nothing fits, with the floor where that is proven."""
    cells = [row["network"].removesuffix("_train"), str(row["ops"]), str(row["percent"])]
    if row["added"] is None:
        proven = f"needs {row['floor']:.1%}" if row["proven"] else "not found"
        cells += [proven, "-"]
    else:
        cells += [f"{row['added']:.2%}", f"{row['bound']:.2%}"]
    cells.append(f"{row['seconds']:.1f}")
    return cells + ["-" if row[name] is None else f"{row[name]:.2%}" for name in ("dtr", "knapsack", "segments")]


if __name__ == "__main__":
    main()
