"""Plans as versioned JSON: read back with `memplan.read_plan`."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

from .. import _core
from ..files import write_json
from ..plans.plan import Plan
from ..plans.plan_format import FORMAT, PART_KEYS, VERSION
from ..plans.usage import parts_by_buffer


def plan_dict(plan: Plan) -> dict[str, Any]:
    """The plan as plain Python objects.

    ``naive`` is what would be needed if nothing shared bytes, which the buffers alone do not say.
    ``buffers`` has one entry per buffer of the problem: id, size, first, last (half-open), alignment, offset; and for
    a shaped one its ``parts``, begin and end in bytes from where the buffer starts, first and last in steps; one
    with a pin is ``pinned``. In several pools, a buffer has its ``pool`` and its ``address`` there; ``pools``
    has the pools, and ``cost_bound`` what no plan in them costs less than. ``reserved`` has the bytes that are, and
    when, if there are any. ``together`` has rows (a, b, distance) of positions of buffers, if any lie together.
    ``conflicts`` has the pairs of positions of buffers that conflict beyond lifetimes, ``pools`` their number; both
    are left out where there are none, as is ``interrupted`` where nothing was. For a graph, ``tensors`` maps the name
    of every placed tensor to its buffer's position and its own offset, and to what it ``shares`` bytes with by choice:
    how ("inplace", "slice", "concat") and with which tensor's bytes. ``ordered_by`` is the order that was asked for,
    left out if it is the given one. ``order`` has the names of its ops as they run,
    and ``order_bound`` the bytes below which no plan can peak in any order of them. ``scratch`` has what kernels of ops
    allocate above their results, where the plan does not count it.
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
        "placement_bound": plan.placement_bound,
        "naive": plan.naive,
        "seconds": plan.seconds,
        "found_after": plan.found_after,
    }
    if plan.interrupted:
        spec["interrupted"] = True
    if plan.objects > 0:
        spec["objects"] = plan.objects
    if plan.scratch:
        spec["scratch"] = dict(plan.scratch)
    if plan.fitting is not None:
        spec["fitting"] = plan.fitting.to_dict()
    if plan.pools is not None:
        spec["pools"] = [asdict(memory) for memory in plan.pools.values()]
        spec["cost_bound"] = plan.pools.cost_bound
    spec["buffers"] = _buffers(plan)
    if plan.problem.conflicts is not None:
        spec["conflicts"] = plan.problem.conflicts.tolist()
    if plan.problem.reserved is not None:
        rows = plan.problem.reserved.tolist()
        spec["reserved"] = [dict(zip(PART_KEYS, row, strict=True)) for row in rows]
    if plan.problem.together is not None:
        spec["together"] = plan.problem.together.tolist()
    if plan.graph is not None:
        spec["tensors"] = _tensors(plan)
    if plan.order_bound is not None:
        if plan.ordered_by != "given":
            spec["ordered_by"] = plan.ordered_by
        spec["order"] = list(plan.order)
        spec["order_bound"] = plan.order_bound
    return spec


def _buffers(plan: Plan) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = [
        {
            "id": slot.name,
            "size": slot.bytes,
            "first": slot.first,
            "last": slot.last,
            "alignment": slot.alignment,
            "offset": slot.offset,
        }
        for slot in plan
    ]
    for buffer, parts in parts_by_buffer(plan.problem).items():
        entries[buffer]["parts"] = [dict(zip(PART_KEYS, part, strict=True)) for part in parts]
    if plan.problem.pins is not None:
        for buffer, pin in enumerate(plan.problem.pins.tolist()):
            if pin >= 0:
                entries[buffer]["pinned"] = True
    for entry, branch in zip(entries, plan.problem.branches or [], strict=False):
        if branch:
            entry["branch"] = branch
    if plan.pools is not None:
        for entry, slot in zip(entries, plan, strict=True):
            entry |= {"pool": slot.pool, "address": slot.address}
    return entries


def _tensors(plan: Plan) -> dict[str, dict[str, Any]]:
    assert plan.graph is not None
    assert plan.buffers is not None
    placed: dict[str, dict[str, Any]] = {}
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
    for sharing in plan.sharing:
        if sharing.inner in placed:
            shares = placed[sharing.inner].setdefault("shares", [])
            shares.append({"how": sharing.how, "with": sharing.outer})
    return placed


def write_plan_json(plan: Plan, path: str | os.PathLike[str]) -> None:
    """Write `plan_dict` as UTF-8 JSON."""
    write_json(path, plan_dict(plan))
