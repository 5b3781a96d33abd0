"""What the table of TFLite Micro's kernels allows, beside what the kernels do, as plain loops over random geometries.

    python tests/benchmarks/kernel_traces.py --geometries 100000

Each kernel logs what it reads and writes. No iteration may read or write what the table does not list, and no byte of
an input may be read after a byte of the output was written that may lie on it, wherever both lie. Then the log runs
byte by byte, with the output as near to each input as the table allows, on both sides. Entries that are made wrong on
purpose have to be found. "Together" are the bytes of an input and the output, as a share of both apart: by the outer
loop alone, as the table allows, and as the log shows that it could be.

With `--run 100`, TFLite Micro runs that many geometries of each kernel, the output as near to each input as the table
allows, and its results have to equal those of tensors apart, byte for byte. It needs the extra `tflite-micro`.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from reporting import arguments, report

sys.path.insert(0, str(Path(__file__).parents[1]))
from builders.micro_tracing import Traced, mistakes, traced
from memplan.tflite.reading.micro import Kernel, kernels
from oracles import traces

HEAD = (
    "kernel",
    "geometries",
    "overlap",
    "wrong",
    "lost",
    "mistakes",
    "found",
    "runs",
    "equal",
    "outer loop",
    "table",
    "log",
)


def main() -> int:
    """Run the geometries, and print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--geometries", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first geometry")
    parser.add_argument("--run", type=int, default=0, help="geometries of each kernel that TFLite Micro runs")
    options = parser.parse_args()
    known = [kernel for kernel in kernels() if kernel.loops]
    each = -(-options.geometries // len(known))
    rows = [row_of(kernel, range(options.seed, options.seed + each), options.run) for kernel in known]
    total: dict[str, Any] = {name: sum(row[name] for row in rows) for name in HEAD[1:9]}
    cells = [
        [str(row[name]) for name in HEAD] for row in [*rows, {**dict.fromkeys(HEAD, ""), "kernel": "all", **total}]
    ]
    report("kernel traces", HEAD, cells, rows, options)
    wrong = total["wrong"] + total["lost"] + total["mistakes"] - total["found"] + total["runs"] - total["equal"]
    return int(wrong > 0)


def row_of(kernel: Kernel, seeds: range, run: int) -> dict[str, Any]:
    found: Counter[str] = Counter()
    together: dict[str, int] = defaultdict(int)
    for seed in seeds:
        one = traced(kernel, seed)
        found["geometries"] += 1
        if one is None:
            continue
        found["overlap"] += 1
        for text in one.wrong():
            found["wrong"] += 1
            print(kernel.operator, seed, text, flush=True)
        for text in one.lost():
            found["lost"] += 1
            print(kernel.operator, seed, text, flush=True)
        for name, claim in mistakes(one):
            found["mistakes"] += 1
            found["found"] += bool(traces.wrong(claim, one.log))
            if not traces.wrong(claim, one.log):
                print(kernel.operator, seed, name, "not found", flush=True)
        measure(one, together)
        if found["overlap"] <= run:
            run_it(one, seed, found)
    shares = {name: f"{together[name] / max(1, together['apart']):.3f}" for name in HEAD[9:]}
    return {"kernel": kernel.operator, **{name: found[name] for name in HEAD[1:9]}, **shares}


def run_it(one: Traced, seed: int, found: Counter[str]) -> None:
    from builders import micro_files

    wanted = micro_files.run(one.case, micro_files.apart(one.case, one.inputs()), seed)
    for offsets in micro_files.nearest(one):
        equal = wanted is not None and micro_files.run(one.case, offsets, seed) == wanted
        found["runs"] += 1
        found["equal"] += equal
        if not equal:
            print(one.case.kind, seed, offsets, "gives other results", flush=True)


def measure(one: Traced, together: dict[str, int]) -> None:
    outer = one.claim._replace(
        loops=one.claim.loops[:1], reads_first=one.claim.reads_first and len(one.claim.loops) == 1
    )
    for tensor in one.inputs():
        together["apart"] += one.apart(tensor)
        for name, claim in (("outer loop", outer), ("table", one.claim), ("log", None)):
            together[name] += one.together(tensor, claim)


if __name__ == "__main__":
    sys.exit(main())
