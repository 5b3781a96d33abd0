"""Plans as versioned JSON: read back with `memplan.read_plan`."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from .. import _core
from .files import replacing

if TYPE_CHECKING:
    from ..plan import Plan

FORMAT = "memplan.plan"
VERSION = 1


def plan_dict(plan: Plan) -> dict[str, Any]:
    """The plan as plain Python objects.

    ``buffers`` has one entry per buffer of the problem: id, size, first, last (half-open), alignment, offset.
    For a graph, ``tensors`` maps the name of every placed tensor to its buffer's position and its own offset.
    """
    spec: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "memplan": _core.__version__,
        "planner": plan.planner,
        "winner": plan.winner,
        "peak": plan.peak,
        "lower_bound": plan.lower_bound,
        "optimal": plan.optimal,
        "seconds": plan.seconds,
        "buffers": [
            {
                "id": slot.name,
                "size": slot.bytes,
                "first": slot.first,
                "last": slot.last,
                "alignment": slot.alignment,
                "offset": slot.offset,
            }
            for slot in plan
        ],
    }
    if plan.graph is not None:
        spec["tensors"] = _tensors(plan)
    return spec


def _tensors(plan: Plan) -> dict[str, dict[str, int]]:
    assert plan.graph is not None
    assert plan.buffers is not None
    placed = {}
    columns = zip(
        plan.graph.tensors,
        plan.buffers.buffer_of_tensor.tolist(),
        plan.buffers.offset_in_buffer.tolist(),
        strict=True,
    )
    for tensor, buffer, inside in columns:
        if buffer >= 0:
            offset = int(plan.offsets[buffer]) + inside
            placed[tensor.name] = {"buffer": buffer, "offset": offset, "bytes": tensor.bytes}
    return placed


def write_plan_json(plan: Plan, path: str | os.PathLike[str]) -> None:
    """Write `plan_dict` as UTF-8 JSON."""
    with replacing(path) as beside, open(beside, "w", encoding="utf-8", newline="\n") as file:
        json.dump(plan_dict(plan), file, ensure_ascii=False, indent=1)
        file.write("\n")
