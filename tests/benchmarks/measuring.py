"""What the benchmarks of the optimiser share: instances, the clock around a call, and what machine it ran on."""

from __future__ import annotations

import os
import platform
import shlex
import statistics
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import memplan

BESIDE = Path(__file__).parents[3] / "shared" / "instances"
INSTANCES = BESIDE if BESIDE.is_dir() else Path(__file__).parents[1] / "data"
PACKAGES = (
    *("memplan", "numpy", "omnimalloc", "ortools", "minimalloc"),
    *("torch", "transformers", "onnx", "onnxruntime", "executorch"),
)
SHORT = 0.2  # seconds: a call that is shorter is repeated

A_TO_K = tuple(f"minimalloc/{letter}.1048576" for letter in "ABCDEFGHIJK")
CAPACITY = 1048576  # which all of A to K fit


@dataclass(frozen=True)
class Trial:
    """One problem planned once, or, when that is short, the median of a few times."""

    instance: str
    buffers: int
    load: int
    seed: int
    wall: float  # seconds around the call, from Python
    seconds: float  # of planning, as the plan says
    peak: int | None  # None: no plan, `said` is why
    lower_bound: int | None
    said: str  # the winner, or the error

    @property
    def proven(self) -> bool:
        return self.peak is not None and self.peak == self.lower_bound

    @property
    def at_load(self) -> bool:
        return self.peak == self.load

    @property
    def above(self) -> float:
        """The peak over the load, less one; infinite without a plan."""
        return float("inf") if self.peak is None else self.peak / max(self.load, 1) - 1


def instance(name: str) -> memplan.Problem | None:
    """The problem of a file, or None when it is not here."""
    path = INSTANCES / f"{name}.csv"
    return memplan.read_problem(path) if path.exists() else None


def torch_instances() -> tuple[str, ...]:
    """The names of all problems traced from torch models."""
    return tuple(f"torch/{path.stem}" for path in sorted((INSTANCES / "torch").glob("*.csv")))


def label(name: str) -> str:
    """As it is called in tables: "A" for A to K, the rest of the path for others."""
    return name.split("/")[1].split(".")[0] if name in A_TO_K else name


def tried(name: str, problem: memplan.Problem, planner: str = "auto", repeats: int = 1, **options: Any) -> Trial:
    """Plan a problem, and again a few times when that is short."""
    run, walls, plans = 0, [], []
    said = ""
    while run == 0 or (run < repeats and walls[0] < SHORT):
        run += 1
        begin = time.perf_counter()
        try:
            plans.append(memplan.plan(problem, planner, **options))
        except memplan.InfeasibleError as error:
            said = "infeasible"
            if error.plan is not None:  # the best that was found
                plans.append(error.plan)
        walls.append(time.perf_counter() - begin)
    wall = statistics.median(walls)
    common = (name, len(problem), problem.load, options.get("seed", 0), wall)
    if not plans:
        return Trial(*common, wall, None, None, said)
    plan = plans[0]
    seconds = statistics.median(plan.seconds for plan in plans)
    return Trial(*common, seconds, plan.peak, plan.lower_bound, plan.winner)


def header() -> dict[str, str]:
    """When, on what, with what, and how this was run."""
    packages = {name: _version(name) for name in PACKAGES}
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{_processor()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {platform.platform()}",
        "versions": f"Python {platform.python_version()}, "
        + ", ".join(f"{name} {number}" for name, number in packages.items() if number),
        "command": shlex.join([Path(sys.executable).name, *sys.argv]),
        "instances": "beside the checkout" if INSTANCES == BESIDE else "tests/data",
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def median(values: Iterable[float]) -> float:
    """The median of some numbers, infinite for none."""
    listed = list(values)
    return statistics.median(listed) if listed else float("inf")
