"""What a process pays for a step: bytes of torch's allocator, and anonymous memory of the process, in fresh processes.

A way is run in processes of its own. Each makes network, states of the optimizer and inputs, loads the compiler where
there is one, gives malloc's free memory back, and takes the anonymous memory that it holds then as its baseline. After
some steps of warm-up it resets the high-water mark of its memory, runs three steps, and reads the mark. Figures are
medians over the processes. A process before them, which does not count, fills the compiler's cache.
``split`` is the least that `memplan.fit` finds with ops in pieces, by `plan.run`. ``within:N`` is the cheapest plan
that it finds in N bytes, what kernels are known to allocate among them.
Modes: ``training`` is a step with AdamW, ``gradients`` one without an optimizer, which holds its gradients until the
next step, and ``inference``.
Run: ``python tests/benchmarks/paid.py [--mode training] [--networks a,b] [--ways a,b] [--processes N] [--json F]
[--docs]``. Processes that are in the file of --json already are not run again, and with ``--processes 0`` none is run;
each mode has a file of its own.
"""

from __future__ import annotations

import ctypes
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path
from typing import Any

from reporting import Rows, arguments, mib, report

from memplan.files import write_text

MALLOCS: dict[str, dict[str, str]] = {  # how malloc is set, as variables of the environment
    "": {},
    "mmap": {"MALLOC_MMAP_THRESHOLD_": "65536"},
    "jemalloc": {"LD_PRELOAD": "libjemalloc.so.2"},
}
WAYS = {
    "training": (
        *("eager", "eager mmap", "eager jemalloc", "planned"),
        *("inductor", "inductor mmap", "inductor jemalloc", "memplan", "planned-inductor"),
    ),
    "gradients": ("eager", "eager mmap", "eager jemalloc", "plan.run", "split"),
    "inference": (
        *("eager", "eager mmap", "eager jemalloc", "plan.run", "planned", "split"),
        *("inductor", "inductor mmap", "inductor jemalloc", "memplan", "planned-inductor"),
    ),
}
HEAD = (
    "network",
    "way",
    "allocator, MiB",
    "of its base",
    "process, MiB",
    "of its base",
    "seconds",
    "of its base",
    "equal",
)
FIGURES = ("allocator", "process", "seconds")
WARM = 5  # steps before the mark is reset: `planned` serves the fourth


def main() -> None:
    """Run each way in processes of its own, and print the table."""
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(one(*sys.argv[2:])))
        return
    parser = arguments(__doc__)
    parser.add_argument("--mode", choices=tuple(WAYS), default="training")
    parser.add_argument("--networks", type=lambda text: text.split(","))
    parser.add_argument("--ways", type=lambda text: text.split(","))
    parser.add_argument("--processes", type=int, default=5)
    options = parser.parse_args()
    from paid_networks import NETWORKS

    networks, ways = options.networks or list(NETWORKS), options.ways or WAYS[options.mode]
    rows = rows_of(options.json, options.mode)

    def save() -> None:
        if options.json:
            write_text(options.json, json.dumps({"rows": rows}))

    for name, way in product(networks, ways):
        row = measured(rows, name, way, options.mode, options.processes, save)
        print(*cells_of(row, rows), flush=True)
    wanted = [
        row for name, way in product(networks, ways) for row in rows if (row["network"], row["way"]) == (name, way)
    ]
    cells = [cells_of(row, rows) for row in wanted]
    report(f"paid in {options.mode}", HEAD, cells, rows, options, shown=shown(wanted, rows))


def rows_of(path: Path | None, mode: str) -> Rows:
    """What a file has already, without errors."""
    rows: Rows = json.loads(path.read_text())["rows"] if path and path.exists() else []
    other = {row["mode"] for row in rows} - {mode}
    if other:
        raise SystemExit(f"{path} has rows of mode {other.pop()!r}; expected rows of {mode!r}: give another file")
    return [row for row in rows if "error" not in row]


def measured(rows: Rows, name: str, way: str, mode: str, count: int, save: Callable[[], None]) -> dict[str, Any]:
    """The row of a way, with as many processes as are asked for; it is saved after each."""
    row = next((row for row in rows if (row["network"], row["way"]) == (name, way)), None)
    if row is None:
        cached = any(row["network"] == name and compiler(row["way"]) == compiler(way) for row in rows)
        if compiler(way) and count and not cached:
            in_process(name, way, mode)
        row = {"network": name, "way": way, "mode": mode, "found": []}
        rows.append(row)
    while len(row["found"]) < count and "error" not in row:
        found = in_process(name, way, mode)
        if "error" in found:
            row |= found
        else:
            row["found"].append(found)
        save()
    return row


def in_process(name: str, way: str, mode: str) -> dict[str, Any]:
    """The figures of a process of its own."""
    which, _, malloc = way.partition(" ")
    command = [sys.executable, __file__, "--one", name, which, mode]
    done = subprocess.run(command, env={**os.environ, **MALLOCS[malloc]}, capture_output=True, text=True)
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1][:120]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def compiler(way: str) -> str:
    """The backend of torch.compile that a way uses; empty if none."""
    backend = way.partition(" ")[0].removeprefix("planned-")
    return backend if backend in ("inductor", "memplan") else ""


