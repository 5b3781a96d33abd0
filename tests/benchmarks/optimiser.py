"""The optimiser against its targets, beside other planners in the same run.

Run: ``python tests/benchmarks/optimiser.py``, about twenty minutes; most of it is the time limits of the others.
``--rows a-k,random`` does some rows, ``--peers none`` leaves the others out, ``--mirrored --shuffled-seeds 5`` does all
again with time reversed and with rows in other orders, ``--details`` prints a line per problem, ``--json FILE`` keeps
all figures. Seconds are those of the call from Python, verification included, with one thread; short calls are
repeated; what is said of several seeds is their median.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import timeit
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from measuring import A_TO_K, CAPACITY, Trial, header, instance, label, median, torch_instances, tried
from peer_planners import Peer, Peers, available
from rich.console import Console
from rich.table import Table

import memplan
from memplan.generate import layered, mirrored, shuffled, tight

Trials = dict[str, list[Trial]]  # by instance, one per seed
MIB = 1 << 20


@dataclass
class Line:
    """A line of the table."""

    work: str
    target: str
    measured: str
    met: bool | None  # None: no target, or nothing to measure
    trials: Trials = field(default_factory=dict)
    peers: dict[str, list[Peer]] = field(default_factory=dict)  # by instance


@dataclass
class Settings:
    seeds: list[int]
    is_mirrored: bool
    shuffles: int
    repeats: int
    problems: int
    peers: Peers

    def groups(self) -> list[str]:
        """How the problems are told: as they are, with time reversed, with rows in other orders."""
        return ["", *["mirrored"][: self.is_mirrored], *["shuffled"][: min(self.shuffles, 1)]]

    def told(self, problem: memplan.Problem, group: str) -> Iterator[tuple[int, memplan.Problem]]:
        """A problem of a group once per seed, or once per order of its rows."""
        if group == "shuffled":
            for k in range(self.shuffles):
                yield self.seeds[k % len(self.seeds)], shuffled(problem, k + 1)
        else:
            problem = mirrored(problem) if group == "mirrored" else problem
            for seed in self.seeds:
                yield seed, problem

    def tried(self, problems: dict[str, memplan.Problem], group: str, **options: Any) -> Trials:
        """Every problem of a group planned with every seed."""
        return {
            name: [
                tried(name, told, repeats=self.repeats, seed=seed, **options)
                for seed, told in self.told(problem, group)
            ]
            for name, problem in problems.items()
        }

    def asked(
        self, problems: dict[str, memplan.Problem], capacity: int | None = None, seconds: float | None = None
    ) -> dict[str, list[Peer]]:
        """What the peers make of the problems as they are."""
        found: dict[str, list[Peer]] = {}
        for name, problem in problems.items():
            runs = [self.peers.run(peer, name, problem, capacity, seconds) for peer in self.peers.names]
            found[name] = [run for run in runs if run is not None]
        return found


def here(names: Sequence[str]) -> dict[str, memplan.Problem]:
    """The problems among those named whose files are here."""
    found = ((name, instance(name)) for name in names)
    return {name: problem for name, problem in found if problem is not None}


def sums(trials: Trials) -> list[float]:
    """Seconds of all problems together, per seed."""
    return [sum(trial.wall for trial in row) for row in zip(*trials.values(), strict=True)]


def all_of(trials: Trials) -> list[Trial]:
    return [trial for row in trials.values() for trial in row]


def slowest(trials: Trials) -> tuple[float, str]:
    """The largest of the problems' median seconds, and which it is."""
    return max((median(trial.wall for trial in row), label(name)) for name, row in trials.items())


def named(work: str, group: str) -> str:
    return f"{work}, {group}" if group else work


def spread(values: Sequence[float]) -> str:
    """The median, and the range where there is one."""
    if len(values) == 1:
        return f"{values[0]:.3f} s"
    return f"{median(values):.3f} s ({min(values):.3f} to {max(values):.3f})"


# The rows. Each yields lines: one, or one per way in which the problems are told.


