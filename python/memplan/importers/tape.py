"""Tape: the births and deaths of the allocations of a recorded step."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import SourceError
from ..files import read_form, write_json

FORMAT, VERSION = "memplan.tape", 1
ALIGNMENT = {"cpu": 64, "cuda": 512}  # bytes, as torch's allocators align what they give
COLUMNS = ("size", "birth", "death", "thread")
_Column = npt.NDArray[np.int64]


def _empty() -> _Column:
    return np.zeros(0, dtype=np.int64)


@dataclass(eq=False, repr=False)
class Tape:
    """The allocations of a recorded step, in program order.

    Each birth and each death has a moment of its own, counted from 0. ``len(tape)`` is the number of allocations.

    Attributes
    ----------
    size : (n,) int64
        Bytes that were asked for.
    birth, death : (n,) int64
        Moments. A death of at least `ticks` is one in the next step: `ticks` is the first moment there. It is -1 for
        what lives longer, which no plan of the tape holds.
    thread : (n,) int64
        Which thread allocated: 0 is the thread that recorded, the others are numbered as they come.
    ticks : int
        Number of moments.
    device : str
        "cpu" or "cuda".
    stacks : sequence of sequence of str
        Where each allocation was made, the innermost call first, as "file:line function". Empty if it was not asked
        for.
    done : bool
        False while the step is recorded.
    """

    size: _Column = field(default_factory=_empty)
    birth: _Column = field(default_factory=_empty)
    death: _Column = field(default_factory=_empty)
    thread: _Column = field(default_factory=_empty)
    ticks: int = 0
    device: str = "cpu"
    stacks: Sequence[Sequence[str]] = ()
    done: bool = True
    begin_step: Callable[[], None] | None = field(default=None, repr=False)  # while steps are recorded

    def __len__(self) -> int:
        return len(self.size)

    def step(self) -> None:
        """Begin a step, inside of ``with memplan.torch.record() as tape:``. Record two: the tape is of the first.

        The second says when the first one's memory is freed, such as that of gradients which the next step frees
        first. The plan of the tape then holds it too. What is recorded before the first call is left out.

        Raises
        ------
        RuntimeError
            Not inside of the `with`.
        """
        if self.begin_step is None:
            raise RuntimeError("tape.step() begins a step inside of `with memplan.torch.record() as tape:`")
        self.begin_step()

    @property
    def outlives(self) -> npt.NDArray[np.bool_]:
        """Which allocations outlive the step, and the one after it if that was recorded: they stay outside."""
        return self.death < 0

    @property
    def crosses(self) -> npt.NDArray[np.bool_]:
        """Which allocations die in the next step."""
        return self.death >= self.ticks

    @property
    def peak(self) -> int:
        """Bytes of the step's allocations that were alive at most at one moment, with those that outlive it.

        Those that die in the next step are counted at its beginning too, as if every step was the same.
        """
        change = np.zeros(self.ticks + 1, dtype=np.int64)
        np.add.at(change, self.birth, self.size)
        change[0] += self.size[self.crosses].sum()
        dead = ~self.outlives
        np.add.at(change, self.death[dead] - self.ticks * self.crosses[dead], -self.size[dead])
        return int(np.cumsum(change).max(initial=0))

    @property
    def until(self) -> _Column:
        """For each allocation, the number of the first one after its death; ``len(tape)`` if none comes after it.

        In the next step, numbers go on from ``len(tape) + 1``.
        """
        ends = np.where(self.outlives, self.ticks, self.death - self.ticks * self.crosses)
        until = np.searchsorted(self.birth, ends) + (len(self) + 1) * self.crosses
        return until.astype(np.int64)

    def problem(self) -> _core.Problem:
        """The allocations that are born and die in the step, as buffers whose steps are the moments.

        One that dies in the next step is a buffer of two parts: the beginning and the end of a step.

        Their bytes are rounded up to the alignment of the device's allocator, which every offset has too.
        Buffers are named by the number of the allocation, the thread if it is not the first, and the innermost call,
        without its folders.

        Raises
        ------
        ValueError
            The step is still recorded.
        """
        if not self.done:
            raise ValueError("the tape is still recorded: plan it after the `with` of memplan.torch.record()")
        placed = np.flatnonzero(~self.outlives)
        names = [self.name(i) for i in placed.tolist()]
        alignment = ALIGNMENT[self.device]
        size = -(-self.size[placed] // alignment) * alignment
        first, last = self.birth[placed], np.minimum(self.death[placed], self.ticks)
        parts = self._parts(placed, size)
        for buffer, *_ in parts:
            first[buffer] = 0
        return _core.Problem(size, first, last, alignment, names or None, parts or None)

    def _parts(self, placed: _Column, size: _Column) -> list[tuple[int, int, int, int, int]]:
        """What dies in the next step is in use at the end of every step, and at its beginning."""
        parts = []
        for buffer in np.flatnonzero(self.death[placed] > self.ticks).tolist():
            number, bytes = placed[buffer], int(size[buffer])
            parts += [
                (buffer, 0, bytes, 0, int(self.death[number]) - self.ticks),
                (buffer, 0, bytes, int(self.birth[number]), self.ticks),
            ]
        return parts

    def name(self, number: int) -> str:
        """What an allocation is called in problems: its number, the thread if it is not the first, and the call."""
        thread = f"@{self.thread[number]}" if self.thread[number] else ""
        call = f" {PurePath(self.stacks[number][0]).name}" if self.stacks and self.stacks[number] else ""
        return f"{number}{thread}{call}"

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write the tape as versioned JSON; `memplan.importers.read_tape` reads it."""
        spec: dict[str, Any] = {"format": FORMAT, "version": VERSION, "device": self.device, "ticks": self.ticks}
        spec |= {column: getattr(self, column).tolist() for column in COLUMNS}
        if self.stacks:
            spec["stacks"] = [list(stack) for stack in self.stacks]
        write_json(path, spec, indent=None)

    def __repr__(self) -> str:
        if not self.done:
            return "<memplan.importers.Tape: still recorded>"
        outlive = int(self.outlives.sum())
        return f"<memplan.importers.Tape: {len(self)} allocations, {outlive} outlive the step, peak {self.peak} bytes>"