def base_of(row: dict[str, Any], rows: Rows) -> dict[str, Any]:
    """What a row is compared with: eager, or Inductor where torch.compile is used; else itself."""
    base = "inductor" if compiler(row["way"]) else "eager"
    same = (other for other in rows if (other["network"], other["way"]) == (row["network"], base))
    return next((other for other in same if other["found"]), row)


def median(row: dict[str, Any], key: str) -> float:
    return statistics.median(found[key] for found in row["found"])


def shares(row: dict[str, Any], rows: Rows) -> list[float]:
    """The figures of a row, over those of its base."""
    return [median(row, key) / max(median(base_of(row, rows), key), 1e-9) for key in FIGURES]


def is_equal(row: dict[str, Any], rows: Rows) -> bool:
    """Whether all processes, and those of eager, or of Inductor, have the same result."""
    return len({found["result"] for one in (row, base_of(row, rows)) for found in one["found"]}) == 1


def cells_of(row: dict[str, Any], rows: Rows) -> list[str]:
    """A row of the table."""
    if not row["found"]:
        return [row["network"], row["way"], row.get("error", ""), *[""] * (len(HEAD) - 3)]
    sizes = [mib(median(row, key)) for key in ("allocator", "process")] + [f"{median(row, 'seconds'):.3f}"]
    cells = [cell for size, share in zip(sizes, shares(row, rows), strict=True) for cell in (size, f"{share:.3f}")]
    return [row["network"], row["way"], *cells, "yes" if is_equal(row, rows) else "rounding"]


def shown(rows: Rows, all_rows: Rows) -> tuple[list[str], list[list[str]]]:
    """A shorter table: a row for each network, a column for each way, and the medians of what they are of their bases.

    A base has its figures in MiB. A star is for results that are equal up to rounding. Seconds are left out: they are
    to be measured in turns.
    """
    ways = list(dict.fromkeys(row["way"] for row in rows))
    table: dict[str, dict[str, str]] = {}
    of: dict[str, list[list[float]]] = {way: [] for way in ways}
    for row in rows:
        if not row["found"]:
            said = row.get("error", "")
        elif base_of(row, all_rows) is row:
            said = f"{mib(median(row, 'allocator'))} / {mib(median(row, 'process'))}"
        else:
            of[row["way"]].append(shares(row, all_rows)[:2])
            said = as_shares(of[row["way"]][-1]) + ("" if is_equal(row, all_rows) else " *")
        table.setdefault(row["network"], {})[row["way"]] = said
    lines = [[name, *(found.get(way, "") for way in ways)] for name, found in table.items()]
    medians = [as_shares(map(statistics.median, zip(*of[way], strict=True))) for way in ways]
    return ["network", *ways], [*lines, ["median", *medians]]


def as_shares(values: Iterable[float]) -> str:
    return " / ".join(f"{value:.3f}" for value in values)


def one(name: str, way: str, mode: str) -> dict[str, Any]:
    """The figures of this process."""
    from paid_steps import allocated, memory, steps_of

    found = steps_of(name, way, mode)
    ctypes.CDLL(None).malloc_trim(0)
    base = memory()["RssAnon"]
    for _ in range(WARM):
        found.step()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    seconds = []
    for _ in range(3):
        begin = time.perf_counter()
        result = found.step()
        seconds.append(time.perf_counter() - begin)
    after = memory()
    process = after["VmHWM"] - after["RssFile"] - base
    if mode == "gradients":
        made = found.run.gradients.values() if found.plan else [p.grad for p in found.module.parameters()]
        result = result.double() + sum(g.double().sum() for g in {id(g): g for g in made if g is not None}.values())
    text = float(result.double().sum()).hex()
    found.run = made = result = None  # no step counts what an earlier one has left
    found.module.zero_grad()
    allocator = found.held() if found.held is not None else allocated(found.step)
    figures = {"allocator": allocator, "process": process, "seconds": statistics.median(seconds), "result": text}
    if found.plan:
        found.step()
        figures |= {"ops": len(found.plan.graph.ops), "difference": difference(found.run, found.network, found.batch)}
        figures["holds"] = str(found.plan.explain()).partition("\n\n")[0]
    return figures


def difference(run: Any, network: Any, batch: Any) -> float:
    """The largest difference of what a run has given from eager, over the largest element of its tensor.

    Gradients that are zero but for rounding, as those of a key's bias, count by a millionth of the largest.
    """
    import torch
    from torch.utils._pytree import tree_leaves

    torch.manual_seed(1)
    network.zero_grad()
    if run.loss is None:
        with torch.no_grad():
            pairs = list(zip(tree_leaves(run.outputs), tree_leaves(network(**batch)), strict=True))
    else:
        loss = network(**batch)
        loss.backward()
        named = network.named_parameters(remove_duplicate=False)
        gradients = {name: p.grad for name, p in named if p.grad is not None}
        assert gradients.keys() == run.gradients.keys()
        pairs = [(run.loss, loss), *((run.gradients[name], gradient) for name, gradient in gradients.items())]
    pairs = [(a.detach(), b.detach()) for a, b in pairs if isinstance(b, torch.Tensor)]
    largest = max(float(b.abs().max()) for _, b in pairs[-len(run.gradients) :])
    return max(float((a - b).abs().max() / b.abs().max().clamp_min(1e-6 * largest)) for a, b in pairs)


if __name__ == "__main__":
    main()
