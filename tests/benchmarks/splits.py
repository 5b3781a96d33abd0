"""The least peak with ops in pieces, beside that of the best order, on paper: MobileNet v2, and networks of torch.

*And again* is the peak if ops may also run again; the columns behind the bound are of pieces alone.
Run: ``python tests/benchmarks/splits.py [--networks a,b] [--modes inference,training] [--json F] [--docs]``. With
``--curve``: bytes over multiplications of MobileNet v2 1.0, 224, int8, where rows may be made again.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))

from reporting import arguments, mib, ratio, report

import memplan
from builders.mobilenet import mobilenet_v2

HEAD = (
    "network",
    "plan, MiB",
    "best order",
    "in pieces",
    "and again",
    "at least",
    "cost added",
    "regions",
    "pieces at most",
    "seconds",
)
CURVE_HEAD = ("bytes", "multiplications", "rows moved", "ops", "pieces at most", "at least")
_MOVES = ("memplan.keep", "memplan.gather")
CAPACITIES = (300_000, 200_000, 162_176, 140_000, 128_576, 124_000, 112_000, 104_000, 96_000, 90_000, 85_000, 79_000)
MOBILENETS = ((224, 1.0), (224, 0.35), (96, 0.35))


def main() -> None:
    """Fit each network into as little as is found, and print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--networks", type=lambda text: text.split(","))
    parser.add_argument("--modes", type=lambda text: text.split(","), default=["inference", "training"])
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for each network")
    parser.add_argument("--curve", action="store_true")
    options = parser.parse_args()
    if options.curve:
        rows, cells = curve()
        return report("curve", CURVE_HEAD, cells, rows, options, page="split.md")
    rows, cells = [], []
    for name, source in sources(options):
        row = {"network": name, **least(source, options.limit)}
        rows.append(row)
        cells.append(cells_of(row))
        print(*cells[-1], flush=True)
    report("in pieces", HEAD, cells, rows, options, page="split.md")


def curve() -> tuple[list[dict[str, Any]], list[list[str]]]:
    """What is found for several capacities, where rows may be made again."""
    net = mobilenet_v2(*MOBILENETS[0])
    total = sum(op["cost"] for op in net["ops"])
    rows: list[dict[str, Any]] = []
    for capacity in CAPACITIES:
        found = memplan.fit(net, capacity, allow=("split", "recompute"))
        rows.append(
            {
                "bytes": found.peak,
                "multiplications": _share(found, total),
                "moved": _share(found, total, moved=True),
                "ops": len(found.graph.ops),
                "pieces": max(change.pieces for change in found.changes),
                "floor": found.fitting.load_bound,
            }
        )
        print(rows[-1], flush=True)
    cells = [
        [
            *(f"{r['bytes']:,}", f"{r['multiplications']:.3f}", f"{r['moved']:.2%}"),
            *(f"{r['ops']:,}", str(r["pieces"]), f"{r['floor']:,}"),
        ]
        for r in rows
    ]
    return rows, cells


def _share(plan: Any, total: float, moved: bool = False) -> float:
    """What its ops cost, or to move rows, of what those of the network cost."""
    return sum(op.cost or 0 for op in plan.graph.ops if (op.type in _MOVES) is moved) / total


def sources(options: Any) -> Any:
    """MobileNet v2, int8, and the networks of `paid_networks`."""
    if options.networks is None:
        for resolution, width in MOBILENETS:
            yield f"MobileNet v2 {width}, {resolution}, int8", mobilenet_v2(resolution, width)
    import torch
    from paid_networks import NETWORKS

    for mode in options.modes:
        for name in options.networks or NETWORKS:
            torch.manual_seed(0)
            module, batch, _ = NETWORKS[name]()
            module.train(mode == "training")
            yield f"{name}, {mode}", memplan.capture(module, kwargs=dict(batch), train=mode == "training")


def least(source: Any, limit: float) -> dict[str, Any]:
    """Peaks of a source as it is, in the best order, and in pieces."""
    plan = memplan.plan(source, time_limit=limit)
    ordered = memplan.plan(source, order="best", time_limit=limit)
    begin = time.perf_counter()
    found = memplan.fit(source, "least", allow=("split",), kernels=False, time_limit=limit)
    seconds = time.perf_counter() - begin
    again = memplan.fit(source, "least", allow=("split", "recompute"), kernels=False, time_limit=limit)
    pieces = [change.pieces for change in found.changes if change.kind == "split"]
    return {
        "again": again.peak,
        "plan": plan.peak,
        "ordered": ordered.peak,
        "pieces": found.peak,
        "floor": found.fitting.load_bound,
        "cost": found.added_cost / (found.fitting.cost or 1),
        "regions": len(pieces),
        "most": max(pieces, default=1),
        "seconds": seconds,
    }


def cells_of(row: dict[str, Any]) -> list[str]:
    """A row of the table; peaks are shares of that of the plan."""
    shares = [ratio(row[key], row["plan"]) for key in ("ordered", "pieces", "again", "floor")]
    cost, seconds = f"{row['cost']:.2%}", f"{row['seconds']:.1f}"
    return [row["network"], mib(row["plan"]), *shares, cost, str(row["regions"]), str(row["most"]), seconds]


if __name__ == "__main__":
    main()
