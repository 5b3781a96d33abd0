"""``memplan planners`` and ``memplan orders``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from ..planning.interface import PlannerInfo
from ..planning.orders import OrderInfo, orders
from ..planning.registry import survey
from .arguments import Commands, new_command
from .terminal import OK, console, readers_may_leave

EXAMPLES = """
memplan planners
memplan planners --json
"""
_ORDERS = "memplan orders"


def add(commands: Commands) -> None:
    """Add the commands."""
    text = "list the planners: what each does, and its parameters"
    command = new_command(commands, "planners", text, EXAMPLES)
    command.set_defaults(run=run)
    command.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    text = "list the orders of ops: what each does, and its parameters"
    new_command(commands, "orders", text, _ORDERS).set_defaults(run=run_orders)


def run(options: argparse.Namespace) -> int:
    """Print the registry."""
    rows, faults = survey()
    with readers_may_leave():
        if options.json:
            record = {"format": "memplan.planners", "version": 1, "planners": [_record(row) for row in rows]}
            print(json.dumps(record, indent=2))
        else:
            header = ("name", "what it does", "exact", "supports", "complexity", "source")
            _print_table(header, map(_cells, rows))
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


def run_orders(_: argparse.Namespace) -> int:
    """Print the table of orders."""
    rows = [(row.name, _title(row), row.complexity, row.source) for row in orders()]
    with readers_may_leave():
        _print_table(("name", "what it does", "complexity", "source"), rows)
    return OK


def _cells(row: PlannerInfo) -> tuple[str, ...]:
    name = f"{row.name}\nor {row.alias}" if row.alias else row.name
    source = f"{row.source}\npackage {row.package}" if row.package else row.source
    return name, _title(row), "yes" if row.exact else "no", ", ".join(row.supports), row.complexity, source


def _title(row: PlannerInfo | OrderInfo) -> str:
    return "\n".join([row.title, *map(parameter_text, row.parameters)])


def _print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for title in header:
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console().print(table)


def parameter_text(parameter: Any) -> str:
    """A parameter with its standard and what else it can be: "k=16 (1 to 1048576)", "order=size (size, birth)"."""
    limited = parameter.least is not None and parameter.most is not None
    others = ", ".join(parameter.words) or (f"{parameter.least} to {parameter.most}" if limited else parameter.expected)
    return f"{parameter.name}={parameter.standard} ({others}): {parameter.title}"
