"""Plans in the versioned JSON that `Plan.to_json` writes."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from ..errors import SourceError
from ..files import read_form
from ..plans.changes import Fitting, fitting_from
from ..plans.plan_format import FORMAT, PART_KEYS, VERSION
from ..plans.pools import PlannedPools, pools_from
from ..plans.record import FiledOrder
from .csv import Rows

_KEYS = ("id", "size", "first", "last", "alignment", "offset")


class PlanRows(NamedTuple):
    """What a plan file holds, unverified.

    These are buffers with offsets, the planner that it names, its objects, whether it was interrupted, what would be
    needed if nothing shared bytes, each tensor's buffer, offset and bytes, the planner that won, the seconds of
    planning, those until the plan was found, the order of the ops with the bound of all orders, what `memplan.fit` has
    changed, the pools of a plan in several, and what kernels of ops allocate besides.
    """

    rows: Rows
    planner: str = "file"
    objects: int = 0
    interrupted: bool = False
    unshared: int | None = None
    placed: dict[str, tuple[int, int, int]] | None = None
    winner: str = "file"
    seconds: float = 0.0
    found_after: float = 0.0
    order: FiledOrder | None = None
    ordered_by: str = "given"
    fitting: Fitting | None = None
    pools: PlannedPools | None = None
    scratch: Mapping[str, int] = MappingProxyType({})


def read_plan_json(path: str | os.PathLike[str]) -> PlanRows:
    """Read buffers, offsets and the planner's name; SourceError names the entry that is not as expected."""
    spec = read_form(path, "a plan that memplan wrote", FORMAT, VERSION)
    rows = Rows()
    columns: Any = (rows.name, rows.size, rows.first, rows.last, rows.alignment, rows.offset)
    for i, entry in enumerate(_list(spec.get("buffers"), f"{path}: buffers")):
        for column, key in zip(columns, _KEYS, strict=True):
            column.append(_value(entry, key, f"{path}: buffers[{i}].{key}"))
        rows.parts += _parts(entry, i, f"{path}: buffers[{i}].parts")
        rows.branches.append(_text(entry.get("branch", ""), f"{path}: buffers[{i}].branch", "a branch"))
        rows.pins.append(rows.offset[-1] if _flag(entry, "pinned", f"{path}: buffers[{i}].pinned") else -1)
    for name, times in Counter(rows.name).items():
        if times > 1:
            raise SourceError(f"{path}: {times} buffers have the id {name!r}; ids must be unique")
    for i, pair in enumerate(_list(spec.get("conflicts", []), f"{path}: conflicts")):
        rows.conflicts.append(_pair(pair, len(rows.name), f"{path}: conflicts[{i}]"))
    for i, entry in enumerate(_list(spec.get("reserved", []), f"{path}: reserved")):
        begin, end, first, last = (_value(entry, key, f"{path}: reserved[{i}].{key}") for key in PART_KEYS)
        rows.reserved.append((begin, end, first, last))
    for i, row in enumerate(_list(spec.get("together", []), f"{path}: together")):
        rows.together.append(_distance(row, len(rows.name), f"{path}: together[{i}]"))
    objects = _value({"objects": spec.get("objects", 0)}, "objects", f"{path}: objects")
    if objects < 0:
        raise SourceError(f"{path}: objects must be >= 0, got {objects}")
    interrupted = _flag(spec, "interrupted", f"{path}: interrupted")
    unshared = None if "naive" not in spec else _value(spec, "naive", f"{path}: naive")
    if unshared is not None and unshared < 0:
        raise SourceError(f"{path}: naive must be >= 0 bytes, got {unshared}")
    placed = _placed(spec["tensors"], len(rows.name), f"{path}: tensors") if "tensors" in spec else None
    planner = _text(spec.get("planner", "file"), f"{path}: planner")
    winner = _text(spec.get("winner", planner), f"{path}: winner")
    spent = [_seconds(spec.get(key, 0.0), f"{path}: {key}") for key in ("seconds", "found_after")]
    order = _order(spec, path) if "order" in spec else None
    ordered_by = _text(spec.get("ordered_by", "given"), f"{path}: ordered_by", "an order")
    fitting = _fitting(spec["fitting"], f"{path}: fitting") if "fitting" in spec else None
    pools = _pools(spec, f"{path}: ") if "pools" in spec else None
    facts = (planner, objects, interrupted, unshared, placed, winner, spent[0], spent[1], order, ordered_by, fitting)
    return PlanRows(rows, *facts, pools, _scratch(spec.get("scratch", {}), f"{path}: scratch"))


