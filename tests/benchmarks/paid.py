"""What a process pays for a step: bytes of torch's allocator, and anonymous memory of the process, in fresh processes.

A way is run in processes of its own. Each makes network, states of the optimizer and inputs, loads the compiler where
there is one, gives malloc's free memory back, and takes the anonymous memory that it holds then as its baseline. After
some steps of warm-up it resets the high-water mark of its memory, runs three steps, and reads the mark. Figures are
medians over the processes.
Modes: ``training`` is a step with AdamW, ``gradients`` one without an optimizer, which holds its gradients until the
next step, and ``inference``.
Run: ``python tests/benchmarks/paid.py [--mode training] [--networks a,b] [--ways a,b] [--processes N] [--json F]``
"""

from __future__ import annotations

import ctypes
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reporting import arguments, mib, ratio, report
from torch.nn import Module

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
    "gradients": ("eager", "eager mmap", "eager jemalloc", "plan.run"),
    "inference": (
        *("eager", "eager mmap", "eager jemalloc", "plan.run", "planned"),
        *("inductor", "inductor mmap", "inductor jemalloc", "memplan", "planned-inductor"),
    ),
}
HEAD = ("network", "way", "allocator, MiB", "of the first", "process, MiB", "of the first", "seconds", "equal")
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

    rows, cells = [], []
    for name in options.networks or NETWORKS:
        first = None
        for way in options.ways or WAYS[options.mode]:
            row = {"network": name, "way": way, **over_processes(name, way, options.mode, options.processes)}
            first = first or row
            rows.append(row)
            cells.append(cells_of(row, first))
            print(*cells[-1], flush=True)
    report(f"paid in {options.mode}", HEAD, cells, rows, options)


def over_processes(name: str, way: str, mode: str, count: int) -> dict[str, Any]:
    """Medians of the figures of some processes."""
    which, _, malloc = way.partition(" ")
    found = []
    for _ in range(count):
        command = [sys.executable, __file__, "--one", name, which, mode]
        done = subprocess.run(command, env={**os.environ, **MALLOCS[malloc]}, capture_output=True, text=True)
        if done.returncode:
            return {"error": done.stderr.strip().splitlines()[-1][:120]}
        found.append(json.loads(done.stdout.splitlines()[-1]))
    same = {one["result"] for one in found}
    medians = {key: statistics.median(one[key] for one in found) for key in ("allocator", "process", "seconds")}
    return {**medians, "result": same.pop() if len(same) == 1 else "differs"}


def cells_of(row: dict[str, Any], first: dict[str, Any]) -> list[str]:
    """A row of the table, beside the first way of the network."""
    if "error" in row:
        return [row["network"], row["way"], row["error"], *[""] * (len(HEAD) - 3)]
    shares = [x for key in ("allocator", "process") for x in (mib(row[key]), ratio(row[key], first.get(key, row[key])))]
    equal = "yes" if row["result"] == first.get("result") else "rounding"
    return [row["network"], row["way"], *shares, f"{row['seconds']:.3f}", equal]


def one(name: str, way: str, mode: str) -> dict[str, Any]:
    """The figures of this process."""
    import torch
    from paid_networks import NETWORKS

    import memplan

    torch.manual_seed(0)
    torch.set_num_threads(2)
    module, batch, loss_of = NETWORKS[name]()
    module.train(mode != "inference")
    forward, backend = module, way.removeprefix("planned-")
    if backend in ("inductor", "memplan"):
        torch.compile(lambda x: x + 1, backend=backend)(torch.ones(4))  # the compiler's own code is in memory
        forward = torch.compile(module, backend=backend)
    held: Callable[[], int] | None = None
    if mode == "training":
        optimizer = torch.optim.AdamW(module.parameters())
        make_states(module, optimizer)

        def step() -> Any:
            torch.manual_seed(1)  # dropout
            optimizer.zero_grad()
            loss = loss_of(forward(**batch), batch)
            loss.backward()
            optimizer.step()
            return loss.detach()
    elif way == "plan.run":
        network = WithLoss(module, loss_of) if mode == "gradients" else module
        plan = memplan.plan(network, kwargs=batch, alignment=64, train=mode == "gradients")
        run: Any = None

        def step() -> Any:
            nonlocal run
            run = None
            torch.manual_seed(1)
            run = plan.run(kwargs=batch)
            return run.loss if mode == "gradients" else first_of(run.outputs)

        held = lambda: plan.peak + behind(plan) + allocated(step)  # noqa: E731
    elif mode == "gradients":

        def step() -> Any:
            torch.manual_seed(1)
            module.zero_grad()
            loss = loss_of(forward(**batch), batch)
            loss.backward()
            return loss.detach()
    else:

        def step() -> Any:
            with torch.no_grad():
                return first_of(forward(**batch))

    if way.startswith("planned"):
        step = memplan.run.planned(step, quiet=True)
        held = lambda: step.report().arena_bytes + outside(step.arena)  # noqa: E731

    ctypes.CDLL(None).malloc_trim(0)
    base = memory()["RssAnon"]
    for _ in range(WARM):
        step()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    seconds = []
    for _ in range(3):
        begin = time.perf_counter()
        result = step()
        seconds.append(time.perf_counter() - begin)
    after = memory()
    process = after["VmHWM"] - after["RssFile"] - base
    if mode == "gradients":
        found = run.gradients.values() if way == "plan.run" else [p.grad for p in module.parameters()]
        result = result.double() + sum(g.double().sum() for g in {id(g): g for g in found if g is not None}.values())
    run = found = None
    module.zero_grad()
    allocator = held() if held is not None else allocated(step)
    text = float(result.double().sum()).hex()
    return {"allocator": allocator, "process": process, "seconds": statistics.median(seconds), "result": text}


def make_states(module: Any, optimizer: Any) -> None:
    """The states of an optimizer, before any step: weights stay as they are."""
    import torch

    before = [parameter.detach().clone() for parameter in module.parameters()]
    for parameter in module.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    with torch.no_grad():
        for parameter, value in zip(module.parameters(), before, strict=True):
            parameter.copy_(value)
            parameter.grad = None


class WithLoss(Module):
    """A network that returns its loss."""

    def __init__(self, network: Any, loss_of: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.network, self.loss_of = network, loss_of

    def forward(self, **batch: Any) -> Any:
        return self.loss_of(self.network(**batch), batch)


def behind(plan: Any) -> int:
    """Bytes behind the arena of a plan that kernels have had."""
    return int(vars(plan)["_bound"].bound._offering._behind)


def outside(arena: Any) -> int:
    """Bytes that live outside of the arena after a step."""
    return int(arena._library.figures(arena._handle)["outside_bytes"])


def first_of(outputs: Any) -> Any:
    """The first tensor of what a network returns."""
    from torch.utils._pytree import tree_leaves

    return next(leaf for leaf in tree_leaves(outputs) if hasattr(leaf, "dtype"))


def allocated(step: Callable[[], Any]) -> int:
    """Bytes of torch's allocator that a step holds at most, above those that are held at its beginning."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        step()
    now = most = 0
    for event in seen.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            most = max(most, now)
    return most


def memory() -> dict[str, int]:
    """What the process holds, in bytes."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    found = dict(line.split(":", 1) for line in lines)
    return {key: int(found[key].split()[0]) * 1024 for key in ("VmHWM", "RssAnon", "RssFile")}


if __name__ == "__main__":
    main()
