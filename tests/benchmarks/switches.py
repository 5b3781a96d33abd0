"""What each inference of a planner is worth: A to K with all of them on, and with each one off.

Run: ``python tests/benchmarks/switches.py [--planner valley] [--seeds 0,1,2,3,4] [--time-limit 10] [--capacity N]``. A
switch is a parameter of the planner that is "off" or "on". What does not fit in its time counts with all of it.
"""

from __future__ import annotations

import argparse
import math
import sys

from measuring import A_TO_K, CAPACITY, Trial, header, instance, label, median, tried
from rich.console import Console
from rich.table import Table

import memplan
from memplan.planning import Parameter


def switches_of(planner: str) -> list[Parameter]:
    """The parameters of a planner that are off or on."""
    row = next(row for row in memplan.planners() if row.name == planner)
    return [parameter for parameter in row.parameters if parameter.words == ("off", "on")]


def seconds_of(trials: list[Trial], capacity: int, limit: float) -> list[float]:
    """Seconds of each trial, all of the time limit where it does not fit."""
    return [t.wall if t.peak is not None and t.peak <= capacity else max(limit, t.wall) for t in trials]


def main() -> None:
    """Print the table, and one of the problems."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--planner", default="valley")
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--time-limit", type=float, default=10.0, help="seconds per problem")
    parser.add_argument("--capacity", type=int, default=CAPACITY)
    options = parser.parse_args()
    switches = switches_of(options.planner)
    standing = {s.name: s.words[int(s.standard)] if isinstance(s.standard, int) else s.standard for s in switches}
    settings = {"as it stands": options.planner}
    settings |= {
        f"{s.name} {word}": f"{options.planner}:{s.name}={word}"
        for s in switches
        if (word := "off" if standing[s.name] == "on" else "on")
    }
    problems = {name: problem for name in A_TO_K if (problem := instance(name)) is not None}
    seeds = [int(seed) for seed in options.seeds.split(",")]
    table = Table("setting", "fit", "seconds in all", "to as it stands", "geometric mean of ratios", title="A to K")
    each = Table("setting", *(label(name) for name in problems), title="median seconds")
    standard: list[float] = []
    for setting, planner in settings.items():
        medians, fitted, total = [], 0, 0.0
        for name, problem in problems.items():
            given = {"capacity": options.capacity, "time_limit": options.time_limit}
            trials = [tried(name, problem, planner, repeats=3, seed=seed, **given) for seed in seeds]
            fitted += sum(t.peak is not None and t.peak <= options.capacity for t in trials)
            seconds = seconds_of(trials, options.capacity, options.time_limit)
            medians.append(median(seconds))
            total += sum(seconds) / len(seeds)
        standard = standard or [*medians, total]
        ratios = [math.log(now / before) for now, before in zip(medians, standard, strict=False)]
        mean = math.exp(sum(ratios) / len(ratios))
        of = f"{fitted} of {len(problems) * len(seeds)}"
        table.add_row(setting, of, f"{total:.3f}", f"{total / standard[-1]:.2f}", f"{mean:.2f}")
        each.add_row(setting, *(f"{seconds:.3f}" for seconds in medians))
        print(f"{setting}: {total:.3f} s, {of} fit", file=sys.stderr, flush=True)
    console = Console(width=None if sys.stdout.isatty() else 160)
    for what, text in header().items():
        console.print(f"{what}: {text}", highlight=False)
    console.print(table)
    console.print(each)


if __name__ == "__main__":
    main()
