"""The memories that tensors may lie in, on the command line: ``--pool``."""

from __future__ import annotations

import argparse
from typing import Any

from ..plans.pools import Pool
from .arguments import Group


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