def a_to_k(settings: Settings) -> Iterator[Line]:
    problems = here(A_TO_K)
    for group in settings.groups():
        trials = settings.tried(problems, group, capacity=CAPACITY)
        fit = [trial.peak is not None and trial.peak <= CAPACITY for trial in all_of(trials)]
        total = sums(trials)
        peers = settings.asked(problems, CAPACITY) if not group else {}
        measured = f"{spread(total)}, {sum(fit)} of {len(fit)} fit"
        work = named(f"A-K given {CAPACITY:,}", group)
        yield Line(work, "all fit, sum <= 0.5 s", measured, all(fit) and median(total) <= 0.5, trials, peers)


def minimise(settings: Settings) -> Iterator[Line]:
    problems = here(A_TO_K)
    hard = {"minimalloc/D.1048576": 993280, "minimalloc/J.1048576": 1005568}
    nine = {name: problem for name, problem in problems.items() if name not in hard}
    two = {name: problem for name, problem in problems.items() if name in hard}
    for group in settings.groups():
        trials = settings.tried(nine, group, time_limit=10.0)
        proven = [trial.proven and trial.at_load for trial in all_of(trials)]
        total = sums(trials)
        peers = settings.asked(nine) if not group else {}
        measured = f"{spread(total)}, {sum(proven)} of {len(proven)} proven at the load"
        met = all(proven) and median(total) <= 2
        yield Line(named("A-C, E-I, K minimised", group), "load, proven, sum <= 2 s", measured, met, trials, peers)
    for group in settings.groups():
        trials = settings.tried(two, group, time_limit=10.0)
        peaks = {name: [trial.peak or math.inf for trial in row] for name, row in trials.items()}
        met = all(median(peaks[name]) <= hard[name] for name in peaks)
        measured = ", ".join(
            f"{label(name)} {median(peaks[name]):,.0f} ({min(peaks[name]):,} to {max(peaks[name]):,}), "
            f"bound {max(trial.lower_bound or 0 for trial in trials[name]):,}"
            for name in peaks
        )
        target = "D <= 993,280, J <= 1,005,568, in 10 s each"
        peers = settings.asked(two) if not group else {}
        yield Line(named("D, J minimised", group), target, measured, met, trials, peers)


def at_load(names: Sequence[str], work: str, limit: float) -> Callable[[Settings], Iterator[Line]]:
    """A row of problems that are to reach their load, proven, in so many seconds each."""

    def row(settings: Settings) -> Iterator[Line]:
        problems = here(names or torch_instances())
        target = f"load, proven, <= {limit:g} s each"
        if not problems:
            yield Line(work, target, "not here", None)
            return
        for group in settings.groups():
            trials = settings.tried(problems, group, time_limit=max(10 * limit, 10.0))
            proven = [trial.proven and trial.at_load for trial in all_of(trials)]
            seconds, which = slowest(trials)
            above = max(trial.above for trial in all_of(trials))
            measured = f"{seconds:.4f} s" + (f" ({which})" if len(problems) > 1 else "")
            measured += f", {sum(proven)} of {len(proven)} proven" + (f", up to {above:.3%} above" if above > 0 else "")
            peers = settings.asked(problems) if not group else {}
            yield Line(named(work, group), target, measured, all(proven) and seconds <= limit, trials, peers)

    return row


def s_1(settings: Settings) -> Iterator[Line]:
    problems = here(["iopddl/S_1"])
    work, target = "iopddl/S_1 (28,526)", "<= 0.1 % above in 5 s"
    if not problems:
        yield Line(work, target, "not here", None)
        return
    for group in settings.groups():
        trials = settings.tried(problems, group, time_limit=5.0)
        above = [trial.above for trial in all_of(trials)]
        measured = f"{median(above):.4%} ({min(above):.4%} to {max(above):.4%}) in {slowest(trials)[0]:.2f} s"
        peers = settings.asked(problems) if not group else {}
        yield Line(named(work, group), target, measured, median(above) <= 0.001, trials, peers)


LAYERED = (10**4, 10**5, 10**6)
NEARLY = 1.25  # the power of the number of buffers by which seconds may grow