def _scratch(entries: Any, where: str) -> dict[str, int]:
    if not isinstance(entries, dict):
        raise SourceError(f"{where} must be a mapping from ops to bytes, got {type(entries).__name__}")
    found = {op: _value(entries, op, f"{where}[{op!r}]") for op in entries}
    for op, size in found.items():
        if size < 0:
            raise SourceError(f"{where}[{op!r}] must be >= 0 bytes, got {size}")
    return found


def _pools(spec: dict[str, Any], where: str) -> PlannedPools:
    names = [entry.get("pool") for entry in spec["buffers"]]
    try:
        return pools_from(_list(spec["pools"], f"{where}pools"), names, spec.get("cost_bound"), f"{where}pools")
    except (TypeError, ValueError) as error:
        raise SourceError(str(error)) from None


def _fitting(entry: Any, where: str) -> Fitting:
    try:
        return fitting_from(entry, where)
    except ValueError as error:
        raise SourceError(str(error)) from None


def _placed(entries: Any, count: int, where: str) -> dict[str, tuple[int, int, int]]:
    if not isinstance(entries, dict):
        raise SourceError(f"{where} must be a mapping from names, got {type(entries).__name__}")
    placed: dict[str, tuple[int, int, int]] = {}
    for name, entry in entries.items():
        buffer, offset, size = (_value(entry, key, f"{where}[{name!r}].{key}") for key in ("buffer", "offset", "bytes"))
        if not 0 <= buffer < count:
            raise SourceError(f"{where}[{name!r}].buffer must be 0 to {count - 1}, got {buffer}")
        placed[name] = buffer, offset, size
    return placed


def _order(spec: dict[str, Any], path: str | os.PathLike[str]) -> FiledOrder:
    ops = _list(spec["order"], f"{path}: order")
    for k, name in enumerate(ops):
        if not isinstance(name, str):
            raise SourceError(f"{path}: order[{k}] must be the name of an op, got {name!r}")
    for name, times in Counter(ops).items():
        if times > 1:
            raise SourceError(f"{path}: order names {name!r} {times} times; each op runs once")
    bound = _value(spec, "order_bound", f"{path}: order_bound")
    if bound < 0:
        raise SourceError(f"{path}: order_bound must be >= 0 bytes, got {bound}")
    return FiledOrder(tuple(ops), bound)


def _parts(entry: Any, buffer: int, where: str) -> list[tuple[int, int, int, int, int]]:
    parts = []
    for k, part in enumerate(_list(entry.get("parts", []), where)):
        begin, end, first, last = (_value(part, key, f"{where}[{k}].{key}") for key in PART_KEYS)
        parts.append((buffer, begin, end, first, last))
    return parts


def _pair(value: Any, count: int, where: str) -> tuple[int, int]:
    if not isinstance(value, list) or len(value) != 2:
        raise SourceError(f"{where} must be a pair of positions of buffers, got {value!r}")
    for buffer in value:
        if not isinstance(buffer, int) or isinstance(buffer, bool) or not 0 <= buffer < count:
            raise SourceError(f"{where} must hold positions of buffers, 0 to {count - 1}, got {buffer!r}")
    return value[0], value[1]


def _distance(value: Any, count: int, where: str) -> tuple[int, int, int]:
    if not isinstance(value, list) or len(value) != 3:
        raise SourceError(f"{where} must be two positions of buffers and a distance, got {value!r}")
    return *_pair(value[:2], count, where), _value({"distance": value[2]}, "distance", f"{where} distance")


def _flag(entry: dict[str, Any], key: str, where: str) -> bool:
    value = entry.get(key, False)
    if not isinstance(value, bool):
        raise SourceError(f"{where} must be true or false, got {value!r}")
    return value


def _text(value: Any, where: str, what: str = "a planner") -> str:
    if not isinstance(value, str):
        raise SourceError(f"{where} must be the name of {what}, got {value!r}")
    return value


def _seconds(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise SourceError(f"{where} must be >= 0 seconds, got {value!r}")
    return float(value)


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise SourceError(f"{where} must be a list, got {type(value).__name__}")
    return value


def _value(entry: Any, key: str, where: str) -> Any:
    expected = str if key == "id" else int
    value = entry.get(key) if isinstance(entry, dict) else None
    if not isinstance(value, expected) or isinstance(value, bool):
        raise SourceError(f"{where} must be of type {expected.__name__}, got {value!r}")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise SourceError(f"{where} must fit int64, got {value}")
    return value
