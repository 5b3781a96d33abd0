"""Arguments that commands share, and their parsers."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from ..kinds import PLACED
from ..planning.orders import order_names
from ..planning.registry import planner_names as known_planners
from ..text import one_line
from . import values
from .terminal import ERROR

if TYPE_CHECKING:
    from .._core import Problem
    from ..importers import Network
    from ..importers.snapshot import Snapshot

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


def add_source(command: argparse.ArgumentParser, many: bool = False) -> None:
    """SOURCE, and how it is read and turned into buffers; see `capture` and `planning`."""
    text = (
        "a model (.onnx, .tflite, .pt2 or .json), a list of lifetimes (.csv), a memory snapshot of torch (.pickle), or "
        "example:NAME, such as example:gpt2_train"
    )
    if many:
        command.add_argument("sources", metavar="SOURCE", nargs="+", help=text)
    else:
        command.add_argument("source", metavar="SOURCE", help=text)
    group = command.add_argument_group("how the source is read")
    add_reading(group)
    _add_lifetimes(group)
    placing = command.add_argument_group("what is placed, and what may share bytes")
    _add_placing(placing)
    if not many:
        _add_order(placing)


def add_reading(group: Group) -> None:
    """How a network is read; see `reading`."""
    group.add_argument(
        "--dims",
        action="append",
        default=[],
        metavar="NAME=N,…",
        help="sizes of symbolic dimensions, such as batch=8 or batch=8,length=64, or a range such as batch=1:64; may "
        "be repeated",
    )
    group.add_argument(
        "--train", action="store_true", help="of a .pt2 file: plan the forward and the backward pass together"
    )
    group.add_argument(
        "--optimizer",
        metavar="NAME",
        help="with --train: end with the step of this optimizer of torch.optim, such as AdamW, in which gradients die",
    )
    group.add_argument(
        "--trust",
        action="store_true",
        help="of a .pt2 file: let torch run the code that it holds; only if you trust its author",
    )


def _add_lifetimes(group: Group) -> None:
    group.add_argument(
        "--no-pins",
        action="store_true",
        help="of a .csv file: ignore its offsets, to which buffers are pinned",
    )
    group.add_argument(
        "--inclusive", action="store_true", help="of a .csv file: ends of lifetimes are the last step alive"
    )


def _add_placing(group: Group) -> None:
    kinds = ",".join(PLACED)
    group.add_argument(
        "--place",
        default=list(PLACED),
        type=values.kinds,
        metavar="KIND,KIND",
        help=f"kinds of tensors that get a place: input, weight, intermediate, output, workspace (default: {kinds})",
    )
    group.add_argument(
        "--alignment",
        type=partial(values.size, least=1),
        default=1,
        metavar="N",
        help="make every offset a multiple of so many bytes, such as 64 or 1KiB (default: 1)",
    )
    group.add_argument("--no-inplace", action="store_true", help="write no output over an input")
    group.add_argument(
        "--disable-inplace-ops",
        type=values.names,
        default=[],
        metavar="TYPE,TYPE",
        help="write no output of ops of these types over an input, such as Gelu",
    )
    group.add_argument(
        "--inplace-ops",
        default="",
        metavar="TYPE,TYPE",
        help="let ops of these types too write their output over an input; 'default' is the table of the importers",
    )
    group.add_argument(
        "--donate",
        type=values.names,
        default=[],
        metavar="NAME,NAME",
        help="graph inputs that outputs may be written over; their values are lost",
    )
    group.add_argument(
        "--pin",
        type=values.pin,
        action="append",
        default=[],
        metavar="NAME=N",
        help="the offset that a tensor or buffer must have, such as x=4KiB, or x=sram:4KiB in a pool; may be repeated",
    )
    group.add_argument(
        "--reserve",
        type=values.reserved,
        action="append",
        default=[],
        metavar="A:B",
        help="bytes [A, B) that nothing may use, or A:B:FIRST:LAST for some steps; sram:A:B are those of a "
        "pool; may be repeated",
    )
    group.add_argument(
        "--together",
        type=values.distance,
        action="append",
        default=[],
        metavar="A,B,N",
        help="b begins N bytes after a, or where a does if N is left out; may be repeated",
    )
    group.add_argument(
        "--price",
        type=values.price,
        action="append",
        default=[],
        metavar="A,B,N",
        help="what it costs if these two share bytes; may be repeated",
    )
    group.add_argument(
        "--start", type=Path, metavar="PLAN", help="an earlier plan, .json or .csv, from which a search begins"
    )
    group.add_argument(
        "--keep", type=Path, metavar="PLAN", help="an earlier plan, .json or .csv, of whose offsets few shall change"
    )
    group.add_argument(
        "--contiguous",
        type=values.names,
        action="append",
        default=[],
        metavar="A,B",
        help="each of these begins where the one before it ends; may be repeated",
    )
    group.add_argument(
        "--apart",
        type=values.names,
        action="append",
        default=[],
        metavar="A,B",
        help="no two of these share bytes, even one after the other; may be repeated",
    )
    group.add_argument(
        "--exclude",
        type=values.names,
        default=[],
        metavar="X,Y",
        help="tensors that have no place in the arena: they lie where the caller has put them",
    )
    group.add_argument(
        "--no-zero-copy", action="store_true", help="copy slices and the parts of concatenations: share no bytes"
    )
    group.add_argument(
        "--barrier",
        type=values.names,
        default=[],
        metavar="NAME,NAME",
        help="ops that keep their place in any order: all that is listed before one of them stays before it, and all "
        "behind it stays behind",
    )


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


def add_search(group: Group) -> None:
    """What bounds a search."""
    group.add_argument(
        "--time-limit", type=values.seconds, metavar="S", help="end a search after so many seconds, with its best plan"
    )
    group.add_argument(
        "--threads",
        type=partial(values.whole, least=1, most=2**31 - 1),
        default=1,
        metavar="N",
        help="threads of a search (default: 1)",
    )
    group.add_argument(
        "--seed",
        type=partial(values.whole, least=0, most=2**64 - 1),
        default=0,
        metavar="N",
        help="for planners that use chance (default: 0)",
    )


def captured(options: argparse.Namespace, source: str | Snapshot) -> Network | Problem:
    """The source, read as `add_source` let its user say."""
    from ..api import capture

    if options.no_pins:
        from ..importers.csv import read_problem

        if not isinstance(source, str) or not source.lower().endswith(".csv"):
            raise ValueError(f"--no-pins needs a .csv file, got {source}")
        return read_problem(source, inclusive=options.inclusive, pins=False)
    return capture(source, **capturing(options))


def capturing(options: argparse.Namespace) -> dict[str, Any]:
    """What `memplan.capture` takes, of what `add_source` lets its user say."""
    own = {"inclusive": options.inclusive, "inplace_ops": values.types(options.inplace_ops)}
    return reading(options) | own


def reading(options: argparse.Namespace) -> dict[str, Any]:
    """How a network is read, as `add_reading` let its user say."""
    given = {"train": options.train, "optimizer": options.optimizer, "trust": options.trust}
    return {"dims": values.dims(options.dims), **given}


def planning(options: argparse.Namespace) -> dict[str, Any]:
    """What `memplan.plan` takes, of what `add_source` and `add_search` let their user say."""
    given = {
        "alignment": options.alignment,
        "place": options.place,
        "inplace": not options.no_inplace,
        "disable_inplace_ops": options.disable_inplace_ops,
        "donate": options.donate,
        "zero_copy": not options.no_zero_copy,
        "barrier": options.barrier,
        "time_limit": options.time_limit,
        "seed": options.seed,
        "threads": options.threads,
    }
    layout = {"pin": dict(options.pin), "reserved": options.reserve}
    layout |= {"together": options.together, "contiguous": options.contiguous, "apart": options.apart}
    layout |= {"exclude": options.exclude, "price": options.price}
    if options.keep is not None:
        from ..api import read_plan

        layout["keep"] = read_plan(options.keep)
    if options.start is not None:
        from ..api import read_plan

        layout["start"] = read_plan(options.start)
    return given | {name: value for name, value in layout.items() if value}


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
    return any(isinstance(size, tuple) for size in values.dims(options.dims).values())


def largest_of(pairs: list[str]) -> list[str]:
    """The sizes as they were given, of a range the largest."""
    return [f"{name}={size[1] if isinstance(size, tuple) else size}" for name, size in values.dims(pairs).items()]
