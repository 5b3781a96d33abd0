"""Several methods in one arena as one versioned JSON."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from .. import _core
from ..export.json import plan_dict
from ..files import write_json

if TYPE_CHECKING:
    from .result import MethodsPlan

FORMAT, VERSION = "memplan.methods", 1


def methods_dict(plan: MethodsPlan) -> dict[str, Any]:
    """The plans of all methods as plain Python objects.

    ``shared`` has what stays: its name, offset and bytes, and per method the names of its ``tensors``. ``methods`` has
    a plan per method, as in the JSON of one plan; all offsets are in the one arena of ``peak`` bytes.
    """
    return {
        "format": FORMAT,
        "version": VERSION,
        "memplan": _core.__version__,
        "planner": plan.whole.planner,
        "winner": plan.whole.winner,
        "peak": plan.peak,
        "lower_bound": plan.lower_bound,
        "optimal": plan.optimal,
        "seconds": plan.seconds,
        "shared": [
            {
                "name": stays.name,
                "offset": stays.offset,
                "bytes": stays.bytes,
                "tensors": {method: list(names) for method, names in stays.tensors.items()},
            }
            for stays in plan.shared
        ],
        "methods": {name: plan_dict(method) for name, method in plan.methods.items()},
    }


def write_methods_json(plan: MethodsPlan, path: str | os.PathLike[str]) -> None:
    """Write `methods_dict` as UTF-8 JSON."""
    write_json(path, methods_dict(plan))
