"""The smallest arena in which TFLite Micro runs a model: by its own planner, by a plain plan, and overlapped.

    python tests/benchmarks/overlap_tflite.py [--models FILE ...] [--inputs 100] [--json FILE]

Peaks are bytes of the plan; arenas hold what the interpreter keeps for itself besides, to 16 bytes. Too small an arena
may crash the interpreter, so each is tried in a process of its own. "Equal" counts random inputs of which all outputs
are equal byte for byte: those of the model as it is, in twice the arena that it needs, and those of the overlapped plan
in the least arena. It needs the extra `tflite-micro`.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from measuring import BESIDE, INSTANCES
from reporting import arguments, ratio, report
from tflite_micro import runtime

import memplan

DATA = Path(__file__).parents[1] / "data" / "tflite"
PLACE = ("input", "intermediate", "output")
ALIGNMENT = 16  # which TFLite Micro asks for
HEAD = (
    *("model", "plain", "overlapped", "of plain", "proven", "seconds"),
    *("arena, own planner", "plain", "overlapped", "of own", "of plain", "equal"),
)


def main() -> int:
    """Measure each model, and print the table; 1 if an output differs."""
    parser = arguments(__doc__)
    parser.add_argument("--models", type=Path, nargs="+", default=models(), metavar="FILE")
    parser.add_argument("--inputs", type=int, default=100, help="random inputs of each model")
    options = parser.parse_args()
    rows, cells = [], []
    for path in options.models:
        rows.append(row_of(path, options.inputs))
        cells.append(cells_of(rows[-1]))
        print(*cells[-1], sep="  ", flush=True)
    report("overlap of tflite", HEAD, cells, rows, options)
    return int(any(row["equal"] < row["inputs"] for row in rows))


def models() -> list[Path]:
    folders = [DATA, *([INSTANCES / "tflite"] if INSTANCES == BESIDE else [])]
    return [path for folder in folders for path in sorted(folder.glob("*.tflite"))]


def row_of(path: Path, runs: int) -> dict[str, Any]:
    plain = memplan.plan(path, place=PLACE, alignment=ALIGNMENT)
    begin = time.perf_counter()
    overlapped = memplan.plan(path, place=PLACE, alignment=ALIGNMENT, overlap="tflite-micro")
    seconds = time.perf_counter() - begin
    own = path.read_bytes()
    each = [own, *(written(plan, path) for plan in (plain, overlapped))]
    arenas = [smallest(model) for model in each]
    graph = overlapped.graph
    ends = sum(tensor.kind == "input" for tensor in graph.tensors), len(graph.outputs)
    wanted, found = results(own, 2 * arenas[0], runs, *ends), results(each[-1], arenas[-1], runs, *ends)
    return {
        **{"model": path.stem, "plain": plain.peak, "overlapped": overlapped.peak},
        **{"proven": overlapped.optimal, "seconds": seconds, "arenas": arenas, "inputs": runs},
        "equal": sum(a == b for a, b in zip(wanted, found, strict=True)),
    }


def written(plan: memplan.Plan, path: Path) -> bytes:
    """The model with the offsets of a plan."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "planned.tflite"
        plan.to_tflite(file, path)
        return file.read_bytes()


def smallest(model: bytes) -> int:
    """The least arena that the interpreter takes, to 16 bytes."""
    below, takes = 0, 1024
    while not is_taken(model, takes):
        below, takes = takes, 2 * takes
    while takes - below > ALIGNMENT:
        middle = (below + takes) // 2 // ALIGNMENT * ALIGNMENT
        below, takes = (below, middle) if is_taken(model, middle) else (middle, takes)
    return takes


def is_taken(model: bytes, arena: int) -> bool:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            silence()
            runtime.Interpreter.from_bytes(model, arena_size=arena)
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


def silence() -> None:
    """The interpreter prints what it lacks."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def results(model: bytes, arena: int, runs: int, inputs: int, outputs: int) -> list[list[bytes]]:
    """All outputs, of each run on random inputs."""
    interpreter = runtime.Interpreter.from_bytes(model, arena_size=arena)
    chance, found = np.random.default_rng(0), []
    for _ in range(runs):
        for position in range(inputs):
            wanted = interpreter.get_input_details(position)
            interpreter.set_input(drawn(wanted["shape"], wanted["dtype"], chance), position)
        interpreter.invoke()
        found.append([interpreter.get_output(position).tobytes() for position in range(outputs)])
    return found


def drawn(shape: Any, dtype: Any, chance: Any) -> Any:
    if np.issubdtype(dtype, np.integer):
        return chance.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)
    return chance.standard_normal(shape).astype(dtype)


def cells_of(row: dict[str, Any]) -> list[str]:
    """A row of the table."""
    own, plain, overlapped = row["arenas"]
    cells = [row["model"], f"{row['plain']:,}", f"{row['overlapped']:,}", ratio(row["overlapped"], row["plain"])]
    cells += ["yes" if row["proven"] else "no", f"{row['seconds']:.2f}"]
    cells += [*(f"{arena:,}" for arena in row["arenas"]), ratio(overlapped, own), ratio(overlapped, plain)]
    return [*cells, f"{row['equal']} of {row['inputs']}"]


if __name__ == "__main__":
    raise SystemExit(main())
