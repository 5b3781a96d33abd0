"""Numbers of bytes as they are asked for: integers, or text with a unit."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import numpy as np

_UNITS = {"b": 1} | {
    f"{letter}{kind}b": base**power
    for power, letter in enumerate("kmgt", 1)
    for kind, base in (("", 1000), ("i", 1024))
}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)")
_MOST = 2**63 - 1
EXPECTED = "an integer of bytes, or text with a unit such as '1.5GiB' (B, KB, MB, GB, TB, KiB, MiB, GiB, TiB)"


def in_bytes(value: Any, name: str, least: int = 0) -> int:
    """A number of bytes: an integer, or text such as "4096", "64 KiB", "1.5GiB".

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
    if size.denominator != 1:
        raise ValueError(f"{name} must be a whole number of bytes, got {text!r}, which is {float(size)}")
    return int(size)
