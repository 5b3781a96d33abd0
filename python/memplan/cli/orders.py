"""``memplan orders``."""

from __future__ import annotations

import argparse

from ..planning.orders import orders
from .arguments import Commands, new_command
from .planners import parameter_text
from .terminal import OK, console, readers_may_leave

EXAMPLES = "memplan orders"


def add(commands: Commands) -> None:
    """Add the command."""
    text = "list the orders of ops: what each does, and its parameters"
    new_command(commands, "orders", text, EXAMPLES).set_defaults(run=run)


def run(_: argparse.Namespace) -> int:
    """Print the table."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for title in ("name", "what it does", "complexity", "source"):
        table.add_column(title, overflow="fold")
    for row in orders():
        title = "\n".join([row.title, *map(parameter_text, row.parameters)])
        table.add_row(row.name, title, row.complexity, row.source)
    with readers_may_leave():
        console().print(table)
    return OK
