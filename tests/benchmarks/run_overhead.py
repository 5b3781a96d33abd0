"""How long `plan.run` takes beside eager: forward, or forward and backward, of networks at usual widths.

Run: ``python tests/benchmarks/run_overhead.py [--networks vit,gpt2] [--rounds 10] [--json F] [--docs]``.

Eager and the plan take turns, and a ratio is the median of those of the rounds. Both run on one thread per core.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from networks import network
from reporting import Rows, arguments, mib, report

import memplan

SECTION = "run overhead"
HEAD = (
    "network",
    "graph",
    "ops",
    "copied",
    "arena, MiB",
    "first run, s",
    "eager, ms",
    "plan.run, ms",
    "ratio",
    "checked",
)


def measured(name: str, train: bool, rounds: int) -> dict[str, Any]:
    """One network, timed in turns."""
    model, inputs = network(name, train=False)
    if train:
        inputs = network(name, train=True)[1]
    plan = memplan.plan(model, "first_fit", kwargs=inputs, train=train, alignment=64)
    begin = time.perf_counter()
    run = plan.run(kwargs=inputs)
    first = time.perf_counter() - begin
    calls = [
        lambda: eager(model, inputs, train),
        lambda: plan.run(kwargs=inputs),
        lambda: plan.run(kwargs=inputs, check=True),
    ]
    turns = [[seconds(call) for call in calls] for _ in range(rounds)]
    return {
        "network": name,
        "graph": "training" if train else "inference",
        "ops": run.ops,
        "copied": run.copied,
        "arena": run.arena_bytes,
        "first": first,
        "eager": median(turn[0] for turn in turns),
        "run": median(turn[1] for turn in turns),
        "ratio": median(turn[1] / turn[0] for turn in turns),
        "checked": median(turn[2] / turn[0] for turn in turns),
    }


def eager(model: Any, inputs: Any, train: bool) -> None:
    with torch.set_grad_enabled(train):
        result = model(**inputs)
        if train:
            result.loss.backward()
            model.zero_grad()


def seconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def cells(row: dict[str, Any]) -> list[str]:
    times = [f"{row[key] * 1000:.1f}" for key in ("eager", "run")]
    figures = [
        row["network"],
        row["graph"],
        str(row["ops"]),
        str(row["copied"]),
        mib(row["arena"]),
        f"{row['first']:.2f}",
    ]
    return [*figures, *times, f"{row['ratio']:.2f}", f"{row['checked']:.2f}"]


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--networks", default="resnet,vit,bert,gpt2", help="names, separated by commas")
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    rows: Rows = []
    for name in options.networks.split(","):
        for train in (False, True):
            rows.append(measured(name, train, options.rounds))
            print(*cells(rows[-1]), flush=True)
    report(SECTION, HEAD, [cells(row) for row in rows], rows, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
