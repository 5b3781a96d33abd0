"""Loops of the ops of a graph dict: along which rows an op goes while it runs.

::

    {"extent": 112,                                    # iterations
     "reads":  {"x": [axis, step, window, before]},    # iteration i reads a window of rows from i * step - before on
     "writes": {"y": [axis, step]},                    # and writes rows [i * step, (i + 1) * step)
     "sums":   ["dw"],                                 # outputs to which each iteration adds
     "early":  {"count": ["target"]},                  # outputs that are made before the first iteration
     "statistics": {"inputs": ["x"], "bytes": 64},     # of all rows of inputs, before the first iteration
     "workspace": 4096,                                # of the op's, what a piece needs whole; of the rest its share
     "copied": ["x"]}                                  # inputs of which a piece copies rows that lie scattered

``"ordered": [0, 1]`` of an op names loops by their positions: its kernel runs these in ascending order, the outermost
first, and an iteration reads and writes only what they say. What it reads and writes lives together, unless the op says
``"reads_first": true``: then an iteration reads all that it reads before it writes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from .. import _core
from ..errors import GraphError
from ..text import number as digits
from .loops import MOST

_KEYS = {"extent", "reads", "writes", "sums", "early", "statistics", "workspace", "copied"}
_FINEST = 1_000_000  # the largest denominator that a float stands for
_LONGEST = 64  # letters of a fraction

_LAST = 2**31 - 1  # axis or loop
_BYTES = 2**63 - 1


def loops_of(entries: Any, where: str, inputs: list[str], outputs: list[str]) -> list[_core.Loop]:
    """The loops of an op with these inputs and outputs; GraphError names the entry that is not as expected."""
    if not isinstance(entries, (list, tuple)):
        raise GraphError(f"{where} must be a list, got {type(entries).__name__}")
    return [_loop(entry, f"{where}[{i}]", inputs, outputs) for i, entry in enumerate(entries)]


def ordered_of(entries: Any, where: str) -> list[int]:
    """The loops that an op's kernel runs in ascending order, the outermost first, as positions."""
    return [_integer(entry, f"{where}[{i}]", _LAST) for i, entry in enumerate(_list(entries, where))]


def _loop(entry: Any, where: str, inputs: list[str], outputs: list[str]) -> _core.Loop:
    for key in _mapping(entry, where):
        if key not in _KEYS:
            raise GraphError(f"{where} has an unknown key {key!r}; known are {', '.join(sorted(_KEYS))}")
    if "extent" not in entry:
        raise GraphError(f"{where} has no 'extent'")
    reads = []
    for name, row in _mapping(entry.get("reads", {}), f"{where}.reads").items():
        at = f"{where}.reads[{name!r}]"
        axes, *numbers = _row(row, at, "[axis, step, window, before]", 4)
        first, last = _axes(axes, at)
        step, window, before, per = _rows(numbers, at)
        reads.append((_position(name, inputs, at), first, last, step, window, before, per))
    writes = []
    for name, row in _mapping(entry.get("writes", {}), f"{where}.writes").items():
        at = f"{where}.writes[{name!r}]"
        axes, rows = _row(row, at, "[axis, step]", 2)
        first, last = _axes(axes, at)
        writes.append((_output(name, outputs, at), first, last, _integer(rows, at)))
    sums = [_output(name, outputs, f"{where}.sums") for name in _list(entry.get("sums", []), f"{where}.sums")]
    early = []
    for name, read in _mapping(entry.get("early", {}), f"{where}.early").items():
        at = f"{where}.early[{name!r}]"
        early.append((_output(name, outputs, at), [_position(one, inputs, at) for one in _list(read, at)]))
    statistics = _statistics(entry.get("statistics"), f"{where}.statistics", inputs)
    workspace = _integer(entry.get("workspace", 0), f"{where}.workspace", _BYTES)
    copied = [_position(one, inputs, f"{where}.copied") for one in _list(entry.get("copied", []), f"{where}.copied")]
    extent = _integer(entry["extent"], f"{where}.extent")
    return _core.Loop(extent, reads, writes, sums, early, statistics, workspace, copied)


def _statistics(entry: Any, where: str, inputs: list[str]) -> tuple[list[int], int] | None:
    if entry is None:
        return None
    if set(_mapping(entry, where)) != {"inputs", "bytes"}:
        raise GraphError(f"{where} must have the keys 'inputs' and 'bytes', got {sorted(map(str, entry))}")
    given = [_position(one, inputs, f"{where}.inputs") for one in _list(entry["inputs"], f"{where}.inputs")]
    return given, _integer(entry["bytes"], f"{where}.bytes")


def _position(name: Any, inputs: list[str], where: str) -> int:
    """An input by its name, or if the op has it more than once, by its position as text."""
    if inputs.count(name) == 1:
        return inputs.index(name)
    if isinstance(name, str) and name.isdecimal() and int(name) < len(inputs):
        return int(name)
    if name in inputs:
        raise GraphError(f"{where}: the op has this input more than once; name it by its position, '0' for the first")
    raise GraphError(f"{where}: expected an input of the op ({', '.join(inputs)}) or its position, got {name!r}")


def _output(name: Any, outputs: list[str], where: str) -> int:
    if name not in outputs:
        raise GraphError(f"{where}: expected an output of the op ({', '.join(outputs)}), got {name!r}")
    return outputs.index(name)


def _axes(value: Any, where: str) -> tuple[int, int]:
    """An axis, or the first and the last of those that are taken together."""
    if isinstance(value, (list, tuple)):
        first, last = _row(value, where, "axes [first, last]", 2)
        return _integer(first, where, _LAST), _integer(last, where, _LAST)
    return _integer(value, where, _LAST), _integer(value, where, _LAST)


def _rows(numbers: list[Any], where: str) -> list[int]:
    """Step, window and before as multiples of a part of a row, and how many parts a row has."""
    fractions = [_fraction(number, where) for number in numbers]
    per = math.lcm(*(number.denominator for number in fractions))
    parts = [int(number * per) for number in fractions]
    for number, count in zip(numbers, parts, strict=True):
        if max(abs(count), per) > MOST:
            raise GraphError(
                f"{where} must hold numbers of at most {MOST} parts of a row, of which a row has at most as many, "
                f"got {_said(number)}"
            )
    return [*parts, per]


def _said(value: Any) -> str:
    return digits(value) if isinstance(value, int) else repr(value)[:_LONGEST]


def _fraction(value: Any, where: str) -> Fraction:
    try:
        if isinstance(value, bool) or not isinstance(value, (int, float, str, Fraction)):
            raise TypeError
        if isinstance(value, str) and (len(value) > _LONGEST or "e" in value.lower()):  # a few letters for huge numbers
            raise ValueError
        number = Fraction(value)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        raise GraphError(f"{where} must hold numbers, or fractions as text ('7/5'), got {_said(value)}") from None
    return number.limit_denominator(_FINEST) if isinstance(value, float) else number


def _integer(value: Any, where: str, most: int = MOST) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise GraphError(f"{where} must hold an integer of at most {most}, got {value!r}")
    if not -most <= value <= most:
        raise GraphError(f"{where} must hold an integer of at most {most}, got {digits(value)}")
    return value


def _row(value: Any, where: str, form: str, length: int) -> list[Any]:
    row = _list(value, where)
    if len(row) != length:
        raise GraphError(f"{where} must be {form}, got {value!r}")
    return row


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        raise GraphError(f"{where} must be a list, got {type(value).__name__}")
    return list(value)


def _mapping(value: Any, where: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise GraphError(f"{where} must be a dict, got {type(value).__name__}")
    return value
