"""Pieces of convolutions and pooling, along their rows: windows are padded at the ends of the whole alone.

kernel 3, padding 1, rows 0 to 7 in two pieces        rows 0 to 4 with a row before; rows 3 to 7 with one behind
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .calls import Composed, Frame, Part, Piece, Rows

_aten = torch.ops.aten


class Window(NamedTuple):
    """What a window of a kernel is along the axis of the rows."""

    kernel: int
    stride: int
    padding: int
    dilation: int = 1

    @property
    def reach(self) -> int:
        return self.dilation * (self.kernel - 1) + 1

    def over(self, rows: Rows, made: Rows) -> Frame:
        """What windows read for rows that are made."""
        begin, end = made.begin * self.stride - self.padding, (made.end - 1) * self.stride - self.padding + self.reach
        return Frame.of(rows, begin, max(begin, end))

    def under(self, rows: Rows) -> tuple[int, int]:
        """Rows [begin, end) over which the windows of these rows lie."""
        begin = rows.begin * self.stride - self.padding
        return begin, begin + ((rows.size - 1) * self.stride + self.reach if rows.size else 0)


# Forwards


def _convolution(piece: Piece) -> Part | None:
    made = piece.made()
    if made is None or made.axis < 2:
        several = piece["groups"] > 1 and (made is None or made.axis == 1)
        return piece.part(**({"groups": piece.end - piece.first} if several else {}))
    rows, window, padding = piece.rows("input", made.axis), _window(piece, made.axis), _padding(piece)
    padding[made.axis - 2] = 0
    if not piece["transposed"]:
        frame = window.over(rows, made)
        if frame.before == frame.after:
            padding[made.axis - 2] = frame.before
            frame = frame._replace(before=0, after=0)
        return piece.after(_padded, frame, 0.0, padding=padding)
    first = made.begin + window.padding - rows.begin * window.stride
    more = max(0, first + made.size - ((rows.size - 1) * window.stride + window.reach))
    if rows.size == 0 or more >= max(window.stride, window.dilation):
        return None
    output_padding = _each(piece["output_padding"], len(padding))
    output_padding[made.axis - 2] = more
    return piece.after(_narrowed, made.axis, first, made.size, padding=padding, output_padding=output_padding)


def _window(piece: Piece, axis: int) -> Window:
    """That of a convolution."""
    how = (_at(piece[name], axis - 2) for name in ("stride", "padding", "dilation"))
    return Window(piece["weight"].sizes[axis], *how)


def _padding(piece: Piece) -> list[int]:
    return _each(piece["padding"], len(piece["weight"].sizes) - 2)


def _padded(frame: Frame, value: float, func: Any, x: Tensor, *args: Any, **kwargs: Any) -> Any:
    return func(frame.padded(x, value), *args, **kwargs)


def _narrowed(axis: int, first: int, count: int, func: Any, *args: Any, **kwargs: Any) -> Tensor:
    return func(*args, **kwargs).narrow(axis, first, count)  # type: ignore[no-any-return]


def _max_pool(piece: Piece) -> Part | None:
    made, place = piece.made(), _place(piece)
    assert made is not None
    if place < 0:
        return piece.part()
    rows, padding = piece.rows("self", made.axis), _each(piece["padding"], len(piece["kernel_size"]))
    frame = _pool(piece, place).over(rows, made)
    padding[place] = 0
    inner = math.prod(piece["self"].sizes[made.axis + 1 :])
    first = rows.begin + frame.skip - frame.before
    return piece.after(_max_pooled, frame, first, rows.whole, inner, padding=padding)


def _max_pooled(
    frame: Frame, first: int, whole: int, inner: int, func: Any, x: Tensor, *args: Any, **kwargs: Any
) -> tuple[Tensor, Tensor]:
    """Places are those in the whole plane. Rows of padding are the last to win."""
    x = frame.padded(x, -math.inf)
    values, places = func(x, *args, **kwargs)
    size = x.shape[frame.axis] * inner
    row = (places % size // inner + first).clamp_(0, whole - 1)
    return values, (places // size * whole + row) * inner + places % inner


def _average_pool(piece: Piece) -> Part | None:
    made, place = piece.made(), _place(piece)
    assert made is not None
    if place < 0:
        return piece.part()
    rows, padding = piece.rows("self", made.axis), _each(piece["padding"], len(piece["kernel_size"]))
    window = _pool(piece, place)
    padding[place] = 0
    how = (window.over(rows, made), _shares(piece, window, made, rows.whole))
    return piece.after(_averaged, *how, padding=padding)


def _averaged(frame: Frame, shares: Sequence[float], func: Any, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    return _shared_out(func(frame.padded(x), *args, **kwargs), frame.axis, shares)


def _shares(piece: Piece, window: Window, made: Rows, whole: int) -> list[float]:
    """For each row that is made: by what the mean over a window is less than that over what counts of it."""
    if piece["divisor_override"]:
        return []
    found = []
    for row in range(made.begin, made.end):
        begin = row * window.stride - window.padding
        end = min(begin + window.kernel, whole + window.padding)
        counted = end - begin if piece["count_include_pad"] else min(end, whole) - max(begin, 0)
        found.append(window.kernel / counted)
    return found


def _shared_out(x: Tensor, axis: int, shares: Sequence[float]) -> Tensor:
    if all(share == 1 for share in shares):
        return x
    return x * torch.tensor(shares, dtype=x.dtype).view([-1 if k == axis else 1 for k in range(x.dim())])


# Backwards: rows of the gradient are what a smaller picture has, whose first row is where the first window begins


def _convolution_backward(piece: Piece) -> Part | None:
    made = next((made for made in piece.writes if made is not None), None)
    along = made or piece.read("grad_output")
    of_input, of_weight, of_bias = piece["output_mask"]
    mask = [of_input, of_weight, of_bias and not piece.early]
    if along is None or along.axis < 2:
        blanks = (None if of_weight else piece.sizes(0), None if of_input or not of_weight else piece.sizes(1))
        bias_sizes = piece.sizes(2) if piece.results[2] is not None else piece["bias_sizes"]
        return piece.after(_shaped, *blanks, output_mask=mask, bias_sizes=bias_sizes, **_groups(piece))
    if piece["transposed"]:
        return None
    given, window, padding = piece.rows("grad_output", along.axis), _window(piece, along.axis), _padding(piece)
    padding[along.axis - 2] = 0
    to_input = to_weight = None
    if made is not None:
        under = window.under(given)
        sizes = list(piece["input"].sizes)
        sizes[along.axis] = under[1] - under[0]
        smaller = Rows(along.axes, *under, made.whole, under)
        to_input = (sizes, Frame.of(smaller, made.begin, made.end))
    begin, end = min(piece.first, given.whole), min(piece.end, given.whole)  # iterations that add to the weight's
    if (of_weight or of_bias) and begin < end:
        own = Rows(along.axes, begin, end, given.whole, (begin, end))
        frame = window.over(piece.rows("input", along.axis), own) if of_weight else None
        to_weight = (Frame.of(given, begin, end), frame)
    return piece.after(_gradients, to_input, to_weight, mask, padding=padding)


def _groups(piece: Piece) -> dict[str, int]:
    """With several groups, channels are split by group."""
    of_input, *others = piece.writes
    by_group = any(rows is not None for rows in others) or (of_input is not None and of_input.axis == 1)
    return {"groups": piece.end - piece.first} if piece["groups"] > 1 and by_group else {}


def _shaped(
    of_input: Any, of_weight: Any, func: Any, grad: Tensor, x: Tensor, weight: Tensor, *args: Any, **kwargs: Any
) -> Any:
    """Of a tensor whose partner's gradient is not asked for, only the shape counts."""
    x = _blank(grad, of_input) if of_input else x
    weight = _blank(grad, of_weight) if of_weight else weight
    return func(grad, x, weight, *args, **kwargs)


