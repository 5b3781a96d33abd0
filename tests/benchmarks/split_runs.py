"""What a process pays where ops run in pieces: `plan.run` of plans with splits, beside eager and Inductor.

``split`` is the least plan that is found, and ``within`` the cheapest one in half of the bytes that Inductor takes, if
the least takes fewer. The file of --json says what holds each peak.

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
    *("eager, process", "inductor, process", "in pieces, process", "of inductor", "seconds of eager's", "difference"),
)
WITHIN_HEAD = (
    *("network", "mode", "ops", "in pieces, MiB", "of inductor", "in pieces, process", "of inductor"),
    *("seconds of eager's", "of inductor's", "difference"),
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
    rows = [row for row in rows if "error" not in row]

    def save() -> None:
        if options.json:
            write_text(options.json, json.dumps({"rows": rows}))

    cells, within = [], []
    for mode, name in product(options.modes, options.networks or NETWORKS):
        own = [row for row in rows if row["mode"] == mode]

        def row_of(way: str, own: Rows = own, name: str = name, mode: str = mode) -> dict[str, Any]:
            row = paid.measured(own, name, way, mode, options.processes, save)
            rows.extend([] if row in rows else [row])
            save()
            return row

        found = {way: row_of(way) for way in WAYS}
        cells.append(cells_of(found))
        print(*cells[-1], flush=True)
        if any("error" in row for row in found.values()):
            continue
        least, half = (
            int(paid.median(found[way], "allocator")) // part for way, part in (("split", 1), ("inductor", 2))
        )
        if least < half:
            found["within"] = row_of(f"within:{half}")
            within.append(within_of(found))
            print(*within[-1], flush=True)
    report("run in pieces", HEAD, cells, rows, options, page="split.md")
    report("run within half", WITHIN_HEAD, within, rows, options, page="split.md")


def cells_of(rows: dict[str, dict[str, Any]]) -> list[str]:
    """A row of the table."""
    name, mode = rows["split"]["network"], rows["split"]["mode"]
    wrong = next((row["error"] for row in rows.values() if "error" in row), None)
    if wrong:
        return [name, mode, wrong, *[""] * (len(HEAD) - 3)]
    cells = [name, mode]
    for key in ("allocator", "process"):
        figures = [paid.median(rows[way], key) for way in WAYS]
        cells += [*map(mib, figures), ratio(figures[2], figures[1])]
    return [*cells, *seconds_of(rows["split"], rows["eager"]), f"{paid.median(rows['split'], 'difference'):.1e}"]


def within_of(rows: dict[str, dict[str, Any]]) -> list[str]:
    """A row of the table of plans within half."""
    row = rows["within"]
    name, mode = row["network"], row["mode"]
    if "error" in row:
        return [name, mode, row["error"], *[""] * (len(WITHIN_HEAD) - 3)]
    cells = [name, mode, f"{paid.median(row, 'ops'):.0f}"]
    for key in ("allocator", "process"):
        cells += [mib(paid.median(row, key)), ratio(paid.median(row, key), paid.median(rows["inductor"], key))]
    return [*cells, *seconds_of(row, rows["eager"], rows["inductor"]), f"{paid.median(row, 'difference'):.1e}"]


def seconds_of(row: dict[str, Any], *others: dict[str, Any]) -> list[str]:
    """Seconds of a row, over those of others."""
    return [f"{paid.median(row, 'seconds') / paid.median(other, 'seconds'):.2f}" for other in others]


if __name__ == "__main__":
    main()
