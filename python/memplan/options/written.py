"""What is written behind flags, as values of options. ValueError says what was expected."""

from __future__ import annotations

import re
from typing import Any

from ..inplace_ops import INPLACE_OPS
from ..sizes import in_bytes


def names(text: str) -> list[str]:
    """Names between commas."""
    return [name for name in text.split(",") if name]


def seconds(text: str) -> float:
    """Seconds."""
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"must be > 0 seconds, got {text!r}") from None


def whole(text: str) -> int:
    """An integer."""
    if not re.fullmatch(r"-?[0-9]{1,20}", text):
        raise ValueError(f"must be an integer, got {text!r}")
    return int(text)


def size(text: str) -> int:
    """A number of bytes, with a unit or without."""
    try:
        return in_bytes(text, "it", 0)
    except ValueError as error:
        raise ValueError(str(error).removeprefix("it ")) from None


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
        said = int(size) if len(sizes) == 1 else (int(sizes[0]), int(sizes[1]))
        if found.setdefault(name, said) != said:
            raise ValueError(f"--dims has two sizes for {name!r}: {pair!r} came after another")
    return found


def blocks(text: str) -> dict[str, int | tuple[int, int]]:
    """device=N, stream=N, pool=N:M; several between commas."""
    found: dict[str, int | tuple[int, int]] = {}
    for pair in text.split(","):
        name, _, number = pair.partition("=")
        numbers = number.split(":")
        if len(numbers) != (2 if name == "pool" else 1) or not all(each.isdecimal() for each in numbers):
            raise ValueError(f"takes device=N, stream=N, pool=N:M, such as device=1, got {pair!r}")
        found[name] = (int(numbers[0]), int(numbers[1])) if name == "pool" else int(number)
    return found


def values(pairs: list[str]) -> dict[str, Any]:
    """NAME=V, or NAME=V,V,V of an input of several numbers."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.rpartition("=")
        if not equals or not name:
            raise ValueError(f"--values takes NAME=V, such as k=5 or shape=2,3,4, got {pair!r}")
        numbers = [_number(each.strip(), pair) for each in text.split(",")]
        said = numbers if len(numbers) > 1 else numbers[0]
        if found.setdefault(name, said) != said:
            raise ValueError(f"--values has two values for {name!r}: {pair!r} came after another")
    return found


def _number(text: str, pair: str) -> int | float | bool:
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text) if re.fullmatch("[-+]?[0-9]{1,20}", text) else float(text)
    except ValueError:
        raise ValueError(f"--values takes numbers, true and false, such as k=5 or shape=2,3,4, got {pair!r}") from None


def types(text: str) -> set[str]:
    """Types of ops; 'default' stands for the table of the importers."""
    types = {name for name in text.split(",") if name}
    return types - {"default"} | INPLACE_OPS if "default" in types else types


def overlap(text: str) -> str | bool:
    """Kernels whose outputs may lie over inputs that they still read, or "no"."""
    if text not in ("tflite-micro", "no"):
        raise ValueError(f"must be 'tflite-micro' or 'no', got {text!r}")
    return text if text != "no" else False


def pin(text: str) -> tuple[str, int | tuple[str, int]]:
    """NAME=N, or NAME=POOL:N."""
    name, equals, place = text.rpartition("=")
    if not equals or not name:
        raise ValueError(f"takes NAME=N, such as x=4KiB, or NAME=POOL:N, got {text!r}")
    pool, colon, offset = place.rpartition(":")
    return name, (pool, size(offset)) if colon else size(offset)


def reserved(text: str) -> tuple[int | str, ...]:
    """BEGIN:END or BEGIN:END:FIRST:LAST; POOL: may stand before them."""
    cells = text.split(":")
    if len(cells) not in (2, 3, 4, 5):
        raise ValueError(f"takes BEGIN:END or BEGIN:END:FIRST:LAST, or POOL: and these, got {text!r}")
    pool, cells = cells[: len(cells) % 2], cells[len(cells) % 2 :]
    steps = cells[2:]
    if not all(re.fullmatch("-?[0-9]+", step) for step in steps):
        raise ValueError(f"takes steps that are integers, got {text!r}")
    return (*pool, *map(size, cells[:2]), *map(int, steps))


def distance(text: str) -> tuple[str | int, ...]:
    """A,B or A,B,N, where N may be negative."""
    cells = text.split(",")
    if len(cells) not in (2, 3):
        raise ValueError(f"takes A,B or A,B,N, got {text!r}")
    return (*cells[:2], *(-size(n[1:]) if n.startswith("-") else size(n) for n in cells[2:]))


def price(text: str) -> tuple[str, str, int]:
    """A,B,N."""
    row = distance(text)
    if len(row) != 3:
        raise ValueError(f"takes A,B,N, got {text!r}")
    return str(row[0]), str(row[1]), int(row[2])
