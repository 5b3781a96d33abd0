"""Loops of operators that compute each element from those in the same place, copy, join or reduce along axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence

from torch import Tensor

from .calls import Call, Loop, Rows, Slot, Written
from .spans import Labels, aligned, spans


def elementwise(call: Call) -> Iterator[Loop]:
    """Every input is broadcast to the output."""
    out = call.outputs[0]
    order = tuple(range(out.dim()))
    made = {place: order for place, other in enumerate(call.outputs) if other.shape == out.shape}
    return spans(call, {slot: aligned(t, out.shape) for slot, t in call.slots()}, made, order)


def created(call: Call) -> Iterator[Loop]:
    """New tensors, whose elements do not depend on others; of an input only the shape counts."""
    order = tuple(range(call.outputs[0].dim()))
    return spans(call, {}, {0: order}, order)


def masked_source(call: Call) -> Iterator[Loop]:
    """`copy`: what is copied is broadcast, what was there is not read."""
    out = call.outputs[0]
    order = tuple(range(out.dim()))
    return spans(call, {"src": aligned(_given(call, "src"), out.shape)}, {0: order}, order)


def keeping(call: Call) -> Iterator[Loop]:
    """Every axis but those of `dim`, which the result has too: softmax, cumulated sums, flips."""
    out = call.outputs[0]
    kept = _without(out.dim(), _dims(call, out.dim()))
    reads = {slot: kept for slot, t in call.slots() if t.dim() == out.dim()}
    return spans(call, reads, dict.fromkeys(range(len(call.results)), kept), kept)


def softmax(call: Call) -> Iterator[Loop]:
    """Every axis but that of `dim`; and that, with the largest element and the sum of exponentials."""
    return _softmax(call, ["self"], 2)


def softmax_gradient(call: Call) -> Iterator[Loop]:
    """As forwards, with the sum of the gradient times the result."""
    return _softmax(call, ["grad_output", "output"], 1)


def log_softmax_gradient(call: Call) -> Iterator[Loop]:
    """As forwards, with the sum of the gradient."""
    return _softmax(call, ["grad_output"], 1)


def _softmax(call: Call, counted: Sequence[Slot], numbers: int) -> Iterator[Loop]:
    yield from keeping(call)
    out = call.outputs[0]
    if not out.dim():
        return
    axis = _place(call["dim"], out.dim())
    along = [axis if place == axis else None for place in range(out.dim())]
    others = out.numel() // max(1, out.shape[axis])
    reads = {slot: along for slot, _ in call.slots()}
    yield from spans(call, reads, {0: along}, along, statistics=(counted, numbers * others))


def reducing(call: Call) -> Iterator[Loop]:
    """Every axis but those of `dim`, which the result has not: amax, variances, argmax."""
    return _reduced(call, ())


def spreading(call: Call) -> Iterator[Loop]:
    """Variances: every axis that stays; and those that go, with means and squared differences."""
    return _counted(call, 2)


def extreme(call: Call) -> Iterator[Loop]:
    """The largest or smallest elements: every axis that stays; and those that go, with what is the largest so far."""
    return _counted(call, 1)


def length(call: Call) -> Iterator[Loop]:
    """Vector norms: every axis that stays; and those that go, with sums of powers."""
    powers = isinstance(call["ord"], (int, float)) and 0 < call["ord"] < math.inf and call["dtype"] is None
    return _counted(call, 1) if powers else _reduced(call, ())


def _counted(call: Call, numbers: int) -> Iterator[Loop]:
    yield from _reduced(call, ())
    source, out = _given(call, "self"), call.outputs[0]
    if not source.is_floating_point():
        return
    gone = _dims(call, source.dim())
    along = [axis if axis in gone else None for axis in range(source.dim())]
    early = dict.fromkeys(range(len(call.results)), ())
    yield from spans(call, {"self": along}, {}, along, early=early, statistics=(["self"], numbers * out.numel()))


def summing(call: Call) -> Iterator[Loop]:
    """Sums and means: the axes that are added up are loops too."""
    return _reduced(call, range(_given(call, "self").dim()))


def largest(call: Call) -> Iterator[Loop]:
    """`max` and `min` of two tensors, along an axis, or of all elements."""
    return elementwise(call) if call.tensor("other") is not None else reducing(call)


def loss(call: Call) -> Iterator[Loop]:
    """A loss of each element, or their sum or mean."""
    prediction = _given(call, "self")
    if call["reduction"] == 0:
        return elementwise(call)
    order = tuple(range(prediction.dim()))
    shape = prediction.shape
    if any(t.dim() > prediction.dim() or not _fits(t, shape) for _, t in call.slots()):
        return iter(())
    return spans(call, {slot: aligned(t, shape) for slot, t in call.slots()}, {}, order, order)


def joined(call: Call) -> Iterator[Loop]:
    """`cat`: every axis but that along which tensors are joined."""
    out = call.outputs[0]
    kept = _without(out.dim(), {_place(call["dim"], out.dim())})
    reads = {slot: kept for slot, t in call.slots() if t.dim() == out.dim()}  # others are empty
    return spans(call, reads, {0: kept}, kept)


def stacked(call: Call) -> Iterator[Loop]:
    """`stack`: every axis but the new one."""
    out = call.outputs[0]
    kept = _without(out.dim(), {_place(call["dim"], out.dim())})
    own = [label for label in kept if label is not None]
    return spans(call, {slot: own for slot, _ in call.slots()}, {0: kept}, kept)


def padded(call: Call) -> Iterator[Loop]:
    """`constant_pad_nd`: padding before an axis, which may be negative, is `before`."""
    source, out, pad = _given(call, "self"), call.outputs[0], call["pad"]
    before = {source.dim() - 1 - k: int(pad[2 * k]) for k in range(len(pad) // 2)}
    plain = _without(out.dim(), {axis for axis in before if int(before[axis]) or out.shape[axis] != source.shape[axis]})
    yield from spans(call, {"self": plain}, {0: plain}, plain)
    for axis in range(out.dim()):
        if plain[axis] is None:
            rows = Rows((axis, axis), before=before[axis])
            yield from call.loop(out.shape[axis], {"self": rows}, {0: Written((axis, axis))})


def repeated(call: Call) -> Iterator[Loop]:
    """The axes that are not repeated."""
    source, out = _given(call, "self"), call.outputs[0]
    if source.dim() != out.dim():
        return iter(())
    plain = _without(out.dim(), {axis for axis in range(out.dim()) if source.shape[axis] != out.shape[axis]})
    return spans(call, {"self": plain}, {0: plain}, plain)


def reflected(call: Call) -> Iterator[Loop]:
    """Padding by rows near an edge, in the other order: some iterations read the rows that others wrote before."""
    return _edged(call, lambda before, after: (before + 2 * after, 2 * (before + after) + 1))


def replicated(call: Call) -> Iterator[Loop]:
    """Padding by the rows of an edge."""
    return _edged(call, lambda before, after: (before + after, before + after + 1))


def _edged(call: Call, reach: Callable[[int, int], tuple[int, int]]) -> Iterator[Loop]:
    """The axes that are not padded; and those that are, whose iterations read any row as near as an edge may be.

    `reach` gives how many rows before its own an iteration may read, and how many in all.
    """
    out, pad = call.outputs[0], call["padding"]
    first = out.dim() - len(pad) // 2
    plain = _without(out.dim(), range(first, out.dim()))
    yield from spans(call, {"self": plain}, {0: plain}, plain)
    for axis in range(first, out.dim()):
        before, after = pad[2 * (out.dim() - 1 - axis) :][:2]
        if min(before, after) >= 0:
            back, window = reach(before, after)
            rows = Rows((axis, axis), before=back, window=window)
            yield from call.loop(out.shape[axis], {"self": rows}, {0: Written((axis, axis))})


def shuffled(call: Call) -> Iterator[Loop]:
    """`pixel_shuffle`: channels become rows and columns."""
    source, out, factor = _given(call, "self"), call.outputs[0], call["upscale_factor"]
    front = _without(out.dim(), set(range(out.dim() - 3, out.dim())))
    yield from spans(call, {"self": front}, {0: front}, front)
    channel, row, column = range(out.dim() - 3, out.dim())
    square = factor * factor
    whole = Rows((channel, channel), square, square)
    yield from call.loop(out.shape[channel], {"self": whole}, {0: Written((channel, channel))})
    for axis in (row, column):
        yield from call.loop(source.shape[axis], {"self": Rows((axis, axis))}, {0: Written((axis, axis), factor)})


def unshuffled(call: Call) -> Iterator[Loop]:
    """`pixel_unshuffle`: rows and columns become channels."""
    source, out, factor = _given(call, "self"), call.outputs[0], call["downscale_factor"]
    front = _without(out.dim(), set(range(out.dim() - 3, out.dim())))
    yield from spans(call, {"self": front}, {0: front}, front)
    channel, row, column = range(out.dim() - 3, out.dim())
    whole = Written((channel, channel), factor * factor)
    yield from call.loop(source.shape[channel], {"self": Rows((channel, channel))}, {0: whole})
    for axis in (row, column):
        yield from call.loop(out.shape[axis], {"self": Rows((axis, axis), factor, factor)}, {0: Written((axis, axis))})


def placed_slice(call: Call) -> Iterator[Loop]:
    """`slice_backward`: what a slice's gradient is put into, zero elsewhere."""
    out = call.outputs[0]
    axis = _place(call["dim"], out.dim())
    plain = _without(out.dim(), {axis})
    yield from spans(call, {"grad_output": plain}, {0: plain}, plain)
    if call["step"] == 1:
        start = int(call["start"])
        start = min(max(start + (out.shape[axis] if start < 0 else 0), 0), out.shape[axis])
        rows = Rows((axis, axis), before=start)
        yield from call.loop(out.shape[axis], {"grad_output": rows}, {0: Written((axis, axis))})


