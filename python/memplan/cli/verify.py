"""``memplan verify``."""

from __future__ import annotations

import argparse

from ..text import printable
from .arguments import Commands, new_command
from .terminal import INVALID, OK, readers_may_leave, waiting
from .values import count, size

EXAMPLES = """
memplan verify lifetimes.csv plan.csv
memplan verify lifetimes.csv plan.json --capacity 1MiB
"""


def add(commands: Commands) -> None:
    """Add the command."""
    command = new_command(
        commands,
        "verify",
        "check a plan against a list of lifetimes: nothing that lives together may share bytes",
        EXAMPLES,
    )
    command.set_defaults(run=run)
    command.add_argument(
        "problem", metavar="PROBLEM.csv", help="the lifetimes, with the columns id,lower,upper,size[,alignment]"
    )
    command.add_argument(
        "plan", metavar="PLAN", help="the plan: a .csv with a column offset, or a .json that memplan wrote"
    )
    command.add_argument(
        "--capacity", type=size, metavar="N", help="also check that the plan fits so many bytes, such as 1MiB"
    )
    command.add_argument(
        "--inclusive", action="store_true", help="ends of lifetimes are the last step alive, in both files"
    )
    command.add_argument(
        "--limit", type=count, default=1000, metavar="N", help="list at most so many violations (default: 1000)"
    )


def run(options: argparse.Namespace) -> int:
    """Print what is wrong with the plan, or its peak; returns the exit status."""
    from .. import _core
    from ..importers.csv import read_problem
    from ..importers.plan_files import match_offsets, placed_rows

    with waiting("verifying"):
        pins = options.problem != options.plan  # offsets that are to be checked are no pins
        problem = read_problem(options.problem, inclusive=options.inclusive, pins=pins)
        rows = placed_rows(options.plan, inclusive=options.inclusive).rows
        matched, offsets, messages = match_offsets(problem, rows)
        violations = _core.verify(matched, offsets, capacity=options.capacity, limit=options.limit + 1)
        messages += [violation.message for violation in violations]
    with readers_may_leave():
        for message in messages[: options.limit]:
            print(printable(message))
        if len(messages) > options.limit:
            print("… and more")
    if messages:
        return INVALID
    peak = _core.peak_of(matched, offsets)
    with readers_may_leave():
        print(f"valid: {len(problem)} buffers, peak {peak} bytes, load {problem.load} bytes")
    return OK
