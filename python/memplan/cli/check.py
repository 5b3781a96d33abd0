"""``memplan check``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ..errors import InfeasibleError
from ..text import printable
from .arguments import (
    Commands,
    add_planner,
    add_search,
    add_source,
    captured,
    new_command,
    planning,
    search_group,
)
from .terminal import INVALID, OK, interrupted, readers_may_leave, waiting
from .values import size

if TYPE_CHECKING:
    from ..facts.plan import Plan

EXAMPLES = """
memplan check model.onnx --max 2MiB
memplan check model.onnx --alignment 64 --baseline plan.json --slack 1KiB
"""


def add(commands: Commands) -> None:
    """Add the command."""
    text = "fail where a network needs more memory than it may, or than an earlier plan; for continuous integration"
    command = new_command(commands, "check", text, EXAMPLES)
    command.set_defaults(run=run)
    limits = command.add_argument_group("what is allowed")
    limits.add_argument("--max", type=size, metavar="N", help="bytes that the arena may have, such as 2MiB")
    limits.add_argument(
        "--baseline",
        metavar="PLAN",
        help="an earlier plan, whose peak may not be exceeded: a .json that memplan wrote, or a .csv with offsets",
    )
    limits.add_argument(
        "--slack", type=size, default=0, metavar="N", help="bytes by which the baseline may be exceeded (default: 0)"
    )
    add_source(command)
    search = search_group(command)
    add_planner(search)
    add_search(search)


def run(options: argparse.Namespace) -> int:
    """Plan, compare and print; returns the exit status."""
    from ..importers.plan_files import read_plan

    if options.max is None and options.baseline is None:
        raise ValueError("check needs to know what is allowed: --max N, --baseline PLAN, or both")
    with waiting(f"reading {options.source}"):
        baseline = None if options.baseline is None else read_plan(options.baseline, inclusive=options.inclusive)
        source = captured(options, options.source)
    most = [] if options.max is None else [options.max]
    most += [] if baseline is None else [baseline.peak + options.slack]
    with waiting("planning"):
        found, refused = _planned(source, options, min(most))
    if found.interrupted:
        return interrupted("the search was not done")
    reasons = _too_large(found, options.max, refused) + _grown(found, baseline, options.slack)
    verdict = "too large" if reasons else "fine"
    with readers_may_leave():
        print(f"{printable(options.source)}: {verdict}: {_allowed(found.peak, options, baseline)}")
        for reason in reasons:
            print(f"\n{reason}")
    return INVALID if reasons else OK


def _planned(source: Any, options: argparse.Namespace, most: int) -> tuple[Plan, InfeasibleError | None]:
    """The first plan that fits; else the best that is found, and why none fits."""
    from ..api import plan

    given = {"order": options.order, **planning(options)}
    try:
        return plan(source, options.planner, capacity=most, **given), None
    except InfeasibleError as error:
        return error.plan or plan(source, options.planner, **given), error


def _allowed(peak: int, options: argparse.Namespace, baseline: Plan | None) -> str:
    from ..present.units import format_bytes

    limits = [] if options.max is None else [f"{format_bytes(options.max)} at most"]
    limits += [] if baseline is None else [f"{format_bytes(baseline.peak)} in {printable(options.baseline)}"]
    return f"peak {format_bytes(peak)}, {', '.join(limits)}"


def _too_large(found: Plan, most: int | None, refused: InfeasibleError | None) -> list[str]:
    if most is None or refused is None or found.peak <= most:
        return []
    lines = [printable(line) for line in str(refused).splitlines()]
    if refused.capacity != most:  # that of the baseline, which is lower
        proven = refused.lower_bound > most
        lines[0] = f"{'no plan fits' if proven else 'no plan was found that fits'} the {most} bytes of --max"
    return ["\n".join(lines)]


def _grown(found: Plan, baseline: Plan | None, slack: int) -> list[str]:
    if baseline is None or found.peak <= baseline.peak + slack:
        return []
    return [str(baseline.diff(found))]
