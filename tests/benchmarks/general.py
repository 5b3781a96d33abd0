"""Problems that are more than rectangles: lifetimes by vector clocks, and shapes; auto beside others.

Run: ``python tests/benchmarks/general.py [--rows clocks,pools,shapes] [--seconds 10] [--planners auto,hill_climb]``.
Prints for each problem its load, the bound that is proven, and by how much the peaks are above it. Rows come on stderr
as they are measured.

- clocks: OmniMalloc's generators of vector clocks, where that is installed, and its own planners with as many seconds.
  The rows are shuffled: its tilings come in an order that gives their plan away. ``--given`` leaves them as they are.
- pools: three cores run side by side from barrier to barrier, and steps are numbered core by core. What one core does
  fills 393,216 bytes, which is the load; conflicts across cores make it three times as much.
- shapes: lives with steps in which a buffer is not needed, stairs, and parts drawn at random.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import numpy as np
from reporting import Rows, arguments, show

import memplan
from memplan.files import write_text
from memplan.generate import tight

STEADY = ("independent", "pairs", "subset", "sparse", "irregular", "ring", "tree", "groups", "barrier")
PATTERNS = (*STEADY, "fork_join", "dense")
SYNCED = ((4, 200), (8, 400))  # threads, buffers
TILED = ((2, 128), (2, 512), (4, 256), (4, 1024), (8, 512))
BUFFERS = (50, 200, 1000)
Parts = list[tuple[int, int, int, int, int]]
Peers = list[tuple[str, Callable[[], int]]]


def clocks(seconds: float, given: bool) -> Iterator[tuple[str, memplan.Problem, Peers]]:
    """The problems, and the peers to be called on them."""
    if find_spec("omnimalloc") is None:
        return
    from omnimalloc.benchmark.sources import ConcurrentTilingSource, SyncPatternSource

    sources = [
        (f"{pattern}, {threads} threads, {n}", SyncPatternSource(n, threads, pattern))
        for threads, n in SYNCED
        for pattern in PATTERNS
    ]
    sources += [(f"tiling, {threads} threads, {n}", ConcurrentTilingSource(n, threads)) for threads, n in TILED]
    for name, source in sources:
        buffers = list(source.get_allocations())
        if not given:
            random.Random(1).shuffle(buffers)
        problem = memplan.Problem([b.size for b in buffers], [b.start for b in buffers], [b.end for b in buffers])
        yield name, problem, omnimalloc_planners(buffers, problem, seconds)


def omnimalloc_planners(buffers: list[Any], problem: memplan.Problem, seconds: float) -> Peers:
    """Those of its planners that take vector clocks; its greedy ones are one, the best of them."""
    from omnimalloc import allocators as own

    def called(planner: Any) -> int:
        placed = {b.id: b.offset for b in planner.allocate(tuple(buffers))}
        offsets = np.array([placed[b.id] for b in buffers], dtype=np.int64)
        memplan.verify(problem, offsets)
        return int((offsets + problem.size).max())

    endless = 1 << 30
    return [
        ("its greedy", lambda: called(own.GreedyByAllAllocator(num_threads=1))),
        ("its omni", lambda: called(own.OmniAllocator())),
        ("its best_fit", lambda: called(own.BestFitAllocator())),
        ("its annealing", lambda: called(own.SimulatedAnnealingAllocator(max_iterations=endless, timeout=seconds))),
        ("its tabu", lambda: called(own.TabuSearchAllocator(max_iterations=endless, timeout=seconds))),
    ]


def pools(seconds: float, given: bool) -> Iterator[tuple[str, memplan.Problem, Peers]]:
    cores, barriers, tile = 3, 2, 16 * 1024
    for each in (10, 30, 60):
        size: list[int] = []
        first: list[int] = []
        last: list[int] = []
        phase: list[tuple[int, int]] = []
        for core in range(cores):
            for barrier in range(barriers):
                work = tight(each, units=24, unit=tile, seed=10 * core + barrier)
                begin = max(last, default=0)
                size += work.size.tolist()
                first += (begin + work.first).tolist()
                last += (begin + work.last).tolist()
                phase += [(barrier, core)] * len(work)
        n = len(size)
        side_by_side = [
            (a, b) for b in range(n) for a in range(b) if phase[a][0] == phase[b][0] and phase[a] != phase[b]
        ]
        yield f"pool, {cores} cores, {n}", memplan.Problem(size, first, last, conflicts=side_by_side), []


def lives(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    first = rng.integers(0, 2 * n, n)
    return first, first + 1 + rng.integers(0, n // 2, n)


def idle(n: int, seed: int) -> memplan.Problem:
    """Most buffers are not needed for some steps within their lives."""
    rng = np.random.default_rng(seed)
    first, last = lives(rng, n)
    size = rng.integers(1, 1000, n)
    parts: Parts = []
    for i, (begin, end, whole) in enumerate(zip(first.tolist(), last.tolist(), size.tolist(), strict=True)):
        if end - begin < 3 or rng.random() > 0.7:
            continue
        away = int(rng.integers(begin + 1, end - 1))
        back = int(rng.integers(away + 1, end))
        parts += [(i, 0, whole, begin, away), (i, 0, whole, back, end)]
    return memplan.Problem(size, first, last, parts=parts)


def steps_of(rng: np.random.Generator, begin: int, end: int, most: int) -> list[int]:
    count = min(end - begin, int(rng.integers(1, most)))
    return [begin, *sorted(rng.choice(np.arange(begin + 1, end), count - 1, replace=False).tolist()), end]


def stairs(n: int, seed: int) -> memplan.Problem:
    """Buffers that grow, or shrink, in up to four steps."""
    rng = np.random.default_rng(seed)
    first, last = lives(rng, n)
    size = rng.integers(8, 1000, n)
    parts: Parts = []
    for i, (begin, end, whole) in enumerate(zip(first.tolist(), last.tolist(), size.tolist(), strict=True)):
        at = steps_of(rng, begin, end, 5)
        tops = [*sorted(rng.integers(1, whole + 1, len(at) - 2).tolist()), whole]
        if rng.random() < 0.5:
            tops.reverse()
        parts += [(i, 0, top, a, b) for top, a, b in zip(tops, at, at[1:], strict=False)]
    return memplan.Problem(size, first, last, parts=parts)


def ragged(n: int, seed: int) -> memplan.Problem:
    """In each of up to five times of its life a buffer needs other bytes."""
    rng = np.random.default_rng(seed)
    first, last = lives(rng, n)
    size = rng.integers(8, 1000, n)
    parts: Parts = []
    for i, (begin, end, whole) in enumerate(zip(first.tolist(), last.tolist(), size.tolist(), strict=True)):
        at = steps_of(rng, begin, end, 6)
        for a, b in pairwise(at):
            low, high = sorted(rng.choice(whole + 1, 2, replace=False).tolist())
            parts.append((i, low, high, a, b))
    return memplan.Problem(size, first, last, parts=parts)


def shapes(seconds: float, given: bool) -> Iterator[tuple[str, memplan.Problem, Peers]]:
    for family in (idle, stairs, ragged):
        for n in BUFFERS:
            for seed in range(2):
                yield f"{family.__name__}, {n}, seed {seed}", family(n, seed), []


ROWS = {"clocks": clocks, "pools": pools, "shapes": shapes}


def measure(name: str, problem: memplan.Problem, peers: Peers, planners: list[str], seconds: float) -> dict[str, Any]:
    row: dict[str, Any] = {
        "problem": name,
        "buffers": len(problem),
        "load": problem.load,
        "bound": 0,
        "peaks": {},
        "seconds": {},
    }
    plans = {}
    for planner in planners:
        plan = memplan.plan(problem, planner, time_limit=seconds)
        plans[planner] = plan
        row["bound"] = max(row["bound"], plan.lower_bound)
        row["peaks"][planner], row["seconds"][planner] = plan.peak, plan.seconds
    for peer, call in peers:
        begin = time.perf_counter()
        row["peaks"][peer] = call()
        row["seconds"][peer] = time.perf_counter() - begin
    return row


def above(row: dict[str, Any], planner: str) -> float | None:
    """By how many percent the peak is above the bound."""
    peak = row["peaks"].get(planner)
    return None if peak is None else 100 * (peak / row["bound"] - 1)


def said(share: float | None) -> str:
    return "" if share is None else f"{share:.2f} %"


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rows", default=",".join(ROWS), help="which of them: clocks, pools, shapes")
    parser.add_argument("--seconds", type=float, default=10, help="for each planner")
    parser.add_argument("--planners", default="auto", help="of memplan")
    parser.add_argument("--only", default="", help="problems whose name begins so")
    parser.add_argument("--peers", choices=("all", "none"), default="all")
    parser.add_argument("--given", action="store_true", help="rows as the generators give them")
    options = parser.parse_args()
    planners = options.planners.split(",")
    for kind in options.rows.split(","):
        rows: Rows = []
        for name, problem, peers in ROWS[kind](options.seconds, options.given):
            if not name.startswith(options.only):
                continue
            rows.append(measure(name, problem, peers if options.peers == "all" else [], planners, options.seconds))
            shares = ", ".join(f"{column} {said(above(rows[-1], column))}" for column in rows[-1]["peaks"])
            print(f"{name}: {shares}", file=sys.stderr, flush=True)
        if not rows:
            continue
        columns = list(rows[0]["peaks"])
        cells = [[r["problem"], str(r["load"]), str(r["bound"]), *(said(above(r, c)) for c in columns)] for r in rows]
        shares = [[s for r in rows if (s := above(r, c)) is not None] for c in columns]
        cells.append(["median", "", "", *(said(statistics.median(s)) for s in shares)])
        cells.append(["worst", "", "", *(said(max(s)) for s in shares)])
        show(["problem", "load", "bound", *columns], cells)
        if options.json:
            write_text(options.json, json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
