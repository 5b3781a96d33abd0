"""What came of the steps that an arena served, and where in the program something was allocated."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from ...text import printable

_HERE = str(Path(__file__).parent)
_DEPTH = 32
# In the order of `Reason` in csrc/arena.hpp.
REASONS = (
    "",
    "an allocation of another size",
    "its bytes are in use: something lives longer than on the tape",
    "more allocations than on the tape",
    "a thread that is not on the tape",
)


@dataclass(frozen=True)
class Divergence:
    """Where the steps differed from their tape for the first time.

    Attributes
    ----------
    step : int
        Steps of the arena, from 0.
    plan : str
        The plan that the step followed.
    allocation : int
        The thread's allocations in the step, from 0.
    thread : int
        0 is the thread that began the step.
    expected, got : int or None
        Bytes on the tape and in the step. None if the tape has nothing there.
    reason : str
        What differed.
    stack : tuple of str
        Where in the program, the innermost call first. Empty unless the arena was made with ``stacks=True``.
    """

    step: int
    plan: str
    allocation: int
    thread: int
    expected: int | None
    got: int
    reason: str
    stack: tuple[str, ...] = ()

    def __str__(self) -> str:
        thread = f" of thread {self.thread}" if self.thread else ""
        expected = "nothing" if self.expected is None else f"{self.expected:,} bytes"
        where = f"step {self.step}, allocation {self.allocation}{thread}, plan {self.plan!r}"
        lines = [f"{where}: expected {expected}, got {self.got:,} bytes ({self.reason})"]
        return "\n".join(lines + [f"    {printable(call)}" for call in self.stack])


@dataclass(frozen=True)
class Report:
    """What came of the steps that an arena served, until now. ``print(report)`` shows it.

    Attributes
    ----------
    steps : int
        Steps in which something was allocated.
    served : int
        Allocations that got their memory from the arena.
    moved : int
        How many of those lie elsewhere than planned, because the step differed from the tape.
    outside : int
        Allocations that lie outside because they outlive their step: on the tape, or in a step that was served before.
    missed : int
        Allocations that got their memory from the general allocator, because the step differed from the tape.
    missed_bytes : int
        Bytes that they asked for, in all steps together.
    arena_bytes : int
        Bytes of the arena.
    arena_peak : int
        Bytes of the arena that were in use at most.
    outside_peak : int
        Bytes from the general allocator that were alive at most in the steps, of all that was allocated in recorded
        and served steps.
    alive : int
        Tensors in the arena that are alive now.
    divergence : Divergence or None
        Where the steps differed from their tape for the first time.
    """

    steps: int
    served: int
    moved: int
    outside: int
    missed: int
    missed_bytes: int
    arena_bytes: int
    arena_peak: int
    outside_peak: int
    alive: int
    divergence: Divergence | None = None

    @property
    def peak(self) -> int:
        """Bytes of the arena, and those outside at most."""
        return self.arena_bytes + self.outside_peak

    def __str__(self) -> str:
        every = self.served + self.outside + self.missed
        lines = [
            f"{self.steps:,} steps, {every:,} allocations: {self.served:,} from the arena "
            f"({self.moved:,} elsewhere than planned), {self.outside:,} outlive their step, {self.missed:,} missed",
            f"arena {self.arena_bytes:,} bytes, {self.arena_peak:,} in use at most; "
            f"outside {self.outside_peak:,} bytes at most",
        ]
        if self.divergence is not None:
            lines.append(f"first divergence: {self.divergence}")
        return "\n".join(lines)


def stack() -> tuple[str, ...]:
    """The calls that led here, the innermost first, as "file:line function": without those of torch and of memplan."""
    frame = sys._getframe(1)
    calls: list[str] = []
    while frame is not None and len(calls) < _DEPTH:
        file = frame.f_code.co_filename
        if not _is_inside(file):
            name = getattr(frame.f_code, "co_qualname", frame.f_code.co_name)  # from Python 3.11 on
            calls.append(f"{file}:{frame.f_lineno} {name}")
        frame = frame.f_back  # type: ignore[assignment]
    return tuple(calls)


def _is_inside(file: str) -> bool:
    return file.startswith((_HERE, "<frozen")) or "/site-packages/torch/" in file
