"""The command line: ``memplan plan``, ``memplan verify``, ``memplan planners``."""

from __future__ import annotations

import argparse
import io
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from . import INPLACE_OPS, InfeasibleError, __version__, planners
from .api import PLACE

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from ._core import Graph, Problem
    from .plan import Plan
    from .planners import Parameter

OK, INVALID, ERROR, INTERRUPTED = 0, 1, 2, 130

_PLAN_EXAMPLES = """examples:
  memplan plan example:resnet50_infer --plot resnet50.png
  memplan plan model.onnx --dims batch=8 --alignment 64 --csv plan.csv
  memplan plan lifetimes.csv --planner first_fit --layout layout.txt
  memplan plan graph.json --donate x --disable-inplace-ops Add,Mul
  memplan plan lifetimes.csv --capacity 1048576 --time-limit 10
"""
_VERIFY_EXAMPLES = """examples:
  memplan verify lifetimes.csv plan.csv
  memplan verify lifetimes.csv plan.json --capacity 1048576
"""
_EXAMPLES = _PLAN_EXAMPLES + _VERIFY_EXAMPLES.removeprefix("examples:\n") + "  memplan planners\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status: 0, 1 for a plan that does not hold or fit, 2 for an error, 130 when it
    was interrupted."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names may hold what the terminal cannot show
    options = _parser().parse_args(argv)
    try:
        return int(options.run(options))
    except KeyboardInterrupt:
        return _interrupted()
    except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
        print(f"memplan: error: {_one_line(error)}", file=sys.stderr)
        return ERROR


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return "; ".join(line.strip() for line in str(error).splitlines() if line.strip())


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(ERROR, f"memplan: error: {message}; see {self.prog} --help\n")


