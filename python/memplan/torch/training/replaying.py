"""Steps are served from one arena, as a plan of a tape says."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...importers.tape import ALIGNMENT, Tape
from .report import REASONS, Divergence, Report, stack

if TYPE_CHECKING:
    from ...plans.plan import Plan
    from .library import Library

_Column = npt.NDArray[np.int64]


class Arena:
    """The memory of one or more plans of tapes, which serves steps; `memplan.torch.arena` makes it.

    ``with arena:`` serves one step: the allocations inside are numbered from 0. Enter it again for the next step, or
    call `step` inside.

    Every allocation inside gets the place that the plan has for it, if it has the size of the tape and nothing that is
    alive lies there. All others come from torch's own allocator. So results never depend on the tape. A tensor that is
    alive when the steps end keeps its memory: the arena is freed when it is gone, and nothing in it is alive.
    """

    def __init__(self, plans: Mapping[str, Plan], stacks: bool, library: Library) -> None:
        self._names = list(plans)
        self._library = library
        self._stacks = stacks
        self._stack: tuple[str, ...] = ()
        self._inside = False
        self.bytes = max(plan.peak for plan in plans.values())
        self._handle = library.arena(self.bytes, ALIGNMENT["cpu"], [_track(n, p) for n, p in plans.items()])
        self._free = weakref.finalize(self, library.release, self._handle)

    def __enter__(self) -> Arena:
        self._library.begin("an arena's step")
        self._inside = True
        try:
            self._begin(-1)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._inside = False
        self._library.stop()
        self._library.end()

    def step(self, name: str | None = None) -> None:
        """Begin the next step, inside of ``with arena:``: allocations are numbered from 0 again.

        Parameters
        ----------
        name
            The plan that the step follows. By default, the first allocations choose: the plan of the last step, or
            another one whose first sizes are those of the step.

        Raises
        ------
        ValueError
            An unknown name.
        RuntimeError
            Not inside of the arena's `with`.
        """
        if not self._inside:
            raise RuntimeError("arena.step() begins a step inside of `with arena:`")
        if name is not None and name not in self._names:
            raise ValueError(f"name must be one of {', '.join(map(repr, self._names))}, got {name!r}")
        self._begin(-1 if name is None else self._names.index(name))

    def _begin(self, track: int) -> None:
        self._library.step(self._handle, track, self._teller() if self._stacks and not self._stack else None)

    def _teller(self) -> Callable[[int], None]:
        """Keeps the stack of the first divergence. The library holds it on, so it does not hold the arena."""
        found = weakref.ref(self)

        def tell(_: int) -> None:
            if (arena := found()) is not None:
                arena._stack = stack()

        return tell

    def report(self) -> Report:
        """What came of the steps until now."""
        found = self._library.figures(self._handle)
        return Report(
            steps=found["steps"],
            served=found["served"],
            moved=found["moved"],
            outside=found["outside"],
            missed=found["missed"],
            missed_bytes=found["missed_bytes"],
            arena_bytes=self.bytes,
            arena_peak=found["peak"],
            outside_peak=found["outside_peak"],
            alive=found["live"],
            divergence=self._divergence(found) if found["reason"] else None,
        )

    def _divergence(self, found: dict[str, int]) -> Divergence:
        return Divergence(
            step=found["step"],
            plan=self._names[found["track"]],
            allocation=found["number"],
            thread=found["thread"],
            expected=None if found["expected"] < 0 else found["expected"],
            got=found["got"],
            reason=REASONS[found["reason"]],
            stack=self._stack,
        )

    def __repr__(self) -> str:
        return f"<memplan.torch.Arena: {self.bytes} bytes, {len(self._names)} plans>"


def arena(plan: Plan | Sequence[Plan] | Mapping[str, Plan], *, stacks: bool = False) -> Arena:
    """One arena that serves steps of a program, as plans of its recorded steps say.

    Parameters
    ----------
    plan
        The plan of a tape, or several for steps of several shapes, such as the last batch and an evaluation: a
        sequence, or a mapping from names. The arena has the bytes of the largest.
    stacks
        Keep where in the program a step differs from its tape for the first time.

    Raises
    ------
    TypeError, ValueError
        Not the plan of a tape of the CPU, or one whose offsets are not aligned to 64 bytes.
    RuntimeError
        Another allocator is in torch's place.
    """
    from .library import cpu

    plans = _named(plan)
    for name, one in plans.items():
        if (device := tape_of(name, one).device) != "cpu":
            raise ValueError(f"plan {name!r} is of a tape of {device!r}: steps are served on the CPU alone")
    return Arena(plans, stacks, cpu())


def _named(given: Any) -> dict[str, Plan]:
    from ...plans.plan import Plan

    if isinstance(given, Plan):
        given = [given]
    if isinstance(given, Sequence) and not isinstance(given, str):
        given = {str(i): plan for i, plan in enumerate(given)}
    if not isinstance(given, Mapping) or not given:
        raise TypeError(f"arena takes a plan, or a sequence or mapping of plans, got {given!r}")
    for name, plan in given.items():
        if not isinstance(plan, Plan):
            raise TypeError(f"arena takes plans, got {type(plan).__name__} for {name!r}")
    return dict(given)


def _track(name: str, plan: Plan) -> tuple[_Column, ...]:
    """The slots of all allocations of the plan's tape."""
    tape = tape_of(name, plan)
    offset = np.full(len(tape), -1, dtype=np.int64)
    offset[~tape.outlives] = plan.offsets
    return tape.size, offset, tape.thread, tape.until


def tape_of(name: str, plan: Plan) -> Tape:
    """The tape of a plan; ValueError if it has none."""
    tape = None if plan.source is None else plan.source.value
    if not isinstance(tape, Tape):
        raise ValueError(
            f"plan {name!r} is not of a tape: record a step by memplan.torch.record() and plan it by memplan.plan(tape)"
        )
    return tape
