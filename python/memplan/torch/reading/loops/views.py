"""Loops of views: rows of the tensor that is seen become rows of the view.

view (64, 1000) as (2, 32, 1000)     2 iterations, 32 rows each; or 64, whose rows lie along both of the axes
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from torch import Tensor

from .calls import Axes, Call, Loop, Rows, Written, is_even
from .spans import spans
from .spread import _given, _place, _without


def reshaped(call: Call) -> Iterator[Loop]:
    """The same elements in the same order under another shape."""
    source, out = _given(call, "self"), call.outputs[0]
    if source.dtype != out.dtype or source.numel() == 0:
        return
    for read, written in [*_groups(source.shape, out.shape), *_fronts(source.shape, out.shape)]:
        rows, there = prod(_sizes(source, read)), prod(_sizes(out, written))
        if is_even(source, read) and is_even(out, written) and (there % rows == 0 or rows % there == 0):
            ratio = max(rows // there, 1)
            reads = {"self": Rows(read, ratio, ratio)}
            yield from call.loop(min(rows, there), reads, {0: Written(written, max(there // rows, 1))})


def restrided(call: Call) -> Iterator[Loop]:
    """`as_strided`, where it is the same elements in the same order."""
    source, out = _given(call, "self"), call.outputs[0]
    same = source.numel() == out.numel() and call["storage_offset"] in (None, source.storage_offset())
    return reshaped(call) if same and source.is_contiguous() and out.is_contiguous() else iter(())


def permuted(call: Call) -> Iterator[Loop]:
    """Axes in another order."""
    rank = call.outputs[0].dim()
    order = list(range(rank))
    if call["dims"] is not None:
        order = [_place(axis, rank) for axis in call["dims"]]
    elif rank > 1:
        a, b = (_place(call[name], rank) if call[name] is not None else k for k, name in enumerate(("dim0", "dim1")))
        order[a], order[b] = order[b], order[a]
    return spans(call, {"self": range(rank)}, {0: order}, order)


def expanded(call: Call) -> Iterator[Loop]:
    """Axes that are not repeated."""
    source, out = _given(call, "self"), call.outputs[0]
    skipped = out.dim() - source.dim()
    order = tuple(range(out.dim()))
    labels = [k + skipped if size == out.shape[k + skipped] else None for k, size in enumerate(source.shape)]
    return spans(call, {"self": labels}, {0: [k if k in labels else None for k in order]}, order)


def sliced(call: Call) -> Iterator[Loop]:
    """`slice`: its axis begins at an offset, the others are as they were."""
    source, out = _given(call, "self"), call.outputs[0]
    axis = _place(call["dim"], out.dim())
    plain = _without(out.dim(), {axis} if source.shape[axis] != out.shape[axis] else set())
    yield from spans(call, {"self": plain}, {0: plain}, plain)
    if plain[axis] is None:
        start = int(call["start"] or 0)
        start = max(start + source.shape[axis], 0) if start < 0 else start
        rows = Rows((axis, axis), int(call["step"] or 1), before=-start)
        yield from call.loop(out.shape[axis], {"self": rows}, {0: Written((axis, axis))})


def selected(call: Call) -> Iterator[Loop]:
    """`select` and `unbind`: every axis that is left."""
    source = _given(call, "self")
    plain = _without(source.dim(), {_place(call["dim"], source.dim())})
    left = [label for label in plain if label is not None]
    return spans(call, {"self": plain}, dict.fromkeys(range(len(call.results)), left), left)


def divided(call: Call) -> Iterator[Loop]:
    """`split`: every axis but that along which it is split."""
    source = _given(call, "self")
    plain = _without(source.dim(), {_place(call["dim"], source.dim())})
    return spans(call, {"self": plain}, dict.fromkeys(range(len(call.results)), plain), plain)


def _sizes(tensor: Tensor, axes: Axes) -> Sequence[int]:
    return tensor.shape[axes[0] : axes[1] + 1]


def _groups(source: Sequence[int], out: Sequence[int]) -> Iterator[tuple[Axes, Axes]]:
    """Axes of both shapes that hold the same elements, as few as can be: the first of them, one alone or several."""
    a = b = 0
    while a < len(source) and b < len(out):
        first, then = a, b
        left, right = source[a], out[b]
        pairs = [((first, a), (then, b))]
        while left != right:
            if left < right:
                a += 1
                left *= source[a]
            else:
                b += 1
                right *= out[b]
            pairs.append(((first, a), (then, b)))
        yield from (pair for pair in pairs)
        a, b = a + 1, b + 1


def _fronts(source: Sequence[int], out: Sequence[int]) -> Iterator[tuple[Axes, Axes]]:
    """All first axes of both shapes that hold the same elements."""
    whole = {prod(source[: a + 1]): a for a in range(len(source))}
    for b in range(len(out)):
        if prod(out[: b + 1]) in whole:
            yield (0, whole[prod(out[: b + 1])]), (0, b)