def layered_networks(settings: Settings) -> Iterator[Line]:
    for group in settings.groups():
        trials: Trials = {}
        resident: list[float] = []
        for buffers in LAYERED:
            command = [sys.executable, __file__, "--child", str(buffers), group, str(settings.repeats)]
            told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            resident.append(told.pop("resident"))
            trials[f"layered {buffers:,}"] = [Trial(**told)]
        seconds = [row[0].wall for row in trials.values()]
        above = [row[0].above for row in trials.values()]
        power = math.log(seconds[-1] / seconds[0]) / math.log(LAYERED[-1] / LAYERED[0])
        measured = ", ".join(f"{s:.3f} s {a:.2%}" for s, a in zip(seconds, above, strict=True))
        measured += f"; grows with n^{power:.2f}; {resident[-1] / MIB:.0f} MiB"
        met = max(above) <= 0.01 and seconds[-1] <= 5 and resident[-1] <= 1024 * MIB and power <= NEARLY
        work = named("layered, 10^4, 10^5, 10^6", group)
        target = f"<= 1 % above, 10^6 in <= 5 s and <= 1 GiB, growing at most with n^{NEARLY}"
        peers = settings.asked({"layered 10,000": layered(LAYERED[0])}) if not group else {}
        yield Line(work, target, measured, met, trials, peers)


def layered_child(buffers: int, group: str, repeats: int) -> None:
    """Plan in a process of its own, whose memory is then that of planning."""
    problem = next(Settings([0], False, 1, repeats, 0, Peers([], 0)).told(layered(buffers), group))[1]
    trial = tried(f"layered {buffers:,}", problem, repeats=repeats)
    print(json.dumps(asdict(trial) | {"resident": highest_resident()}))


