"""Rows of random numbers that Inductor draws: each is made of a seed, and of its place in the whole.

So rows [begin, begin + size) of an axis are drawn alone, and equal those of the whole bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .calls import Part, Piece

INDUCTOR_RANDOM = "inductor_random"
_NAME = "memplan::random_rows"

torch.library.define(_NAME, "(SymInt[] whole, Tensor seed, str mode, int axis, int begin, int size) -> Tensor")


def _made(whole: Sequence[int], seed: Tensor, mode: str, axis: int, begin: int, size: int) -> Tensor:
    return seed.new_empty([*whole[:axis], size, *whole[axis + 1 :]], dtype=torch.float32)


torch.library.register_fake(_NAME, _made)
RANDOM_ROWS = torch.ops.memplan.random_rows.default  # `inductor_random(whole, seed, mode)`, some rows of it


def rule(piece: Piece) -> Part | None:
    """The call that draws some rows; none where a seed stands for eager numbers of GPUs."""
    made = piece.made()
    assert made is not None
    if piece["seed"].sizes:
        return None
    first, last = made.axes
    whole = [*piece["size"][:first], *[1] * (last - first), made.whole, *piece["size"][last + 1 :]]
    return Part(RANDOM_ROWS, (whole, piece["seed"], piece["mode"], made.axis, made.begin, made.size), {})
