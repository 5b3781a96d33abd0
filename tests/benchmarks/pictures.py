"""Networks of pictures with norms, whole and in pieces: bytes, the process and seconds beside eager torch.

Each way runs in a process of its own. `run` is `plan.run` of what `memplan.fit` finds in a share of eager's bytes,
`compiled` is torch.compile with the share as its budget, and `inductor` without one. *Bytes* are those of torch's
allocator; of `run` the arena and `run.outside`. The process is anonymous memory above what it holds before. *Seconds*
are shares of eager's in the same process, in turns. *Difference* is the largest, of the largest element of the result;
*at borders* is the mean of the difference in rows beside borders of pieces, as a share of the mean of all rows.
Run: ``python tests/benchmarks/pictures.py [--networks decoder:512,unet:256] [--ways eager,run:0.2] [--json F]
[--docs]``. `--paper decoder:2048:4GiB` only plans.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

from paid_steps import allocated, memory
from reporting import arguments, mib, ratio, report

HEAD = (
    *("network", "pixels", "way", "MiB", "of eager", "process, MiB", "of eager", "seconds of eager's"),
    *("work added", "difference", "at borders", "found in, s"),
)
NETWORKS = "decoder:256,unet:256,convnext:512,style:512"
WAYS = "eager,inductor,run:0.5,run:0.3,run:0.2,compiled:0.5,compiled:0.3"
PASSES = ("split", "recompute")


def main() -> None:
    """Run each way in a process of its own, and print the table."""
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(one(sys.argv[2], int(sys.argv[3]), *sys.argv[4:])))
        return
    parser = arguments(__doc__)
    parser.add_argument("--networks", type=lambda text: text.split(","), default=NETWORKS.split(","))
    parser.add_argument("--ways", type=lambda text: text.split(","), default=WAYS.split(","))
    parser.add_argument("--paper")
    options = parser.parse_args()
    if options.paper:
        on_paper(*options.paper.split(":"))
        return
    rows: list[dict[str, Any]] = []
    eager: dict[str, dict[str, Any]] = {}
    for network, way in product(options.networks, options.ways):
        name, pixels = network.split(":")
        found = in_process(name, pixels, way, eager.get(network, {}).get("bytes", 0))
        row = {"network": name, "pixels": pixels, "way": way, **found}
        rows.append(row | {"eager": eager.setdefault(network, row)})
        print(*cells_of(rows[-1]), sep=" | ", flush=True)
    report("pictures", HEAD, map(cells_of, rows), rows, options, page="split.md")


def in_process(*what: Any) -> dict[str, Any]:
    """The figures of a process of its own, or its error."""
    first: dict[str, Any] | None = None
    with tempfile.TemporaryDirectory() as caches:
        while True:
            command = [sys.executable, __file__, "--one", *map(str, what)]
            environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": caches}
            done = subprocess.run(command, capture_output=True, text=True, env=environment)
            if done.returncode:
                lines = [line for line in done.stderr.splitlines() if "Error" in line]
                return {"error": lines[-1][:300]}
            found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
            if first is not None:
                return found | {"found": first["found"]}
            if what[2] != "inductor" and not str(what[2]).startswith("compiled"):
                return found
            first = found  # its compiler fills the cache, so that the next process holds less of it


def cells_of(row: dict[str, Any]) -> list[str]:
    """A row of the table."""
    cells = [row["network"], row["pixels"], row["way"]]
    if "error" in row:
        least = least_of(row["error"])
        said = [f"refused, least {mib(least)}", ratio(least, row["eager"]["bytes"])] if least else [row["error"], ""]
        return [*cells, *said, *[""] * (len(HEAD) - 5)]
    for key in ("bytes", "process"):
        cells += [mib(row[key]), ratio(row[key], row["eager"][key])]
    cells += [f"{row['seconds']:.2f}", f"{row['work']:.0%}" if "work" in row else "", f"{row['difference']:.0e}"]
    return [*cells, f"{row['borders']:.2f}" if "borders" in row else "", f"{row['found']:.1f}"]


def least_of(error: str) -> float:
    """The fewest bytes that an error says were found, without weights and inputs; 0 if it says none."""
    if found := re.search(r"the least load found is (\d+) bytes", error):
        return float(found[1])
    found = re.search(r"least found holds .*?\(([\d,]+) bytes\) at once, ([\d.]+) MiB of it", error)
    return float(found[1].replace(",", "")) - float(found[2]) * 2**20 if found else 0.0


def on_paper(name: str, pixels: str, capacity: str) -> None:
    """Plan into a capacity, and print what is found."""
    from picture_networks import NETWORKS as networks

    import memplan

    make, given = networks[name]
    source = memplan.capture(make().eval(), args=(given(int(pixels)),), kernels=True)
    begin = time.perf_counter()
    plan = memplan.fit(source, capacity, allow=PASSES)
    print(mib(memplan.plan(source).peak), mib(plan.peak), f"{time.perf_counter() - begin:.1f} s", plan.fitting)


def one(name: str, pixels: int, way: str, usual: str) -> dict[str, Any]:
    """The figures of this process. `usual` has eager's bytes."""
    import torch
    from picture_networks import NETWORKS as networks

    import memplan

    torch.manual_seed(0)
    make, given = networks[name]
    net, x = make().eval(), given(pixels)
    kind, _, share = way.partition(":")
    row: dict[str, Any] = {}
    run: Any = net
    begin = time.perf_counter()
    if kind == "run":
        plan = memplan.fit(net, int(float(share) * int(usual)), args=(x,), kernels=True, allow=PASSES)
        row["work"] = plan.fitting.added_cost / plan.fitting.cost
        run = lambda x: plan.run(x).outputs  # noqa: E731
    elif kind == "inductor":
        run = torch.compile(net)
    elif kind == "compiled":
        budget = int(float(share) * int(usual)) + sum(t.nbytes for t in (*net.parameters(), *net.buffers(), x))
        run = torch.compile(net, backend="memplan", options={"budget": budget, "allow": PASSES})

    def step() -> Any:
        with torch.no_grad():
            return run(x)

    if kind in ("inductor", "compiled"):
        torch.compile(lambda x: x + 1)(torch.ones(4))  # the compiler's own code is in memory
        begin = time.perf_counter()
    ctypes.CDLL(None).malloc_trim(0)
    base = memory()["RssAnon"]
    if kind in ("inductor", "compiled"):
        step()
    row["found"] = time.perf_counter() - begin
    step()  # what is made at first is in memory
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    made = step()
    after = memory()
    row["process"] = after["VmHWM"] - after["RssFile"] - base
    with torch.no_grad():
        pairs = [(seconds(step), seconds(lambda: net(x))) for _ in range(2 if pixels >= 512 else 3)]
        wrong = (made - net(x)).abs()
        row["seconds"] = statistics.median(a / b for a, b in pairs)
        row["difference"] = float(wrong.max() / net(x).abs().max())
    row["bytes"] = plan.peak + plan.run(x).outside if kind == "run" else allocated(step)
    if kind == "run" and wrong.dim() == 4:
        row["borders"] = at_borders(wrong.mean((0, 1, 3)), max(change.pieces for change in plan.changes[-1:]))
    return row


def at_borders(rows: Any, pieces: int) -> float:
    """The mean of rows beside borders of pieces, over that of all."""
    borders = {len(rows) * piece // pieces for piece in range(1, pieces)}
    beside = sorted({row for border in borders for row in (border - 1, border)})
    return float(rows[beside].mean() / rows.mean()) if beside and float(rows.mean()) else 1.0


def seconds(function: Callable[[], Any]) -> float:
    """Of one call."""
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
