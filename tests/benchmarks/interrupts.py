"""How soon each planner ends when it is asked to: by Ctrl-C, or by a time limit.

Run: ``python tests/benchmarks/interrupts.py [planner ...] [--buffers 100000,1000000] [--after 1] [--clock wall]``

A planner is asked after so many seconds; the table says by how many it ended later, and with what:

- ``plan``: a search gave its best plan so far
- ``raised``: KeyboardInterrupt or TimeLimitError, by a planner that does not search
- ``done``: it was done before it was asked
- ``refused``: it does not take this problem
- ``deaf``: it was killed, since it did not end

``--clock cpu`` counts processor time until Ctrl-C and from there, for machines that are busy with other things.
"""

from __future__ import annotations

import argparse
import json
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

import numpy as np
from measuring import header
from rich.console import Console
from rich.table import Table

import memplan
from memplan.generate import layered

PATIENCE = 60.0  # seconds after which a planner that does not end is killed
KINDS = ("layered", "crowded")
ASKED = ("Ctrl-C", "time limit")


def crowded(buffers: int) -> memplan.Problem:
    """Random lives of any length: a third of all buffers is alive at a time."""
    random = np.random.default_rng(0)
    first = random.integers(0, buffers, buffers)
    return memplan.Problem(random.integers(1, 1 << 20, buffers), first, first + random.integers(1, buffers, buffers))


def asked(problem: memplan.Problem, planner: str, how: str, after: float, cpu: bool) -> tuple[str, float]:
    """What came of one planner, and the seconds by which it ended too late."""
    cpu = cpu and how == "Ctrl-C"  # a time limit is one of wall time
    now = time.process_time if cpu else time.perf_counter
    timer, number = (signal.ITIMER_PROF, signal.SIGPROF) if cpu else (signal.ITIMER_REAL, signal.SIGALRM)
    signal.signal(number, signal.default_int_handler)
    what, begin = "plan", now()
    try:
        if how == "Ctrl-C":
            signal.setitimer(timer, after)
            plan = memplan.plan(problem, planner)
            if not plan.interrupted:
                what = "done"
        else:
            memplan.plan(problem, planner, time_limit=after)
            if now() - begin < after:
                what = "done"
    except (KeyboardInterrupt, memplan.TimeLimitError):
        what = "raised"
    except (memplan.UnsupportedError, memplan.MissingDependencyError):
        what = "refused"
    end = now()
    signal.setitimer(timer, 0)
    return what, end - begin - after


def work(kind: str, buffers: int) -> None:
    """A child: takes requests line by line, and answers each."""
    problem = layered(buffers) if kind == "layered" else crowded(buffers)
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(asked(problem, *json.loads(line))), flush=True)


class Child:
    """A process that plans, begun again after it has been killed."""

    def __init__(self, kind: str, buffers: int) -> None:
        self._command = [sys.executable, __file__, "--work", kind, str(buffers)]
        self._process: subprocess.Popen[str] | None = None

    def ask(self, *request: object) -> tuple[str, float]:
        """What `asked` says, or "deaf"."""
        if self._process is None:
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, text=True)
            assert self._process.stdout is not None
            assert self._process.stdout.readline() == "ready\n"
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        if not select.select([self._process.stdout], [], [], PATIENCE)[0]:
            self.end()
            return "deaf", PATIENCE
        what, seconds = json.loads(self._process.stdout.readline())
        return what, seconds

    def end(self) -> None:
        """Kill it, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@dataclass(frozen=True)
class Cell:
    """What came of a request."""

    what: str
    seconds: float

    def __str__(self) -> str:
        return self.what if self.what in ("done", "refused") else f"{max(self.seconds, 0):.2f} {self.what}"


def main() -> None:
    """Ask every planner on every problem; print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("planners", nargs="*")
    parser.add_argument("--buffers", default="100000,1000000")
    parser.add_argument("--after", type=float, default=1.0)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work[0], int(options.work[1]))
        return
    names = options.planners or [row.name for row in memplan.planners()]
    sizes = [int(size) for size in options.buffers.split(",")]
    cells: dict[tuple[str, int, str, str], Cell] = {}
    for size in sizes:
        for kind in KINDS:
            child = Child(kind, size)
            for name in names:
                for how in ASKED:
                    what, seconds = child.ask(name, how, options.after, options.clock == "cpu")
                    cells[name, size, how, kind] = Cell(what, seconds)
            child.end()
    table = Table("planner", *(f"{size:,}\n{how}\n{kind}" for size in sizes for how in ASKED for kind in KINDS))
    for name in names:
        table.add_row(name, *(str(cells[name, size, how, kind]) for size in sizes for how in ASKED for kind in KINDS))
    console = Console(width=None if sys.stdout.isatty() else 160)
    for what, text in header().items():
        console.print(f"{what}: {text}", highlight=False)
    console.print(table)


if __name__ == "__main__":
    main()
