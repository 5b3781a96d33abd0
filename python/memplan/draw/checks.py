"""What is given to be drawn, checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import _core

if TYPE_CHECKING:
    from ..plans.record import PlanRecord


def is_plan(value: Any) -> bool:
    """Whether it is a plan; the class itself hands over to pictures, and is not known here."""
    return isinstance(getattr(value, "problem", None), _core.Problem)


def checked_plans(plans: Any) -> list[PlanRecord]:
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
