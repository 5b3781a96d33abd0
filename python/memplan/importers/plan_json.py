"""Plans in the versioned JSON that `Plan.to_json` writes."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

from ..errors import SourceError
from ..export.json import FORMAT, VERSION
from .csv import Rows
from .graph_dict import read_graph_dict

_KEYS = ("id", "size", "first", "last", "alignment", "offset")


def read_plan_json(path: str | os.PathLike[str]) -> tuple[Rows, str]:
    """Read buffers, offsets and the planner's name; SourceError names the entry that is not as expected."""
    spec = read_graph_dict(path)
    if spec.get("format") != FORMAT or spec.get("version") != VERSION:
        got = f"{spec.get('format')!r} version {spec.get('version')!r}"
        raise SourceError(f"{path}: expected format {FORMAT!r} version {VERSION}, got {got}")
    rows = Rows()
    columns: tuple[list[Any], ...] = (
        rows.name,
        rows.size,
        rows.first,
        rows.last,
        rows.alignment,
        rows.offset,
    )
    entries = spec.get("buffers")
    if not isinstance(entries, list):
        raise SourceError(f"{path}: buffers must be a list, got {type(entries).__name__}")
    for i, entry in enumerate(entries):
        for column, key in zip(columns, _KEYS, strict=True):
            column.append(_value(entry, key, f"{path}: buffers[{i}].{key}"))
    for name, times in Counter(rows.name).items():
        if times > 1:
            raise SourceError(f"{path}: {times} buffers have the id {name!r}; ids must be unique")
    return rows, str(spec.get("planner", "file"))


def _value(entry: Any, key: str, where: str) -> Any:
    expected = str if key == "id" else int
    value = entry.get(key) if isinstance(entry, dict) else None
    if not isinstance(value, expected) or isinstance(value, bool):
        raise SourceError(f"{where} must be of type {expected.__name__}, got {value!r}")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise SourceError(f"{where} must fit int64, got {value}")
    return value
