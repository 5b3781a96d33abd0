"""``memplan check``."""

from __future__ import annotations

import argparse
import json
from typing import Any

from .. import _core
from ..plans.plan import Plan
from ..text import printable
from .arguments import Commands, add_planner, add_search, add_source, captured, new_command, planning, search_group
from .terminal import INVALID, OK, interrupted, readers_may_leave, waiting
from .values import size

EXAMPLES = """
memplan check model.onnx --max 2MiB
memplan check model.onnx --max 2MiB --json
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
    command.add_argument(
        "--json", action="store_true", help="print one JSON object instead: the verdict, and all figures"
    )
    add_source(command)
    search = search_group(command)
    add_planner(search)
    add_search(search)


def run(options: argparse.Namespace) -> int:
    """Plan, compare and print; returns the exit status.

    The plan is looked for as if nothing were said of its size, so that its peak does not depend on what is allowed.
    """
    from ..api import plan, read_plan

    if options.max is None and options.baseline is None:
        raise ValueError("check needs to know what is allowed: --max N, --baseline PLAN, or both")
    with waiting(f"reading {options.source}"):
        baseline = None if options.baseline is None else read_plan(options.baseline, inclusive=options.inclusive)
        source = captured(options, options.source)
    with waiting("planning"):
        found = plan(source, options.planner, order=options.order, **planning(options))
    if found.interrupted:
        return interrupted("the search was not done")
    reasons = _too_large(found, options.max) + _grown(found, baseline, options.slack)
    with readers_may_leave():
        if options.json:
            print(json.dumps(_record(found, options, baseline, reasons), indent=2))
        else:
            verdict = "too large" if reasons else "fine"
            print(f"{printable(options.source)}: {verdict}: {_allowed(found.peak, options, baseline)}")
            for reason in reasons:
                print(f"\n{reason}")
    return INVALID if reasons else OK


def _record(found: Plan, options: argparse.Namespace, baseline: Plan | None, reasons: list[str]) -> dict[str, Any]:
    """What was found, as docs/cli.md describes it."""
    kept = {"path": str(options.baseline), "peak": baseline.peak, "slack": options.slack} if baseline else None
    return {
        "format": "memplan.check",
        "version": 1,
        "source": str(options.source),
        "fits": not reasons,
        "peak": found.peak,
        "lower_bound": found.lower_bound,
        "optimal": found.optimal,
        "max": options.max,
        "baseline": kept,
        "planner": found.planner,
        "order": found.ordered_by,
        "seconds": found.seconds,
        "reasons": reasons,
    }


def _allowed(peak: int, options: argparse.Namespace, baseline: Plan | None) -> str:
    from ..printing.units import format_bytes

    limits = [] if options.max is None else [f"{format_bytes(options.max)} at most"]
    limits += [] if baseline is None else [f"{format_bytes(baseline.peak)} in {printable(options.baseline)}"]
    return f"peak {format_bytes(peak)}, {', '.join(limits)}"


def _too_large(found: Plan, most: int | None) -> list[str]:
    if most is None or found.peak <= most:
        return []
    bound = found.lower_bound if found.ordered_by == "given" else found.order_bound or 0
    said = _core.why_too_large(found.problem, most, bound, found.peak, found.planner)
    return ["\n".join(printable(line) for line in said.splitlines())]


def _grown(found: Plan, baseline: Plan | None, slack: int) -> list[str]:
    if baseline is None or found.peak <= baseline.peak + slack:
        return []
    return [str(baseline.diff(found))]
