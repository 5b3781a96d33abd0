"""Numbers of bytes as they are asked for, integers or text with a unit, and as people read them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from .text import counted, number

_UNITS = {"b": 1} | {
    f"{letter}{kind}b": base**power
    for power, letter in enumerate("kmgt", 1)
    for kind, base in (("", 1000), ("i", 1024))
}
UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_NAMES = ("KiB", "MiB", "GiB", "TiB")
_SHARE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*%")
_BESIDES = re.compile(r"kept\s*\+(.*)")
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)")
_MOST = 2**63 - 1
_ALWAYS = (-(2**63), _MOST)  # steps
EXPECTED = "an integer of bytes, or text with a unit such as '1.5GiB' (B, KB, MB, GB, TB, KiB, MiB, GiB, TiB)"


@dataclass(frozen=True)
class Budget:
    """Bytes that something may take, as they are asked for: a number, a share, or as few as can be reached."""

    text: str  # as it was given
    bytes: int | None = None
    share: Fraction | None = None  # of what is needed without a budget
    besides: bool = False  # on top of what a step keeps: weights, states and inputs

    @property
    def least(self) -> bool:
        """As few as can be reached."""
        return self.bytes is None and self.share is None

    def of(self, whole: Callable[[], int], kept: int = 0) -> int:
        """The bytes; `whole` says what a share is of, `kept` how many of these a step keeps."""
        beside = kept if self.besides else 0
        if self.bytes is not None:
            return beside + self.bytes
        assert self.share is not None
        return beside + int(self.share * (whole() - beside))

    def said(self, whole: int, what: str, kept: int = 0) -> str:
        """What a share is of, in words: "60% of 2.00 GiB, the peak"; "" if it is none."""
        if self.share is None:
            return ""
        return f"{self.text} of {format_bytes(whole - self.besides * kept)}, {what}"


def budget_of(value: Any, name: str, *, or_least: bool = False, of_step: bool = False) -> Budget:
    """A budget: bytes as for `in_bytes`, text such as "60%", or "least" where that is known.

    ``of_step``: "kept + 2GiB" and "kept + 60%" are on top of what a step keeps, and shares of the rest.

    Raises
    ------
    TypeError, ValueError
        It is none of these; the message names it.
    """
    if isinstance(value, Budget):
        return value
    text = value.strip().lower() if isinstance(value, str) else ""
    if text == "least" and or_least:
        return Budget(text)
    more, besides = besides_kept(value)
    if of_step and besides:
        return replace(budget_of(more, f"{name} after 'kept +'"), text=text, besides=True)
    if (found := _SHARE.fullmatch(text) if len(text) <= 64 else None) is not None:
        return Budget(text, share=Fraction(found[1]) / 100)
    if text == "least":
        raise ValueError(f"{name} must be bytes or a share such as '60%', got 'least', which memplan.fit takes")
    more = ["a share such as '60%'"] + ["'kept + 2GiB'"] * of_step + ["'least'"] * or_least
    expected = ", or ".join([EXPECTED, *more])
    return Budget(str(value), in_bytes(value, name, expected=expected))


def besides_kept(value: Any) -> tuple[Any, bool]:
    """What follows "kept +" in a budget of a step, and whether it does: "2GiB" and True."""
    text = value.strip().lower() if isinstance(value, str) and len(value) <= 64 else ""
    found = _BESIDES.fullmatch(text)
    return (value, False) if found is None else (found[1], True)


def in_bytes(value: Any, name: str, least: int = 0, expected: str = EXPECTED) -> int:
    """A number of bytes: an integer, or text such as "4096", "64 KiB", "2.2GiB", of which whole bytes count.

    Raises
    ------
    TypeError
        Neither of the two.
    ValueError
        Another text, a part of a byte, less than `least`, or more than int64 holds; the message names it.
    """
    if isinstance(value, str):
        size = _parsed(value, name, expected)
    elif isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        size = int(value)
    else:
        raise TypeError(f"{name} must be {expected}, got {value!r}")
    if not least <= size <= _MOST:
        raise ValueError(f"{name} must be >= {least} and at most {_MOST}, got {value!r}")
    return size


def _parsed(text: str, name: str, expected: str) -> int:
    found = _SIZE.fullmatch(text.strip()) if len(text) <= 64 else None
    unit = _UNITS.get(found[2].lower() or "b") if found else None
    if found is None or unit is None:
        raise ValueError(f"{name} must be {expected}, got {text!r}{_instead(text)}")
    size = Fraction(found[1]) * unit
    if unit == 1 and size.denominator != 1:
        raise ValueError(f"{name} must be a whole number of bytes, got {text!r}, which is {float(size)}")
    return int(size)


def _instead(text: str) -> str:
    """What may be meant by a text that is no size."""
    found = _SIZE.fullmatch(text.strip()) if len(text) <= 64 else None
    if found is not None:
        near = next((unit for unit in _NAMES if unit[0] == found[2][:1].upper()), None)
        return f"; did you mean '{found[1]}{near}'?" if near else ""
    return "; it is not known here what this is a share of" if _SHARE.fullmatch(text.strip()) else ""


def unit_of(size: int) -> tuple[int, str]:
    """The largest binary unit that is not above `size` bytes: its bytes and its name."""
    power = max(0, (int(size).bit_length() - 1) // 10)
    return 1024 ** min(power, len(UNITS) - 1), UNITS[min(power, len(UNITS) - 1)]


def format_bytes(size: int) -> str:
    """Bytes in a readable unit: ``format_bytes(1536)`` is ``'1.50 KiB'``."""
    scale, unit = unit_of(size)
    return f"{size} B" if scale == 1 else f"{size / scale:.2f} {unit}"


def with_bytes(size: int) -> str:
    """All bytes, and from 1 KiB on in a readable unit too: ``with_bytes(1536)`` is ``'1.50 KiB (1,536 bytes)'``."""
    return counted(size, "bytes") if size < 1024 else f"{format_bytes(size)} ({size:,} bytes)"


def byte_range(row: Any, where: str) -> tuple[int, int, int, int]:
    """Bytes [begin, end), always or in the steps [first, last)."""
    if isinstance(row, str) or not isinstance(row, Sequence) or len(row) not in (2, 4):
        raise TypeError(f"{where} must be (begin, end) in bytes, or (begin, end, first, last), got {row!r}")
    first, last = row[2:] or _ALWAYS
    for step in (first, last):
        if isinstance(step, bool) or not isinstance(step, (int, np.integer)):
            raise TypeError(f"{where} must have steps that are integers, got {step!r}")
        if not _ALWAYS[0] <= step <= _ALWAYS[1]:
            raise ValueError(f"{where} must have steps of {_ALWAYS[0]} to {_ALWAYS[1]}, got {number(int(step))}")
    return in_bytes(row[0], f"{where} begin"), in_bytes(row[1], f"{where} end"), int(first), int(last)
