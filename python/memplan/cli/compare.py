"""``memplan compare``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..importers import compared_as
from ..planning.registry import planners
from .arguments import (
    Commands,
    add_search,
    add_source,
    capturing,
    check_picture,
    check_targets,
    new_command,
    planning,
    search_group,
    write_files,
)
from .terminal import INVALID, OK, Line, console, interrupted, readers_may_leave, waiting
from .values import names_with_parameters

if TYPE_CHECKING:
    from ..comparing.comparison import Comparison
    from ..comparing.row import ComparisonRow
    from ..comparing.sweep import Sweep

EXAMPLES = """
memplan compare example:resnet50_train --plot planners.png
memplan compare model.onnx --planners auto,first_fit,beam:k=64 --dims batch=8 --csv planners.csv
memplan compare example:resnet50_train --planners auto,first_fit --orders given,best
memplan compare rank0.pickle rank1.pickle --html ranks.html
memplan compare lifetimes/*.csv --inclusive --jobs 8 --resume done.csv --html planners.html
"""


def add(commands: Commands) -> None:
    """Add the command."""
    command = new_command(commands, "compare", "plan with many planners, or compare memory snapshots", EXAMPLES)
    command.set_defaults(run=run)
    add_source(command, many=True)
    search = search_group(command)
    search.add_argument(
        "--planners",
        action="extend",
        type=names_with_parameters,
        metavar="P,P",
        help="names between commas, parameters after a colon: auto,beam:k=16,xla_heap:order=best,fit=lowest. "
        "By default all, the exact ones for 10 seconds each",
    )
    search.add_argument(
        "--orders",
        action="extend",
        type=names_with_parameters,
        metavar="O,O",
        help="orders of the ops between commas: given,best (default: given); `memplan orders` explains them all",
    )
    add_search(search)
    search.add_argument("--jobs", type=_jobs, default=1, metavar="N", help="processes that plan at a time (default: 1)")
    search.add_argument(
        "--resume", type=Path, metavar="F", help="a CSV file that keeps each result; what it has is not planned again"
    )
    files = command.add_argument_group("files to write")
    files.add_argument("--plot", type=Path, metavar="F", help="the comparison as a picture: .png, .svg or .pdf")
    files.add_argument("--html", type=Path, metavar="F", help="the tables and the picture as one page")
    files.add_argument("--markdown", type=Path, metavar="F", help="the table as Markdown")
    files.add_argument("--csv", type=Path, metavar="F", help="all figures as CSV")
    files.add_argument("--json", type=Path, metavar="F", help="all figures as JSON")


def run(options: argparse.Namespace) -> int:
    """Compare, write and print; returns the exit status: 1 where no planner has a plan of a source that fits."""
    outputs = (options.csv, options.json, options.markdown, options.html, options.plot, options.resume)
    check_targets([target for target in outputs if target is not None], options.sources)
    check_picture(options.plot)
    if options.planners is None and options.orders is None and (compared := compared_as(options.sources)) is not None:
        return _recorded(options, compared)
    arguments = {
        "planners": options.planners,
        "orders": options.orders or ["given"],
        **capturing(options),
        **planning(options),
    }
    if len(options.sources) == 1 and options.jobs == 1 and options.resume is None:
        result: Comparison | Sweep = _compared(options.sources[0], arguments)
    else:
        result = _swept(options, arguments)
    with waiting("writing"):
        writers = {"csv": result.to_csv, "json": result.to_json, "markdown": result.to_markdown}
        write_files(options, {**writers, "html": result.to_html, "plot": result.save_picture})
    with readers_may_leave():
        _print(result)
    if result.interrupted:
        return interrupted("this is what was done until then")
    return OK if all(comparison.fits for comparison in _each(result)) else INVALID


def _recorded(options: argparse.Namespace, compared: Callable[[Sequence[str]], Any]) -> int:
    """Files that are compared as they are: memory snapshots."""
    for name in ("csv", "markdown", "resume"):
        if getattr(options, name) is not None:
            raise ValueError(f"--{name} is for planners: name some by --planners, or write --plot, --html or --json")
    with waiting("reading"):
        found = compared(options.sources)
    write_files(options, {"json": found.to_json, "html": found.to_html, "plot": found.save_picture})
    with readers_may_leave():
        print(found)
    return OK


def _compared(source: str, arguments: dict[str, Any]) -> Comparison:
    from ..comparing.comparison import compare

    progress = _Progress(len(arguments["planners"] or planners()) * len(arguments["orders"]))
    with waiting(progress):
        return compare(source, on_row=progress.step, **arguments)


def _swept(options: argparse.Namespace, arguments: dict[str, Any]) -> Comparison | Sweep:
    from ..comparing.sweep import sweep

    try:
        result = sweep(options.sources, executor=options.jobs, csv=options.resume, **arguments)
    except BrokenExecutor as error:
        raise OSError(f"a process that planned has ended: {error}") from error
    return result[0] if len(result) == 1 else result


def _each(result: Comparison | Sweep) -> Iterable[Comparison]:
    from ..comparing.comparison import Comparison

    return [result] if isinstance(result, Comparison) else result


def _print(result: Comparison | Sweep) -> None:
    from ..comparing.comparison import Comparison
    from ..comparing.picture import comparison_table
    from ..comparing.sweep.picture import gap_tables
    from ..printing.tables import rich_table

    out = console()
    tables = [comparison_table(result)] if isinstance(result, Comparison) else gap_tables(result, out.width)
    for table in tables:
        out.print(rich_table(table))


class _Progress(Line):
    """How far the comparison has come, as a line: "comparing: 12 of 27 plans, 3 s"."""

    def __init__(self, total: int) -> None:
        super().__init__()
        self._done, self._total = 0, total

    def step(self, _: ComparisonRow) -> None:
        """A planner has ended."""
        self._done += 1

    def __str__(self) -> str:
        return f"comparing: {self._done} of {self._total} plans, {self.spent}"


def _jobs(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1024:
        raise argparse.ArgumentTypeError(f"must be from 1 to 1024, got {text!r}")
    return int(text)
