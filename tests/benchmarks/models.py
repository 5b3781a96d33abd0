"""Real models: what the importers see, what sharing bytes by choice saves of the load, and what planning makes of it.

"load apart" is the load when nothing shares bytes by choice; the three columns after it are the load, as a share of
that, with outputs in place, with slices and concatenations that are not copied, and with both. Plans the light models
of the onnx package and the transformers models of tests/models.py, inference and training.
Run: ``python tests/benchmarks/models.py``
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import memplan
from memplan.printing.units import format_bytes

sys.path.insert(0, str(Path(__file__).parents[1]))


def add_row(table: Table, name: str, capture: Callable[[], Any]) -> None:
    """Import, plan, verify twice (problem and replay), and print the figures."""
    start = time.perf_counter()
    graph = capture()
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    plan = memplan.plan(graph)
    planning = time.perf_counter() - start
    plan.verify()
    apart = load(graph, inplace=False, zero_copy=False)
    sharing = (load(graph, zero_copy=False), load(graph, inplace=False), plan.load)
    how = Counter(share[0] for share in plan.buffers.shared) if plan.buffers else Counter()
    counts = (str(len(graph.tensors)), str(len(plan)), *(str(how[h]) for h in ("inplace", "slice", "concat")))
    ratios = (f"{part / apart:.3f}" for part in sharing)
    figures = (format_bytes(plan.naive), format_bytes(apart), *ratios, format_bytes(plan.peak), f"{plan.gap:.3%}")
    table.add_row(name, *counts, *figures, f"{seconds:.3f}", f"{planning * 1000:.2f}")


def load(graph: Any, **sharing: bool) -> int:
    """The load of the graph's problem."""
    return memplan.plan(graph, "greedy_by_size", **sharing).load


def main() -> None:
    """Print the table."""
    import onnx

    from builders.models import CATALOGUE, inference_inputs, llama_7b

    names = ("model", "tensors", "buffers", "in place", "slices", "parts", "naive", "load apart")
    shares = ("in place / apart", "zero copy / apart", "both / apart")
    table = Table(*names, *shares, "peak", "gap", "import (s)", "plan (ms)")
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    for path in sorted(folder.glob("*.onnx")):
        add_row(table, path.stem, lambda path=path: memplan.capture(path).graph)
    for name, build in CATALOGUE.items():
        example = build()
        inputs = inference_inputs(example)
        add_row(table, f"{name} inference", lambda m=example.model, i=inputs: memplan.capture(m, kwargs=i).graph)
        example.model.train()
        add_row(
            table, f"{name} training", lambda e=example: memplan.capture(e.model, kwargs=e.inputs, train=True).graph
        )
    import torch

    tokens = torch.zeros(1, 512, dtype=torch.int64)
    add_row(table, "llama 7B inference", lambda: memplan.capture(llama_7b(), args=(tokens,)).graph)
    Console(width=None if sys.stdout.isatty() else 200).print(table)


if __name__ == "__main__":
    main()