def _parser() -> argparse.ArgumentParser:
    parser = _new_parser(None, "Static memory planning for neural networks.", _EXAMPLES)
    parser.add_argument("--version", action="version", version=f"memplan {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_plan(commands)
    _add_verify(commands)
    _add_planners(commands)
    return parser


def _new_parser(
    commands: argparse._SubParsersAction[argparse.ArgumentParser] | None,
    text: str,
    examples: str,
    name: str = "",
) -> argparse.ArgumentParser:
    style = argparse.RawDescriptionHelpFormatter
    if commands is None:
        return _Parser("memplan", description=text, epilog=examples, formatter_class=style)
    return commands.add_parser(name, help=text, description=text, epilog=examples, formatter_class=style)


def _add_plan(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = _new_parser(commands, "plan the memory of a network or of a list of lifetimes", _PLAN_EXAMPLES, "plan")
    command.set_defaults(run=_plan)
    command.add_argument("source", metavar="SOURCE", help="a .onnx, .json, .csv or .pt2 file, or example:NAME")
    names = [row.name for row in planners()]
    chosen = f"one of {', '.join(names)}; parameters as in name:k=16,order=size, see memplan planners"
    command.add_argument("--planner", default="auto", metavar="P", help=chosen)
    command.add_argument("--alignment", type=int, default=1, metavar="N", help="bytes; every offset is a multiple")
    command.add_argument(
        "--dims", action="append", default=[], metavar="NAME=N", help="size of a symbolic dimension; may be repeated"
    )
    command.add_argument(
        "--place",
        default=",".join(PLACE),
        metavar="KIND,KIND",
        help=f"kinds of tensors to place (default: {','.join(PLACE)})",
    )
    command.add_argument("--train", action="store_true", help="for .pt2: forward and backward jointly")
    command.add_argument("--inclusive", action="store_true", help="for .csv: lifetimes end with their last step")
    command.add_argument(
        "--inplace-ops",
        default="",
        metavar="TYPE,TYPE",
        help="types of ops that may write their output over an input; 'default' for those of the importers",
    )
    command.add_argument("--no-inplace", action="store_true", help="no output takes the bytes of an input")
    command.add_argument(
        "--disable-inplace-ops", type=_names, default=[], metavar="TYPE,TYPE", help="not in ops of these types"
    )
    command.add_argument(
        "--donate", type=_names, default=[], metavar="NAME,NAME", help="graph inputs whose bytes may be taken"
    )
    command.add_argument("--no-zero-copy", action="store_true", help="slices and parts of concatenations are copies")
    command.add_argument("--csv", type=Path, metavar="F", help="write the plan as CSV")
    command.add_argument("--csv-form", default="minimalloc", choices=["minimalloc", "gantt"], help="form of --csv")
    command.add_argument("--json", type=Path, metavar="F", help="write the plan as JSON")
    command.add_argument("--layout", type=Path, metavar="F", help="write the layout table as text")
    command.add_argument("--plot", type=Path, metavar="F", help="draw the plan: .png, .svg or .pdf")
    command.add_argument("--capacity", type=_count, metavar="N", help="bytes; the first plan that fits is enough")
    command.add_argument(
        "--time-limit", type=float, metavar="S", help="seconds after which a search keeps its best plan"
    )
    command.add_argument("--seed", type=int, default=0, metavar="N", help="for planners that use chance")
    command.add_argument("--threads", type=int, default=1, metavar="N", help="for planners that can use several")


def _add_verify(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "check a plan against a list of lifetimes"
    command = _new_parser(commands, text, _VERIFY_EXAMPLES, "verify")
    command.set_defaults(run=_verify)
    command.add_argument("problem", metavar="PROBLEM.csv", help="lifetimes: id,lower,upper,size[,alignment]")
    command.add_argument("plan", metavar="PLAN", help="a .csv with a column offset, or a .json that memplan wrote")
    command.add_argument("--capacity", type=_count, metavar="N", help="bytes of the arena that the plan must fit")
    command.add_argument("--inclusive", action="store_true", help="lifetimes end with their last step, in both files")
    command.add_argument("--limit", type=_count, default=1000, metavar="N", help="violations listed at most (1000)")


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be >= 0, got {text!r}")
    if int(text) >= 2**63 - 1:
        raise argparse.ArgumentTypeError(f"must be below 2^63 - 1, got {text}")
    return int(text)


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _add_planners(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = _new_parser(commands, "list the planners", "examples:\n  memplan planners\n", "planners")
    command.set_defaults(run=_planners)


def _plan(options: argparse.Namespace) -> int:
    from .api import capture, plan

    _check_targets(options)
    plan(([], [], []), options.planner)  # so that a planner that is none is refused before any work
    with _waiting(f"reading {options.source}"):
        captured = capture(
            options.source,
            dims=_dims(options.dims),
            train=options.train,
            inclusive=options.inclusive,
            inplace_ops=_inplace_ops(options.inplace_ops),
        )
    try:
        result = _planned(options, captured)
    except InfeasibleError as error:
        return _infeasible(error)
    with _waiting("writing"):
        _write(options, result)
    with _readers_may_leave():
        _print_summary(options.source, result)
    if result.interrupted:
        return _interrupted("this is the best plan until then")
    return OK


def _planned(options: argparse.Namespace, captured: Graph | Problem) -> Plan:
    from .api import plan

    progress = _Progress()
    with _waiting(progress):
        return plan(
            captured,
            options.planner,
            on_improvement=progress.show if sys.stderr.isatty() else None,
            alignment=options.alignment,
            place=options.place.split(","),
            inplace=not options.no_inplace,
            disable_inplace_ops=options.disable_inplace_ops,
            donate=options.donate,
            zero_copy=not options.no_zero_copy,
            time_limit=options.time_limit,
            capacity=options.capacity,
            seed=options.seed,
            threads=options.threads,
        )


def _infeasible(error: InfeasibleError) -> int:
    from .present.units import printable

    for line in str(error).splitlines():
        print(printable(line), file=sys.stderr)
    if error.plan is not None and error.plan.interrupted:
        return _interrupted()
    return INVALID


def _interrupted(but: str = "") -> int:
    print("memplan: interrupted" + (f"; {but}" if but else ""), file=sys.stderr)
    return INTERRUPTED


def _dims(pairs: list[str]) -> dict[str, int]:
    dims = {}
    for pair in pairs:
        name, equals, size = pair.rpartition("=")
        if not equals or not name or not size.isdecimal():
            raise ValueError(f"--dims takes NAME=N with N >= 0, such as batch=8, got {pair!r}")
        dims[name] = int(size)
    return dims


def _inplace_ops(text: str) -> set[str]:
    types = {name for name in text.split(",") if name}
    return types - {"default"} | INPLACE_OPS if "default" in types else types


def _check_targets(options: argparse.Namespace) -> None:
    """Refuse before any work what could not be written after it."""
    targets = [target for target in (options.csv, options.json, options.layout, options.plot) if target is not None]
    for target in targets:
        if targets.count(target) > 1 or target == Path(options.source):
            raise ValueError(f"{target}: is named twice; the source and every file to write must differ")
        if not target.parent.is_dir():
            raise ValueError(f"{target}: the folder {target.parent} does not exist")
        if target.is_dir():
            raise ValueError(f"{target}: expected a file to write, got a folder")
    if options.plot is not None and options.plot.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ValueError(f"--plot takes a file that ends in .png, .svg or .pdf, got {options.plot}")


def _write(options: argparse.Namespace, result: Plan) -> None:
    if options.csv is not None:
        result.to_csv(options.csv, form=options.csv_form)
    if options.json is not None:
        result.to_json(options.json)
    if options.layout is not None:
        result.to_layout(options.layout)
    if options.plot is not None:
        from .present.gantt import save_plot

        save_plot(result, options.plot)


def _print_summary(source: str, result: Plan) -> None:
    from rich.table import Table

    from .present.layout import summary_rows

    table = Table(show_header=False, box=None)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in summary_rows(result):
        table.add_row(label, value)
    console = _console()
    console.print(source, soft_wrap=True)
    console.print(table)


def _verify(options: argparse.Namespace) -> int:
    from . import _core
    from .importers.csv import read_problem
    from .importers.plan_files import match_offsets, placed_rows
    from .present.units import printable

    with _waiting("verifying"):
        problem = read_problem(options.problem, inclusive=options.inclusive)
        rows = placed_rows(options.plan, inclusive=options.inclusive).rows
        matched, offsets, messages = match_offsets(problem, rows)
        violations = _core.verify(matched, offsets, capacity=options.capacity, limit=options.limit + 1)
        messages += [violation.message for violation in violations]
    with _readers_may_leave():
        for message in messages[: options.limit]:
            print(printable(message))
        if len(messages) > options.limit:
            print("… and more")
    if messages:
        return INVALID
    peak = _core.peak_of(matched, offsets)
    with _readers_may_leave():
        print(f"valid: {len(problem)} buffers, peak {peak} bytes, load {problem.load} bytes")
    return OK


def _planners(_: argparse.Namespace) -> int:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for title in ("name", "what it does", "exact", "supports", "complexity", "source"):
        table.add_column(title, overflow="fold")
    for row in planners():
        exact = "yes" if row.exact else "no"
        title = "\n".join([row.title, *map(_parameter, row.parameters)])
        table.add_row(row.name, title, exact, ", ".join(row.supports), row.complexity, row.source)
    with _readers_may_leave():
        _console().print(table)
    return OK


def _parameter(parameter: Parameter) -> str:
    """A parameter with its standard and what else it can be: "k=16 (1 to 1048576)", "order=size (size, birth)"."""
    others = ", ".join(parameter.words) or f"{parameter.least} to {parameter.most}"
    return f"{parameter.name}={parameter.standard} ({others}): {parameter.title}"


def _console() -> Console:
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 160, highlight=False, markup=False, emoji=False)


@contextmanager
def _readers_may_leave() -> Iterator[None]:
    """Print to stdout; that its reader has gone, as head goes, changes nothing."""
    try:
        yield
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # rich turns the one into the other
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Progress:
    """How far planning has come, as a line: "planning: peak 1.2 MiB, bound 1.0 MiB, gap 20.000%, 3 s"."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._best: Plan | None = None

    def show(self, plan: Plan) -> None:
        """A better plan was found."""
        self._best = plan

    def __str__(self) -> str:
        from .present.units import format_bytes

        seconds = f"{time.monotonic() - self._begin:.0f} s"
        if self._best is None:
            return f"planning: {seconds}"
        peak, bound = format_bytes(self._best.peak), format_bytes(self._best.lower_bound)
        return f"planning: peak {peak}, bound {bound}, gap {self._best.gap:.3%}, {seconds}"

    def __rich__(self) -> Text:
        from rich.text import Text

        return Text(str(self))


class _waiting:
    """A line with a spinner on stderr while something takes more than a second; on a terminal only."""

    def __init__(self, what: str | _Progress) -> None:
        from threading import Timer

        from rich.console import Console
        from rich.text import Text

        line = Text(what) if isinstance(what, str) else what
        self._status = Console(stderr=True).status(line) if sys.stderr.isatty() else None
        self._timer = Timer(1.0, self._status.start) if self._status is not None else None

    def __enter__(self) -> None:
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()

    def __exit__(self, *_: object) -> None:
        if self._timer is not None and self._status is not None:
            self._timer.cancel()
            self._timer.join()
            self._status.stop()
