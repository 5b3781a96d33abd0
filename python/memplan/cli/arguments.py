"""Arguments that commands share, and their parsers."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from ..inplace_ops import INPLACE_OPS
from ..kinds import PLACED
from ..planning.registry import planner_names as known_planners
from ..sizes import in_bytes
from ..text import one_line
from .terminal import ERROR

if TYPE_CHECKING:
    from .._core import Graph, Problem

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


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


def add_source(command: argparse.ArgumentParser, many: bool = False) -> None:
    """SOURCE, and how it is read and turned into buffers; see `capture` and `planning`."""
    text = "a .onnx, .json, .csv or .pt2 file, or example:NAME"
    if many:
        command.add_argument("sources", metavar="SOURCE", nargs="+", help=text)
    else:
        command.add_argument("source", metavar="SOURCE", help=text)
    command.add_argument(
        "--alignment", type=size, default=1, metavar="N", help="bytes, such as 64 or 1KiB; every offset is a multiple"
    )
    command.add_argument(
        "--dims", action="append", default=[], metavar="NAME=N", help="size of a symbolic dimension; may be repeated"
    )
    command.add_argument(
        "--place",
        default=",".join(PLACED),
        metavar="KIND,KIND",
        help=f"kinds of tensors to place (default: {','.join(PLACED)})",
    )
    command.add_argument("--train", action="store_true", help="for .pt2: forward and backward jointly")
    command.add_argument(
        "--trust", action="store_true", help="for .pt2: let torch run what the file holds; only if you trust its author"
    )
    command.add_argument("--inclusive", action="store_true", help="for .csv: lifetimes end with their last step")
    command.add_argument(
        "--inplace-ops",
        default="",
        metavar="TYPE,TYPE",
        help="types of ops that may write their output over an input; 'default' for those of the importers",
    )
    command.add_argument("--no-inplace", action="store_true", help="no output takes the bytes of an input")
    command.add_argument(
        "--disable-inplace-ops", type=names, default=[], metavar="TYPE,TYPE", help="not in ops of these types"
    )
    command.add_argument(
        "--donate", type=names, default=[], metavar="NAME,NAME", help="graph inputs whose bytes may be taken"
    )
    command.add_argument("--no-zero-copy", action="store_true", help="slices and parts of concatenations are copies")


def add_planner(command: argparse.ArgumentParser) -> None:
    """--planner."""
    known = ", ".join(known_planners()).replace("%", "%%")
    text = f"one of {known}; parameters as in name:k=16,order=size, see memplan planners"
    command.add_argument("--planner", default="auto", metavar="P", help=text)


def add_search(command: argparse.ArgumentParser) -> None:
    """What bounds a search."""
    command.add_argument(
        "--time-limit", type=float, metavar="S", help="seconds after which a search keeps its best plan"
    )
    command.add_argument("--seed", type=int, default=0, metavar="N", help="for planners that use chance")
    command.add_argument("--threads", type=int, default=1, metavar="N", help="for planners that can use several")


def captured(options: argparse.Namespace, source: str) -> Graph | Problem:
    """The source, read as `add_source` let its user say."""
    from ..api import capture

    return capture(source, **capturing(options))


def capturing(options: argparse.Namespace) -> dict[str, Any]:
    """What `memplan.capture` takes, of what `add_source` lets its user say."""
    return {
        "dims": _dims(options.dims),
        "train": options.train,
        "trust": options.trust,
        "inclusive": options.inclusive,
        "inplace_ops": _inplace_ops(options.inplace_ops),
    }


def planning(options: argparse.Namespace) -> dict[str, Any]:
    """What `memplan.plan` takes, of what `add_source` and `add_search` let their user say."""
    return {
        "alignment": options.alignment,
        "place": options.place.split(","),
        "inplace": not options.no_inplace,
        "disable_inplace_ops": options.disable_inplace_ops,
        "donate": options.donate,
        "zero_copy": not options.no_zero_copy,
        "time_limit": options.time_limit,
        "seed": options.seed,
        "threads": options.threads,
    }


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


def size(text: str) -> int:
    """A number of bytes, with a unit or without."""
    try:
        return in_bytes(text, "it")
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix("it ")) from None


def count(text: str) -> int:
    """A number of things."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be >= 0, got {text!r}")
    if int(text) >= 2**63 - 1:
        raise argparse.ArgumentTypeError(f"must be below 2^63 - 1, got {text}")
    return int(text)


def names(text: str) -> list[str]:
    """Names between commas."""
    return [name for name in text.split(",") if name]


def planner_names(text: str) -> list[str]:
    """Planners between commas; what follows a comma and is NAME=VALUE is a parameter of the planner before it."""
    found: list[str] = []
    for piece in text.split(","):
        name, equals, _ = piece.partition("=")
        if found and equals and ":" not in name:
            found[-1] += f",{piece}"
        elif piece:
            found.append(piece)
    return found


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
