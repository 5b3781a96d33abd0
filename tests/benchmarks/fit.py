"""Fitting a budget: what it costs to train within 90, 80, ... 40 % of the load, beside the rules of others.

Run: ``python tests/benchmarks/fit.py [--quick] [--instances FOLDER] [--json F] [--docs] [NETWORK ...]``. The larger
instances are beside the checkout; transformers are captured here. Costs are in % of the cost of all ops: the bytes that
they touch, and for captured networks their floating-point operations, too. A second table is with tensors that are
moved out. What the rules of others reach is kept in a folder, as they take longer. What is in the file of --json
already is not measured again. With ``--pieces``: the captured networks, whose ops say their loops, where ops may also
run in pieces.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fit_others import RULES, Others
from reporting import Rows, arguments, pivoted, report

import memplan
from memplan import _core
from memplan.files import write_text
from memplan.plans.costs import costs_of

SECTION, MOVES = "fit", "fit with moves"
HEAD = ("network", "ops", "% of load", "memplan", "bound", "CPU seconds", *RULES, "best rule")
TRANSFERS = (2.0, 0.5)  # of a byte that is moved, beside 1 for one that an op touches
PIECES, HEAD_OF_PIECES = "fit with pieces", ("network", "% of load", "again", "again or in pieces", "CPU seconds")
HEAD_OF_MOVES = ("network", "% of load", "price", "memplan", "bound", "moved out")
ROOT = Path(__file__).parents[2]
INSTANCES = ROOT.parent / "shared" / "instances" / "torch"
RULES_KEPT = ROOT / "build" / "fit_rules"
CAPTURED = ("bert", "llama", "vit")
PERCENT, PERCENT_WITH_MOVES = (90, 80, 70, 60, 50, 40), (60, 40)
QUICK = ("mobilenet_v2_b1_train", "resnet50_b32_train", "vit")


def main() -> None:
    """Fit, compare, print."""
    parser = arguments(__doc__)
    parser.add_argument("networks", nargs="*", help="names of instances, or of transformers; by default all")
    parser.add_argument("--instances", type=Path, default=INSTANCES, help="a folder of graph dicts")
    parser.add_argument("--kept", type=Path, default=RULES_KEPT, help="a folder for what the rules of others reach")
    parser.add_argument("--quick", action="store_true", help="three networks")
    parser.add_argument("--pieces", action="store_true", help="also in pieces")
    options = parser.parse_args()
    if options.pieces:
        rows = [Network(name, options.instances, options.kept).in_pieces(p) for name in CAPTURED for p in PERCENT]
        cells = [
            [row["network"], f"{row['percent']} %", *map(share, row["added"]), f"{row['seconds']:.1f}"] for row in rows
        ]
        shorter = pivoted(HEAD_OF_PIECES, cells, HEAD_OF_PIECES[:1], HEAD_OF_PIECES[1:2], HEAD_OF_PIECES[2:4])
        return report(PIECES, HEAD_OF_PIECES, cells, rows, options, "fit.md", shorter)
    every = [*sorted(path.stem for path in options.instances.glob("*_train.json")), *CAPTURED]
    names = options.networks or (QUICK if options.quick else every)
    known = json.loads(options.json.read_text())["rows"] if options.json and options.json.is_file() else []
    for name in names:
        if name not in {row["network"] for row in known}:
            network = Network(name, options.instances, options.kept)
            known += [printed(network.row(percent), cells_of) for percent in PERCENT]
            known += [network.row_with_moves(percent) for percent in PERCENT_WITH_MOVES]
            if options.json:
                write_text(options.json, json.dumps({"rows": known}))
    rows, moves = ([row for row in known if ("moves" in row) == moved] for moved in (False, True))
    cells, cells_with_moves = (
        [cells_of(row) for row in rows],
        [cells_of_moves(row, price) for row in moves for price in TRANSFERS],
    )
    shorter = pivoted(HEAD, cells, HEAD[:2], HEAD[2:3], ("memplan", "bound", "best rule"))
    report(SECTION, HEAD, cells, rows, options, "fit.md", shorter)
    table = pivoted(HEAD_OF_MOVES, cells_with_moves, HEAD_OF_MOVES[:1], HEAD_OF_MOVES[1:3], HEAD_OF_MOVES[3:])
    report(MOVES, HEAD_OF_MOVES, cells_with_moves, rows + moves, options, "fit.md", table)
    for line in (summary(rows), summary_of_moves(moves)):
        print(line)


class Network:
    """A graph of a training step, what its ops cost, and what rules of others reach."""

    def __init__(self, name: str, instances: Path, kept: Path) -> None:
        self.name = name
        self.graph = captured(name) if name in CAPTURED else memplan.capture(instances / f"{name}.json").graph
        self.cost = costs_of(self.graph, "flops")
        self.again = _core.again_of(self.graph)
        self.storage = _core.StorageOptions()
        self.load = _core.buffers_of(self.graph, self.storage).problem.load
        self.total = sum(self.cost)
        self.others = Others(name, self.graph, self.cost, kept)

    def row(self, percent: int) -> dict[str, Any]:
        """Costs as shares of all: of memplan, the bound, and the others."""
        capacity = self.load * percent // 100
        row = {"network": self.name, "ops": len(self.graph.ops), "percent": percent} | self.fitted(capacity)
        for rule in RULES:
            least = self.others.least(rule, capacity)
            row[rule] = None if least is None else least / self.total
        return row

    def row_with_moves(self, percent: int) -> dict[str, Any]:
        capacity = self.load * percent // 100
        row: dict[str, Any] = {"network": self.name, "percent": percent, "moves": True}
        for price in TRANSFERS:
            least = self.others.least_moved(capacity, price)
            row[f"{price:g}"] = self.fitted(capacity, price) | {"moved": None if least is None else least / self.total}
        return row

    def in_pieces(self, percent: int) -> dict[str, Any]:
        """Costs as shares of all: of ops that run again, and where they may run in pieces too."""
        added = []
        for allow in (("recompute",), ("recompute", "split")):
            begin = time.process_time()
            plan = memplan.fit(self.graph, self.load * percent // 100, allow=allow)
            assert plan.fitting is not None
            added.append(plan.added_cost / plan.fitting.cost)
        return {"network": self.name, "percent": percent, "added": added, "seconds": time.process_time() - begin}

    def fitted(self, capacity: int, transfer: float | None = None) -> dict[str, Any]:
        begin = time.process_time()
        found: dict[str, Any] = {"added": None, "bound": None}
        try:
            fitted = _core.fit_graph(
                self.graph, self.cost, self.again, self.storage, capacity, recompute=True, transfer=transfer
            )
            found = {"added": fitted.added_cost / self.total, "bound": fitted.cost_bound / self.total}
        except memplan.InfeasibleError as error:
            found |= {"floor": (error.lower_bound or 0) / self.load, "proven": error.proven}
        return found | {"seconds": time.process_time() - begin}


def captured(name: str) -> _core.Graph:
    """A step of a small transformer with random weights."""
    import torch
    from within_budget import networks

    torch.manual_seed(0)
    model, inputs = networks()[name]()
    graph = memplan.capture(model.train(), kwargs=inputs, train=True).graph
    assert isinstance(graph, _core.Graph)
    return graph


def printed(row: dict[str, Any], cells: Callable[[Mapping[str, Any]], list[str]]) -> dict[str, Any]:
    print(cells(row), flush=True)
    return row


def cells_of(row: Mapping[str, Any]) -> list[str]:
    """A row of the table; "-" where nothing fits, with the floor where that is proven."""
    cells = [row["network"].removesuffix("_train"), str(row["ops"]), f"{row['percent']} %"]
    rules = [row[rule] for rule in RULES]
    return [
        *cells,
        *costs_in(row),
        f"{row['seconds']:.1f}",
        *map(share, [*rules, min(filter(None, rules), default=None)]),
    ]


def cells_of_moves(row: Mapping[str, Any], price: float) -> list[str]:
    found = row[f"{price:g}"]
    cells = [row["network"].removesuffix("_train"), f"{row['percent']} %", f"at {price:g}"]
    return [*cells, *costs_in(found), share(found["moved"])]


def costs_in(found: Mapping[str, Any]) -> list[str]:
    if found["added"] is None:
        return [f"needs {found['floor']:.1%}" if found["proven"] else "not found", "-"]
    return [share(found["added"]), share(found["bound"])]


def share(part: float | None) -> str:
    return "-" if part is None else f"{part:.2%}"


def summary(rows: Rows) -> str:
    """Distances to the bound, and where others are better."""
    fitted = [row for row in rows if row["added"] is not None]
    better = [(row, rule) for row in rows for rule in RULES if is_better(row[rule], row["added"])]
    seconds = [row["seconds"] for row in fitted]
    return f"{distances(rows, fitted)}; at most {max(seconds, default=0):.1f} s; {said(better)}"


def summary_of_moves(rows: Rows) -> str:
    lines = []
    for price in (f"{price:g}" for price in TRANSFERS):
        found = [row[price] | {"network": row["network"], "percent": row["percent"]} for row in rows]
        fitted = [row for row in found if row["added"] is not None]
        better = [(row, "moved") for row in found if is_better(row["moved"], row["added"])]
        lines.append(f"at {price} for a byte: {distances(found, fitted)}; {said(better)}")
    return "\n".join(lines)


def is_better(other: float | None, own: float | None) -> bool:
    return other is not None and (own is None or other < own * (1 - 1e-9))


def distances(rows: Rows, fitted: Rows) -> str:
    apart = sorted(100 * (row["added"] - row["bound"]) for row in fitted)
    floors = sum(1 for row in rows if row["added"] is None and row["proven"])
    free = sum(1 for row in fitted if row["added"] > 0 and row["bound"] == 0)
    middle, most = (statistics.median(apart), apart[-1]) if apart else (0.0, 0.0)
    return (
        f"{len(rows)} rows, {len(fitted)} fitted, {floors} below the floor; {middle:.2f} points above the bound in the "
        f"median, {most:.1f} at most; the bound is 0 in {free} where something is added"
    )


def said(better: list[tuple[dict[str, Any], str]]) -> str:
    names = [f"{rule} at {row['network']} {row['percent']} %" for row, rule in better]
    return f"better are: {', '.join(names)}" if names else "nobody is better in any"


if __name__ == "__main__":
    main()
