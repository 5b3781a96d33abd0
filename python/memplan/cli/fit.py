"""``memplan fit``."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

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
    write_files,
)
from .terminal import INVALID, OK, console, interrupted, print_summary, readers_may_leave, waiting
from .values import capacity_or_least

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
        help="what may be done: recompute, offload, order, donate, split (default: recompute,order)",
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
        "--hidden",
        type=float,
        default=0.0,
        metavar="X",
        help="share of moves that other ops hide, in [0, 1] (default: 0)",
    )
    search.add_argument(
        "--call",
        type=float,
        metavar="X",
        help="cost of calling a kernel once more (default: 10000 operations, or 0 if the file says what ops cost)",
    )
    search.add_argument(
        "--max-pieces", type=int, default=1024, metavar="N", help="most pieces of a region (default: 1024)"
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
    from ..draw.gantt import save_plot
    from ..draw.page import require_bokeh, write_page
    from ..fitting.fit import check_ways

    check_targets([options.graph, options.json, options.plot, options.html], [options.source])
    check_picture(options.plot)
    asked = {name: getattr(options, name) for name in ("allow", "cost", "transfer", "call", "max_pieces")}
    asked["hidden"] = options.hidden
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
        assert found.graph is not None
        graph = json.dumps(found.graph.to_dict())
        writers = {
            "graph": lambda path: write_text(path, graph),
            "json": found.to_json,
            "plot": lambda path: save_plot(found, path),
            "html": lambda path: write_page(
                [plan(source, options.planner, **taken), found], path, title=options.source
            ),
        }
        write_files(options, writers)
    with readers_may_leave():
        print_summary(options.source, found)
        if found.changes:
            console().print(str(found.fitting), soft_wrap=True, markup=False, highlight=False)
    return interrupted("this is the best plan until then") if found.interrupted else OK
