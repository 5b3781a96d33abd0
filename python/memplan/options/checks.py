"""What the options of planning must be: errors name the option, what was expected and what came."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from .. import _core
from ..errors import GraphError
from ..kinds import KINDS, PLACED
from ..text import nearest, offer

_BLOCKS = ("device", "stream", "pool")


def check_donated(graph: _core.Graph, donate: Collection[str]) -> None:
    """Refuse names that are none of graph inputs, and offer those that are."""
    if not donate:
        return
    kinds = {tensor.name: tensor.kind for tensor in graph.tensors}
    inputs = [name for name, kind in kinds.items() if kind == "input"]
    for name in donate:
        if kinds.get(name) != "input":
            of_kind = f", which is of kind {kinds[name]}" if name in kinds else ""
            raise GraphError(f"donate must name graph inputs, got {name!r}{of_kind}; {offer(name, inputs, 'inputs')}")


def callback(value: Any, name: str, taking: str) -> Any:
    """A function of one argument, or None."""
    if value is not None and not callable(value):
        raise TypeError(f"{name} must be callable with {taking}, got {value!r}")
    return value


def by_name(option: str, example: str) -> Callable[[Any], Any]:
    """A check of what is by name."""

    def check(value: Any) -> Any:
        if value is not None and not (isinstance(value, Mapping) and all(isinstance(name, str) for name in value)):
            raise TypeError(f"{option} must be by name, such as {example}, got {value!r}")
        return value

    return check


def blocks(value: Any) -> Any:
    """Which blocks of a memory snapshot: a device, a stream, the id of a private pool."""
    by_name("blocks", "{'device': 0, 'stream': 0}")(value)
    for name, number in (value or {}).items():
        if name not in _BLOCKS:
            raise ValueError(f"blocks may have {', '.join(_BLOCKS)}, got {name!r}")
        parts = number if name == "pool" and isinstance(number, (tuple, list)) else [number]
        if len(parts) != (2 if name == "pool" else 1):
            raise TypeError(f"blocks['pool'] must be a pair of integers, such as (0, 1), got {number!r}")
        for part in parts:
            integer(part, f"blocks[{name!r}]", 0, 2**63 - 1)
    return value


def interrupting(value: Any) -> str:
    """What Ctrl-C does."""
    if value not in ("keep", "raise"):
        raise ValueError(f"on_interrupt must be 'keep' or 'raise', got {value!r}")
    return str(value)


def device_of(value: Any) -> Any:
    """The device that torch would run on, as importers know it."""
    if value not in (None, "cuda"):
        raise ValueError(f"device must be 'cuda' or None, got {value!r}")
    return value


def overlapping(value: Any) -> Any:
    """Whether outputs may lie over inputs that are still read, or the kernels whose outputs may."""
    if value == "tflite-micro":
        return value
    if isinstance(value, str):
        raise ValueError(f"overlap must be True, False or 'tflite-micro', got {value!r}")
    return boolean(value, "overlap")


def switch(option: str) -> Callable[[Any], bool]:
    """A check of an option that is on or off."""
    return lambda value: boolean(value, option)


def boolean(value: Any, name: str) -> bool:
    """An option that is on or off; TypeError for anything else, such as text."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise TypeError(f"{name} must be True or False, got {value!r}")


def integer(value: Any, name: str, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if not least <= value <= most:
        raise ValueError(f"{name} must be >= {least} and at most {most}, got {value}")
    return int(value)


def number(value: float, name: str, most: float) -> float:
    """A number from 0 to `most`, which is 1 or infinity."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number, got {value!r}")
    if not 0 <= value <= most or value == math.inf:
        raise ValueError(f"{name} must be {'finite and >= 0' if most == math.inf else 'in [0, 1]'}, got {value!r}")
    return float(value)


def seconds(value: Any, name: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"{name} must be seconds or None, got {value!r}")
    if not value > 0:
        raise ValueError(f"{name} must be > 0 seconds, got {value}")
    return float(value)


def text_of(value: Any, name: str) -> str | None:
    """A name, or None."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name} must be a name, got {value!r}")
    return value


def names(value: Any, name: str) -> list[str]:
    if isinstance(value, tuple) and not value:
        return []
    if isinstance(value, (str, Mapping)) or not isinstance(value, Collection) or not all(map(_is_text, value)):
        raise TypeError(f"{name} must be a collection of names, got {value!r}")
    return list(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def checked_place(place: Collection[str]) -> list[str]:
    if isinstance(place, (str, Mapping)) or not isinstance(place, Collection):
        raise TypeError(f"place must be a collection of kinds such as {PLACED}, got {place!r}")
    for kind in place:
        if kind not in KINDS:
            near = nearest(kind, KINDS) if isinstance(kind, str) else None
            meant = f"; did you mean {near!r}?" if near else ""
            raise ValueError(f"place must hold kinds among {', '.join(KINDS)}, got {kind!r}{meant}")
    return list(place)
