"""Pieces of calls that name sizes or places: views, new tensors, slices and padding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .calls import Composed, Frame, Part, Piece

_aten = torch.ops.aten


def _shown(piece: Piece) -> Part:
    """The same elements in another shape."""
    return Part(_aten.view.default, (piece["self"], piece.sizes()), {})


def _reshaped(piece: Piece) -> Part:
    return Part(_aten.reshape.default, (piece["self"], piece.sizes()), {})


def _expanded(piece: Piece) -> Part:
    return piece.part(size=piece.sizes())


def _sliced(piece: Piece) -> Part:
    """What is read of the loop's axis is all that there is."""
    made, axis = piece.made(), piece["dim"] % len(piece.sizes())
    if made is None or made.axis != axis or _is_whole(piece, axis):
        return piece.part()
    return piece.part(start=0, end=2**63 - 1)


def _is_whole(piece: Piece, axis: int) -> bool:
    """Whether a slice takes all of its axis."""
    return bool(piece["self"].sizes[axis] == piece.results[0].sizes[axis])  # type: ignore[union-attr]


def _created(fill: Callable[[Piece], Any]) -> Callable[[Piece], Part]:
    def rule(piece: Piece) -> Part:
        made = piece.results[0]
        assert made is not None
        return Part(_aten.full.default, (piece.sizes(), fill(piece)), {"dtype": made.dtype, "device": piece["device"]})

    return rule


def _counted(piece: Piece) -> Part:
    """`arange`: the numbers from the first of the piece on."""
    made, kind = piece.made(), piece.results[0]
    assert made is not None
    assert kind is not None
    first, step = piece["start"] or 0, 1 if piece["step"] is None else piece["step"]
    return Part(Composed(_count, first, step, made.begin, made.end, kind.dtype), (), {})


def _count(first: Any, step: Any, begin: int, end: int, dtype: torch.dtype) -> Tensor:
    return _aten.arange.start_step(first, first + step * end, step, dtype=dtype)[begin:end]  # type: ignore[no-any-return]


def _padded(piece: Piece) -> Part:
    made, pad = piece.made(), list(piece["pad"])
    assert made is not None
    place = 2 * (len(piece.sizes()) - 1 - made.axis)
    if place >= len(pad) or not any(pad[place : place + 2]):
        return piece.part()
    frame = Frame.of(piece.rows("self", made.axis), made.begin - pad[place], made.end - pad[place])
    pad[place : place + 2] = 0, 0
    return Part(Composed(_framed, frame, pad, piece["value"]), (piece["self"],), {})


def _framed(frame: Frame, pad: list[int], value: float, x: Tensor) -> Tensor:
    x = frame.padded(x, value)
    return _aten.constant_pad_nd.default(x, pad, value) if any(pad) else x


def _edged(edge: Callable[[int, int], int]) -> Callable[[Piece], Part]:
    """`edge` gives the row that stands for one before the first or behind the last, of so many."""

    def rule(piece: Piece) -> Part:
        made, pad = piece.made(), list(piece["padding"])
        assert made is not None
        place = 2 * (len(piece.sizes()) - 1 - made.axis)
        if place >= len(pad) or not any(pad[place : place + 2]):
            return piece.part()
        there = piece.rows("self", made.axis)
        rows = [edge(row, there.whole) - there.begin for row in range(made.begin - pad[place], made.end - pad[place])]
        pad[place : place + 2] = 0, 0
        return piece.after(_of_rows, made.axis, tuple(_runs(rows)), padding=pad)

    return rule


def _mirrored(row: int, count: int) -> int:
    return abs(row) if row < count else 2 * (count - 1) - row


def _clamped(row: int, count: int) -> int:
    return min(max(row, 0), count - 1)


def _runs(rows: Sequence[int]) -> Iterator[tuple[int, int, bool]]:
    """The same rows as ranges [begin, end), each ascending or, if so said, descending."""
    k = 0
    while k < len(rows):
        step = rows[k + 1] - rows[k] if k + 1 < len(rows) and abs(rows[k + 1] - rows[k]) == 1 else 1
        end = k + 1
        while end < len(rows) and rows[end] - rows[end - 1] == step:
            end += 1
        low, high = sorted((rows[k], rows[end - 1]))
        yield low, high + 1, step < 0
        k = end


def _of_rows(axis: int, runs: Sequence[tuple[int, int, bool]], func: Any, x: Tensor, pad: list[int]) -> Tensor:
    parts = [x.narrow(axis, begin, end - begin) for begin, end, _ in runs]
    turned = [part.flip(axis) if back else part for part, (_, _, back) in zip(parts, runs, strict=True)]
    rows = turned[0] if len(turned) == 1 else torch.cat(turned, axis)
    return func(rows, pad) if any(pad) else rows


def _placed_slice(piece: Piece) -> Part:
    """`slice_backward`: zeros around the rows that there are."""
    made, axis = piece.made(), piece["dim"] % len(piece.sizes())
    assert made is not None
    if made.axis != axis:
        return piece.part(input_sizes=piece.sizes())
    start = piece["start"] + (made.whole if piece["start"] < 0 else 0)
    start = min(max(start, 0), made.whole)
    frame = Frame.of(piece.rows("grad_output", axis), made.begin - start, made.end - start)
    return Part(Composed(_framed, frame, [], 0.0), (piece["grad_output"],), {})


def _placed_select(piece: Piece) -> Part:
    return piece.part(input_sizes=piece.sizes())


def _permuted_copy(piece: Piece) -> Part:
    """A layout that is asked for is that of the whole."""
    return piece.part(memory_format=None) if piece["memory_format"] is not None else piece.part()


def _source(piece: Piece) -> Part:
    """`copy`: of what is written over, only the shape counts."""
    return Part(Composed(_broadcast, piece.sizes()), (piece["src"],), {})


def _broadcast(sizes: list[int], source: Tensor) -> Tensor:
    return source.expand(sizes).clone(memory_format=torch.contiguous_format)


def _named(names: str, rule: Callable[[Piece], Part | None]) -> dict[str, Callable[[Piece], Part | None]]:
    return dict.fromkeys(names.split(), rule)


RULES: Mapping[str, Callable[[Piece], Part | None]] = {
    **_named("alias detach squeeze unsqueeze view", _shown),
    **_named("_reshape_alias _reshape_copy _unsafe_view as_strided view_copy", _reshaped),
    "expand": _expanded,
    "slice": _sliced,
    **_named("empty empty_like new_empty new_empty_strided new_zeros zeros zeros_like", _created(lambda piece: 0)),
    **_named("new_ones ones ones_like", _created(lambda piece: 1)),
    **_named("full full_like new_full", _created(lambda piece: piece["fill_value"])),
    "arange": _counted,
    "constant_pad_nd": _padded,
    **_named("reflection_pad1d reflection_pad2d reflection_pad3d", _edged(_mirrored)),
    **_named("replication_pad1d replication_pad2d replication_pad3d", _edged(_clamped)),
    "slice_backward": _placed_slice,
    "select_backward": _placed_select,
    **_named("clone _to_copy", _permuted_copy),
    "copy": _source,
}
