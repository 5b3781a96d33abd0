"""A plan as a memory snapshot of torch: the page pytorch.org/memory_viz and `torch.cuda._memory_viz` read it.

The file is a pickle of plain dicts, lists, strings and numbers, as `torch.cuda.memory._dump_snapshot` writes them: one
segment, which is the arena, with what is alive at the end, and a trace of allocations. Torch is not needed to write it.
"""

from __future__ import annotations

import os
import pickle
from dataclasses import dataclass
from typing import Any

from ..dtypes import typed_shape
from ..files import replacing
from ..plans.buffer_info import buffer_infos
from ..plans.plan import Plan
from ..plans.usage import rectangles

# Where the arena begins: as on a GPU, and with zeros at the end, so that offsets can be read off the addresses. What
# is above stays exact in the page's numbers, which are doubles.
BASE = 0x7000_0000_0000
_PROTOCOL = 4  # the newest that the page reads

Frames = list[dict[str, Any]]


@dataclass(frozen=True)
class _Allocation:
    """Bytes [address, address + size) in the steps [first, last), and what they are for."""

    first: int
    last: int
    address: int
    size: int
    frames: Frames


def write_memory_viz(plan: Plan, path: str | os.PathLike[str]) -> None:
    """Write the snapshot of a plan; see `memory_snapshot`."""
    with replacing(path) as beside:
        beside.write_bytes(pickle.dumps(memory_snapshot(plan), protocol=_PROTOCOL))


def memory_snapshot(plan: Plan) -> dict[str, Any]:
    """The snapshot of a plan, of the form of `torch.cuda.memory._snapshot()`.

    Buffers are allocated at `BASE` + offset at their first step and freed at the end of their life, those that die at a
    step before those that are born there; what lives to the last step stays. A buffer with a shape is an allocation for
    each of its parts. Buffers without bytes are left out. Stacks name the buffer, and for a graph the op that writes it
    first, with its step as the line. One microsecond of `time_us` is one step.
    """
    allocations = _allocations(plan)
    end = int(plan.problem.last.max()) if len(plan) else 0
    kept = sorted((a for a in allocations if a.last == end), key=lambda a: a.address)
    return {
        "segments": [_segment(plan, kept)] if plan.peak else [],
        "device_traces": [_trace(plan, allocations, end)],
        "allocator_settings": {},
        "external_annotations": [],
    }


def _allocations(plan: Plan) -> list[_Allocation]:
    offsets, frames = plan.offsets.tolist(), _frames(plan)
    return [
        _Allocation(first, last, BASE + offsets[b] + begin, end - begin, frames[b])
        for b, begin, end, first, last in rectangles(plan.problem).tolist()
    ]


def _frames(plan: Plan) -> list[Frames]:
    """Per buffer, the innermost first: the buffer with its position as line, then the op with its step."""
    ops = plan.graph.ops if plan.graph is not None else []
    step = {op.name: plan.steps.of(k)[0] for k, op in enumerate(ops)}
    frames = []
    for b, (slot, info) in enumerate(zip(plan, buffer_infos(plan), strict=True)):
        what = f"{slot.bytes} bytes at {slot.offset} in steps {slot.first} to {slot.last - 1}"
        stack = [_frame("buffer", b, f"{slot.name}, {what}")]
        if info.shape is not None:
            stack.append(_frame("tensor", b, f"{typed_shape(info.dtype, info.shape)}, {info.kind}"))
        if info.writer is not None:
            stack.append(_frame("op", step[info.writer.name], f"{info.writer.name} ({info.writer.type})"))
        frames.append(stack)
    return frames


def _frame(filename: str, line: int, name: str) -> dict[str, Any]:
    return {"filename": filename, "line": line, "name": name}


def _segment(plan: Plan, kept: list[_Allocation]) -> dict[str, Any]:
    """The arena, with what is alive at the end and the gaps between."""
    blocks = []
    address = BASE
    for allocation in kept:
        if address < allocation.address:
            blocks.append(_block(address, allocation.address - address, [], "inactive"))
        blocks.append(_block(allocation.address, allocation.size, allocation.frames, "active_allocated"))
        address = allocation.address + allocation.size
    if address < BASE + plan.peak:
        blocks.append(_block(address, BASE + plan.peak - address, [], "inactive"))
    used = sum(allocation.size for allocation in kept)
    return {
        "device": 0,
        "address": BASE,
        "total_size": plan.peak,
        "allocated_size": used,
        "active_size": used,
        "requested_size": used,
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [_arena_frame(plan)],
        "blocks": blocks,
    }


def _arena_frame(plan: Plan) -> dict[str, Any]:
    return _frame("arena", 0, f"{len(plan)} buffers, planned by {plan.planner}")


def _block(address: int, size: int, frames: Frames, state: str) -> dict[str, Any]:
    return {"address": address, "size": size, "requested_size": size, "state": state, "frames": frames}


def _trace(plan: Plan, allocations: list[_Allocation], end: int) -> list[dict[str, Any]]:
    born = [(a.first, 1, a.address, a) for a in allocations]
    dying = [(a.last, 0, a.address, a) for a in allocations if a.last < end]
    changes = sorted(born + dying, key=lambda change: change[:3])
    start = changes[0][0] if changes else 0
    events = []
    if plan.peak:
        events.append(_event("segment_alloc", BASE, plan.peak, [_arena_frame(plan)], start))
    for step, birth, address, allocation in changes:
        for action in ("alloc",) if birth else ("free_requested", "free_completed"):
            events.append(_event(action, address, allocation.size, allocation.frames, step))
    return events


def _event(action: str, address: int, size: int, frames: Frames, step: int) -> dict[str, Any]:
    return {"action": action, "addr": address, "size": size, "stream": 0, "time_us": step, "frames": frames}
