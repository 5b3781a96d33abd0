"""``memplan doctor``."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from .arguments import Commands, new_command
from .terminal import INVALID, OK, readers_may_leave, waiting

EXAMPLES = """
memplan doctor
memplan doctor torch --run
"""


def add(commands: Commands) -> None:
    """Add the command."""
    text = "say what works with the packages that are installed, and why something does not"
    command = new_command(commands, "doctor", text, EXAMPLES)
    command.set_defaults(run=run)
    command.add_argument("wings", nargs="*", metavar="WING", help="such as torch (default: all that are installed)")
    command.add_argument("--run", action="store_true", dest="go", help="try each on a small example")
    command.add_argument("--json", action="store_true", help="print one JSON object instead of a table")


def run(options: argparse.Namespace) -> int:
    """Look at the doors; returns the exit status."""
    from ..doctor import doctor

    with waiting("opening doors"):
        found = doctor(*options.wings, run=options.go)
    with readers_may_leave():
        if options.json:
            record = {"format": "memplan.doctor", "version": 1, "versions": found.versions}
            print(json.dumps(record | {"doors": [asdict(door) for door in found.doors]}, indent=2))
        else:
            print(found)
    return INVALID if any(door.why for door in found.doors) else OK
