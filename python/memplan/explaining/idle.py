"""What is alive at a step although nothing uses it there, and what would be left of the load if it were elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .. import _core
from ..plans.dataflow import Dataflow
from ..plans.inplace import reads_for_others
from ..plans.usage import BEGIN, BUFFER, END, FIRST, LAST, Ints, at_step, load_curve, load_of, without
from .advice import Advice


@dataclass(frozen=True)
class Idle:
    """What is alive at the load's step, but used by nothing there: it could be elsewhere in the steps [first, last).

    For plain problems, which do not say when a buffer is used, these are the steps in which it is alive around the
    load's step. ``byte_steps`` is bytes times steps, ``load`` what would be left with this one alone away.
    ``recompute`` says that its op could be run again before the next use: all that the op reads is there then.
    """

    name: str
    bytes: int
    first: int
    last: int
    byte_steps: int
    load: int
    recompute: bool = False


@dataclass(frozen=True)
class _Window:
    """The steps [first, last) in which a buffer is not used, and what is in it then: a tensor of the graph, or -1."""

    buffer: int
    bytes: int
    first: int
    last: int
    tensor: int

    @property
    def byte_steps(self) -> int:
        return self.bytes * (self.last - self.first)


def idle_at(
    problem: _core.Problem, dataflow: Dataflow | None, rows: Ints, step: int
) -> tuple[tuple[Idle, ...], list[Advice]]:
    """The idle tensors of a step, by byte_steps, and what would be won if all of them were away.

    They may be recomputed, kept elsewhere until their next use, or, if they are kept for the caller, to the end. In a
    graph with bodies of loops they may not: the next iteration uses them too.
    """
    loops = dataflow is not None and any(op.body for op in dataflow.ops)
    windows = sorted(_windows(problem, dataflow, rows, step), key=lambda w: (-w.byte_steps, w.buffer))
    alone = _Alone(rows)
    again = _recomputed(dataflow, windows) if dataflow is not None and not loops else []
    found = tuple(
        Idle(_name(problem, dataflow, w), w.bytes, w.first, w.last, w.byte_steps, alone.load(w), w in again)
        for w in windows
    )
    load = load_of(rows)
    advice = []
    back = [w for w in windows if dataflow is None or w.last < dataflow.end]
    kept = [w for w in windows if w not in back]
    kinds = {"recompute": again, "offload" if dataflow else "without": back, "hand_over": kept}
    for kind, chosen in () if loops else kinds.items():
        left = _without_all(rows, chosen)
        most = load_of(left)
        if dataflow is not None and kind == "recompute":
            most = max(most, _while_recomputing(dataflow, left, chosen))
        if most < load:
            names = tuple(_name(problem, dataflow, w) for w in chosen)
            advice.append(Advice(kind, names, most, sum(w.bytes for w in chosen)))
    return found, advice


def _windows(problem: _core.Problem, dataflow: Dataflow | None, rows: Ints, step: int) -> list[_Window]:
    used = at_step(rows, step)
    found = []
    for buffer in np.unique(used[:, BUFFER]).tolist():
        own = used[used[:, BUFFER] == buffer]
        size = int((own[:, END] - own[:, BEGIN]).sum())
        if dataflow is None:
            life = int(problem.first[buffer]), int(problem.last[buffer])
            if life[0] < step < life[1] - 1:
                found.append(_Window(buffer, size, *life, -1))
        elif (idle := dataflow.idle(buffer, step)) is not None:
            found.append(_Window(buffer, size, *idle, _only_value(dataflow, buffer, step)))
    return found


def _only_value(dataflow: Dataflow, buffer: int, step: int) -> int:
    """The one tensor whose value lies in a buffer at a step; -1 where there are several."""
    alive = [t for t in dataflow.tensors_of_buffer[buffer] if dataflow.lives[t][0] <= step < dataflow.lives[t][1]]
    values = {dataflow.value[t] for t in alive}
    return values.pop() if len(values) == 1 else -1


def _name(problem: _core.Problem, dataflow: Dataflow | None, window: _Window) -> str:
    return (
        problem.name(window.buffer) if dataflow is None or window.tensor < 0 else dataflow.tensors[window.tensor].name
    )


class _Alone:
    """The load without one window, for many of them: what is outside it, and what is inside without its bytes."""

    def __init__(self, rows: Ints) -> None:
        self.rows = rows
        self.step, self.bytes = load_curve(rows)
        self.before = np.maximum.accumulate(self.bytes)
        self.after = np.maximum.accumulate(self.bytes[::-1])[::-1]
        self.pieces = np.bincount(rows[:, BUFFER]) if len(rows) else np.zeros(0, dtype=np.int64)

    def load(self, window: _Window) -> int:
        if self.pieces[window.buffer] > 1:
            return load_of(without(self.rows, window.buffer, window.first, window.last))
        low, high = np.searchsorted(self.step, [window.first, window.last])  # entries that begin inside
        inside = max(0, int(np.searchsorted(self.step, window.first, side="right")) - 1)
        outside = [self.before[low - 1]] if low > 0 else []
        end = high if high < len(self.step) and self.step[high] == window.last else high - 1
        outside += [self.after[end]]
        return max(int(self.bytes[inside:high].max()) - window.bytes, *map(int, outside))


def _without_all(rows: Ints, windows: Sequence[_Window]) -> Ints:
    for w in windows:
        rows = without(rows, w.buffer, w.first, w.last)
    return rows


def _recomputed(dataflow: Dataflow, windows: Sequence[_Window]) -> list[_Window]:
    """The idle tensors that can be recomputed right before their next use, from tensors that are there then.

    They are chosen one by one: the tensor that frees most first, but convolutions and the like, which take long, last.
    """
    chosen: list[_Window] = []
    away: dict[int, tuple[int, int]] = {}  # per buffer, when it is
    for w in sorted(windows, key=lambda w: w.tensor >= 0 and reads_for_others(dataflow.type_of(w.tensor))):
        needs = _needs(dataflow, w)
        if needs is None or any(_covers(away.get(dataflow.buffer[t]), w.last) for t in needs):
            continue
        if any(
            _covers((w.first, w.last), v.last) for v in chosen if w.buffer in _buffers(dataflow, _needs(dataflow, v))
        ):
            continue
        chosen.append(w)
        away[w.buffer] = (w.first, w.last)
    return chosen


def _needs(dataflow: Dataflow, window: _Window) -> list[int] | None:
    """What the op of an idle tensor reads, if all of it is still there at the tensor's next use.

    None if it is not. None too if there is no next use, if the op may not run again, or if what it reads or has written
    was changed since.
    """
    step = dataflow.maker[window.tensor] if window.tensor >= 0 else -1
    if step < 0 or window.last >= dataflow.end:
        return None
    op = dataflow.op_at(step)
    if op.overwrites or dataflow.again_at(step) != "same":
        return None
    needs = [dataflow.index[name] for name in op.inputs]
    changed = any(dataflow.mutated.get(dataflow.root[t], -1) >= step for t in (window.tensor, *needs))
    there = all(dataflow.buffer[t] < 0 or dataflow.lives[t][1] > window.last for t in needs)
    return needs if there and not changed else None


def _while_recomputing(dataflow: Dataflow, rows: Ints, windows: Sequence[_Window]) -> int:
    """The most bytes in use while ops run again: what lives on both sides, what they write, and their workspace."""
    most = 0
    for step in {w.last for w in windows}:
        again = [w for w in windows if w.last == step]
        across = rows[(rows[:, FIRST] < step) & (step < rows[:, LAST])]
        beside = max(_beside(dataflow, w) for w in again)
        most = max(most, int((across[:, END] - across[:, BEGIN]).sum()) + sum(w.bytes for w in again) + beside)
    return most


def _beside(dataflow: Dataflow, window: _Window) -> int:
    """What the op of an idle tensor needs beside it: its other outputs and its workspace."""
    op = dataflow.op_at(dataflow.maker[window.tensor])
    others = set(op.outputs) - {dataflow.tensors[window.tensor].name}
    return op.workspace + sum(dataflow.tensors[dataflow.index[name]].bytes for name in others)


def _buffers(dataflow: Dataflow, tensors: Sequence[int] | None) -> set[int]:
    return {dataflow.buffer[t] for t in tensors or ()} - {-1}


def _covers(window: tuple[int, int] | None, step: int) -> bool:
    return window is not None and window[0] <= step < window[1]
