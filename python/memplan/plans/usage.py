"""Which bytes of a plan are in use when: rectangles of bytes and steps, and the load that they add up to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .. import _core

if TYPE_CHECKING:
    from .plan import Plan

Ints = npt.NDArray[np.int64]
Span = tuple[int, int]  # bytes [begin, end)
Part = tuple[int, int, int, int]  # bytes [begin, end) in the steps [first, last)

BUFFER, BEGIN, END, FIRST, LAST = range(5)  # columns of rectangles


def rectangles(problem: _core.Problem) -> Ints:
    """What buffers use, (m, 5) int64: bytes [begin, end) of a buffer, from where it starts, in the steps [first, last).

    A plain buffer is one rectangle, a shaped one has a row per part; a buffer without bytes has none.
    """
    parts, plain = problem.parts, problem.size > 0
    if parts is not None:
        plain[parts[:, BUFFER]] = False
    buffer = np.flatnonzero(plain)
    columns = (buffer, np.zeros_like(buffer), problem.size[buffer], problem.first[buffer], problem.last[buffer])
    rows = np.column_stack(columns).astype(np.int64)
    return rows if parts is None else np.concatenate([rows, parts])


def parts_by_buffer(problem: _core.Problem) -> dict[int, list[Part]]:
    """The parts of each shaped buffer: bytes [begin, end), counted from where it starts, in the steps [first, last)."""
    parts: dict[int, list[Part]] = {}
    rows = problem.parts
    for buffer, begin, end, first, last in rows.tolist() if rows is not None else []:
        parts.setdefault(buffer, []).append((begin, end, first, last))
    return parts


def load_curve(rows: Ints) -> tuple[Ints, Ints]:
    """The load of rectangles as a staircase: bytes[k] are in use in the steps [step[k], step[k + 1])."""
    return _as_buffers(rows).load_curve()


def load_of(rows: Ints) -> int:
    """The largest sum of bytes in use at one step."""
    return _as_buffers(rows).load


def _as_buffers(rows: Ints) -> _core.Problem:
    """A problem whose buffers are the rectangles."""
    return _core.Problem(rows[:, END] - rows[:, BEGIN], rows[:, FIRST], rows[:, LAST])


def at_step(rows: Ints, step: int) -> Ints:
    """The rectangles in use at a step."""
    return rows[(rows[:, FIRST] <= step) & (step < rows[:, LAST])]


def without(rows: Ints, buffer: int, first: int, last: int) -> Ints:
    """The rectangles when a buffer uses nothing in the steps [first, last)."""
    own = rows[:, BUFFER] == buffer
    before, after = rows[own], rows[own]
    before[:, LAST] = np.minimum(before[:, LAST], first)
    after[:, FIRST] = np.maximum(after[:, FIRST], last)
    kept = [part[part[:, FIRST] < part[:, LAST]] for part in (before, after)]
    return np.concatenate([rows[~own], *kept])


def step_of_peak(plan: Plan) -> int | None:
    """The step that makes the peak.

    The buffers that end at the peak use their bytes at some steps. Of these steps, it is the first with the highest
    load. None in a plan without bytes.
    """
    rows = rectangles(plan.problem)
    if len(rows) == 0:
        return None
    ends = plan.offsets[rows[:, BUFFER]] + rows[:, END]
    step, load = load_curve(rows)
    highest = []
    for first, last in rows[ends == ends.max()][:, [FIRST, LAST]].tolist():
        low, high = np.searchsorted(step, [first, last])
        k = int(low + np.argmax(load[low:high]))
        highest.append((-int(load[k]), int(step[k])))
    return min(highest)[1]


def holes(plan: Plan, rows: Ints, step: int) -> list[tuple[int, int]]:
    """What is free below the peak at a step: (offset, bytes), by offset."""
    used = at_step(rows, step)
    offset = plan.offsets[used[:, BUFFER]]
    found, top = [], 0
    for begin, end in sorted(zip((offset + used[:, BEGIN]).tolist(), (offset + used[:, END]).tolist(), strict=True)):
        if begin > top:
            found.append((top, begin - top))
        top = max(top, end)
    return [*found, (top, plan.peak - top)] if top < plan.peak else found


def next_hill(step: Ints, load: Ints, top: int) -> int | None:
    """The highest entry of a staircase outside the hill around entry `top`, which falls on both sides; None if all is
    one hill."""
    low = high = top
    while low > 0 and load[low - 1] <= load[low]:
        low -= 1
    while high + 1 < len(load) and load[high + 1] <= load[high]:
        high += 1
    others = np.concatenate([np.arange(low), np.arange(high + 1, len(load))])
    return int(others[np.argmax(load[others])]) if len(others) else None


def steps_above(step: Ints, load: Ints, share: float) -> int:
    """Steps at which at least this share of the highest load is in use."""
    high = load[:-1] >= share * load.max(initial=0)
    return int(np.diff(step)[high].sum())


def joined(spans: list[Span]) -> list[Span]:
    """The same bytes as spans that lie apart, ascending."""
    joined: list[Span] = []
    for begin, end in sorted(spans):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return joined


def cut(spans: list[Span], out: Span) -> list[Span]:
    """Spans that lie apart, without the bytes of another."""
    pieces = [piece for begin, end in spans for piece in ((begin, min(end, out[0])), (max(begin, out[1]), end))]
    return [piece for piece in pieces if piece[0] < piece[1]]


def length(spans: list[Span]) -> int:
    """The bytes in spans that lie apart."""
    return sum(end - begin for begin, end in spans)


def free_ranges(begin: Ints, end: Ints, total: int, alignment: int, least: int) -> list[tuple[int, int]]:
    """What is free of [0, total) beside the ranges [begin, end), as offsets and bytes: the 64 largest, ascending.

    Offsets are multiples of `alignment`; ranges of fewer than `least` bytes are left out.
    """
    order = np.argsort(begin)
    ends = np.maximum.accumulate(np.concatenate([[0], end[order]]))
    begins = -(-ends // alignment) * alignment
    room = np.concatenate([begin[order], [total]]) - begins
    places = np.flatnonzero(room >= least)
    places = np.sort(places[np.argsort(-room[places])][:64])
    return [(int(begins[k]), int(room[k])) for k in places]
