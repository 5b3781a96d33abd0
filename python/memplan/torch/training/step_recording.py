"""A step is recorded: every allocation of torch, its size, its birth and its death, in program order.

Several steps on one recording become the tape of one step, which knows what dies in the step after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from ...importers.tape import COLUMNS, Tape
from .report import stack


@contextmanager
def record(*, stacks: bool = False) -> Iterator[Tape]:
    """Record the allocations that torch makes on the CPU: ``with memplan.torch.record() as tape: step()``.

    Record one step of a loop, after a warm-up step: the first step makes what later ones only use, such as the states
    of an optimizer. ``memplan.plan(tape)`` gives each allocation that is born and dies in the step a place in one
    arena. ``memplan.torch.arena(plan)`` serves later steps from it. `Tape.step` begins a step, to record two of them.

    The first use builds a small library with the C++ compiler. Experimental.

    Parameters
    ----------
    stacks
        Keep where in the program each allocation was made. This makes the recorded step slow.

    Yields
    ------
    Tape
        It is complete when the `with` ends.

    Raises
    ------
    MissingDependencyError
        No torch, or no C++ compiler.
    RuntimeError
        A step is recorded or served already.
    """
    from .library import cpu

    library, calls = cpu(), list[tuple[int, tuple[str, ...]]]()
    tape = Tape(done=False)

    def tell(number: int) -> None:
        calls.append((number, stack()))

    begins: list[int] = []
    library.begin("a recording")
    try:
        library.record(tell if stacks else None)
        tape.begin_step = lambda: begins.append(library.ticks())
        yield tape
    finally:
        library.end()
        library.recorded(tape)
        tape.stacks = [found for _, found in sorted(calls)]
        _keep_one_step(tape, begins)
        tape.begin_step, tape.done = None, True


def _keep_one_step(tape: Tape, begins: Sequence[int]) -> None:
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
