"""Orders of ops: loads of the best order, of Inductor's rules and of lists, and the bound of all, over the given load.

Run: ``python tests/benchmarks/orders.py [--instances FOLDER] [--json F] [--docs]``; the larger instances are beside the
checkout.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from reporting import arguments, report

import memplan
from memplan import _core
from memplan.importers.graph_dict import graph_of

sys.path.insert(0, str(Path(__file__).parents[1]))
from builders.layered import layers

SECTION = "orders"
HEAD = ("network", "ops", "lpmf", "bfs", "dfs", "list", "best", "bound", "proven", "found by", "CPU seconds")
INDUCTOR = ("lpmf", "bfs", "dfs")
LISTS = [f"{rule}{end}" for rule in ("growth", "release", "newest", "oldest") for end in ("", "_backwards")]
LAYERS = (5_000, 20_000, 100_000)  # ops
INSTANCES = Path(__file__).parents[3] / "shared" / "instances" / "torch"


def main() -> None:
    """Order, bound, print."""
    parser = arguments(__doc__)
    parser.add_argument("--instances", type=Path, default=INSTANCES, help="a folder of graph dicts")
    options = parser.parse_args()
    rows = [measured(path.stem, memplan.capture(path).graph) for path in sorted(options.instances.glob("*.json"))]
    rows += [measured(f"layers of {int(ops**0.5)}", graph_of(layers(ops))) for ops in LAYERS]
    cells = [cells_of(row) for row in rows]
    open_ = [row for row in cells if (row[8], row[9]) != ("yes", "given")]  # else nothing is to be gained
    report(SECTION, HEAD, cells, rows, options, "order.md", (HEAD, open_))


def measured(name: str, graph: object) -> dict[str, object]:
    """Loads in bytes."""
    assert isinstance(graph, _core.Graph)
    given = _core.buffers_of(graph).problem.load
    begin = time.process_time()
    best = _core.order_of(graph, "best")
    seconds = time.process_time() - begin
    return {
        "network": name,
        "ops": len(graph.ops),
        "given": given,
        **{rule: _core.order_of(graph, rule).load for rule in INDUCTOR},
        "list": min(_core.order_of(graph, rule).load for rule in LISTS),
        "best": best.load,
        "bound": best.bound,
        "found_by": best.found_by,
        "seconds": seconds,
    }


def cells_of(row: dict[str, object]) -> list[str]:
    """A row of the table: loads over that of the given order."""
    given, best, bound = (int(str(row[name])) for name in ("given", "best", "bound"))
    gap = "yes" if best == bound else f"no, within {best / bound - 1:.3%}"
    others = [f"{int(str(row[name])) / given:.3f}" for name in (*INDUCTOR, "list")]
    loads = [f"{best / given:.4f}", f"{bound / given:.4f}"]
    return [str(row["network"]), str(row["ops"]), *others, *loads, gap, str(row["found_by"]), f"{row['seconds']:.2f}"]


if __name__ == "__main__":
    main()
