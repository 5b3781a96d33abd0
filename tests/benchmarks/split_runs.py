"""What a process pays where ops run in pieces: `plan.run` of the least plan with splits, beside eager and Inductor.

Run: ``python tests/benchmarks/split_runs.py [--networks a,b] [--modes inference,gradients] [--processes N] [--json F]
[--docs]``. Figures are those of `paid.py`: bytes of torch's allocator, the arena and what kernels take besides among
them, and anonymous memory of the process above that of the network and its inputs; medians of processes of their own.
"""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import paid
from reporting import Rows, arguments, mib, ratio, report

from memplan.files import write_text

WAYS = ("eager", "inductor", "split")
HEAD = (
    *("network", "mode", "eager, MiB", "inductor, MiB", "in pieces, MiB", "of inductor"),
    *("eager, process", "inductor, process", "in pieces, process", "of inductor", "seconds of eager's", "equal"),
)


def main() -> None:
    """Run each way in processes of its own, and print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--networks", type=lambda text: text.split(","))
    parser.add_argument("--modes", type=lambda text: text.split(","), default=["inference", "gradients"])
    parser.add_argument("--processes", type=int, default=3)
    options = parser.parse_args()
    from paid_networks import NETWORKS

    rows: Rows = json.loads(options.json.read_text())["rows"] if options.json and options.json.exists() else []

    def save() -> None:
        if options.json:
            write_text(options.json, json.dumps({"rows": rows}))

    cells = []
    for mode, name in product(options.modes, options.networks or NETWORKS):
        own = [row for row in rows if row["mode"] == mode]
        for way in WAYS:
            row = paid.measured(own, name, way, mode, options.processes, save)
            rows.extend([] if row in rows else [row])
            save()
        cells.append(cells_of([row for row in own if row["network"] == name], mode))
        print(*cells[-1], flush=True)
    report("run in pieces", HEAD, cells, rows, options, page="split.md")


def cells_of(rows: Rows, mode: str) -> list[str]:
    """A row of the table."""
    by_way: dict[str, dict[str, Any]] = {row["way"]: row for row in rows}
    name = rows[0]["network"]
    wrong = next((row["error"] for row in rows if "error" in row), None)
    if wrong:
        return [name, mode, wrong, *[""] * (len(HEAD) - 3)]
    cells = [name, mode]
    for key in ("allocator", "process"):
        figures = [paid.median(by_way[way], key) for way in WAYS]
        cells += [*map(mib, figures), ratio(figures[2], figures[1])]
    seconds = paid.median(by_way["split"], "seconds") / paid.median(by_way["eager"], "seconds")
    results = [{found["result"] for found in by_way[way]["found"]} for way in ("eager", "split")]
    return [*cells, f"{seconds:.2f}", "yes" if results[0] == results[1] else "rounding"]


if __name__ == "__main__":
    main()
