"""Arguments that commands share, and their parsers."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from .._core import Problem
from ..importers import Network
from ..options import Layout, Reading, Search, Sharing, written
from ..planning.orders import order_names
from ..planning.registry import planner_names as known_planners
from ..plans.pools import Pool
from ..text import one_line
from . import flags, values
from .terminal import ERROR

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
Group: TypeAlias = "argparse._ArgumentGroup"


class Parser(argparse.ArgumentParser):
    """Ends with one line that says what is wrong and where help is."""

    def error(self, message: str) -> NoReturn:
        self.exit(ERROR, f"memplan: error: {one_line(message)}; see {self.prog} --help\n")


def new_command(commands: Commands, name: str, text: str, examples: str) -> argparse.ArgumentParser:
    """A command with its help, which ends in examples: a line for each."""
    style = argparse.RawDescriptionHelpFormatter
    return commands.add_parser(name, help=text, description=text, epilog=epilog(examples), formatter_class=style)


def epilog(examples: str) -> str:
    """Examples, a line for each, as the end of a help text."""
    return "examples:\n" + "".join(f"  {line}\n" for line in examples.strip().splitlines())


def add_source(command: argparse.ArgumentParser, many: bool = False, function: str = "plan") -> None:
    """SOURCE, and what `function` takes to read it and turn it into buffers; see `capturing` and `planning`."""
    text = (
        "a model (.onnx, .tflite, .pt2 or .json), a list of lifetimes (.csv), a memory snapshot of torch (.pickle), or "
        "example:NAME, such as example:gpt2_train"
    )
    if many:
        command.add_argument("sources", metavar="SOURCE", nargs="+", help=text)
    else:
        command.add_argument("source", metavar="SOURCE", help=text)
    group = command.add_argument_group("how the source is read")
    flags.add(group, function, Reading)
    if function == "plan":
        group.add_argument(
            "--no-pins", action="store_true", help="of a .csv file: ignore its offsets, to which buffers are pinned"
        )
    placing = command.add_argument_group("what is placed, and what may share bytes")
    flags.add(placing, function, Sharing, Layout)
    if function == "plan" and not many:
        _add_order(placing)


def add_reading(group: Group) -> None:
    """How a network is read, as `memplan.estimate` takes it; see `capturing`."""
    but = ("inclusive", "inplace_ops", "blocks", "values", "overlap", "signature", "keep_alive")
    flags.add(group, "capture", Reading, but=but)


def _add_order(group: Group) -> None:
    group.add_argument(
        "--order",
        type=values.order,
        default="given",
        metavar="NAME",
        help=f"the order in which ops run, one of {', '.join(order_names())} (default: given); best is one of the "
        "least load, and never worse than given; `memplan orders` explains them all",
    )


def add_planner(group: Group) -> None:
    """--planner."""
    known = ", ".join(known_planners()).replace("%", "%%")
    group.add_argument(
        "--planner",
        default="auto",
        type=values.planner,
        metavar="P",
        help=f"one of {known} (default: auto). Parameters come after a colon, as in beam:k=64; "
        "`memplan planners` explains them all",
    )


def search_group(command: argparse.ArgumentParser) -> Group:
    """Where `add_planner` and `add_search` add theirs."""
    return command.add_argument_group("how it is planned")


def add_search(group: Group, function: str = "plan") -> None:
    """What `function` takes to search."""
    flags.add(group, function, Search)


def add_pools(search: Group) -> None:
    """The memories that tensors may lie in."""
    search.add_argument(
        "--pool",
        type=_pool,
        action="append",
        default=[],
        metavar="NAME=N,…",
        help="a memory that tensors may lie in, such as sram=512KiB,align=16, or dram for one without a capacity; "
        "those given first cost less, unless cost=X says else; base=N is its address, and accepts=weight+Conv says "
        "what may lie there; may be repeated",
    )


def _pool(text: str) -> Pool:
    """A pool: "sram=512KiB,align=16" or "dram"."""
    first, *others = text.split(",")
    name, equals, capacity = first.partition("=")
    given: dict[str, Any] = {"capacity": capacity} if equals else {}
    for other in others:
        key, _, value = other.partition("=")
        if key == "cost":
            try:
                given[key] = float(value) if not value.isdecimal() else int(value)
            except ValueError:
                raise argparse.ArgumentTypeError(f"cost must be a number, got {value!r}") from None
        elif key == "accepts":
            given[key] = value.split("+")
        elif key in ("align", "base"):
            given["alignment" if key == "align" else key] = value
        else:
            raise argparse.ArgumentTypeError(f"must be NAME=N and align=N, base=N, cost=X, accepts=A+B, got {other!r}")
    try:
        return Pool(name, **given)
    except (TypeError, ValueError) as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def captured(options: argparse.Namespace, source: Any) -> Network | Problem:
    """The source, read as `add_source` let its user say."""
    from ..api import capture

    if getattr(options, "no_pins", False):
        from ..importers.csv import read_problem

        if not isinstance(source, str) or not source.lower().endswith(".csv"):
            raise ValueError(f"--no-pins needs a .csv file, got {source}")
        return read_problem(source, inclusive=options.inclusive, pins=False)
    return capture(source, **capturing(options))


def capturing(options: argparse.Namespace) -> dict[str, Any]:
    """What `memplan.capture` takes, of what `add_source` or `add_reading` lets its user say."""
    return flags.given(options, Reading)


def planning(options: argparse.Namespace) -> dict[str, Any]:
    """What functions take besides, of what `add_source` and `add_search` let their user say."""
    return flags.given(options, Sharing, Layout, Search)


def write_files(options: argparse.Namespace, writers: Mapping[str, Callable[[Path], object]]) -> None:
    """Write the files that were asked for, each by what writes it, by the names of flags."""
    for name, write in writers.items():
        if (path := getattr(options, name)) is not None:
            write(path)


def check_targets(targets: Iterable[Path | None], sources: Iterable[str]) -> None:
    """Refuse before any work what could not be written after it."""
    given, read = [target for target in targets if target is not None], [Path(source) for source in sources]
    for target in given:
        if given.count(target) > 1 or target in read:
            raise ValueError(f"{target}: is named twice; the source and every file to write must differ")
        if not target.parent.is_dir():
            raise ValueError(f"{target}: the folder {target.parent} does not exist")
        if target.is_dir():
            raise ValueError(f"{target}: expected a file to write, got a folder")


def check_picture(target: Path | None) -> None:
    """Refuse a file for --plot of another kind than can be drawn."""
    if target is not None and target.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ValueError(f"--plot takes a file that ends in .png, .svg or .pdf, got {target}")


def has_range(options: argparse.Namespace) -> bool:
    """Whether a size is given as a range, as batch=1:64."""
    return any(isinstance(size, tuple) for size in written.dims(options.dims).values())


def largest_of(pairs: list[str]) -> list[str]:
    """The sizes as they were given, of a range the largest."""
    return [f"{name}={size[1] if isinstance(size, tuple) else size}" for name, size in written.dims(pairs).items()]
