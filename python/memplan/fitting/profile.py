"""What ops cost, measured: a network of torch is run op by op, in the arena of a plan of it as it is."""

from __future__ import annotations

import time
from collections.abc import Mapping
from statistics import median
from typing import Any

import numpy as np

from ..api import plan
from ..plans.later import later

_REPEATS = 3
_COPIED = 1 << 24  # bytes
_ALIGNMENT = 64  # that every dtype may begin at


def profiled(source: Any, reading: Mapping[str, Any]) -> dict[str, float]:
    """The seconds of each op: the median of three runs. `reading` are options of `capture`.

    It takes the memory of the network as it is. What the runs change is put back.
    """
    if reading.get("device") is not None:
        raise ValueError('cost="profile" measures on the device where the network is, and does not go with device=')
    found: dict[str, float] = later("seconds_of")(plan(source, "first_fit", alignment=_ALIGNMENT, **reading), _REPEATS)
    return found


def seconds_to_move() -> float:
    """The seconds of a byte in a copy from memory to memory."""
    source = np.zeros(_COPIED, np.uint8)
    target = source.copy()
    taken = []
    for _ in range(_REPEATS):
        begin = time.perf_counter()
        np.copyto(target, source)
        taken.append(time.perf_counter() - begin)
    return median(taken) / _COPIED
