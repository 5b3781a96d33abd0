"""``memplan explain``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from .arguments import (
    Commands,
    add_planner,
    add_pools,
    add_search,
    add_source,
    captured,
    check_targets,
    new_command,
    planning,
    search_group,
    write_files,
)
from .terminal import OK, Progress, interrupted, readers_may_leave, waiting

EXAMPLES = """
memplan explain example:resnet50_train --html resnet50.html
memplan explain model.onnx --dims batch=8 --planner first_fit --json explanation.json
memplan explain model.onnx --pool sram=512KiB --pool dram
memplan explain snapshot.pickle
"""


def add(commands: Commands) -> None:
    """Add the command."""
    command = new_command(commands, "explain", "say what makes the peak of a plan, and what would lower it", EXAMPLES)
    command.set_defaults(run=run)
    add_source(command)
    search = search_group(command)
    add_planner(search)
    add_pools(search)
    add_search(search)
    files = command.add_argument_group("files to write")
    files.add_argument("--html", type=Path, metavar="F", help="the explanation as a page")
    files.add_argument("--json", type=Path, metavar="F", help="the explanation as JSON")


def run(options: argparse.Namespace) -> int:
    """Plan, explain, write and print; returns the exit status."""
    from ..api import plan
    from ..importers import form_of

    check_targets([options.json, options.html], [options.source])
    explained, blocks = form_of(options.source).explained, options.blocks or {}
    if explained is not None and not blocks.keys() - {"device"}:  # of one stream or pool, the plan is explained
        with waiting(f"reading {options.source}"):
            recorded = explained(options.source, **blocks)
        write_files(options, {"json": recorded.to_json, "html": recorded.to_html})
        with readers_may_leave():
            print(recorded)
        return OK
    with waiting(f"reading {options.source}"):
        source = captured(options, options.source)
    progress = Progress()
    told: dict[str, Any] = {"on_improvement": None if options.pool else progress.show, "on_order": progress.show_order}
    told = told if sys.stderr.isatty() else {}
    with waiting(progress):
        found = plan(source, options.planner, order=options.order, pools=options.pool, **told, **planning(options))
    with waiting("explaining"):
        explanation = found.explain()
    write_files(options, {"json": explanation.to_json, "html": explanation.to_html})
    with readers_may_leave():
        print(explanation)
    return interrupted("this explains the best plan until then") if found.interrupted else OK