def _gradients(
    to_input: Any, to_weight: Any, mask: Sequence[bool], func: Any, grad: Tensor, x: Tensor, weight: Tensor, *args: Any
) -> tuple[Tensor | None, ...]:
    """The gradients of a convolution's input, weight and bias, for which other rows count."""
    bias_sizes, *rest, _ = args
    found: list[Tensor | None] = [None, None, None]
    if to_input is not None:
        sizes, frame = to_input
        whole = grad.new_zeros(sizes)
        if whole.numel():
            whole = func(grad, _blank(grad, sizes), weight, bias_sizes, *rest, [True, False, False])[0]
        found[0] = frame.padded(whole)
    if to_weight is not None:
        own, frame = to_weight
        x = x if frame is None else frame.padded(x)
        _, *found[1:] = func(own.padded(grad), x, weight, bias_sizes, *rest, [False, mask[1], mask[2]])
    elif mask[1] or mask[2]:
        found[1:] = [torch.zeros_like(weight) if mask[1] else None, weight.new_zeros(bias_sizes) if mask[2] else None]
    return tuple(found)


def _bias(piece: Piece) -> Part:
    """The gradient of a bias: all that is given, added up."""
    axes = [axis for axis in range(len(piece["grad_output"].sizes)) if axis != 1]
    return Part(_aten.sum.dim_IntList, (piece["grad_output"], axes), {})


