"""memplan beside torch.compile's two ways of sharing memory, on the buffers that torch.compile schedules.

Run: ``python tests/benchmarks/torch_compile.py [--models bert,gpt2] [--json F] [--docs]``; torch 2.13 on the CPU and a
C++ compiler. No kernel is compiled or run; see `memplan.capture_inductor` for what is counted.
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any

from reporting import Rows, arguments, mib, ratio, report

import memplan

SECTION = "torch.compile"
HEAD = (
    "model",
    "graph",
    "buffers",
    "and by kernels",
    "load, MiB",
    "default",
    "pools",
    "arena",
    "arena with kernels'",
    "placed load, MiB",
    "sum of blocks",
    "sum of pools",
    "tree",
    "arena",
)
LEAST = 2**20  # bytes: graphs of a loss and the like are left out


def main() -> None:
    """Capture, plan, print."""
    from networks import NETWORKS

    parser = arguments(__doc__)
    parser.add_argument("--models", default=",".join(NETWORKS), help="names, separated by commas")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    rows: Rows = []
    for name in options.models.split(","):
        for train in (False, True):
            rows += measured(name, train)
            print(f"{name}, {'training' if train else 'inference'}: {len(rows)} rows", file=sys.stderr, flush=True)
    report(SECTION, HEAD, [cells(row) for row in rows], rows, options)


def measured(name: str, train: bool) -> Rows:
    """A row per graph, or one that says why there is none."""
    from networks import network

    model, inputs = network(name, train=train)
    begin = time.perf_counter()
    try:
        graphs = memplan.capture_inductor(model, kwargs=inputs, train=train)
    except (memplan.SourceError, memplan.UnsupportedError) as error:
        return [{"model": name, "graph": "training" if train else "inference", "error": str(error)}]
    seconds = time.perf_counter() - begin
    kept = [graph for graph in graphs if graph.load >= LEAST]
    return [{**figures(graph), "model": name, "capture_seconds": seconds} for graph in kept]


def figures(graph: memplan.InductorCapture) -> dict[str, Any]:
    """Peaks in bytes."""
    plan, whole = graph.plan(), graph.plan(kernels=True)
    return {
        "graph": graph.name.split()[0],
        "buffers": len(plan),
        "by_kernels": len(graph.needed) - len(plan),
        "load": graph.load,
        "default_peak": graph.reuse_peak,
        "pool_peak": graph.pool_peak,
        "arena_peak": graph.peak_with(plan),
        "whole_arena_peak": graph.peak_with(whole),
        "placed_load": plan.load,
        "block_bytes": sum(block.bytes for block in graph.held if block.source == "wrapper"),
        "pool_bytes": graph.pool_bytes,
        "pools": len(graph.pools),
        "pools_error": graph.pools_error,
        "tree_peak": graph.plan("inductor_tree").peak,
        "arena": plan.peak,
        "optimal": plan.optimal,
        "plan_seconds": plan.seconds,
    }


def cells(row: dict[str, Any]) -> list[str]:
    """A row of the table: peaks over load."""
    if "error" in row:
        return [row["model"], row["graph"], row["error"], *[""] * (len(HEAD) - 3)]
    failed = (row["pools_error"] or "").split(":")[0]
    load, placed = row["load"], row["placed_load"]
    return [
        *(row["model"], row["graph"], str(row["buffers"]), str(row["by_kernels"]), mib(load)),
        *(ratio(row["default_peak"], load), failed or ratio(row["pool_peak"], load)),
        *(ratio(row["arena_peak"], load), ratio(row["whole_arena_peak"], load), mib(placed)),
        *(ratio(row["block_bytes"], placed), failed or ratio(row["pool_bytes"], placed)),
        *(ratio(row["tree_peak"], placed), ratio(row["arena"], placed)),
    ]


if __name__ == "__main__":
    main()
