"""Several steps on one recording become the tape of one step, which knows what dies in the step after it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...importers.tape import COLUMNS, Tape


def keep_one_step(tape: Tape, begins: Sequence[int]) -> None:
    """Keep the last step but one, if there are two or more, else the last one.

    What dies in the step after it dies there before the same allocation in each step, as memory is used alike.

    Parameters
    ----------
    begins
        The moments at which steps begin. What comes before the first one is no part of a step.
    """
    if not begins:
        return
    begin = begins[-2:][0]
    end = begins[-1] if len(begins) > 1 else tape.ticks
    first, last = (int(place) for place in np.searchsorted(tape.birth, [begin, end]))
    births_of_the_next = tape.birth[last:]
    for name in COLUMNS:
        setattr(tape, name, getattr(tape, name)[first:last])
    tape.stacks = tape.stacks[first:last]
    ticks = end - begin
    tape.birth = tape.birth - begin
    crosses = tape.death >= end
    before = np.searchsorted(births_of_the_next, tape.death)  # how many allocations of the next step come before
    moments = np.append(tape.birth, ticks)[np.minimum(before, len(tape))]
    moments[before == 0] = 0
    in_time = moments <= tape.birth  # before the next step allocates it again
    tape.death = np.select(
        [crosses & in_time, crosses | (tape.death < 0)], [ticks + moments, np.full(len(tape), -1)], tape.death - begin
    )
    tape.ticks = ticks
