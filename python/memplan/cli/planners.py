"""``memplan planners``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..planning.registry import survey
from .arguments import Commands, new_command
from .terminal import OK, console, readers_may_leave

if TYPE_CHECKING:
    from ..planning.interface import Parameter, PlannerInfo

EXAMPLES = """
memplan planners
memplan planners --json
"""


def add(commands: Commands) -> None:
    """Add the command."""
    text = "list the planners: what each does, and its parameters"
    command = new_command(commands, "planners", text, EXAMPLES)
    command.set_defaults(run=run)
    command.add_argument("--json", action="store_true", help="print one JSON object instead of a table")


def run(options: argparse.Namespace) -> int:
    """Print the registry."""
    rows, faults = survey()
    with readers_may_leave():
        if options.json:
            record = {"format": "memplan.planners", "version": 1, "planners": [_record(row) for row in rows]}
            print(json.dumps(record, indent=2))
        else:
            _print_table(rows)
    for fault in faults:
        print(f"memplan: left out: {fault}", file=sys.stderr)
    return OK


def _record(row: PlannerInfo) -> dict[str, Any]:
    """A planner, as docs/cli.md describes it."""
    fields = ("name", "alias", "title", "exact", "complexity", "source", "package")
    of_parameter = ("name", "title", "standard", "least", "most")
    parameters = [
        {field: getattr(parameter, field) for field in of_parameter} | {"words": list(parameter.words)}
        for parameter in row.parameters
    ]
    record = {field: getattr(row, field) for field in fields}
    return record | {"supports": list(row.supports), "parameters": parameters}


def _print_table(rows: Sequence[PlannerInfo]) -> None:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for title in ("name", "what it does", "exact", "supports", "complexity", "source"):
        table.add_column(title, overflow="fold")
    for row in rows:
        exact = "yes" if row.exact else "no"
        title = "\n".join([row.title, *map(parameter_text, row.parameters)])
        name = f"{row.name}\nor {row.alias}" if row.alias else row.name
        table.add_row(name, title, exact, ", ".join(row.supports), row.complexity, _source(row))
    console().print(table)


def _source(row: PlannerInfo) -> str:
    return f"{row.source}\npackage {row.package}" if row.package else row.source


def parameter_text(parameter: Parameter) -> str:
    """A parameter with its standard and what else it can be: "k=16 (1 to 1048576)", "order=size (size, birth)"."""
    limited = parameter.least is not None and parameter.most is not None
    others = ", ".join(parameter.words) or (f"{parameter.least} to {parameter.most}" if limited else parameter.expected)
    return f"{parameter.name}={parameter.standard} ({others}): {parameter.title}"
