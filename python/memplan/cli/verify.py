"""``memplan verify``."""

from __future__ import annotations

import argparse

from ..text import printable
from .arguments import Commands, count, new_command, size
from .terminal import INVALID, OK, readers_may_leave, waiting

EXAMPLES = """
memplan verify lifetimes.csv plan.csv
memplan verify lifetimes.csv plan.json --capacity 1MiB
"""


def add(commands: Commands) -> None:
    """Add the command."""
    command = new_command(commands, "verify", "check a plan against a list of lifetimes", EXAMPLES)
    command.set_defaults(run=run)
    command.add_argument("problem", metavar="PROBLEM.csv", help="lifetimes: id,lower,upper,size[,alignment]")
    command.add_argument("plan", metavar="PLAN", help="a .csv with a column offset, or a .json that memplan wrote")
    command.add_argument("--capacity", type=size, metavar="N", help="bytes that the plan must fit, such as 1MiB")
    command.add_argument("--inclusive", action="store_true", help="lifetimes end with their last step, in both files")
    command.add_argument("--limit", type=count, default=1000, metavar="N", help="violations listed at most (1000)")


def run(options: argparse.Namespace) -> int:
    """Print what is wrong with the plan, or its peak; returns the exit status."""
    from .. import _core
    from ..importers.csv import read_problem
    from ..importers.plan_files import match_offsets, placed_rows

    with waiting("verifying"):
        problem = read_problem(options.problem, inclusive=options.inclusive)
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
