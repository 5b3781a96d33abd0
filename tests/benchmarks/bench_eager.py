"""Eager training in one arena, beside torch's own allocator: losses, allocations, bytes and seconds of six loops.

Run: ``pytest tests/benchmarks/bench_eager.py [--docs]``. Each loop of training.py runs in processes of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from reporting import mib, report_of_suite

LOOPS = {
    "convnet": "convnet, SGD with momentum",
    "gpt2": "GPT-2, 4 layers, SGD",
    "bert": "BERT, 4 layers, SGD",
    "mixtral": "Mixtral, 4 layers of 8 experts, SGD",
    "last_batch": "convnet, a smaller last batch",
    "adamw": "transformer, AdamW on all parameters at once",
}
HEAD = [
    *("loop, 20 steps", "allocations a step", "served", "of them moved", "outlive", "missed"),
    *("peak MiB, torch", "arena + outside", "VmHWM MiB, torch", "with the arena"),
    *("seconds, arena / torch", "recorded / torch", "planning ms"),
]
Table = dict[str, list[str]]


def worker(*arguments: str) -> Any:
    command = [sys.executable, str(Path(__file__).with_name("training.py")), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest) -> Iterator[Table]:
    """The rows of the table, by loop; printed, and written where asked to, at the end."""
    rows: Table = {}
    yield rows
    report_of_suite("eager", HEAD, list(rows.values()), request)


@pytest.mark.parametrize("loop", LOOPS)
def test_loop(loop: str, found: Table) -> None:
    plain, inside, paired = (worker(loop, mode) for mode in ("plain", "arena", "paired"))
    assert plain["losses"] == inside["losses"], "losses must be equal bit for bit"
    counts = [inside[name] for name in ("served", "moved", "outside", "missed")]
    steps = len(plain["losses"])
    found[loop] = [
        LOOPS[loop],
        f"{(counts[0] + counts[2] + counts[3]) / steps:,.0f}",
        *(f"{count:,}" for count in counts),
        mib(plain["peak"]),
        f"{mib(inside['arena_bytes'])} + {mib(inside['outside_peak'])}",
        mib(plain["VmHWM"]),
        mib(inside["VmHWM"]),
        f"{paired['ratio']:.3f}",
        f"{paired['recorded']:.3f}",
        f"{paired['planning'] * 1000:,.0f}",
    ]


def test_an_allocation(request: pytest.FixtureRequest) -> None:
    times = worker("allocation")
    head = ["torch.empty(1000), ns", "torch", "arena", "recorded"]
    cells = [["each", *(f"{times[name]:,.0f}" for name in ("default", "arena", "record"))]]
    report_of_suite("eager allocations", head, cells, request)
    assert times["more"] < 300
