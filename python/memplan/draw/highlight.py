"""What a picture is asked for, checked: plans, titles, tensors and buffers to bring out, and a range of steps."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .. import _core
from ..plans.plan import Plan
from ..plans.slots import Slot
from ..plans.usage import step_of_peak

Steps = tuple[int, int]  # half-open


@dataclass(frozen=True)
class Mark:
    """A tensor or buffer to bring out: the buffer, and its slot or that of the tensor that lies in it with others."""

    slot: Slot
    buffer: int
    whole: bool


def marks(plan: Plan, highlight: str | Iterable[str]) -> list[Mark]:
    """The tensors and buffers of these names, or of this one; a name of both is that of the buffer.

    The path of a module stands for all that lies in the arena of it; so does a part of a path, for all such modules.

    ValueError: the plan has none of that name, or does not place it.
    """
    found = (_mark(plan, full) for name in names_in(highlight) for full in _names(plan, name))
    return list(dict.fromkeys(found))


def names_in(highlight: str | Iterable[str]) -> list[str]:
    """One name or several as a list; TypeError for what is neither, such as a mapping."""
    if isinstance(highlight, Mapping) or not isinstance(highlight, Iterable):
        raise TypeError(f"highlight must be a name or a list of names, got {highlight!r}")
    return [highlight] if isinstance(highlight, str) else list(highlight)


def _names(plan: Plan, name: str) -> list[str]:
    """A name itself; of a module's path, or of a part of one, the names of its tensors."""
    if name in plan:
        return [name]
    names = plan.tensors.names
    of_module = [tensor for tensor in names if tensor.startswith(f"{name}.")]
    return of_module or [tensor for tensor in names if f".{name}." in f".{tensor}."] or [name]


def _mark(plan: Plan, name: str) -> Mark:
    try:
        slot, buffer = plan[name], plan.buffer_of(name)
    except KeyError as error:
        raise ValueError(f"highlight: {error.args[0]}") from None
    whole = plan.problem.name(buffer) == slot.name
    return Mark(plan[buffer] if whole else slot, buffer, whole)


def steps_of(plan: Plan) -> Steps:
    """All steps of a plan, from the first birth to the last death; (0, 1) where it has no buffers."""
    problem = plan.problem
    return (int(problem.first.min()), int(problem.last.max())) if len(problem) else (0, 1)


def window(plan: Plan, zoom: str | Sequence[int] | None) -> Steps:
    """The steps to show: all of them, those around the peak, or the given ones.

    ValueError: `zoom` is something else than None, "peak" or two of the plan's steps, the first below the second.
    """
    begin, end = steps_of(plan)
    if zoom is None:
        return begin, end
    if zoom == "peak":
        step = step_of_peak(plan)
        reach = max(8, (end - begin) // 20)
        return (max(begin, step - reach), min(end, step + reach + 1)) if step is not None else (begin, end)
    what = f"zoom must be 'peak' or two steps (first, last) with first < last, that overlap [{begin}, {end})"
    try:
        first, last = map(operator.index, zoom)  # type: ignore[arg-type]  # of anything else it says so
    except (TypeError, ValueError):
        raise ValueError(f"{what}, got {zoom!r}") from None
    if not (first < last and first < end and last > begin):
        raise ValueError(f"{what}, got {zoom!r}")
    return max(first, begin), min(last, end)


def is_plan(value: Any) -> bool:
    """Whether it is a plan; the class itself hands over to pictures, and is not known here."""
    return isinstance(getattr(value, "problem", None), _core.Problem)


def checked_plans(plans: Any) -> list[Plan]:
    """Plans in a list; TypeError where they are something else, such as a dict of names to plans."""
    others = [plan for plan in plans if not is_plan(plan)] if isinstance(plans, Sequence) else [plans]
    if others:
        got = f"a {type(others[0]).__name__}" + " in it" * isinstance(plans, Sequence)
        raise TypeError(f"plans must be a list of plans, such as [plan, other], got {got}")
    return list(plans)


def checked_titles(titles: Any) -> list[str] | None:
    """Titles in a list; TypeError where they are no strings in order."""
    if titles is None:
        return None
    if isinstance(titles, str) or not isinstance(titles, Sequence) or not all(isinstance(t, str) for t in titles):
        raise TypeError(f"titles must be a list of strings, one for each plan, got {titles!r}")
    return list(titles)
