"""Ops of a graph, made anew with something changed."""

from __future__ import annotations

from typing import Any

from . import _core

_FIELDS = (
    *("name", "type", "inputs", "outputs", "workspace", "aliases", "inplace", "overwrites", "stream"),
    *("slices", "concats", "after", "cost", "recompute", "branch", "flops", "loops"),
)


def changed(op: _core.Op, **changes: Any) -> _core.Op:
    """The op with these fields changed, and all others as they are."""
    return _core.Op(**{field: getattr(op, field) for field in _FIELDS} | changes)
