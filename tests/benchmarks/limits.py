"""Whether limits hold on large inputs: seconds under a time limit, memory, and how soon Ctrl-C ends a call.

Run: ``python tests/benchmarks/limits.py [row ...] [--sizes 100000,1000000] [--limit 1] [--json FILE] [--docs]``

A row is a planner or an option; a part of its name chooses it, ``--list`` lists all. Problems have so many buffers,
graphs so many ops, at most 100,000. Each cell is a process of its own, and what is planned is made before the clock
starts. ``--no-signal`` leaves Ctrl-C out.

- seconds: of the call with a time limit
- memory: the most that the process held during it, above what it held before, in MiB
- Ctrl-C: seconds from a signal, 0.3 s into a call without a limit, until it ends; ``done`` where it had ended

What does not end within a minute is ``deaf``; what a planner or an option refuses is ``refused``. ``--clock cpu``
counts processor time, for machines that are busy with other things; a short ``--limit`` shows what does not heed it.
"""

from __future__ import annotations

import json
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from reporting import arguments, pivoted, report

import memplan

PATIENCE = 60.0  # seconds
SIGNAL = 0.3  # seconds into a call
REFUSALS = (memplan.errors.UnsupportedError, memplan.errors.MissingDependencyError)
Source = Any
Call = Callable[[Source, "float | None"], object]
Row = tuple[Callable[[int], Source], Call]


