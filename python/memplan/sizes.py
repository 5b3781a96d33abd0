"""Numbers of bytes as they are asked for, integers or text with a unit, and as people read them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

_UNITS = {"b": 1} | {
    f"{letter}{kind}b": base**power
    for power, letter in enumerate("kmgt", 1)
    for kind, base in (("", 1000), ("i", 1024))
}
UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)")
_MOST = 2**63 - 1
_ALWAYS = (-(2**63), _MOST)  # steps
EXPECTED = "an integer of bytes, or text with a unit such as '1.5GiB' (B, KB, MB, GB, TB, KiB, MiB, GiB, TiB)"


def in_bytes(value: Any, name: str, least: int = 0) -> int:
    """A number of bytes: an integer, or text such as "4096", "64 KiB", "2.2GiB", of which whole bytes count.

    Raises
    ------
    TypeError
        Neither of the two.
    ValueError
        Another text, a part of a byte, less than `least`, or more than int64 holds; the message names it.
    """
    if isinstance(value, str):
        size = _parsed(value, name)
    elif isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        size = int(value)
    else:
        raise TypeError(f"{name} must be {EXPECTED}, got {value!r}")
    if not least <= size <= _MOST:
        raise ValueError(f"{name} must be >= {least} and at most {_MOST}, got {value!r}")
    return size


def _parsed(text: str, name: str) -> int:
    found = _SIZE.fullmatch(text.strip()) if len(text) <= 64 else None
    unit = _UNITS.get(found[2].lower() or "b") if found else None
    if found is None or unit is None:
        raise ValueError(f"{name} must be {EXPECTED}, got {text!r}")
    size = Fraction(found[1]) * unit
    if unit == 1 and size.denominator != 1:
        raise ValueError(f"{name} must be a whole number of bytes, got {text!r}, which is {float(size)}")
    return int(size)


def unit_of(size: int) -> tuple[int, str]:
    """The largest binary unit that is not above `size` bytes: its bytes and its name."""
    power = max(0, (int(size).bit_length() - 1) // 10)
    return 1024 ** min(power, len(UNITS) - 1), UNITS[min(power, len(UNITS) - 1)]


def format_bytes(size: int) -> str:
    """Bytes in a readable unit: ``format_bytes(1536)`` is ``'1.50 KiB'``."""
    scale, unit = unit_of(size)
    return f"{size} B" if scale == 1 else f"{size / scale:.2f} {unit}"


def with_bytes(size: int) -> str:
    """Bytes in a readable unit, and all of them: ``with_bytes(1536)`` is ``'1.50 KiB (1,536 bytes)'``."""
    return f"{format_bytes(size)} ({size:,} bytes)"


def byte_range(row: Any, where: str) -> tuple[int, int, int, int]:
    """Bytes [begin, end), always or in the steps [first, last)."""
    if isinstance(row, str) or not isinstance(row, Sequence) or len(row) not in (2, 4):
        raise TypeError(f"{where} must be (begin, end) in bytes, or (begin, end, first, last), got {row!r}")
    first, last = row[2:] or _ALWAYS
    for step in (first, last):
        if isinstance(step, bool) or not isinstance(step, (int, np.integer)):
            raise TypeError(f"{where} must have steps that are integers, got {step!r}")
    return in_bytes(row[0], f"{where} begin"), in_bytes(row[1], f"{where} end"), int(first), int(last)
