"""Orders of ops: the load of the best order that is found, and the bound of all orders, over the load as traced.

Run: ``python tests/benchmarks/orders.py [--instances FOLDER] [--json F] [--docs]``; the larger instances are beside the
checkout.
"""

from __future__ import annotations

import time
from pathlib import Path

from reporting import arguments, replace_section, report

import memplan
from memplan import _core

SECTION = "orders"
HEAD = ("network", "ops", "best", "bound", "proven", "found by", "seconds")
PAGE = Path(__file__).parents[2] / "docs" / "order.md"
INSTANCES = Path(__file__).parents[3] / "shared" / "instances" / "torch"


def main() -> None:
    """Order, bound, print."""
    parser = arguments(__doc__)
    parser.add_argument("--instances", type=Path, default=INSTANCES, help="a folder of graph dicts")
    options = parser.parse_args()
    rows = [measured(path) for path in sorted(options.instances.glob("*.json"))]
    cells = [cells_of(row) for row in rows]
    docs, options.docs = options.docs, False
    about = report(SECTION, HEAD, cells, rows, options)
    if docs:
        replace_section(SECTION, about, HEAD, cells, PAGE)


def measured(path: Path) -> dict[str, object]:
    """Loads in bytes."""
    graph = memplan.capture(path)
    assert isinstance(graph, _core.Graph)
    given = _core.buffers_of(graph).problem.load
    begin = time.perf_counter()
    best = _core.best_order(graph)
    seconds = time.perf_counter() - begin
    return {
        "network": path.stem,
        "ops": len(graph.ops),
        "given": given,
        "best": best.load,
        "bound": best.bound,
        "found_by": best.found_by,
        "seconds": seconds,
    }


def cells_of(row: dict[str, object]) -> list[str]:
    """A row of the table: loads over that of the given order."""
    given, best, bound = (int(str(row[name])) for name in ("given", "best", "bound"))
    gap = "yes" if best == bound else f"no, within {best / bound - 1:.3%}"
    loads = [f"{best / given:.4f}", f"{bound / given:.4f}"]
    return [str(row["network"]), str(row["ops"]), *loads, gap, str(row["found_by"]), f"{row['seconds']:.2f}"]


if __name__ == "__main__":
    main()
