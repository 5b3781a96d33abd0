"""``memplan fit``."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..files import write_text
from ..options import written
from ..plans.failing import InfeasibleError
from ..text import one_of, printable
from .arguments import (
    Commands,
    add_planner,
    add_search,
    add_source,
    captured,
    check_picture,
    check_targets,
    new_command,
    planning,
    search_group,
)
from .terminal import INVALID, OK, console, interrupted, readers_may_leave, waiting
from .values import capacity_or_least

if TYPE_CHECKING:
    from ..facade import Plan

EXAMPLES = """
memplan fit example:resnet50_train --capacity 2GiB --json plan.json
memplan fit model.onnx --dims batch=8 --capacity 64MiB --allow recompute --graph fitted.json
"""


def add(commands: Commands) -> None:
    """Add the command."""
    text = "make a network fit into a capacity: ops run again instead of keeping what they made"
    command = new_command(commands, "fit", text, EXAMPLES)
    command.set_defaults(run=run)
    add_source(command, function="fit")
    search = search_group(command)
    search.add_argument(
        "--capacity",
        type=capacity_or_least,
        required=True,
        metavar="N",
        help="bytes that the arena may have, such as 8GiB; 60%% of what it needs as it is; or least: as little as is "
        "reached",
    )
    search.add_argument(
        "--allow",
        type=_ways,
        default=["recompute", "order"],
        metavar="WAY,WAY",
        help="what may be done: recompute, offload, order, donate (default: recompute,order)",
    )
    search.add_argument(
        "--cost",
        choices=("auto", "bytes", "flops"),
        default="auto",
        help="what ops cost: what the file says, else flops and bytes (auto), or the bytes that they touch",
    )
    search.add_argument(
        "--transfer", type=float, metavar="X", help="cost of a byte moved out, and of one fetched (default: 2)"
    )
    search.add_argument(
        "--overlap", type=float, default=0.0, metavar="X", help="share of moves that hides, in [0, 1] (default: 0)"
    )
    add_planner(search)
    add_search(search, "fit")
    files = command.add_argument_group("files to write")
    files.add_argument("--graph", type=Path, metavar="F", help="the changed graph as a graph dict, JSON")
    files.add_argument("--json", type=Path, metavar="F", help="the plan with its changes as JSON")
    files.add_argument("--plot", type=Path, metavar="F", help="the plan as a picture: .png, .svg or .pdf")
    files.add_argument(
        "--html", type=Path, metavar="F", help="the plan as an interactive page, beside that of the network as it is"
    )


def _ways(text: str) -> list[str]:
    """What may be done, between commas."""
    from ..fitting.fit import WAYS

    for way in (found := written.names(text)):
        if way not in WAYS:
            raise argparse.ArgumentTypeError(one_of("it", WAYS, way).removeprefix("it "))
    return found


def run(options: argparse.Namespace) -> int:
    """Fit, write and print; returns the exit status."""
    from ..api import fit, plan
    from ..draw.page import require_bokeh, write_page
    from ..fitting.fit import check_ways

    check_targets([options.graph, options.json, options.plot, options.html], [options.source])
    check_picture(options.plot)
    asked = {name: getattr(options, name) for name in ("allow", "cost", "transfer", "overlap")}
    check_ways(**asked)
    if options.html is not None:
        require_bokeh()
    with waiting(f"reading {options.source}"):
        source = captured(options, options.source)
    taken = planning(options)
    try:
        with waiting("fitting"):
            found = fit(source, options.capacity, options.planner, **asked, **taken)
    except InfeasibleError as error:
        print(printable(str(error)), file=sys.stderr)
        return INVALID
    with waiting("writing"):
        _write(options, found)
        if options.html is not None:
            write_page([plan(source, options.planner, **taken), found], options.html, title=options.source)
    with readers_may_leave():
        _print(options.source, found)
    return interrupted("this is the best plan until then") if found.interrupted else OK


def _write(options: argparse.Namespace, found: Plan) -> None:
    assert found.graph is not None
    if options.graph is not None:
        write_text(options.graph, json.dumps(found.graph.to_dict()))
    if options.json is not None:
        found.to_json(options.json)
    if options.plot is not None:
        from ..draw.gantt import save_plot

        save_plot(found, options.plot)


def _print(source: str, found: Plan) -> None:
    from rich.table import Table

    from ..draw.layout import summary_rows

    out = console()
    out.print(printable(source), soft_wrap=True)
    table = Table(show_header=False, box=None)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in summary_rows(found):
        table.add_row(label, value)
    out.print(table)
    if found.changes:
        out.print(str(found.fitting), soft_wrap=True, markup=False, highlight=False)
