"""Options of `memplan.options` as flags, as their records declare them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..options.declaring import Record, options_of
from ..options.taking import TAKES
from .values import said_of


def add(group: argparse._ArgumentGroup, function: str, *records: type[Record], but: tuple[str, ...] = ()) -> None:
    """The flags of options that a function takes."""
    for one in options_of(*records):
        if one.metadata["flag"] is not None and one.name in TAKES[function] and one.name not in but:
            _add(group, one)


def given(options: argparse.Namespace, *records: type[Record]) -> dict[str, Any]:
    """The options of flags that were given, by name."""
    found = {}
    for one in options_of(*records):
        flag = one.metadata["flag"]
        if flag is None or getattr(options, _place(one), _default(one)) == _default(one):
            continue
        value, made = getattr(options, _place(one)), _MADE.get(one.name, flag.made)
        found[one.name] = not one.default if flag.metavar is None else made(value) if made else value
    return found


def _add(group: argparse._ArgumentGroup, one: Any) -> None:
    flag = one.metadata["flag"]
    if flag.metavar is None:
        group.add_argument(_name(one), action="store_true", help=flag.help)
        return
    repeated: dict[str, Any] = {"action": "append"} if flag.many else {}
    text = flag.help + "; may be repeated" * flag.many
    group.add_argument(_name(one), type=_read(one), metavar=flag.metavar, default=_default(one), help=text, **repeated)


def _read(one: Any) -> Callable[[str], Any]:
    flag, check = one.metadata["flag"], one.metadata["check"]
    checked = check if check is not None and not flag.many and flag.made is None else lambda value: value
    return lambda text: said_of(one.name, lambda: checked(flag.read(text)))


def _name(one: Any) -> str:
    flag = one.metadata["flag"]
    no = "no-" if flag.metavar is None and one.default else ""
    return flag.name or f"--{no}{one.name.replace('_', '-')}"


def _place(one: Any) -> str:
    """Where argparse keeps it."""
    return _name(one).removeprefix("--").replace("-", "_")


def _default(one: Any) -> Any:
    """Where it is not given."""
    flag = one.metadata["flag"]
    return False if flag.metavar is None else [] if flag.many else one.default


def _plan(path: Path) -> Any:
    from ..api import read_plan

    return read_plan(path)


_MADE = {"start": _plan, "keep": _plan}
