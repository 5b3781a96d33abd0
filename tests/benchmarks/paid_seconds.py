"""The seconds of steps, each way in a process of its own: what one leaves in memory is nothing to the others.

The processes of a network run blocks of steps in turns. In each round they are new, for a process of the same code may
be a quarter faster than another. A ratio is the median over rounds, of the median over blocks. Modes and ways are those
of `paid.py`; the first way is what the others are compared with. *Faults* are page faults of a step.
Run: ``python tests/benchmarks/paid_seconds.py [--mode training] [--networks a,b] [--ways a,b] [--rounds 3]
[--blocks 8] [--steps 5] [--json F] [--docs]``, on a machine that does nothing else. Rounds that are in the file of
--json already are not run again.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from itertools import product
from typing import Any, TextIO

from paid import WAYS, rows_of
from reporting import arguments, report

from memplan.files import write_text

HEAD = ("network", "mode", "way", "milliseconds", "of the first", "least", "most", "faults")
WARM = 6  # steps before the first block
Block = tuple[list[float], float]  # seconds of its steps, and page faults of a step


def main() -> None:
    """Run the networks, and print the table."""
    if sys.argv[1:2] == ["--one"]:
        serve(*sys.argv[2:])
        return
    parser = arguments(__doc__)
    parser.add_argument("--mode", choices=tuple(WAYS), default="training")
    parser.add_argument("--networks", type=lambda text: text.split(","))
    parser.add_argument("--ways", type=lambda text: text.split(","), default=["inductor", "memplan"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--blocks", type=int, default=8)
    parser.add_argument("--steps", type=int, default=5)
    options = parser.parse_args()
    from paid_networks import NETWORKS

    rows = rows_of(options.json, options.mode)
    for name in options.networks or list(NETWORKS):
        row = next((row for row in rows if row["network"] == name), None)
        if row is None:
            row = {"network": name, "mode": options.mode, "rounds": []}
            rows.append(row)
        while len(row["rounds"]) < options.rounds:
            row["rounds"].append(in_turns(name, options.mode, options.ways, options.blocks, options.steps))
            if options.json:
                write_text(options.json, json.dumps({"rows": rows}))
        for cells in cells_of(row):
            print(*cells, flush=True)
    report(f"seconds in {options.mode}", HEAD, [cells for row in rows for cells in cells_of(row)], rows, options)


def in_turns(name: str, mode: str, ways: list[str], blocks: int, steps: int) -> dict[str, list[Block]]:
    """Blocks of steps of each way, whose processes take turns, in both directions."""
    processes = {way: Process(name, way, mode) for way in ways}
    found: dict[str, list[Block]] = {way: [] for way in ways}
    for block, way in product(range(blocks), range(len(ways))):
        now = ways[way if block % 2 == 0 else -1 - way]
        found[now].append(processes[now].block(steps))
    for process in processes.values():
        process.close()
    return found


class Process:
    """A process that runs steps when it is asked to."""

    def __init__(self, name: str, way: str, mode: str) -> None:
        command = [sys.executable, __file__, "--one", name, way, mode]
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._read()  # it is ready

    def block(self, steps: int) -> Block:
        """Run some steps; the first does not count."""
        _of(self._child.stdin).write(f"{steps}\n")
        _of(self._child.stdin).flush()
        seconds, faults = json.loads(self._read())
        return seconds, faults

    def close(self) -> None:
        """End the process."""
        _of(self._child.stdin).close()
        self._child.wait()

    def _read(self) -> str:
        line = _of(self._child.stdout).readline()
        if not line:
            raise SystemExit(f"a process has ended with {self._child.wait()}: {self._child.args}")
        return line


def _of(stream: TextIO | Any) -> Any:
    assert stream is not None
    return stream


def serve(name: str, way: str, mode: str) -> None:
    """Run blocks of steps, for as long as their numbers come."""
    from paid_steps import steps_of

    found = steps_of(name, way, mode)
    for _ in range(WARM):
        found.step()
    print("ready", flush=True)
    for line in sys.stdin:
        found.step()
        before, seconds = _faults(), []
        for _ in range(int(line)):
            begin = time.perf_counter()
            found.step()
            seconds.append(time.perf_counter() - begin)
        print(json.dumps((seconds, (_faults() - before) / len(seconds))), flush=True)


def _faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def cells_of(row: dict[str, Any]) -> list[list[str]]:
    """The lines of a network: milliseconds, and what they are of the first way's, in all rounds."""
    lines, [base, *_] = [], list(row["rounds"][0])
    for way in row["rounds"][0]:
        blocks = [block for blocks in row["rounds"] for block in blocks[way]]
        milliseconds = statistics.median(statistics.median(seconds) for seconds, _ in blocks) * 1000
        ratios = sorted(_ratio(blocks[way], blocks[base]) for blocks in row["rounds"])
        shown = [f"{value:.3f}" for value in (statistics.median(ratios), ratios[0], ratios[-1])]
        faults = statistics.median(faults for _, faults in blocks)
        lines.append([row["network"], row["mode"], way, f"{milliseconds:.2f}", *shown, f"{faults:,.0f}"])
    return lines


def _ratio(blocks: list[Block], others: list[Block]) -> float:
    pairs = zip(blocks, others, strict=True)
    return statistics.median(statistics.median(one) / statistics.median(other) for (one, _), (other, _) in pairs)


if __name__ == "__main__":
    main()
