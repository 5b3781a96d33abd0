"""Which blocks of a graph lie in which arena, and where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ... import _core
from ...api import plan as planned
from ...facts.plan import Plan
from ...inductor.wrapper import Block
from .settings import Settings
from .waists import split


@dataclass(frozen=True)
class Arena:
    """Bytes on a device that a call allocates before the first of some blocks, and that live as long as any of them."""

    device: str
    blocks: list[Block]
    plan: Plan

    @property
    def bytes(self) -> int:
        """Bytes that are allocated: a multiple of the alignment, so that numbers of every type fit in whole."""
        alignment = int(self.plan.problem.alignment[0])
        return -(-self.plan.peak // alignment) * alignment

    @property
    def first(self) -> int:
        """The step from which it is held."""
        return min(block.first for block in self.blocks)

    @property
    def last(self) -> int:
        """The step in which it is held no more."""
        return max(block.last for block in self.blocks)


def arenas_on(device: str, placed: Sequence[Block], others: Sequence[Block], settings: Settings) -> list[Arena]:
    """The arenas of the blocks to be placed on a device, where other blocks are allocated one by one.

    One arena holds its whole size from its first block to its last. If the graph then holds more at its worst step than
    the blocks alone, and several arenas one after another hold less, these are taken; what is alive in two of them is
    left to be allocated alone. An arena that holds what the graph returns stays whole.
    """
    one = [_arena(device, list(placed), settings)]
    if not settings.split or any(block.escapes for block in placed):
        return one
    most = held(one, others)
    if most == held([], [*placed, *others]):
        return one
    groups = split(placed, others)
    several = [_arena(device, group, settings) for group in groups]
    inside = {id(block) for group in groups for block in group}
    left = [block for block in placed if id(block) not in inside]
    return several if several and held(several, [*others, *left]) < most else one


def _arena(device: str, blocks: list[Block], settings: Settings) -> Arena:
    alignment = settings.alignment_on(device.partition(":")[0])
    problem = _core.Problem(
        [block.bytes for block in blocks],
        [block.first for block in blocks],
        [block.last for block in blocks],
        alignment=alignment,
        names=[block.name for block in blocks],
    )
    return Arena(device, blocks, planned(problem, settings.planner))


def held(arenas: Sequence[Arena], others: Sequence[Block]) -> int:
    """The most bytes at one step of arenas and of other blocks."""
    rows: list[Arena | Block] = [*arenas, *others]
    return _core.Problem([r.bytes for r in rows], [r.first for r in rows], [r.last for r in rows]).load