def written_into(call: Call) -> Iterator[Loop]:
    """`slice_scatter` and `select_scatter`: every axis but that of `dim`."""
    out = call.outputs[0]
    plain = _without(out.dim(), {_place(call["dim"], out.dim())})
    source = plain if _given(call, "src").dim() == out.dim() else [label for label in plain if label is not None]
    return spans(call, {"self": plain, "src": source}, {0: plain}, plain)


def placed_select(call: Call) -> Iterator[Loop]:
    """`select_backward`: the axis that the gradient has not is gone through whole."""
    out = call.outputs[0]
    plain = _without(out.dim(), {_place(call["dim"], out.dim())})
    return spans(call, {"grad_output": [label for label in plain if label is not None]}, {0: plain}, plain)


def _reduced(call: Call, adds: Collection[int]) -> Iterator[Loop]:
    source = _given(call, "self")
    gone = _dims(call, source.dim())
    labels = tuple(range(source.dim()))
    writes: dict[int, Labels] = {}
    for place, output in enumerate(call.results):
        kept: list[int | None] = [None if axis in gone else axis for axis in labels]
        writes[place] = kept if output.dim() == source.dim() else [axis for axis in labels if axis not in gone]
    return spans(call, {"self": labels}, writes, labels, [axis for axis in adds if axis in gone])


def _given(call: Call, name: Slot) -> Tensor:
    tensor = call.tensor(name)
    assert tensor is not None
    return tensor


def _fits(tensor: Tensor, shape: Sequence[int]) -> bool:
    """Whether a tensor can be broadcast to a shape."""
    sizes = zip(reversed(tensor.shape), reversed(shape), strict=False)
    return all(size in (1, there) for size, there in sizes)


def _place(axis: int, rank: int) -> int:
    return axis % rank if rank else 0


def _dims(call: Call, rank: int) -> set[int]:
    """The axes that a call names; all if it names none."""
    dims = call["dim"] if call["dim"] is not None else call["dims"]
    if dims is None or dims == []:
        return set(range(rank))
    return {_place(axis, rank) for axis in (dims if isinstance(dims, (list, tuple)) else [dims])}


def _without(rank: int, axes: Collection[int]) -> list[int | None]:
    """Labels of all axes but these."""
    return [None if axis in axes else axis for axis in range(rank)]
