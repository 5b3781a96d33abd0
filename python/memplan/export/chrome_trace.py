"""A plan as a trace that Perfetto and chrome://tracing open: ops, buffers in rows by address, and counters.

The format is the JSON of the Trace Event Format (Chromium), of which both read complete events (X), counters (C) of one
value each, and metadata (M). One step is shown as one microsecond.
"""

from __future__ import annotations

import heapq
import json
import os
from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Any

from ..files import write_text
from ..plans.buffer_info import buffer_infos
from ..plans.plan import Plan
from ..plans.slots import Slot
from ..plans.usage import BUFFER, END, FIRST, LAST, parts_by_buffer, rectangles

Event = dict[str, Any]

_MEMORY, _OPS, _ARENA = 1, 2, 3  # processes, in this order from the top
_FIRST_ROW = 10  # thread of the first row; a process's own number is that of its main thread


def write_chrome_trace(plan: Plan, path: str | os.PathLike[str]) -> None:
    """Write the trace of a plan; see `chrome_trace`."""
    write_text(path, json.dumps(chrome_trace(plan), separators=(",", ":")))


def chrome_trace(plan: Plan) -> dict[str, Any]:
    """The trace of a plan, as the object that the JSON file holds.

    There are three processes: "memory" with the counters "load" and "top of the arena"; of a graph, "ops" with
    a row ("thread") per stream; and "arena" with as many rows as buffers are alive at once, those with high addresses
    above. Buffers in a row never overlap in time; those without bytes are left out. Time 0 is step 0 of a graph, and
    the first step of a problem; arguments give the real steps.
    """
    origin = 0 if plan.graph is not None or len(plan) == 0 else int(plan.problem.first.min())
    events = [*_names(_MEMORY, "memory"), *_counters(plan, origin)]
    if plan.graph is not None:
        events += [*_names(_OPS, "ops"), *_ops(plan)]
    events += [*_names(_ARENA, "arena"), *_buffers(plan, origin)]
    figures = {
        "planner": plan.planner,
        "peak": plan.peak,
        "lower_bound": plan.lower_bound,
        "optimal": plan.optimal,
        "one microsecond": "one step",
    }
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": figures}


def _names(process: int, name: str) -> Iterator[Event]:
    yield {"ph": "M", "pid": process, "name": "process_name", "args": {"name": name}}
    yield {"ph": "M", "pid": process, "name": "process_sort_index", "args": {"sort_index": process}}


def _row(process: int, thread: int, name: str) -> Iterator[Event]:
    yield {"ph": "M", "pid": process, "tid": thread, "name": "thread_name", "args": {"name": name}}
    yield {"ph": "M", "pid": process, "tid": thread, "name": "thread_sort_index", "args": {"sort_index": thread}}


def _ops(plan: Plan) -> Iterator[Event]:
    assert plan.graph is not None
    ops = plan.graph.ops
    first_row = _FIRST_ROW + len(plan)  # after those of the arena, because some viewers tell threads by number alone
    rows = {stream: first_row + k for k, stream in enumerate(sorted({op.stream for op in ops}))}
    for stream, row in rows.items():
        yield from _row(_OPS, row, f"stream {stream}")
    for k, op in enumerate(ops):
        step, end = plan.steps.of(k)
        args = {"step": step, "type": op.type, "inputs": op.inputs, "outputs": op.outputs, "workspace": op.workspace}
        yield _complete(_OPS, rows[op.stream], op.name, op.type or "op", (step, end - step), args)


def _complete(process: int, row: int, name: str, kind: str, time: tuple[int, int], args: dict[str, Any]) -> Event:
    start, duration = time
    what = {"ph": "X", "pid": process, "tid": row, "name": name, "cat": kind}
    return {**what, "ts": start, "dur": duration, "args": args}


