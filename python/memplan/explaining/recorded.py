"""What a recorded step holds: its arena, what outlives it, and what was there before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .. import _core
from ..importers.tape import Tape
from .held import ARENA, NOWHERE, Held, Whole

if TYPE_CHECKING:
    from ..plans.plan import Plan

CROSSES = "in the arena, into the next step"
KEPT = "kept past the step"
_CURES = {CROSSES: "memplan.torch.update_as_you_go, if they are gradients"}


def held_by_tape(plan: Plan, tape: Tape, what: str, arena: int, around: Sequence[tuple[str, int, str]] = ()) -> Held:
    """All that a step holds, whose tape has a plan.

    Parameters
    ----------
    arena
        Bytes of the arena that serves it.
    around
        What was there before the step and stays: names, bytes and kinds.
    """
    own, kept = plan.problem, np.flatnonzero(tape.outlives).tolist()
    parts = [] if own.parts is None else [tuple(row) for row in own.parts.tolist()]
    problem = _core.Problem(
        [*own.size.tolist(), *(int(tape.size[k]) for k in kept), *(size for _, size, _ in around)],
        [*own.first.tolist(), *(int(tape.birth[k]) for k in kept), *(0 for _ in around)],
        [*own.last.tolist(), *(tape.ticks for _ in kept), *(tape.ticks for _ in around)],
        1,
        [*own.names, *(tape.name(k) for k in kept), *(name for name, *_ in around)],
        parts or None,
    )
    crosses = tape.crosses[~tape.outlives].tolist()
    kinds = [*(CROSSES if one else ARENA for one in crosses), *(KEPT for _ in kept), *(kind for *_, kind in around)]
    places = [*(0 for _ in crosses), *(NOWHERE for _ in kinds[len(crosses) :])]
    wholes = [Whole(arena, 0, tape.ticks)] if arena else []
    return Held(what, problem, kinds, arenas=wholes, arena=places, cures=_CURES)
