"""memplan beside others that plan memory and install as packages: OmniMalloc, ONNX Runtime.

Run: ``python tests/benchmarks/runtimes.py [--only omnimalloc,onnxruntime] [--json F] [--docs]``. Each plans
the buffers of its own graph, and memplan the same graph:

- OmniMalloc: the problems of traced torch networks; SuperMalloc with ten seconds and one thread.
- ONNX Runtime: the light models of the onnx package after its basic optimisations, which are saved and given to
  memplan. Its memory pattern is the block that a run reserves for all that it has seen in the first run; its dynamic
  arena is what that first run had in use at most after any kernel. Both from its profile, without the weights, on one
  thread. Graph outputs are not in the pattern, and are in the arena and in memplan's plan.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from reporting import Rows, arguments, ratio, report

import memplan
from memplan.printing.units import format_bytes

HEAD = ("who", "network", "buffers", "load", "theirs", "dynamic", "memplan", "load apart", "memplan, s", "theirs, s")
SECONDS = 10.0
LIGHT = ("squeezenet", "shufflenet", "inception_v1", "inception_v2", "densenet121", "resnet50")
DATA = Path(__file__).parents[1] / "data" / "torch"


def main() -> None:
    """Run those that are installed."""
    parser = arguments(__doc__)
    parser.add_argument("--only", default=",".join(PARTS), help="names, separated by commas")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    rows: Rows = []
    for name in options.only.split(","):
        if not find_spec(name):
            print(f"{name} is not installed", file=sys.stderr)
            continue
        for row in PARTS[name]():
            rows.append(row)
            print(row, file=sys.stderr, flush=True)
    report("runtimes", HEAD, [cells(row) for row in rows], rows, options)


def row_of(
    who: str, network: str, plan: memplan.Plan, theirs: int, dynamic: int | None = None, apart: int | None = None
) -> dict[str, Any]:
    """The figures of one network."""
    names = ("who", "network", "buffers", "load", "theirs", "dynamic", "memplan", "load_apart", "seconds")
    values = (who, network, len(plan), plan.load, theirs, dynamic, plan.peak, apart, plan.seconds)
    return dict(zip(names, values, strict=True))


def cells(row: dict[str, Any]) -> list[str]:
    """A row of the table: peaks over load."""
    peaks = [ratio(row[name], row["load"]) for name in ("theirs", "dynamic", "memplan", "load_apart")]
    seconds = ["" if row.get(name) is None else f"{row[name]:.4f}" for name in ("seconds", "their_seconds")]
    return [row["who"], row["network"], str(row["buffers"]), format_bytes(row["load"]), *peaks, *seconds]


def omnimalloc() -> Iterator[dict[str, Any]]:
    """SuperMalloc on problems of traced networks."""
    from peer_planners import supermalloc

    sources = [*(f"example:{name}" for name in ("resnet50_train", "gpt2_train", "gpt2_infer")), *DATA.glob("*.json")]
    for source in sorted(map(str, sources)):
        problem = memplan.plan(source, "greedy_by_size").problem
        plain = memplan.Problem(problem.size, problem.first, problem.last)  # it knows no shapes
        found = supermalloc(plain, SECONDS, None, 1)
        assert found.peak is not None
        row = row_of("OmniMalloc", Path(source).stem.removeprefix("example:"), memplan.plan(plain), found.peak)
        yield {**row, "their_seconds": found.seconds}


def onnxruntime() -> Iterator[dict[str, Any]]:
    """ONNX Runtime's memory pattern and arena on the light models."""
    import onnx

    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    for name in LIGHT:
        with tempfile.TemporaryDirectory() as scratch:
            pattern, dynamic, optimised = run_by_onnxruntime(folder / f"light_{name}.onnx", Path(scratch))
            plan = memplan.plan(str(optimised), alignment=64)
            apart = memplan.plan(str(optimised), "naive", inplace=False, zero_copy=False).load
            yield row_of("ONNX Runtime", name, plan, pattern, dynamic, apart)


def run_by_onnxruntime(path: Path, scratch: Path) -> tuple[int, int, Path]:
    """Bytes of the pattern and of the dynamic arena, and the model that really ran."""
    import numpy as np
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(scratch / "optimised.onnx")
    options.intra_op_num_threads = 1
    options.enable_profiling, options.profile_file_prefix = True, str(scratch / "profile")
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    inputs = {i.name: np.zeros(i.shape, np.float32) for i in session.get_inputs()}
    for _ in range(2):
        session.run(None, inputs)
    first, second = runs_of(json.loads(Path(session.end_profiling()).read_text()))
    weights = first[0]["mem_bytes_requested_in_use"] - first[0]["mem_requested_in_use_delta"]
    dynamic = max(kernel["mem_bytes_requested_in_use"] for kernel in first) - weights
    pattern = second[0]["mem_bytes_requested_in_use"] - second[0]["mem_requested_in_use_delta"] - weights
    return pattern, dynamic, scratch / "optimised.onnx"


def runs_of(events: list[dict[str, Any]]) -> tuple[list[dict[str, int]], list[dict[str, int]]]:
    """What the profile says of memory after each kernel, for both runs."""
    runs: list[list[dict[str, int]]] = [[]]
    for event in events:
        figures = {key: int(value) for key, value in event.get("args", {}).items() if key.startswith("mem_")}
        if figures:
            runs[-1].append(figures)
        if event["name"] == "model_run":
            runs.append([])
    return runs[0], runs[1]


PARTS: dict[str, Callable[[], Iterator[dict[str, Any]]]] = {
    "omnimalloc": omnimalloc,
    "onnxruntime": onnxruntime,
}

if __name__ == "__main__":
    main()
