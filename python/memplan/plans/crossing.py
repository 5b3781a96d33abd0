"""What stays between methods, and a check that nothing else ever uses its bytes; the core does it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import _core

if TYPE_CHECKING:
    from .plan import Plan


@dataclass(frozen=True)
class Staying:
    """A tensor that stays where it is between methods.

    Attributes
    ----------
    name : str
        What `memplan.plan_many` was given.
    bytes, offset : int
        Its size, and where it begins in the common arena.
    tensors : mapping of str to tuple of str
        Per method that has it, its names there: one; or two, if the method writes the second over the first.
    """

    name: str
    bytes: int
    offset: int
    tensors: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Crossing:
    """What is wrong between methods."""

    message: str


def crossings(methods: Mapping[str, Plan], shared: Sequence[Staying], peak: int) -> list[Crossing]:
    """What is wrong: shared tensors that are elsewhere, or whose bytes something else uses, in any method."""
    rows = [(name, plan.graph, plan.buffers, plan.problem, plan.offsets) for name, plan in methods.items()]
    stays = [(s.name, s.bytes, s.offset, [list(s.tensors.get(name, ())) for name in methods]) for s in shared]
    return [Crossing(fault) for fault in _core.crossings(rows, stays, peak)]
