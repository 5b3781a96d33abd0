"""What ops cost: as the graph says, by the bytes that they touch, or by their floating-point operations.

Importers count operations, as `torch.utils.flop_counter` does for torch. Every op counts the bytes that it touches too,
one operation for each: no op is free but views.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from .. import _core
from ..errors import SourceError
from ..importers import Captured
from ..text import offer, one_of
from .profile import profiled, seconds_to_move

COSTS = ("auto", "bytes", "flops", "profile")
_MOVE = 2.0  # for a byte: it is read and written


def check_costs(cost: Any, transfer: Any, overlap: Any, moved: bool) -> None:
    """Refuse what no graph takes; `moved` says whether tensors may be moved at all."""
    if not isinstance(cost, Mapping) and cost not in COSTS:
        raise ValueError(one_of("cost", COSTS, cost) + "; or give a mapping from names of ops")
    if isinstance(cost, Mapping):
        _check_values(cost)
    if not moved and (transfer is not None or overlap):
        raise ValueError("transfer and overlap need 'offload' among what allow holds")
    if transfer is not None:
        _number(transfer, "transfer", math.inf)
    elif moved and isinstance(cost, Mapping):
        raise ValueError("transfer must say what a byte costs, in the unit of the costs that are given, got None")
    _number(overlap, "overlap", 1)


def costs_of(graph: _core.Graph, cost: str | Mapping[str, float]) -> list[float]:
    """The cost of each op: "bytes" that it touches, or "flops" and bytes. "auto": as the graph says, else "flops".

    Or costs by the names of ops; the others cost nothing.
    """
    if isinstance(cost, Mapping):
        return _named(graph, cost)
    if cost not in COSTS[:-1]:
        raise ValueError(f"cost must be one of {', '.join(COSTS)}, or a mapping from ops, got {cost!r}")
    ops = graph.ops
    if cost == "auto":
        said = [op.cost for op in ops]
        known = [own for own in said if own is not None]
        if len(known) == len(ops):
            return known
    size = {tensor.name: tensor.bytes for tensor in graph.tensors}
    costs = [_touched(op, size) for op in ops]
    if cost != "bytes":
        costs = [bytes + (op.flops or 0.0) for bytes, op in zip(costs, ops, strict=True)]
    if cost == "auto":
        costs = [counted if own is None else own for counted, own in zip(costs, said, strict=True)]
    return costs


def named_costs(graph: _core.Graph, cost: str | Mapping[str, float], read: Captured) -> dict[str, float]:
    """The cost of each op by its name; "profile" measures the network that was read."""
    if cost == "profile":
        cost = profiled(read)
    return dict(zip((op.name for op in graph.ops), costs_of(graph, cost), strict=True))


def moves(graph: _core.Graph, cost: str | Mapping[str, float], transfer: float | None, overlap: float) -> float:
    """The cost of a byte that is moved out of the arena, or fetched: what of it does not hide."""
    share = 1 - _number(overlap, "overlap", 1)
    if transfer is not None:
        return _number(transfer, "transfer", math.inf) * share
    if cost == "profile":
        return seconds_to_move() * share
    if not isinstance(cost, str) or (cost == "auto" and any(op.cost is not None for op in graph.ops)):
        raise ValueError("transfer must say what a byte costs, in the unit of the costs that are given, got None")
    return _MOVE * share


def _number(value: float, name: str, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number, got {value!r}")
    if not 0 <= value <= most or value == math.inf:
        raise ValueError(f"{name} must be {'finite and >= 0' if most == math.inf else 'in [0, 1]'}, got {value!r}")
    return float(value)


def _named(graph: _core.Graph, cost: Mapping[str, float]) -> list[float]:
    names = {op.name for op in graph.ops}
    _check_values(cost)
    for name in cost:
        if name not in names:
            raise SourceError(f"cost names {name!r}, which is no op of the graph; {offer(name, list(names), 'ops')}")
    return [float(cost.get(op.name, 0.0)) for op in graph.ops]


def _check_values(cost: Mapping[str, float]) -> None:
    for name, value in cost.items():
        if not isinstance(name, str):
            raise TypeError(f"cost must be by the names of ops, got {name!r}")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
            raise ValueError(f"cost of {name!r} must be a finite number >= 0, got {value!r}")


def _touched(op: _core.Op, size: Mapping[str, int]) -> float:
    """Bytes that an op reads and writes; none for a view, nor for an op without outputs that changes nothing."""
    fresh, aliases = op.outputs, op.aliases
    if aliases:
        views = {output for output, *_ in aliases}
        fresh = [name for name in fresh if name not in views]
    if not fresh and not op.workspace and not _changes(op.type):
        return 0.0
    return float(sum(size[name] for name in {*op.inputs, *fresh}))


@lru_cache(4096)
def _changes(type: str) -> bool:
    return any(word.endswith("_") for word in type.split("."))
