"""Loops of convolutions and pooling: each row of the result reads a window of rows.

forwards     rows i * stride - padding + dilation * k, for the places k of the kernel, become row i
backwards    and row i is read for the gradients of these: the gradient is written in `stride` rows at a time
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import ceil
from typing import NamedTuple

from torch import Tensor

from .calls import Axes, Call, Loop, Rows, Slot, Written
from .spans import Labels, spans
from .spread import _given

_GRADIENTS = (0, 1, 2)  # of the input, the weight and the bias


class Window(NamedTuple):
    """What a window of a kernel is along one axis."""

    kernel: int
    stride: int
    padding: int
    dilation: int = 1

    def read(self, axes: Axes) -> Rows:
        """Rows that a row of the result reads."""
        return Rows(axes, self.stride, self._reach() + 1, self.padding)

    def read_back(self, axes: Axes) -> Rows:
        """Rows of the result that `stride` rows of the input have a part in."""
        before = (self._reach() - self.padding) // self.stride
        last = (self.stride - 1 + self.padding) // self.stride
        return Rows(axes, 1, max(last + before + 1, 1), before)

    def _reach(self) -> int:
        return self.dilation * (self.kernel - 1)


def convolution(call: Call) -> Iterator[Loop]:
    """Batch, channels and rows."""
    out, weight = call.outputs[0], _given(call, "weight")
    groups, reads, written = call["groups"], *_channels(call, out)
    inner = () if call["bias"] is not None or groups > 1 else ("in",)
    plain = groups == 1
    order = ["n", *(["out"] if plain else []), *inner]
    yield from spans(
        call, {slot: _only(labels, order) for slot, labels in reads.items()}, {0: _only(written, order)}, order, inner
    )
    if not plain:
        yield from call.loop(groups, _by_group(call, ("input", "weight", "bias")), {0: _part(out, 1, groups)})
    for axis, window in _axes_of(call, weight.dim() - 2, weight.shape[2:]):
        if call["transposed"]:
            extent, rows, step = (
                ceil(Fraction(out.shape[axis], window.stride)),
                window.read_back((axis, axis)),
                window.stride,
            )
        else:
            extent, rows, step = out.shape[axis], window.read((axis, axis)), 1
        yield from call.loop(extent, {"input": rows}, {0: Written((axis, axis), step)})


def convolution_backward(call: Call) -> Iterator[Loop]:
    """Batch, channels and rows; what is not written by rows is added to."""
    weight, groups = _given(call, "weight"), call["groups"]
    reads, of_output = _channels(call, _given(call, "grad_output"))
    reads["grad_output"] = of_output
    made: dict[int, Labels] = {0: reads["input"], 1: reads["weight"], 2: ["out"]}
    asked = _asked(call)
    order = ["n", *(["out", "in"] if groups == 1 else [])]
    kept = {slot: _only(labels, order) for slot, labels in reads.items() if slot in asked}
    for label, early in (("n", None), ("out", None), ("in", {2: ["grad_output"]})):
        if label in order:
            adds = [label] if label != "in" else []
            yield from spans(call, kept, {k: _only(v, order) for k, v in made.items()}, [label], adds, early)
    if groups > 1:
        parts = {0: (call.results[0], 1), 1: (call.results[1], 0), 2: (call.results[2], 0)}
        writes = {k: _part(t, axis, groups) for k, (t, axis) in parts.items() if t is not None}
        yield from call.loop(groups, _by_group(call, asked), writes)
    for axis, window in _axes_of(call, weight.dim() - 2, weight.shape[2:]):
        yield from _backward_rows(call, axis, window)


def _asked(call: Call) -> list[str]:
    """What is read: the weight for the gradient of the input, and the other way round."""
    of_input, of_weight, _ = (call.results[place] is not None for place in _GRADIENTS)
    return ["grad_output", *(["input"] if of_weight else []), *(["weight"] if of_input else [])]


def _backward_rows(call: Call, axis: int, window: Window) -> Iterator[Loop]:
    """Rows of the gradients: iteration i adds row i of the one side, and the window of the other, to the weight's."""
    given, source = _given(call, "grad_output"), _given(call, "input")
    of_input, of_weight, _ = (call.results[place] is not None for place in _GRADIENTS)
    adds = [place for place in (1, 2) if call.results[place] is not None]
    axes = (axis, axis)
    if call["transposed"]:
        reads: dict[Slot, Rows] = {"grad_output": window.read(axes), **({"input": Rows(axes)} if of_weight else {})}
        early = {2: ["grad_output"]}
        yield from call.loop(source.shape[axis], reads, {0: Written(axes)}, [1], early)
        return
    back = window.read_back(axes) if of_input else Rows(axes)
    if adds:  # and row i itself
        first, end = min(-back.before, 0), max(back.window - back.before, 1)
        back = Rows(axes, 1, end - first, -first)
    reads = {"grad_output": back, **({"input": window.read(axes)} if of_weight else {})}
    chunks = ceil(Fraction(source.shape[axis], window.stride)) if of_input else 0
    extent = max(chunks, given.shape[axis] if adds else 0)
    yield from call.loop(extent, reads, {0: Written(axes, window.stride)}, adds)


