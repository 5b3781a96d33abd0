"""``memplan diff``."""

from __future__ import annotations

import argparse
from pathlib import Path

from .arguments import Commands, check_targets, new_command, write_files
from .terminal import OK, readers_may_leave, waiting

EXAMPLES = """
memplan diff before.json after.json
memplan diff before.json after.json --html diff.html
"""


def add(commands: Commands) -> None:
    """Add the command."""
    command = new_command(commands, "diff", "say what changed from one plan to another", EXAMPLES)
    command.set_defaults(run=run)
    command.add_argument(
        "before", metavar="PLAN", help="the first plan: a .json that memplan wrote, or a .csv with offsets"
    )
    command.add_argument("after", metavar="PLAN", help="the second plan")
    command.add_argument("--json", type=Path, metavar="F", help="write all differences as JSON")
    command.add_argument(
        "--html", type=Path, metavar="F", help="write all differences, and both plans as pictures, as a page"
    )
    command.add_argument(
        "--inclusive", action="store_true", help="of .csv files: ends of lifetimes are the last step alive"
    )


def run(options: argparse.Namespace) -> int:
    """Read both plans, compare, write and print; returns the exit status."""
    from ..api import read_plan

    check_targets([options.json, options.html], [options.before, options.after])
    with waiting("comparing"):
        before, after = (read_plan(path, inclusive=options.inclusive) for path in (options.before, options.after))
        difference = before.diff(after)
    write_files(options, {"json": difference.to_json, "html": difference.to_html})
    with readers_may_leave():
        print(difference)
    return OK