def highest_resident() -> int:
    """Bytes that this program had in memory at most.

    On Linux getrusage counts what the parent had in memory when it started this process, too.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) * 1024 for line in status.read_text().splitlines() if line[:6] == "VmHWM:")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def from_python(settings: Settings) -> Iterator[Line]:
    problem = layered(50)
    columns = (problem.size, problem.first, problem.last)
    best = {}
    for what, source in (("a Problem", problem), ("arrays", columns)):
        timer = timeit.Timer(lambda source=source: memplan.plan(source))
        loops, _ = timer.autorange()
        best[what] = median(seconds / loops * 1000 for seconds in timer.repeat(5, loops))
    measured = ", ".join(f"{milliseconds:.3f} ms ({what})" for what, milliseconds in best.items())
    yield Line("50 buffers, from Python", "<= 0.2 ms a call", measured, max(best.values()) <= 0.2)


TIGHT: dict[str, dict[str, Any]] = {
    "full": {},
    "with slack": {"removed": 0.05, "shrunk": 0.1, "keep_load": False},
    "exchanged": {"exchanges": 40},
}


def random_puzzles(settings: Settings) -> Iterator[Line]:
    for kind, options in TIGHT.items():
        sizes = [30 + 30 * k // max(settings.problems - 1, 1) for k in range(settings.problems)]
        problems = {f"{kind} {k}": tight(buffers, seed=1000 + k, **options) for k, buffers in enumerate(sizes)}
        for group in settings.groups():
            trials = settings.tried(problems, group, time_limit=10.0)
            proven = [trial.proven for trial in all_of(trials)]
            seconds = [trial.wall if trial.proven else math.inf for trial in all_of(trials)]
            above = sum(row[0].proven and not row[0].at_load for row in trials.values())
            measured = f"{median(seconds) * 1000:.2f} ms, {sum(proven)} of {len(proven)} proven"
            measured += f"; optimum above the load in {above} of {len(problems)}"
            peers = settings.asked(problems, seconds=min(settings.peers.seconds, 5.0)) if not group else {}
            work = named(f"random hard, {kind}, 30-60", group)
            yield Line(work, "proven optimum, median <= 5 ms", measured, median(seconds) <= 0.005, trials, peers)


PIECES = (257, 1025)
INTERVALS = 10_000


def pinwheels(settings: Settings) -> Iterator[Line]:
    """Arenas cut into pinwheels all over: no straight cut goes through, and no byte is free at any step."""
    for pieces in PIECES:
        problems = {
            f"pinwheels {pieces:,} {k}": tight(pieces, steps=1000, units=1 << 20, unit=1, pinwheels=1.0, seed=k)
            for k in range(min(settings.problems, 3))
        }
        yield from _above(settings, problems, f"pinwheels, {pieces:,} pieces", 0.05)
        if problems := omnimalloc_pinwheels(pieces, min(settings.problems, 3)):
            yield from _above(settings, problems, f"OmniMalloc's pinwheels, {pieces:,} pieces", 0.05)


def omnimalloc_pinwheels(pieces: int, count: int) -> dict[str, memplan.Problem]:
    """Those of the package omnimalloc, if it is here."""
    if find_spec("omnimalloc") is None:
        return {}
    from omnimalloc.benchmark.sources import PinwheelSource

    problems = {}
    for seed in range(count):
        buffers = PinwheelSource(num_allocations=pieces, seed=seed).get_allocations()
        columns = ([getattr(buffer, name) for buffer in buffers] for name in ("size", "start", "end"))
        problems[f"OmniMalloc pinwheels {pieces:,} {seed}"] = memplan.Problem(*columns)
    return problems


def random_intervals(settings: Settings) -> Iterator[Line]:
    """Lives anywhere, of any length up to a tenth of time: some hundreds are alive at once."""
    problems = {}
    for k in range(min(settings.problems, 2)):
        random = np.random.default_rng(k)
        first, life = random.integers(0, INTERVALS, INTERVALS), random.integers(1, INTERVALS // 10, INTERVALS)
        problems[f"intervals {k}"] = memplan.Problem(random.integers(1, 1000, INTERVALS), first, first + life)
    yield from _above(settings, problems, f"random intervals, {INTERVALS:,}", 0.027)


def _above(settings: Settings, problems: dict[str, memplan.Problem], work: str, most: float) -> Iterator[Line]:
    """How far problems end above their loads in ten seconds."""
    for group in settings.groups():
        trials = settings.tried(problems, group, time_limit=10.0)
        above = [trial.above for trial in all_of(trials)]
        proven = sum(trial.proven for trial in all_of(trials))
        measured = f"{median(above):.2%} above ({min(above):.2%} to {max(above):.2%}), {proven} of {len(above)} proven"
        peers = settings.asked(problems) if not group else {}
        yield Line(named(work, group), f"<= {most:.1%} above in 10 s", measured, median(above) <= most, trials, peers)


ROWS: dict[str, Callable[[Settings], Iterator[Line]]] = {
    "a-k": a_to_k,
    "minimise": minimise,
    "small": at_load(["somas/resnet50", "iopddl/G_1"], "somas/resnet50, iopddl/G_1", 0.1),
    "pangu": at_load(["somas/pangu_2.6B"], "somas/pangu_2.6B (18,692)", 1.0),
    "y_1": at_load(["iopddl/Y_1"], "iopddl/Y_1 (62,185)", 2.0),
    "s_1": s_1,
    "torch": at_load([], "every file of torch/", 0.05),
    "layered": layered_networks,
    "python": from_python,
    "random": random_puzzles,
    "pinwheels": pinwheels,
    "intervals": random_intervals,
}


# What is printed


def of_peers(line: Line) -> str:
    """A line per peer: how many at the load or fitting, how far above the others, seconds."""
    by_peer: dict[str, list[tuple[float, Peer]]] = {}
    for name, found in line.peers.items():
        for peer in found:
            load = line.trials[name][0].load
            above = math.inf if peer.peak is None else peer.peak / load - 1
            by_peer.setdefault(peer.name, []).append((above, peer))
    return "\n".join(f"{name}: {_summary(line, runs)}" for name, runs in by_peer.items())


def _summary(line: Line, runs: list[tuple[float, Peer]]) -> str:
    seconds = [peer.seconds for _, peer in runs]
    if len(runs) == 1:
        (above, peer), proven = runs[0], ", proven" if runs[0][1].proven else ""
        return (f"{above:.3%} above{proven}" if peer.peak is not None else "no plan") + f" in {seconds[0]:.2f} s"
    if "given" in line.work:
        good = sum(peer.peak is not None and peer.peak <= CAPACITY for _, peer in runs)
        text = f"{good} of {len(runs)} fit"
    else:
        good = sum(peer.proven for _, peer in runs)
        text = f"{good} of {len(runs)} proven"
    worse = [above for above, peer in runs if 0 < above < math.inf]
    if worse:
        text += f", {min(worse):.2%} to {max(worse):.2%} above the load"
    return text + f", {sum(seconds):.1f} s in all, median {median(seconds) * 1000:.0f} ms"


def details(line: Line) -> Table:
    """A row per problem."""
    columns = ("problem", "buffers", "seconds: least", "median", "most", "plan.seconds", "above: median", "most")
    table = Table(*columns, "bound above", "proven", "winner", "peers", title=line.work)
    for name, row in line.trials.items():
        walls, above = [trial.wall for trial in row], [trial.above for trial in row]
        bound = max((trial.lower_bound or 0) / max(trial.load, 1) - 1 for trial in row)
        winners = Counter(trial.said for trial in row)
        table.add_row(
            label(name),
            f"{row[0].buffers:,}",
            *(f"{seconds:.4f}" for seconds in (min(walls), median(walls), max(walls))),
            f"{median(trial.seconds for trial in row):.4f}",
            *(f"{share:.4%}" for share in (median(above), max(above))),
            f"{max(bound, 0):.4%}",
            f"{sum(trial.proven for trial in row)} of {len(row)}",
            ", ".join(f"{winner} {count}" for winner, count in winners.most_common(3)),
            "; ".join(_of_peer(peer, row[0].load) for peer in line.peers.get(name, [])),
        )
    return table


def _of_peer(peer: Peer, load: int) -> str:
    found = "no plan" if peer.peak is None else f"{peer.peak / load - 1:.3%}"
    return f"{peer.name} {found}{' proven' if peer.proven else ''} {peer.seconds:.2f} s"


def main() -> None:
    """Print the header and the table."""
    options = _options()
    names = options.rows.split(",") if options.rows else list(ROWS)
    for name in names:
        if name not in ROWS:
            sys.exit(f"--rows must be some of {', '.join(ROWS)}, got {name!r}")
    listed = {"all": available(), "none": []}.get(options.peers)
    peers = Peers(options.peers.split(",") if listed is None else listed, options.peer_seconds, options.peer_threads)
    seeds = [int(seed) for seed in options.seeds.split(",")]
    settings = Settings(seeds, options.mirrored, options.shuffled_seeds, options.repeats, options.problems, peers)
    console = Console(width=None if sys.stdout.isatty() else 200)
    head = header()
    for what, text in head.items():
        console.print(f"{what}: {text}", highlight=False)
    table = Table("row", "work", "target", "measured", "met", "others in the same run", show_lines=True)
    lines: list[tuple[str, Line]] = []
    for name in names:
        for line in ROWS[name](settings):
            lines.append((name, line))
            met = {True: "yes", False: "no", None: ""}[line.met]
            table.add_row(name, line.work, line.target, line.measured, met, of_peers(line))
            print(f"{line.work}: {line.measured}", file=sys.stderr, flush=True)
            if options.details and line.trials:
                console.print(details(line))
    console.print(table)
    if options.json:
        rows = [{"row": name} | asdict(line) for name, line in lines]
        Path(options.json).write_text(json.dumps({"header": head, "lines": rows}, indent=1))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", help=f"some of {', '.join(ROWS)}; all without")
    parser.add_argument("--peers", default="all", help="all that are installed, none, or names with commas")
    parser.add_argument("--peer-seconds", type=float, default=10.0, help="their time limit per problem")
    parser.add_argument("--peer-threads", type=int, default=1)
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--repeats", type=int, default=3, help="of a call shorter than 0.2 seconds")
    parser.add_argument("--problems", type=int, default=30, help="random problems of each kind")
    parser.add_argument("--mirrored", action="store_true", help="all again with time reversed")
    parser.add_argument("--shuffled-seeds", type=int, default=0, help="all again with rows in so many other orders")
    parser.add_argument("--details", action="store_true", help="a line per problem")
    parser.add_argument("--json", help="a file for all figures")
    return parser.parse_args()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        layered_child(int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
    else:
        main()