def _buffers(plan: Plan, origin: int) -> Iterator[Event]:
    slots = list(plan)
    rows = _rows(slots)
    infos = buffer_infos(plan)
    parts = parts_by_buffer(plan.problem)
    for row in sorted(set(rows.values())):
        yield from _row(_ARENA, _FIRST_ROW + row, f"row {row + 1}")
    for b, row in rows.items():
        slot = slots[b]
        args: dict[str, Any] = {
            "bytes": slot.bytes,
            "offset": slot.offset,
            "address": f"0x{slot.offset:08x}",
            "first step": slot.first,
            "last step": slot.last - 1,
        }
        info = infos[b]
        if plan.graph is not None:
            args |= {"op": info.writer.name if info.writer else "", "op type": info.op_type, "dtype": info.dtype}
            args |= {"shape": list(info.shape or []), "tensors": list(info.tensors)}
        if b in parts:
            args["parts"] = [f"bytes {p[0]} to {p[1]} in steps {p[2]} to {p[3] - 1}" for p in parts[b]]
        yield _complete(
            _ARENA,
            _FIRST_ROW + row,
            slot.name,
            info.kind or "buffer",
            (slot.first - origin, slot.last - slot.first),
            args,
        )


def _rows(slots: list[Slot]) -> dict[int, int]:
    """A row for each buffer with bytes: no two in it overlap in time, and there are as few as are alive at once.

    By birth, each goes on in the free row that was left at the nearest address; rows are numbered from high addresses
    down. O(n log n) and a list insertion each.
    """
    order = sorted((b for b, slot in enumerate(slots) if slot.bytes), key=lambda b: (slots[b].first, slots[b].offset))
    busy: list[tuple[int, int, int]] = []  # end of life, address and row of the last buffer
    free: list[tuple[int, int]] = []  # address of the last buffer and row
    members: list[list[int]] = []
    for b in order:
        slot = slots[b]
        while busy and busy[0][0] <= slot.first:
            _, offset, row = heapq.heappop(busy)
            insort(free, (offset, row))
        if free:
            at = bisect_left(free, (slot.offset, 0))
            near = [k for k in (at - 1, at) if 0 <= k < len(free)]
            _, row = free.pop(min(near, key=lambda k: abs(free[k][0] - slot.offset)))
        else:
            row = len(members)
            members.append([])
        members[row].append(b)
        heapq.heappush(busy, (slot.last, slot.offset, row))
    height = [sum(slots[b].offset for b in row) / len(row) for row in members]
    ranked = sorted(range(len(members)), key=lambda row: -height[row])
    return {b: rank for rank, row in enumerate(ranked) for b in members[row]}


def _counters(plan: Plan, origin: int) -> Iterator[Event]:
    steps, load = plan.problem.load_curve()
    for step, bytes_ in zip(steps.tolist(), load.tolist(), strict=True):
        yield _counter("load", step - origin, bytes_)
    for step, top in _tops(plan):
        yield _counter("top of the arena", step - origin, top)


def _counter(name: str, time: int, bytes_: int) -> Event:
    return {"ph": "C", "pid": _MEMORY, "tid": _MEMORY, "name": name, "ts": time, "args": {"bytes": bytes_}}


def _tops(plan: Plan) -> Iterator[tuple[int, int]]:
    """The highest byte in use, at each step at which that changes."""
    rows = rectangles(plan.problem)
    ends = plan.offsets[rows[:, BUFFER]] + rows[:, END]
    lives = sorted(zip(rows[:, FIRST].tolist(), rows[:, LAST].tolist(), ends.tolist(), strict=True))
    alive: list[tuple[int, int]] = []  # minus the end address, and the end of life: the highest first
    births = iter(lives)
    birth = next(births, None)
    before = None
    for step in sorted({step for first, last, _ in lives for step in (first, last)}):
        while birth is not None and birth[0] == step:
            heapq.heappush(alive, (-birth[2], birth[1]))
            birth = next(births, None)
        while alive and alive[0][1] <= step:
            heapq.heappop(alive)
        top = -alive[0][0] if alive else 0
        if top != before:
            yield step, top
        before = top
