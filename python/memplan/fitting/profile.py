"""What ops cost, measured: a network of torch is run op by op, in the arena of a plan of it as it is."""

from __future__ import annotations

import time
from collections.abc import Mapping
from statistics import median

import numpy as np

from .. import _core
from ..importers import Captured, Network
from ..plans.costs import costs_of
from ..running.plans import seconds_of
from ..solving.planning import plan

_REPEATS = 3
_COPIED = 1 << 24  # bytes
_ALIGNMENT = 64  # that every dtype may begin at


def op_costs(graph: _core.Graph, cost: str | Mapping[str, float], read: Captured) -> list[float]:
    """The cost of each op; "profile" measures the network that was read."""
    return costs_of(graph, profiled(read) if cost == "profile" else cost)


def profiled(read: Captured) -> dict[str, float]:
    """The seconds of each op: the median of three runs.

    It takes the memory of the network as it is. What the runs change is put back.
    """
    if read.device is not None:
        raise ValueError('cost="profile" measures on the device where the network is, and does not go with device=')
    assert isinstance(read.buffers, _core.Graph)
    network = Network(read.buffers, read.source)
    return seconds_of(plan(network, "first_fit", alignment=_ALIGNMENT), _REPEATS)


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
