"""Options of `memplan.options` as flags: a row each. Names and defaults are those of the records."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ..kinds import PLACED
from ..options.declaring import options_of
from ..options.taking import RECORDS
from . import values

_DEFAULTS = {one.name: one.default for one in options_of(*RECORDS)}


class Flag(NamedTuple):
    """An option as a flag. Without a metavar it is a switch: ``--no-NAME`` where the option is on by default."""

    option: str
    metavar: str | None
    help: str
    read: Callable[[str], Any] = values.names
    many: bool = False  # may be repeated
    made: Callable[[Any], Any] | None = None  # what the option is given for what was read
    flag: str | None = None  # where it has another name

    @property
    def name(self) -> str:
        no = "no-" if self.metavar is None and _DEFAULTS[self.option] else ""
        return self.flag or f"--{no}{self.option.replace('_', '-')}"

    @property
    def place(self) -> str:
        """Where argparse keeps it."""
        return self.name.removeprefix("--").replace("-", "_")

    @property
    def default(self) -> Any:
        """Where it is not given."""
        return False if self.metavar is None else [] if self.many else _DEFAULTS[self.option]

    def add(self, group: argparse._ArgumentGroup) -> None:
        if self.metavar is None:
            group.add_argument(self.name, action="store_true", help=self.help)
            return
        repeated = {"action": "append"} if self.many else {}
        text = self.help + "; may be repeated" * self.many
        kept: dict[str, Any] = {"type": self.read, "metavar": self.metavar, "default": self.default, **repeated}
        group.add_argument(self.name, help=text, **kept)

    def given(self, options: argparse.Namespace) -> dict[str, Any]:
        """The option, if the flag was given."""
        value = getattr(options, self.place)
        if value == self.default:
            return {}
        if self.metavar is None:
            return {self.option: not _DEFAULTS[self.option]}
        return {self.option: value if self.made is None else self.made(value)}


def given(flags: Iterable[Flag], options: argparse.Namespace) -> dict[str, Any]:
    """The options of flags that were given, by name."""
    return {name: value for flag in flags for name, value in flag.given(options).items()}


def _plan(path: Path) -> Any:
    from ..api import read_plan

    return read_plan(path)


READING = (
    Flag(
        "dims",
        "NAME=N,…",
        "sizes of symbolic dimensions, such as batch=8 or batch=8,length=64, or a range such as batch=1:64",
        read=str,
        many=True,
        made=values.dims,
    ),
    Flag("train", None, "of a .pt2 file: plan the forward and the backward pass together"),
    Flag(
        "optimizer",
        "NAME",
        "with --train: end with the step of this optimizer of torch.optim, such as AdamW, in which gradients die",
        str,
    ),
    Flag("trust", None, "of a .pt2 file: let torch run the code that it holds; only if you trust its author"),
)
LIFETIMES = (Flag("inclusive", None, "of a .csv file: ends of lifetimes are the last step alive"),)
OPS = (
    Flag(
        "inplace_ops",
        "TYPE,TYPE",
        "let ops of these types too write their output over an input; 'default' is the table of the importers",
        values.types,
    ),
)
PLACING = (
    Flag(
        "place",
        "KIND,KIND",
        "kinds of tensors that get a place: input, weight, intermediate, output, workspace "
        f"(default: {','.join(PLACED)})",
        values.kinds,
    ),
    Flag(
        "alignment",
        "N",
        "make every offset a multiple of so many bytes, such as 64 or 1KiB (default: 1)",
        partial(values.size, least=1),
    ),
    Flag("inplace", None, "write no output over an input"),
    Flag("disable_inplace_ops", "TYPE,TYPE", "write no output of ops of these types over an input, such as Gelu"),
    Flag("donate", "NAME,NAME", "graph inputs that outputs may be written over; their values are lost"),
    Flag("zero_copy", None, "copy slices and the parts of concatenations: share no bytes"),
    Flag(
        "pin",
        "NAME=N",
        "the offset that a tensor or buffer must have, such as x=4KiB, or x=sram:4KiB in a pool",
        read=values.pin,
        many=True,
        made=dict,
    ),
    Flag(
        "reserved",
        "A:B",
        "bytes [A, B) that nothing may use, or A:B:FIRST:LAST for some steps; sram:A:B are those of a pool",
        read=values.reserved,
        many=True,
        flag="--reserve",
    ),
    Flag("together", "A,B,N", "b begins N bytes after a, or where a does if N is left out", values.distance, True),
    Flag("contiguous", "A,B", "each of these begins where the one before it ends", many=True),
    Flag("apart", "A,B", "no two of these share bytes, even one after the other", many=True),
    Flag("exclude", "X,Y", "tensors that have no place in the arena: they lie where the caller has put them"),
    Flag("price", "A,B,N", "what it costs if these two share bytes", values.price, True),
    Flag("start", "PLAN", "an earlier plan, .json or .csv, from which a search begins", Path, made=_plan),
    Flag("keep", "PLAN", "an earlier plan, .json or .csv, of whose offsets few shall change", Path, made=_plan),
    Flag(
        "barrier",
        "NAME,NAME",
        "ops that keep their place in any order: all that is listed before one of them stays before it, and all "
        "behind it stays behind",
    ),
)
SEARCH = (
    Flag("time_limit", "S", "end a search after so many seconds, with its best plan", values.seconds),
    Flag("threads", "N", "threads of a search (default: 1)", partial(values.whole, least=1, most=2**31 - 1)),
    Flag("seed", "N", "for planners that use chance (default: 0)", partial(values.whole, least=0, most=2**64 - 1)),
)
