"""Training loops on a GPU: reserved bytes, seconds per step and losses, with torch's allocator and with an arena.

Run: ``python tests/benchmarks/cuda_training.py [--loops gpt2,bert] [--json FILE]``. Each loop runs in processes of its
own, in turn: with torch's allocator, with its expandable segments, and in one arena. No figures of it are in the
documents yet, because it was written without a GPU.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from reporting import MIB, arguments, report

MODES = {
    "torch": {},
    "expandable": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    "memplan": {},
}
HEAD = ("loop", "mode", "reserved, MiB", "seconds per step", "losses", "served", "missed", "arena, MiB")
ROUNDS = 3


def measured(name: str, mode: str) -> dict[str, Any]:
    """In this process: what a loop reserves, how long its steps take, and its losses, bit for bit."""
    import torch

    import memplan

    if mode == "memplan":
        memplan.run.cuda_unproven.install()
    torch.set_default_device("cuda")
    torch.use_deterministic_algorithms(True, warn_only=True)
    import training

    loop, arena = training.warm(name), None
    if mode == "memplan":
        arena, _ = training.planned(loop, "cuda")
        memplan.run.cuda_unproven.memory(reset_peaks=True)
    else:
        for _, batch in dict(loop.batches).items():  # what the others record
            loop.step(batch)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    losses = list(training.steps(loop, arena))  # reads each loss, and so waits for each step
    found: dict[str, Any] = {"losses": losses, "seconds": (time.perf_counter() - begin) / training.STEPS}
    if arena is None:
        return {**found, "reserved": torch.cuda.max_memory_reserved()}
    counts = arena.report()
    figures = {key: getattr(counts, key) for key in ("served", "missed", "arena_bytes")}
    return {**found, **figures, "reserved": memplan.run.cuda_unproven.memory().reserved_peak}


def run(name: str, mode: str) -> dict[str, Any]:
    """In a process of its own: an allocator cannot be changed once CUDA has begun."""
    environment = {**os.environ, "CUBLAS_WORKSPACE_CONFIG": ":4096:8", **MODES[mode]}
    command = [sys.executable, __file__, "--measure", name, mode]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def rows_of(name: str) -> list[dict[str, Any]]:
    """A row for each mode: the median of the seconds of several rounds, in turn."""
    rounds = [{mode: run(name, mode) for mode in MODES} for _ in range(ROUNDS)]
    rows = []
    for mode in MODES:
        first = rounds[0][mode]
        seconds = statistics.median(found[mode]["seconds"] for found in rounds)
        equal = all(found[mode]["losses"] == rounds[0]["torch"]["losses"] for found in rounds)
        rows.append({**first, "loop": name, "mode": mode, "seconds": seconds, "equal": equal})
    return rows


def cells(row: dict[str, Any]) -> list[str]:
    arena = (
        [f"{row['served']:,}", f"{row['missed']:,}", f"{row['arena_bytes'] / MIB:.1f}"] if "served" in row else [""] * 3
    )
    losses = "equal" if row["equal"] else "differ"
    return [row["loop"], row["mode"], f"{row['reserved'] / MIB:.1f}", f"{row['seconds']:.4f}", losses, *arena]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--loops", default="", help="their names, between commas; all by default")
    options = parser.parse_args()
    import torch

    if not torch.cuda.is_available():
        sys.exit("this benchmark needs a GPU, and torch finds none")
    import training

    names = options.loops.split(",") if options.loops else list(training.LOOPS)
    rows = [row for name in names for row in rows_of(name)]
    report("cuda training", HEAD, map(cells, rows), rows, options)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        sys.path.insert(0, str(Path(__file__).parent))
        print(json.dumps(measured(*sys.argv[2:4])))
    else:
        main()