def lives(n: int) -> dict[str, Any]:
    """Columns of buffers that live some thirty steps each."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, n, n)
    last = np.minimum(first + rng.geometric(1 / 30, n) + 1, n + 1)
    return {"size": rng.integers(1, 100_000, n), "first": first, "last": last}


def plain(n: int, **more: Any) -> memplan.Problem:
    """A problem of such buffers."""
    return memplan.Problem(**lives(n), **more)


def aligned(n: int) -> memplan.Problem:
    """Alignments of 1 to 512."""
    return plain(n, alignment=1 << np.random.default_rng(1).integers(0, 10, n))


def conflicting(n: int) -> memplan.Problem:
    """Twice as many conflicts as buffers."""
    pairs = np.random.default_rng(2).integers(0, n, (2 * n, 2))
    return plain(n, conflicts=pairs[pairs[:, 0] != pairs[:, 1]])


def side_by_side(n: int) -> memplan.Problem:
    """Two cores, which wait for each other every hundred steps."""
    steps = np.arange(n + 1)
    waits = [np.stack([steps[:-2], steps[2:]], 1)]  # the core of even steps, and the one of odd ones
    waits += [np.stack([steps[k:-1:100], steps[k + 1 :: 100]], 1) for k in (0, 51)]
    return plain(n, happens_before=np.concatenate(waits))


def shaped(n: int) -> memplan.Problem:
    """Every third buffer uses half of its bytes from the middle of its life on."""
    given = lives(n)
    middle = (given["first"] + given["last"]) // 2
    parts: list[tuple[int, ...]] = []
    for i in range(0, n, 3):
        size, first, last = int(given["size"][i]), int(given["first"][i]), int(given["last"][i])
        if size > 1 and last - first > 1:
            parts += [(i, 0, size, first, int(middle[i])), (i, 0, size // 2, int(middle[i]), last)]
    return memplan.Problem(**given, parts=parts)


def pinned(n: int) -> memplan.Problem:
    """One buffer in ten lies where first_fit has put it."""
    problem = plain(n)
    pins = np.full(n, -1)
    pins[::10] = memplan.plan(problem, "first_fit").offsets[::10]
    return problem.with_pins(pins)


def reserved(n: int) -> memplan.Problem:
    """A thousand rows of reserved bytes."""
    rows = [(1000 * k, 1000 * k + 500, k * n // 1000, (k + 1) * n // 1000) for k in range(1000)]
    return plain(n, reserved=rows)


def branched(n: int) -> memplan.Problem:
    """A switch in every hundred buffers, each with two branches."""
    return plain(n, branches=[("", f"if{i // 100}/a", f"if{i // 100}/b")[i % 3] for i in range(n)])


def together(n: int) -> memplan.Problem:
    """Every hundredth buffer lies right behind the one before."""
    given = lives(n)
    rows = [(i, i + 1, int(given["size"][i])) for i in range(0, n - 1, 100)]
    return memplan.Problem(**given, together=rows)


def graph(n: int, near: int = 300, streams: int = 1) -> Source:
    """Ops that each read two of the last tensors; captured."""
    chance = random.Random(1)
    tensors: list[dict[str, Any]] = [{"name": "x", "bytes": 64, "kind": "input"}]
    ops = []
    for j in range(n):
        inputs = sorted({chance.choice(tensors[-near:])["name"] for _ in range(2)})
        tensors.append({"name": f"t{j}", "bytes": chance.randint(1, 1000)})
        stream = {"stream": j // 50 % streams} if streams > 1 else {}
        ops.append({"name": f"o{j}", "inputs": inputs, "outputs": [f"t{j}"], "cost": 1, **stream})
    return memplan.capture({"tensors": tensors, "ops": ops, "outputs": [f"t{n - 1}"]}).graph


def with_pools(n: int) -> Source:
    """A problem and two pools, of which the first holds a part."""
    problem = plain(n)
    return problem, [memplan.plans.Pool("sram", problem.load // 4), memplan.plans.Pool("dram")]


def planning(planner: str = "auto", **options: Any) -> Call:
    """A call of `plan`."""
    return lambda source, limit: memplan.plan(source, planner, time_limit=limit, **options)


def of_load(problem: memplan.Problem, limit: float | None) -> object:
    """What fits its load, or what is the best there is."""
    try:
        return memplan.plan(problem, capacity=problem.load, time_limit=limit)
    except memplan.InfeasibleError as error:
        return error.plan


def rows() -> Mapping[str, Row]:
    """All rows by name."""
    table: dict[str, Row] = {f"planner {row.name}": (plain, planning(row.name)) for row in memplan.planners()}
    table |= {
        "alignments": (aligned, planning()),
        "conflicts": (conflicting, planning()),
        "happens_before": (side_by_side, planning()),
        "shapes": (shaped, planning()),
        "pins": (pinned, planning()),
        "reserved": (reserved, planning()),
        "branches": (branched, planning()),
        "together": (together, planning()),
        "capacity": (plain, of_load),
        "pools": (with_pools, lambda source, limit: memplan.plan(source[0], pools=source[1], time_limit=limit)),
        "keep": (
            lambda n: (lambda p: (p, memplan.plan(p, "first_fit")))(plain(n)),
            lambda source, limit: memplan.plan(source[0], keep=source[1], time_limit=limit),
        ),
        "start": (
            lambda n: (lambda p: (p, memplan.plan(p, "first_fit")))(plain(n)),
            lambda source, limit: memplan.plan(source[0], start=source[1], time_limit=limit),
        ),
        "price": (
            lambda n: (plain(n), [(f"#{i}", f"#{i + 50}", i % 7 + 1) for i in range(n // 2)]),
            lambda source, limit: memplan.plan(source[0], price=source[1], time_limit=limit),
        ),
        "refute": (plain, lambda problem, _: memplan.refute(problem, problem.load)),
        "heaviest clique": (conflicting, lambda problem, _: memplan._core.heaviest_clique(problem)),
        "graph": (graph, planning()),
        "graph, streams": (lambda n: graph(n, streams=2), planning()),
        "graph, first_fit": (graph, planning("first_fit")),
        "graph, order best": (graph, planning(order="best")),
        "graph, order dfs": (graph, planning(order="dfs")),
        "graph, fit": (graph, lambda source, limit: _fitted(source, limit)),
        "graph, fit least": (graph, lambda source, limit: memplan.fit(source, "least", time_limit=limit)),
        "graph, pareto": (graph, lambda source, limit: memplan.pareto(source, time_limit=limit)),
        "graph, order_bound": (graph, lambda source, _: memplan.order_bound(source)),
        "graph, plan_many": (
            lambda n: {name: graph(n // 2, near) for name, near in (("a", 300), ("b", 100))},
            lambda source, limit: memplan.plan_many(source, time_limit=limit),
        ),
        "compare": (plain, lambda source, limit: memplan.compare(source, ["auto", "first_fit"], time_limit=limit)),
    }
    return table


def _fitted(source: Source, limit: float | None) -> object:
    try:
        return memplan.fit(source, 100_000, time_limit=limit)
    except memplan.InfeasibleError as error:
        return error.plan


UNITS = 1024  # bytes in what the system says of memory


def work(name: str, size: int, limit: float | None, clock: str) -> dict[str, Any]:
    """In a process of its own: what came of one call."""
    now = time.process_time if clock == "cpu" else time.perf_counter
    timer, number = (signal.ITIMER_PROF, signal.SIGPROF) if clock == "cpu" else (signal.ITIMER_REAL, signal.SIGALRM)
    signal.signal(number, signal.default_int_handler)
    make, call = rows()[name]
    source = make(size)
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the most that was held counts from here
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    what, begin = "", now()
    try:
        if limit is None:
            signal.setitimer(timer, SIGNAL)
        call(source, limit)
    except KeyboardInterrupt:
        what = "raised"
    except REFUSALS as error:
        what = f"refused: {error}"
    except (memplan.errors.TimeLimitError, memplan.InfeasibleError) as error:
        what = f"no plan: {error}"
    seconds = now() - begin
    signal.setitimer(timer, 0)
    if limit is None:
        seconds -= SIGNAL
        what = what or ("done" if seconds < 0 else "")
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"what": what, "seconds": max(seconds, 0.0), "memory": held * UNITS}


def measured(name: str, size: int, limit: float | None, clock: str) -> dict[str, Any]:
    """What `work` says, or that it was deaf or died."""
    command = [sys.executable, __file__, "--work", name, str(size), json.dumps(limit), clock]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, error = child.communicate(timeout=PATIENCE + 60)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        return {"what": "deaf", "seconds": None, "memory": None}
    if child.returncode != 0:
        return {"what": f"failed: {(error.strip().splitlines() or ['killed'])[-1]}", "seconds": None, "memory": None}
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def cell(found: Mapping[str, Any] | None) -> str:
    """Seconds, and what came where that was no plan."""
    if found is None:
        return ""
    what, seconds = found["what"].split(":")[0], found["seconds"]
    if seconds is None:
        return what or "done"
    return what if what in ("refused", "done") else " ".join(filter(None, [f"{seconds:.2f}", what]))


def main() -> None:
    """Measure the rows that are asked for; print a table."""
    parser = arguments(__doc__)
    parser.add_argument("rows", nargs="*", help="parts of names; all by default")
    parser.add_argument("--sizes", default="100000,1000000")
    parser.add_argument("--limit", type=float, default=1.0, help="seconds")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--no-signal", action="store_true", help="leave Ctrl-C out")
    parser.add_argument("--list", action="store_true", help="list the rows")
    options = parser.parse_args()
    names = [name for name in rows() if not options.rows or any(part in name for part in options.rows)]
    if options.list:
        print("\n".join(names))
        return
    figures: list[dict[str, Any]] = []
    for name in names:
        for size in map(int, options.sizes.split(",")):
            if name.startswith("graph") and size > 100_000:
                continue
            limited = measured(name, size, options.limit, options.clock)
            asked = None if options.no_signal else measured(name, size, None, options.clock)
            figures.append({"row": name, "size": size, "limited": limited, "interrupted": asked})
            print(name, size, limited, asked, file=sys.stderr, flush=True)
    head = ["row", "size", f"seconds, limit {options.limit:g} s", "memory (MiB)", "Ctrl-C (s)"]
    cells: list[list[str]] = []
    for figure in figures:
        limited = figure["limited"]
        memory = "" if limited["memory"] is None else f"{limited['memory'] / 2**20:,.0f}"
        cells.append([figure["row"], f"{figure['size']:,}", cell(limited), memory, cell(figure["interrupted"])])
    report("limits", *pivoted(head, cells, head[:1], head[1:2], head[2:]), figures, options)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        print(json.dumps(work(sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4]), sys.argv[5])))
    else:
        main()