def _max_pool_backward(piece: Piece) -> Part | None:
    """Each gradient goes to the place of its maximum, if that is in the rows of the piece."""
    made, sizes = piece.made(), piece["self"].sizes
    assert made is not None
    planes = len(sizes) - len(piece["kernel_size"])
    inner = math.prod(sizes[made.axis + 1 :])
    rows = (made.begin, made.size, made.whole) if made.axis >= planes else (0, 1, 1)
    how = (piece.sizes(), planes, *rows, inner if made.axis >= planes else 1)
    return Part(Composed(_unpooled, *how), (piece["grad_output"], piece["indices"]), {})


def _unpooled(
    sizes: Sequence[int], planes: int, begin: int, rows: int, whole: int, inner: int, grad: Tensor, places: Tensor
) -> Tensor:
    row = places % (whole * inner) // inner - begin
    inside = (row >= 0) & (row < rows)
    own = (places // (whole * inner) * rows + row.clamp_(0, rows - 1)) * inner + places % inner
    flat = grad.new_zeros([*sizes[:planes], math.prod(sizes[planes:])])
    flat.scatter_add_(-1, own.flatten(planes), torch.where(inside, grad, 0).flatten(planes))
    return flat.view(list(sizes))


def _average_pool_backward(piece: Piece) -> Part | None:
    """Of what was pooled, only the shape counts."""
    made, place = piece.made(), _place(piece)
    assert made is not None
    sizes = piece.sizes()
    if place < 0:
        return Part(Composed(_averaged_back, sizes, None, [], piece.part()), (piece["grad_output"],), {})
    rows, padding = piece.rows("grad_output", made.axis), _each(piece["padding"], len(piece["kernel_size"]))
    window = _pool(piece, place)
    under = window.under(rows)
    sizes[made.axis] = under[1] - under[0]
    padding[place] = 0
    frame = Frame.of(Rows(made.axes, *under, made.whole, under), made.begin, made.end)
    how = (sizes, frame, _shares(piece, window, rows, made.whole), piece.part(padding=padding))
    return Part(Composed(_averaged_back, *how), (piece["grad_output"],), {})


def _averaged_back(sizes: list[int], frame: Frame | None, shares: Sequence[float], part: Part, grad: Tensor) -> Tensor:
    whole = grad.new_zeros(sizes)
    if whole.numel():
        grad = grad if frame is None else _shared_out(grad, frame.axis, shares)
        whole = part.func(grad, _blank(grad, sizes), *part.args[2:], **part.kwargs)
    return whole if frame is None else frame.padded(whole)


def _blank(like: Tensor, sizes: Sequence[int]) -> Tensor:
    """A tensor of which only the shape counts."""
    return torch.empty(1, dtype=like.dtype).expand(list(sizes))


# Arguments


def _place(piece: Piece) -> int:
    """The place of the rows' axis among those that are pooled; less than 0 if it is none."""
    made = piece.made()
    assert made is not None
    return made.axis - (len(piece.sizes()) - len(piece["kernel_size"]))


def _pool(piece: Piece, place: int) -> Window:
    """The window of a pool."""
    given = (piece["kernel_size"], piece["stride"] or piece["kernel_size"], piece["padding"], piece["dilation"] or [1])
    return Window(*(_at(values, place) for values in given))


def _at(values: Sequence[int], place: int) -> int:
    return int(values[place] if len(values) > 1 else values[0])


def _each(values: Sequence[int], count: int) -> list[int]:
    return [_at(values, k) for k in range(count)]


EARLY: Mapping[str, Callable[[Piece], Part]] = {"convolution_backward": _bias}
RULES: Mapping[str, Callable[[Piece], Part | None]] = {
    "convolution": _convolution,
    "convolution_backward": _convolution_backward,
    **dict.fromkeys(("max_pool2d_with_indices", "max_pool3d_with_indices"), _max_pool),
    **dict.fromkeys(("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward"), _max_pool_backward),
    **dict.fromkeys(("avg_pool2d", "avg_pool3d"), _average_pool),
    **dict.fromkeys(("avg_pool2d_backward", "avg_pool3d_backward"), _average_pool_backward),
}
