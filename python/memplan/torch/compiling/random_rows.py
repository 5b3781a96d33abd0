"""How Inductor compiles rows of random numbers: as its own, at the places that they have in the whole."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch

from ..private_compiler import inductor_ops, ir, register_lowering
from ..running.pieces.random_rows import RANDOM_ROWS


@cache
def lower_random_rows() -> None:
    """Tell Inductor, once."""
    register_lowering(RANDOM_ROWS, type_promotion_kind=None)(_lowered)


def _lowered(whole: Sequence[int], seed: Any, mode: str, axis: int, begin: int, size: int) -> Any:
    device, sizes = seed.get_device_or_error(), [*whole]
    place = ir.FixedLayout(device, torch.float32, sizes, ir.FlexibleLayout.contiguous_strides(sizes)).make_indexer()
    load = seed.make_loader()

    def number(index: Sequence[Any]) -> Any:
        there = [at + begin if k == axis else at for k, at in enumerate(index)]
        return getattr(inductor_ops, mode)(load([]), inductor_ops.index_expr(place(there), torch.int32))

    ranges = [*sizes[:axis], size, *sizes[axis + 1 :]]
    made = ir.Pointwise.create(device=device, dtype=torch.float32, inner_fn=number, ranges=ranges)
    made.realize()
    return made
