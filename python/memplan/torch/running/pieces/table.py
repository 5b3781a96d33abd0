"""How calls of operators of torch are made in pieces: a rule for each whose arguments are others then.

Rows keep their axes, so most operators do the same to fewer rows. What names sizes, places or padding names others.
What is not listed, and has loops, is called as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from ...reading.loops import name_of
from . import losses, random_rows, resizing, views, window_pieces
from .calls import Part, Piece
from .statistics import STATISTICS

Rule = Callable[[Piece], Part | None]


def _share(piece: Piece) -> Part:
    """The mean of some rows is a part of that of all, where iterations add to it."""
    if piece.made() is not None:
        return piece.part()
    return piece.after(_scaled, (piece.end - piece.first) / piece.extent)


def _scaled(share: float, func: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
    return func(*args, **kwargs).mul_(share)


def _mean_of_losses(piece: Piece) -> Part:
    return _share(piece) if piece["reduction"] == 1 else piece.part()


def _norm(piece: Piece) -> Part:
    """Kernels of norms go through memory as if rows lay one behind the other."""
    return piece.after(_on_contiguous)


def _on_contiguous(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return func(*(arg.contiguous() if isinstance(arg, Tensor) else arg for arg in args), **kwargs)


def _backward_of_samples(piece: Piece) -> Part:
    """The backward of batch norm is wrong for one sample whose gradient has a small stride from sample to sample."""
    read, samples = piece.read("grad_out"), piece["grad_out"].sizes[0]
    samples = read.size if read is not None and read.axis == 0 else samples
    return piece.after(_on_rows) if samples == 1 else piece.part()


def _on_rows(func: Callable[..., Any], grad: Tensor, *args: Any) -> Any:
    return func(grad.clone(memory_format=torch.contiguous_format), *args)


def _groups(piece: Piece) -> Part:
    """`native_group_norm` names the numbers of samples, channels and groups."""
    count = piece.end - piece.first
    if piece.extent == piece["N"] and all(made is None or made.axis == 0 for made in piece.writes[:1]):
        return piece.after(_on_contiguous, N=count)
    return piece.after(_on_contiguous, group=count, C=piece["C"] // piece["group"] * count)


def _gathered(piece: Piece) -> Part | None:
    """What is longer than the index is read whole, but the index counts from the piece's first row."""
    made, axis = piece.made(), piece["dim"] % max(1, len(piece.sizes()))
    assert made is not None
    if piece.read("self") is not None or made.axes == (axis, axis) or piece["self"].sizes[made.axis] == 1:
        return piece.part()
    if made.axes[0] != made.axis:
        return None
    return piece.after(_narrowed, made.axis, made.begin, made.size)


def _narrowed(axis: int, begin: int, count: int, func: Callable[..., Any], x: Tensor, *args: Any, **kwargs: Any) -> Any:
    return func(x.narrow(axis, begin, count), *args, **kwargs)


def _diagonal(piece: Piece) -> Part | None:
    """`tril` and `triu`: the diagonal, seen from the first row or column of the piece."""
    made, rank = piece.made(), len(piece.sizes())
    assert made is not None
    if made.axes[0] < made.axis and made.axis >= rank - 2:
        return None
    moved = {rank - 2: made.begin, rank - 1: -made.begin}.get(made.axis, 0)
    return piece.part(diagonal=piece["diagonal"] + moved)


def _mask_in_attention(piece: Piece) -> Part | None:
    """Rows of a query that sees what is before it need an offset, which kernels do not take."""
    made = piece.made()
    return None if piece["is_causal"] and made is not None and made.axis == 2 else piece.part()


RULES: Mapping[str, Rule] = {
    "mean": _share,
    **dict.fromkeys(("huber_loss", "mse_loss", "smooth_l1_loss"), _mean_of_losses),
    "native_group_norm": _groups,
    "native_group_norm_backward": _groups,
    "native_batch_norm_backward": _backward_of_samples,
    **dict.fromkeys(("native_layer_norm", "native_layer_norm_backward"), _norm),
    "gather": _gathered,
    **dict.fromkeys(("tril", "triu"), _diagonal),
    **dict.fromkeys(
        ("_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention_for_cpu_backward"),
        _mask_in_attention,
    ),
    "scaled_dot_product_attention": _mask_in_attention,
    random_rows.INDUCTOR_RANDOM: random_rows.rule,
    **views.RULES,
    **window_pieces.RULES,
    **resizing.RULES,
    **losses.RULES,
}


_EARLY = {**losses.EARLY, **window_pieces.EARLY}  # what is made before the first piece


def early_of(piece: Piece, place: int) -> Part | None:
    """The call that makes a result before the first piece; None if none is known."""
    name = name_of(piece.call.func)
    if piece.statistics is not None:
        rule = STATISTICS[name].early
        return None if rule is None else rule(piece, place)
    return _EARLY[name](piece) if name in _EARLY else None


def part_of(piece: Piece) -> Part | None:
    """The call that makes a piece; None if none is known."""
    name = name_of(piece.call.func)
    if not name:
        return None
    if piece.statistics is not None:
        of_rows = STATISTICS[name].part
        return None if of_rows is None else of_rows(piece)
    return RULES[name](piece) if name in RULES else piece.part()
