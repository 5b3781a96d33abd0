"""What is in use at a step, each byte counted once: by tensor for a graph, by buffer for a plain problem."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from .. import _core
from ..plans.dataflow import Dataflow
from ..plans.usage import BEGIN, BUFFER, END, Ints, Span, at_step, cut, joined, length


@dataclass(frozen=True)
class Alive:
    """Bytes that a tensor or buffer takes at a step, and why.

    ``bytes`` counts what no larger or later tensor in the same bytes counts: all that are alive at a step add up to its
    load. ``share`` is of the peak. ``born`` is the step that writes it, ``dies`` the one after the last that needs it,
    itself or through a view. ``op`` and ``op_type`` say what made it, ``reader`` which op needs it last, and
    ``via`` through which view; they are empty where there is none, and for plain problems. For what something
    holds, ``why`` is its kind, and ``op`` what made it, where that is known.
    """

    name: str
    bytes: int
    share: float
    born: int
    dies: int
    why: str
    op: str = ""
    op_type: str = ""
    reader: str = ""
    via: str = ""
    shape: tuple[int, ...] | None = None
    dtype: str = ""


def alive_at(problem: _core.Problem, dataflow: Dataflow | None, rows: Ints, step: int, peak: int) -> tuple[Alive, ...]:
    """All that is in use at a step, the largest first."""
    spans: defaultdict[int, list[Span]] = defaultdict(list)
    for row in at_step(rows, step).tolist():
        spans[row[BUFFER]].append((row[BEGIN], row[END]))
    found: list[Alive] = []
    for buffer, used in spans.items():
        if dataflow is None:
            found.append(_buffer(problem, buffer, used, peak, ""))
        elif buffer in dataflow.step_of_workspace:
            found.append(_workspace(dataflow, buffer, used, peak))
        else:
            found += _tensors(dataflow, buffer, used, step, peak)
    return tuple(sorted(found, key=lambda alive: (-alive.bytes, alive.born, alive.name)))


def _buffer(problem: _core.Problem, buffer: int, used: list[Span], peak: int, why: str) -> Alive:
    size = length(used)
    born, dies = int(problem.first[buffer]), int(problem.last[buffer])
    return Alive(problem.name(buffer), size, size / peak, born, dies, why)


def _workspace(dataflow: Dataflow, buffer: int, used: list[Span], peak: int) -> Alive:
    step, size = dataflow.step_of_workspace[buffer], length(used)
    op, after = dataflow.op_at(step), dataflow.steps.of(dataflow.steps.op_at(step))[1]
    name = dataflow.problem.name(buffer)
    return Alive(name, size, size / peak, step, after, "workspace", op.name, op.type)


def _tensors(dataflow: Dataflow, buffer: int, used: list[Span], step: int, peak: int) -> list[Alive]:
    """The values in a buffer: the largest first, of equals the one written last, each with the bytes that are left."""
    views: defaultdict[int, list[int]] = defaultdict(list)  # per value, the tensors that show it at this step
    for t in dataflow.tensors_of_buffer[buffer]:
        if dataflow.lives[t][0] <= step < dataflow.lives[t][1]:
            views[dataflow.value[t]].append(t)
    sizes = {value: length(joined([dataflow.span(t) for t in shown])) for value, shown in views.items()}
    found, left = [], joined(used)
    for value in sorted(views, key=lambda v: (-sizes[v], -dataflow.maker[v], v)):
        before = length(left)
        for t in views[value]:
            left = cut(left, dataflow.span(t))
        if size := before - length(left):
            found.append(_value(dataflow, value, views[value], size, peak))
    return found + ([_buffer(dataflow.problem, buffer, left, peak, "its storage is kept whole")] if left else [])


def _value(dataflow: Dataflow, value: int, shown: list[int], size: int, peak: int) -> Alive:
    """A value and the tensors that show it."""
    tensor, maker = dataflow.tensors[value], dataflow.maker[value]
    last = max(shown, key=lambda t: (t in dataflow.kept, dataflow.lives[t][1], t == value))
    born, dies = dataflow.lives[value][0], dataflow.lives[last][1]
    reader, why = "", ""
    if last in dataflow.kept:
        why = "weight" if dataflow.tensors[last].kind == "weight" else "graph output"
    elif (step := dataflow.last_read(last)) >= 0:
        reader = dataflow.op_at(step).name
        why = f"read by {reader}"
    else:
        why = "nothing reads it"
    via = dataflow.tensors[last].name if last != value else ""
    op = dataflow.op_at(maker) if maker >= 0 else None
    shape = None if tensor.shape is None else tuple(tensor.shape)
    made = (op.name, op.type) if op is not None else ("", tensor.kind)
    return Alive(tensor.name, size, size / peak, born, dies, why, *made, reader, via, shape, tensor.dtype)
