"""``memplan planners``."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from ..planning.registry import survey
from .arguments import Commands, new_command
from .terminal import OK, console, readers_may_leave

if TYPE_CHECKING:
    from ..planning.interface import Parameter, PlannerInfo

EXAMPLES = "memplan planners"


def add(commands: Commands) -> None:
    """Add the command."""
    new_command(commands, "planners", "list the planners: what each does, and its parameters", EXAMPLES).set_defaults(
        run=run
    )


def run(_: argparse.Namespace) -> int:
    """Print the registry as a table."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for title in ("name", "what it does", "exact", "supports", "complexity", "source"):
        table.add_column(title, overflow="fold")
    rows, faults = survey()
    for row in rows:
        exact = "yes" if row.exact else "no"
        title = "\n".join([row.title, *map(parameter_text, row.parameters)])
        name = f"{row.name}\nor {row.alias}" if row.alias else row.name
        table.add_row(name, title, exact, ", ".join(row.supports), row.complexity, _source(row))
    with readers_may_leave():
        console().print(table)
    for fault in faults:
        print(f"memplan: left out: {fault}", file=sys.stderr)
    return OK


def _source(row: PlannerInfo) -> str:
    return f"{row.source}\npackage {row.package}" if row.package else row.source


def parameter_text(parameter: Parameter) -> str:
    """A parameter with its standard and what else it can be: "k=16 (1 to 1048576)", "order=size (size, birth)"."""
    limited = parameter.least is not None and parameter.most is not None
    others = ", ".join(parameter.words) or (f"{parameter.least} to {parameter.most}" if limited else parameter.expected)
    return f"{parameter.name}={parameter.standard} ({others}): {parameter.title}"