def read_tape(path: str | os.PathLike[str]) -> Tape:
    """Read a tape from the JSON that `Tape.to_json` writes.

    Raises
    ------
    SourceError
        The file is no tape. The message says which entry is not as expected.
    """
    spec = read_form(path, "a tape that memplan wrote", FORMAT, VERSION)
    columns = {name: _column(spec.get(name), f"{path}: {name}") for name in COLUMNS}
    device, ticks, stacks = spec.get("device"), spec.get("ticks"), spec.get("stacks", [])
    if device not in ALIGNMENT:
        raise SourceError(f"{path}: device must be {' or '.join(map(repr, ALIGNMENT))}, got {device!r}")
    if not isinstance(ticks, int) or isinstance(ticks, bool):
        raise SourceError(f"{path}: ticks must be an integer, got {ticks!r}")
    _check(columns, ticks, path)
    if not isinstance(stacks, list) or len(stacks) not in (0, len(columns["size"])):
        raise SourceError(f"{path}: stacks must be a list with an entry for each allocation")
    tape = Tape(ticks=ticks, device=device, stacks=[tuple(map(str, stack)) for stack in stacks])
    for name, column in columns.items():
        setattr(tape, name, column)
    return tape


def _column(values: Any, where: str) -> _Column:
    if not isinstance(values, list) or not all(isinstance(v, int) and not isinstance(v, bool) for v in values):
        raise SourceError(f"{where} must be a list of integers")
    try:
        return np.array(values, dtype=np.int64)
    except OverflowError:
        raise SourceError(f"{where} must fit int64") from None


def _check(columns: dict[str, _Column], ticks: int, path: str | os.PathLike[str]) -> None:
    size, birth, death, thread = (columns[name] for name in COLUMNS)
    for name, column in columns.items():
        if len(column) != len(size):
            raise SourceError(f"{path}: {name} must have {len(size)} entries, as size has, got {len(column)}")
    dead = death >= 0
    checks = {
        "size must be > 0": size > 0,
        f"birth must be >= 0 and below ticks, {ticks}": (birth >= 0) & (birth < ticks),
        f"death must be -1, or after the birth and at most a step of {ticks} ticks later": (death == -1)
        | (dead & (death > birth) & (death <= birth + ticks)),
        "thread must be >= 0": thread >= 0,
    }
    for message, holds in checks.items():
        if not holds.all():
            at = int(np.flatnonzero(~holds)[0])
            raise SourceError(f"{path}: {message}, got {columns[message.split()[0]][at]} for allocation {at}")
