"""memplan beside the allocator of Arm's compiler: ``python tests/benchmarks/vela.py a.tflite b.tflite``.

ethos-u-vela 5.2 compiles each network for an Ethos-U55. The live ranges that its hill climb gets are planned by memplan
too. Files of lifetimes (.csv) are given to both as they are. Needs the package ethos-u-vela.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ethosu.vela import hillclimb_allocation, vela

import memplan

OPTIONS = ["--accelerator-config", "ethos-u55-128", "--debug-force-legacy-core"]
NO_LIMIT = 2**40


def ranges_of(path: Path) -> list[list[Any]]:
    """The live ranges of each allocation that vela makes for a network."""
    if path.suffix == ".csv":
        problem = memplan.read_problem(path, pins=False)
        columns = (problem.size, problem.first, problem.last - 1, problem.alignment)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return [[range_of(*row) for row in rows]]
    seen = []
    allocate = hillclimb_allocation.allocate_live_ranges

    def watched(ranges: list[Any], most: int | None, limit: int) -> list[int]:
        seen.append([range_of(int(r.size), r.start_time, r.end_time, r.get_alignment()) for r in ranges])
        return list(allocate(ranges, most, limit))

    hillclimb_allocation.allocate_live_ranges = watched
    try:
        with tempfile.TemporaryDirectory() as folder:
            vela.main([str(path), "--output-dir", folder, *OPTIONS])
    finally:
        hillclimb_allocation.allocate_live_ranges = allocate
    return seen


def range_of(size: int, start: int, end: int, alignment: int) -> Any:
    return SimpleNamespace(size=size, start_time=start, end_time=end, get_alignment=lambda: alignment)


def compare(name: str, ranges: list[Any]) -> None:
    begun = time.process_time()
    addresses = hillclimb_allocation.allocate_live_ranges(ranges, None, NO_LIMIT)
    ended = time.process_time()
    peak = max(address + r.size for address, r in zip(addresses, ranges, strict=True))
    columns = zip(*((r.size, r.start_time, r.end_time + 1, r.get_alignment()) for r in ranges), strict=True)
    problem = memplan.Problem(*(list(column) for column in columns))
    planned = time.process_time()
    plan = memplan.plan(problem)
    seconds = time.process_time() - planned
    proven = "optimal" if plan.optimal else f"at least {plan.lower_bound:,}"
    print(f"{name:24} {len(ranges):5} {peak:12,} {ended - begun:7.2f} s {plan.peak:12,} {seconds:7.3f} s  {proven}")


if __name__ == "__main__":
    for given in map(Path, sys.argv[1:]):
        for ranges in ranges_of(given):
            compare(given.stem, ranges)
