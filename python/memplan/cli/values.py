"""What is written behind flags of commands, as values; errors say what was expected."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import TypeVar

from ..errors import MissingDependencyError, PlannerError
from ..planning.orders import check_order
from ..planning.registry import check_planner
from ..sizes import besides_kept, budget_of, in_bytes

_Value = TypeVar("_Value")


def size(text: str, least: int = 0) -> int:
    """A number of bytes, with a unit or without."""
    return said_of("it", lambda: in_bytes(text, "it", least))


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
    return said_of("", lambda: check_order(text))


def planner(text: str) -> str:
    """A planner by name, with parameters."""
    return said_of("planner", lambda: check_planner(text))


def step_budget(text: str) -> str:
    """Bytes, perhaps after "kept +"."""
    said_of("it", lambda: in_bytes(besides_kept(text)[0], "it"))
    return text


def capacity(text: str) -> str:
    """Bytes, or a share such as 60%."""
    return said_of("it", lambda: budget_of(text, "it")).text


def capacity_or_least(text: str) -> str:
    """Bytes, a share such as 60%, or least."""
    return said_of("it", lambda: budget_of(text, "it", or_least=True)).text


def said_of(name: str, check: Callable[[], _Value]) -> _Value:
    """What a check gives; what it refuses is said of the flag."""
    try:
        return check()
    except (ValueError, MissingDependencyError, PlannerError) as error:
        raise argparse.ArgumentTypeError(re.sub(rf"^{name} (?=must)", "", str(error))) from None
