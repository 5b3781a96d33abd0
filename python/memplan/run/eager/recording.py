"""A step is recorded: every allocation of torch, its size, its birth and its death, in program order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...importers.tape import ALIGNMENT, Tape


@contextmanager
def record(*, stacks: bool = False, device: str = "cpu") -> Iterator[Tape]:
    """Record the allocations that torch makes: ``with memplan.record() as tape: step()``.

    Record one step of a loop, after a warm-up step: the first step makes what later ones only use, such as the states
    of an optimizer. ``memplan.plan(tape)`` gives each allocation that is born and dies in the step a place in one
    arena. ``memplan.run.arena(plan)`` serves later steps from it. `Tape.step` begins a step, to record two of them.

    The first use builds a small library with the C++ compiler. Experimental: tested with torch 2.13.

    Parameters
    ----------
    stacks
        Keep where in the program each allocation was made. This makes the recorded step slow.
    device
        "cpu", or "cuda" for the current GPU: of its current stream. That needs `memplan.run.cuda_unproven.install`.

    Yields
    ------
    Tape
        It is complete when the `with` ends.

    Raises
    ------
    MissingDependencyError
        No torch, or no C++ compiler.
    RuntimeError
        A step is recorded or served already; or the memory of GPUs is not memplan's.
    ValueError
        Another device.
    """
    from .library import library_of
    from .stacks import stack
    from .steps import keep_one_step

    if device not in ALIGNMENT:
        raise ValueError(f"device must be {' or '.join(map(repr, ALIGNMENT))}, got {device!r}")
    library, calls = library_of(device), []
    tape = Tape(device=device, done=False)

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
        keep_one_step(tape, begins)
        tape.begin_step, tape.done = None, True
