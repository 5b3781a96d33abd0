"""The command line: ``memplan COMMAND``, a module for each command."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence

from .._core import __version__
from ..errors import PlannerError
from ..text import one_line, printable
from . import check, compare, diff, doctor, estimate, explain, fit, plan, planners, verify, what_if
from .arguments import Parser, epilog
from .terminal import ERROR, interrupted

COMMANDS = (plan, fit, estimate, compare, explain, diff, check, verify, what_if, planners, doctor)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status: 0, 1 for a plan that does not hold or fit, 2 for an error, 130 when it
    was interrupted."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names may hold what the terminal cannot show
    options = parser().parse_args(argv)
    try:
        return int(options.run(options))
    except KeyboardInterrupt:
        return interrupted()
    except (ValueError, TypeError, OSError, ImportError, MemoryError, PlannerError) as error:
        print(f"memplan: error: {_one_line(error)}", file=sys.stderr)
        return ERROR


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return printable(f"{error.filename}: {error.strerror}")
    return one_line(str(error))


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    made = Parser(
        "memplan",
        description="Plan the memory of a neural network before it runs: every tensor gets an offset in one arena.",
        epilog=epilog("\n".join(command.EXAMPLES.strip().splitlines()[0] for command in COMMANDS))
        + "\n`memplan COMMAND --help` says more of each.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--version", action="version", version=f"memplan {__version__}")
    commands = made.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add(commands)
    return made
