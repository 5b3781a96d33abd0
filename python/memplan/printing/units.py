"""Bytes and names for people."""

from __future__ import annotations

import math

from ..sizes import format_bytes as format_bytes
from ..sizes import unit_of as unit_of
from ..sizes import with_bytes as with_bytes
from ..text import counted as counted
from ..text import printable


def percent(share: float | None) -> str:
    """A gap with three digits; what is above 0 is never written as 0. Empty where there is none."""
    if share is None:
        return ""
    return "<0.001%" if 0 < share < 0.5e-5 else f"{share:,.3%}"


def gap_text(peak: int, bound: int) -> str:
    """How good a peak is: "optimal", or "gap 1.234%"."""
    return "optimal" if peak == bound else f"gap {percent(max(peak / max(bound, 1) - 1, 1e-9))}"


def seconds(count: float | None) -> str:
    """Seconds with three digits, or microseconds: "0.0123 s", "0.000031 s", "1,234 s". Empty where there are none."""
    if count is None:
        return ""
    if 0 < count < 1e-3:
        return f"{count:.6f} s"
    return f"{count:.3g} s" if count < 999.5 else f"{count:,.0f} s"


def tick(span: float) -> float:
    """A step of 1, 2, 4, … units, or a half, a quarter, …, that cuts `span` into 4 to 8 parts."""
    return float(2.0 ** math.floor(math.log2(span / 4)))


def shortened(name: str, most: int = 40) -> str:
    """The printable name in at most that many characters: its beginning, and its end, which tells layers apart."""
    line = printable(name)
    return line if len(line) <= most else f"{line[: most // 2 - 1]}…{line[most // 2 - most :]}"


def op_label(name: str, type: str) -> str:
    """An op: its name, and its type where the name does not say it: "conv1 (Conv)", "convolution_3"."""
    words = type.split("::")[-1].split(".")
    word = words[1] if words[0] in ("aten", "prims") and len(words) > 1 else words[-1]
    return name if not type or word.lower() in name.lower() else f"{name} ({type.removesuffix('.default')})"
