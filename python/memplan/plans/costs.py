"""What ops cost: as the graph says, by the bytes that they touch, or by their floating-point operations.

Importers count operations, as `torch.utils.flop_counter` does for torch. Every op counts the bytes that it touches too,
one operation for each: no op is free but views.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .. import _core
from ..errors import SourceError
from ..options.checks import number
from ..text import offer, one_of

COSTS = ("auto", "bytes", "flops", "profile")
_MOVE = 2.0  # for a byte: it is read and written


def check_costs(cost: Any, transfer: Any, hidden: Any, moved: bool) -> None:
    """Refuse what no graph takes; `moved` says whether tensors may be moved at all."""
    if not isinstance(cost, Mapping) and cost not in COSTS:
        raise ValueError(one_of("cost", COSTS, cost) + "; or give a mapping from names of ops")
    if isinstance(cost, Mapping):
        _check_values(cost)
    if not moved and (transfer is not None or hidden):
        raise ValueError("transfer and hidden need 'offload' among what allow holds")
    if transfer is not None:
        number(transfer, "transfer", math.inf)
    elif moved and isinstance(cost, Mapping):
        raise ValueError("transfer must say what a byte costs, in the unit of the costs that are given, got None")
    number(hidden, "hidden", 1)


def costs_of(graph: _core.Graph, cost: str | Mapping[str, float]) -> list[float]:
    """The cost of each op: "bytes" that it touches, or "flops" and bytes. "auto": as the graph says, else "flops".

    Or costs by the names of ops; the others cost nothing.
    """
    if isinstance(cost, Mapping):
        return _named(graph, cost)
    if cost not in COSTS[:-1]:
        raise ValueError(f"cost must be one of {', '.join(COSTS)}, or a mapping from ops, got {cost!r}")
    return _core.op_costs(graph, cost)


def moves(graph: _core.Graph, cost: str | Mapping[str, float], transfer: float | None, hidden: float) -> float:
    """The cost of a byte that is moved out of the arena, or fetched: what of it does not hide."""
    share = 1 - number(hidden, "hidden", 1)
    if transfer is not None:
        return number(transfer, "transfer", math.inf) * share
    if not isinstance(cost, str) or (cost == "auto" and _core.says_costs(graph)):
        raise ValueError("transfer must say what a byte costs, in the unit of the costs that are given, got None")
    return _MOVE * share


def _named(graph: _core.Graph, cost: Mapping[str, float]) -> list[float]:
    names = _core.op_names(graph)
    known = set(names)
    _check_values(cost)
    for name in cost:
        if name not in known:
            raise SourceError(f"cost names {name!r}, which is no op of the graph; {offer(name, names, 'ops')}")
    return [float(cost.get(name, 0.0)) for name in names]


def _check_values(cost: Mapping[str, float]) -> None:
    for name, value in cost.items():
        if not isinstance(name, str):
            raise TypeError(f"cost must be by the names of ops, got {name!r}")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
            raise ValueError(f"cost of {name!r} must be a finite number >= 0, got {value!r}")
