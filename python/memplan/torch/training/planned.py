"""A step that plans itself: recorded once it is warm, and then served from one arena."""

from __future__ import annotations

import functools
import mmap
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from ... import sizes
from ...importers.tape import COLUMNS, Tape
from ..malloc import tidy
from .replaying import Arena, arena, tape_of
from .report import Report
from .step_recording import record

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from ...explaining.explanation import Explanation
    from ...plans.plan import Plan

P = ParamSpec("P")
R = TypeVar("R")
Shapes = tuple[Any, ...]
MOST_PLANS = 8  # of one arena: steps of further shapes are served by these
MUCH = 0.01  # of the arena's bytes: if two calls of a shape miss more, it gets a plan of its own


class PlannedStep(Generic[P, R]):
    """A step of a program, which `memplan.torch.planned` makes: call it as the step itself.

    Attributes
    ----------
    plans : dict
        The plans of the tapes, by the shapes of the tensors that the step was called with.
    began : int
        Bytes of anonymous memory that the process held before the first call: Python, torch and the weights too. 0
        where it is not known.
    held : tuple of int
        Bytes of anonymous memory that the process held at most: in the recorded step, and in the first served one. 0
        before that; 0 and -1 where it is not known.
    """

    def __init__(self, step: Callable[P, R], warmup: int, planner: str, quiet: bool, stacks: bool) -> None:
        self._step, self._warmup, self._planner = step, warmup, planner
        self._quiet, self._stacks = quiet, stacks
        self._seen: dict[Shapes, int] = {}  # calls that were not recorded
        self._misses: dict[Shapes, int] = {}  # served calls that missed much, one after another
        self._report: Report | None = None  # of the last arena
        self._open: _Recording | None = None
        self._tidied = False  # whether memory of the calls before has been given back
        self._lock = threading.Lock()
        self.plans: dict[Shapes, Plan] = {}
        self.arena: Arena | None = None
        self.began, self.held = 0, (0, 0)
        functools.update_wrapper(self, step)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the step: plain while it warms up, recorded twice, then served."""
        if not self._lock.acquire(blocking=False):  # another thread is in the step, or the step calls itself
            return self._step(*args, **kwargs)
        try:
            return self._run(_shapes(args, kwargs), functools.partial(self._step, *args, **kwargs))
        finally:
            self._lock.release()

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """A method of a class can be planned too."""
        return self if instance is None else types.MethodType(self, instance)

    def report(self) -> Report | None:
        """What came of the served steps; None before the first."""
        return self._report if self.arena is None else self.arena.report()

    def explain(self) -> Explanation:
        """All that a step holds: what lies in the arena, what outlives the step, and what was there before.

        Of several shapes, it is the step whose plan is largest. Weights, states of optimizers and other tensors are
        those that Python holds now. What libraries such as oneDNN allocate for themselves is not counted.

        Raises
        ------
        RuntimeError
            The step is not planned yet.
        """
        from ...explaining.recorded import held_by_tape
        from .holding import around

        if not self.plans:
            raise RuntimeError(f"the step is not planned yet: call it {self._warmup + 2:,} times before explain()")
        plan = max(self.plans.values(), key=lambda plan: plan.peak)
        return held_by_tape(plan, tape_of(self._name(), plan), self._name(), plan.peak, around()).explain()

    def forget(self) -> None:
        """Give the arena back, and plan anew from the next call on."""
        if self._open is not None:
            self._open.end()
        self._seen, self._misses, self.plans, self.arena, self._report, self._open = {}, {}, {}, None, None, None

    def _run(self, shapes: Shapes, step: Callable[[], R]) -> R:
        from .library import cpu

        if self._open is None and cpu().busy:  # with another step, whose arena or tape goes on
            return step()
        self.began = self.began or _anonymous_memory()
        if self._open is not None:
            return self._record(shapes, step)
        seen = self._seen[shapes] = self._seen.get(shapes, 0) + 1
        if not self._wants_a_tape(shapes):
            return self._serve(shapes, step)
        if seen <= self._warmup:
            return step()
        self._report, self.arena = self.report(), None  # a step that is recorded needs no arena
        return self._record(shapes, step)

    def _wants_a_tape(self, shapes: Shapes) -> bool:
        if shapes in self.plans or len(self.plans) >= MOST_PLANS:
            return False
        return not self.plans or self._misses.get(shapes, 0) > 1

    def _record(self, shapes: Shapes, step: Callable[[], R]) -> R:
        """Two calls are recorded: the second says when memory dies that the first one leaves."""
        from .library import BusyError

        recording = self._open
        if recording is None:
            try:
                recording = self._open = _Recording(shapes, self._stacks)
            except BusyError:
                return step()
        try:
            with recording:
                result = step()
        except BaseException:
            recording.end()
            self._open = None
            raise
        if recording.calls == 2:
            self._open = None
            self._plan(recording)
        return result

    def _plan(self, recording: _Recording) -> None:
        from ...solving.planning import plan

        self.plans[recording.shapes] = plan(recording.end(), self._planner)
        self.arena = arena(list(self.plans.values()))
        self.held = (recording.held, 0)
        self._tidied = False
        self._misses.clear()

    def _serve(self, shapes: Shapes, step: Callable[[], R]) -> R:
        from .library import BusyError, cpu

        if self.arena is None:
            self.arena = arena(list(self.plans.values()))
        before = self.arena.report().missed_bytes
        first = self.held[1] == 0
        try:
            self.arena.__enter__()
        except BusyError:  # by another thread, since this one looked
            return step()
        if first:
            cpu().watch()
        try:
            if shapes in self.plans:
                self.arena.step(str(list(self.plans).index(shapes)))
            result = step()
        finally:
            self.arena.__exit__()
            if first:
                self.held = (self.held[0], cpu().watched() or -1)
        if not self._tidied:
            self._tidied = True
            tidy()
        missed = self.arena.report().missed_bytes - before
        self._misses[shapes] = self._misses.get(shapes, 0) + 1 if missed > MUCH * self.arena.bytes else 0
        if first and not self._quiet:
            self._quiet = True  # once
            print(self._said(), file=sys.stderr)
        return result

    def _name(self) -> str:
        return str(getattr(self._step, "__name__", "the step"))

    def _said(self) -> str:
        assert self.arena is not None
        text = f"memplan: {self._name()} runs in an arena of {sizes.format_bytes(self.arena.bytes)}"
        before, now = self.held
        if before > 0 and now > 0:
            said = "{} before its first call, held {} at most in a step as it was, and {} now"
            text += "; the process had " + said.format(*map(sizes.format_bytes, (self.began, before, now)))
        return text


class _Recording:
    """Two calls of a step, recorded. What runs between them is no part of the tape, but frees what the first left."""

    def __init__(self, shapes: Shapes, stacks: bool) -> None:
        from .library import cpu

        self.shapes, self.calls, self.held = shapes, 0, 0
        self._library = cpu()
        self._context: AbstractContextManager[Tape] = record(stacks=stacks)
        self._tape = self._context.__enter__()
        self._begin = self._end = 0

    def __enter__(self) -> None:
        if self.calls == 0:
            self._begin = self._library.ticks()
            self._library.watch()
        self._tape.step()

    def __exit__(self, *_: object) -> None:
        if self.calls == 0:
            self.held = self._library.watched()
            self._end = self._library.ticks()
        self.calls += 1

    def end(self) -> Tape:
        self._context.__exit__(None, None, None)
        tape = self._tape
        inside = tape.birth < self._end - self._begin
        for name in COLUMNS:
            setattr(tape, name, getattr(tape, name)[inside])
        tape.stacks = [stack for stack, kept in zip(tape.stacks, inside.tolist(), strict=False) if kept]
        return tape


def _anonymous_memory() -> int:
    """Bytes of anonymous memory that the process holds; 0 where Linux does not say."""
    try:
        resident, shared = Path("/proc/self/statm").read_text(encoding="ascii").split()[1:3]
    except OSError:
        return 0
    return (int(resident) - int(shared)) * mmap.PAGESIZE


def _shapes(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Shapes:
    from torch import Tensor

    from ..private import pytree

    return tuple((tuple(x.shape), x.dtype) for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, Tensor))


@overload
def planned(
    step: Callable[P, R], *, warmup: int = ..., planner: str = ..., quiet: bool = ..., stacks: bool = ...
) -> PlannedStep[P, R]: ...
@overload
def planned(
    step: None = None, *, warmup: int = ..., planner: str = ..., quiet: bool = ..., stacks: bool = ...
) -> Callable[[Callable[P, R]], PlannedStep[P, R]]: ...
def planned(
    step: Any = None, *, warmup: int = 1, planner: str = "auto", quiet: bool = False, stacks: bool = False
) -> Any:
    """A step that plans itself: ``step = memplan.torch.planned(step)``, or ``@memplan.torch.planned`` above it.

    The first calls run as they are. The next two are recorded, and planned. All later ones are served from one arena.
    Results never change: see `arena`. When the shapes of its tensors change, a step is served by the plans that there
    are. If that misses, two calls are recorded anew, and the arena holds that plan too.

    Parameters
    ----------
    step
        A function that runs one step, such as one of training: forward, backward and update. Where it is called while
        another step is recorded or served, or by several threads at once, it runs as it is.
    warmup
        Calls before the recorded ones, >= 0. The first call makes what all later ones keep, such as the states of an
        optimizer.
    planner
        See `plan`.
    quiet
        Do not say on stderr, once, what the arena has and what the process held before and holds now.
    stacks
        Keep where in the program each allocation was made: `PlannedStep.explain` names buffers so. This makes the
        recorded calls slow.

    Returns
    -------
    PlannedStep
        Called as the step. `report` says what came of it.

    Raises
    ------
    TypeError, ValueError
        The step cannot be called; or a bad option.
    """
    from ...options import checks
    from ...planning import registry

    checks.integer(warmup, "warmup", 0, 2**31 - 1)
    registry.check_planner(planner)
    if step is None:
        return functools.partial(planned, warmup=warmup, planner=planner, quiet=quiet, stacks=stacks)
    if not callable(step):
        raise TypeError(f"planned takes a function that runs one step, got {step!r}")
    return PlannedStep(step, warmup, planner, quiet, stacks)