def pooling(call: Call) -> Iterator[Loop]:
    """Batch, channels and rows."""
    source, out = _given(call, "self"), call.outputs[0]
    count = len(call["kernel_size"])
    front = _front(out, count)
    yield from spans(call, {"self": front}, dict.fromkeys(range(len(call.results)), front), front)
    for axis, window in _pools(call, source.dim(), count):
        reads: dict[Slot, Rows] = {"self": window.read((axis, axis))}
        writes = {place: Written((axis, axis)) for place in range(len(call.results))}
        yield from call.loop(out.shape[axis], reads, writes)


def pooling_backward(call: Call) -> Iterator[Loop]:
    """Batch, channels and rows. Of what was pooled, only the shape counts."""
    out = call.outputs[0]
    count = len(call["kernel_size"])
    front = _front(out, count)
    yield from spans(call, {"grad_output": front, "indices": front}, {0: front}, front)
    for axis, window in _pools(call, out.dim(), count):
        rows = window.read_back((axis, axis))
        chunks = ceil(Fraction(out.shape[axis], window.stride))
        reads: dict[Slot, Rows] = {"grad_output": rows, "indices": rows}
        yield from call.loop(chunks, reads, {0: Written((axis, axis), window.stride)})


def pooling_with_offsets(call: Call) -> Iterator[Loop]:
    """Batch and channels of Inductor's pooling, whose indices are places within a window."""
    front = _front(call.outputs[0], len(call["kernel_size"]))
    return spans(call, {"self": front}, dict.fromkeys(range(len(call.results)), front), front)


def _front(tensor: Tensor, count: int) -> Labels:
    return [axis if axis < tensor.dim() - count else None for axis in range(tensor.dim())]


def _pools(call: Call, rank: int, count: int) -> Iterator[tuple[int, Window]]:
    kernel, stride = call["kernel_size"], call["stride"] or call["kernel_size"]
    given = [kernel, stride, call["padding"], call["dilation"] or [1]]
    for k in range(count):
        yield rank - count + k, Window(*(_at(values, k) for values in given))


def _axes_of(call: Call, count: int, kernel: Sequence[int]) -> Iterator[tuple[int, Window]]:
    for k in range(count):
        how = (_at(call[name], k) for name in ("stride", "padding", "dilation"))
        yield 2 + k, Window(int(kernel[k]), *how)


def _at(values: Sequence[int], place: int) -> int:
    return int(values[place] if len(values) > 1 else values[0])


def _channels(call: Call, out: Tensor) -> tuple[dict[Slot, Labels], Labels]:
    """Labels of what a convolution reads and gives, as of one in one group."""
    inside: list[str | None] = [None] * (out.dim() - 2)
    weight = ["in", "out", *inside] if call["transposed"] else ["out", "in", *inside]
    return {"input": ["n", "in", *inside], "weight": weight, "bias": ["out"]}, ["n", "out", *inside]


def _only(labels: Labels, order: Sequence[str]) -> Labels:
    return [label if label in order else None for label in labels]


def _by_group(call: Call, slots: Sequence[str]) -> dict[Slot, Rows]:
    """A group's channels of tensors with axes of these: the first of weight and bias, the second of others."""
    found: dict[Slot, Rows] = {}
    for slot in slots:
        tensor, axis = call.tensor(slot), 0 if slot in ("weight", "bias") else 1
        if tensor is not None:
            size = tensor.shape[axis] // call["groups"]
            found[slot] = Rows((axis, axis), size, size)
    return found


def _part(tensor: Tensor, axis: int, groups: int) -> Written:
    return Written((axis, axis), tensor.shape[axis] // groups)
