"""Which blocks of a graph lie in which arena, and where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ... import _core
from ...plans.plan import Plan
from ...solving.planning import plan as planned
from ..inductor.wrapper import Block
from .cuts import Held, split
from .settings import Settings

_CUTS = (48, 192)  # so many steps to cut before are looked at, and more only if that helps too little
_SLIGHT = 0.001  # of the load: not worth an arena more


@dataclass(frozen=True)
class Arena:
    """Bytes on a device that a call allocates before the first of some blocks, and that live as long as any of them.

    All sizes and offsets of the plan are multiplied with `scale`: 1, or an expression of symbolic sizes, for which
    `hint` stands where a number is needed.
    """

    device: str
    blocks: list[Block]
    plan: Plan
    scale: Any = 1
    hint: int = 1

    @property
    def unit(self) -> int:
        """Bytes to be multiplied with the scale: a multiple of the alignment, so that numbers of all types fit."""
        alignment = int(self.plan.problem.alignment[0])
        return -(-self.plan.peak // alignment) * alignment

    @property
    def bytes(self) -> int:
        """Bytes that are allocated."""
        return self.unit * self.hint

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
    the blocks alone, and several arenas hold less, these are taken. An arena that holds what the graph returns stays
    whole.
    """
    best = [_arena(device, placed, settings)]
    if not settings.split or any(block.escapes for block in placed):
        return best
    most, load = held(best, others), held([], [*placed, *others])
    for cuts in _CUTS:
        if most <= load * (1 + _SLIGHT):
            break
        groups = split(placed, others, cuts)
        arenas = [_arena(device, group, settings) for group in groups]
        inside = {id(block) for group in groups for block in group}
        peak = held(arenas, [*others, *(block for block in placed if id(block) not in inside)])
        if arenas and peak < most:
            best, most = arenas, peak
    return best


def _arena(device: str, blocks: Sequence[Block], settings: Settings) -> Arena:
    alignment = settings.alignment_on(device.partition(":")[0])
    problem = _core.Problem(
        [block.bytes for block in blocks],
        [block.first for block in blocks],
        [block.last for block in blocks],
        alignment=alignment,
        names=[block.name for block in blocks],
    )
    return Arena(device, list(blocks), planned(problem, settings.planner, on_interrupt="raise"))


def held(arenas: Sequence[Held], others: Sequence[Held]) -> int:
    """The most bytes at one step of arenas and of other blocks."""
    rows = [*arenas, *others]
    return _core.Problem([r.bytes for r in rows], [r.first for r in rows], [r.last for r in rows]).load
