"""What is written behind options, as values; errors say what was expected."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import TypeVar

from ..errors import MissingDependencyError, PlannerError
from ..inplace_ops import INPLACE_OPS
from ..options.checks import checked_place
from ..planning.orders import check_order
from ..planning.registry import check_planner
from ..sizes import budget_of, in_bytes

_Value = TypeVar("_Value")


def size(text: str, least: int = 0) -> int:
    """A number of bytes, with a unit or without."""
    try:
        return in_bytes(text, "it", least)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix("it ")) from None


def count(text: str) -> int:
    """A number of things."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be >= 0, got {text!r}")
    if int(text) >= 2**63 - 1:
        raise argparse.ArgumentTypeError(f"must be below 2^63 - 1, got {text}")
    return int(text)


def seconds(text: str) -> float:
    """Seconds, more than none."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not value > 0:
        raise argparse.ArgumentTypeError(f"must be > 0 seconds, got {text!r}")
    return value


def whole(text: str, least: int, most: int) -> int:
    """An integer from `least` to `most`."""
    if not re.fullmatch(r"-?[0-9]{1,20}", text) or not least <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"must be >= {least} and at most {most}, got {text!r}")
    return int(text)


def names(text: str) -> list[str]:
    """Names between commas."""
    return [name for name in text.split(",") if name]


def names_with_parameters(text: str) -> list[str]:
    """Planners or orders between commas; what follows a comma and is NAME=VALUE is a parameter of the one before."""
    found: list[str] = []
    for piece in text.split(","):
        name, equals, _ = piece.partition("=")
        if found and equals and ":" not in name:
            found[-1] += f",{piece}"
        elif piece:
            found.append(piece)
    return found


def order(text: str) -> str:
    """An order by name, with parameters."""
    try:
        return check_order(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def planner(text: str) -> str:
    """A planner by name, with parameters."""
    return _said(lambda: check_planner(text), "planner")


def kinds(text: str) -> list[str]:
    """Kinds of tensors between commas."""
    return _said(lambda: checked_place(text.split(",")), "place")


def capacity(text: str) -> str:
    """Bytes, or a share such as 60%."""
    return _said(lambda: budget_of(text, "it"), "it").text


def capacity_or_least(text: str) -> str:
    """Bytes, a share such as 60%, or least."""
    return _said(lambda: budget_of(text, "it", or_least=True), "it").text


def _said(check: Callable[[], _Value], name: str) -> _Value:
    """What a check gives; what it refuses is said of the option."""
    try:
        return check()
    except (ValueError, MissingDependencyError, PlannerError) as error:
        raise argparse.ArgumentTypeError(re.sub(rf"^{name} (?=must)", "", str(error))) from None


def dims(pairs: list[str]) -> dict[str, int | tuple[int, int]]:
    """NAME=N, or a range NAME=N:M; several between commas."""
    found: dict[str, int | tuple[int, int]] = {}
    for pair in (pair for given in pairs for pair in given.split(",")):
        name, equals, size = pair.rpartition("=")
        sizes = size.split(":")
        if not equals or not name or len(sizes) > 2 or not all(each.isdecimal() for each in sizes):
            raise ValueError(
                f"--dims takes NAME=N with N >= 0, such as batch=8, or a range such as batch=1:64, got {pair!r}"
            )
        found[name] = int(size) if len(sizes) == 1 else (int(sizes[0]), int(sizes[1]))
    return found


def types(text: str) -> set[str]:
    """Types of ops; 'default' stands for the table of the importers."""
    types = {name for name in text.split(",") if name}
    return types - {"default"} | INPLACE_OPS if "default" in types else types


def pin(text: str) -> tuple[str, int | tuple[str, int]]:
    """NAME=N, or NAME=POOL:N."""
    name, equals, place = text.rpartition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"takes NAME=N, such as x=4KiB, or NAME=POOL:N, got {text!r}")
    pool, colon, offset = place.rpartition(":")
    return name, (pool, size(offset)) if colon else size(offset)


def reserved(text: str) -> tuple[int | str, ...]:
    """BEGIN:END or BEGIN:END:FIRST:LAST; POOL: may stand before them."""
    cells = text.split(":")
    if len(cells) not in (2, 3, 4, 5):
        raise argparse.ArgumentTypeError(f"takes BEGIN:END or BEGIN:END:FIRST:LAST, or POOL: and these, got {text!r}")
    pool, cells = cells[: len(cells) % 2], cells[len(cells) % 2 :]
    try:
        return (*pool, *map(size, cells[:2]), *map(int, cells[2:]))
    except ValueError:
        raise argparse.ArgumentTypeError(f"takes steps that are integers, got {text!r}") from None


def distance(text: str) -> tuple[str | int, ...]:
    """A,B or A,B,N, where N may be negative."""
    cells = text.split(",")
    if len(cells) not in (2, 3):
        raise argparse.ArgumentTypeError(f"takes A,B or A,B,N, got {text!r}")
    return (*cells[:2], *(-size(n[1:]) if n.startswith("-") else size(n) for n in cells[2:]))


def price(text: str) -> tuple[str, str, int]:
    """A,B,N."""
    row = distance(text)
    if len(row) != 3:
        raise argparse.ArgumentTypeError(f"takes A,B,N, got {text!r}")
    return str(row[0]), str(row[1]), int(row[2])
