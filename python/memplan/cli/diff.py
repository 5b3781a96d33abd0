"""``memplan diff``."""

from __future__ import annotations

import argparse
from pathlib import Path

from .arguments import Commands, check_targets, new_command, write_files
from .terminal import OK, readers_may_leave, waiting

EXAMPLES = """
memplan diff before.json after.json
memplan diff before.json after.json --html diff.html
memplan diff before.pickle after.pickle
"""


def add(commands: Commands) -> None:
    """Add the command."""
    command = new_command(commands, "diff", "say what changed from one plan to another", EXAMPLES)
    command.set_defaults(run=run)
    command.add_argument(
        "before",
        metavar="PLAN",
        help="the first plan: a .json that memplan wrote, a .csv with offsets, or a memory snapshot of torch",
    )
    command.add_argument("after", metavar="PLAN", help="the second one")
    command.add_argument("--json", type=Path, metavar="F", help="write all differences as JSON")
    command.add_argument(
        "--html", type=Path, metavar="F", help="write all differences, and pictures of both, as a page"
    )
    command.add_argument(
        "--inclusive", action="store_true", help="of .csv files: ends of lifetimes are the last step alive"
    )


def run(options: argparse.Namespace) -> int:
    """Read both plans, compare, write and print; returns the exit status."""
    from ..api import read_plan
    from ..importers import compared_as

    check_targets([options.json, options.html], [options.before, options.after])
    with waiting("comparing"):
        if (compared := compared_as((options.before, options.after))) is not None:
            difference = compared((options.before, options.after))
        else:
            before, after = (read_plan(path, inclusive=options.inclusive) for path in (options.before, options.after))
            difference = before.diff(after)
    write_files(options, {"json": difference.to_json, "html": difference.to_html})
    with readers_may_leave():
        print(difference)
    return OK
