"""What can be said of options before a source is read, which may take minutes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..inplace_ops import checked
from ..planning.orders import check_order
from ..planning.registry import check_planner
from ..sizes import budget_of, in_bytes
from .checks import boolean, callback, checked_place, integer, names, seconds


def check_early(given: Mapping[str, Any]) -> None:
    """Refuse options that no source takes; what is right for some sources is looked at when there is one.

    Raises
    ------
    TypeError, ValueError, MissingDependencyError, PlannerError
        The message names the option, what was expected and what came.
    """
    for option, value in given.items():
        if option in _CHECKS:
            _CHECKS[option](value)


def interrupting(value: Any) -> str:
    """What Ctrl-C does."""
    if value not in ("keep", "raise"):
        raise ValueError(f"on_interrupt must be 'keep' or 'raise', got {value!r}")
    return str(value)


def _by_name(option: str, example: str) -> Callable[[Any], object]:
    def check(value: Any) -> None:
        if value is not None and not (isinstance(value, Mapping) and all(isinstance(name, str) for name in value)):
            raise TypeError(f"{option} must be by name, such as {example}, got {value!r}")

    return check


def _capacity(value: Any) -> None:
    if value is not None:
        budget_of(value, "capacity")


def _switches(*options: str) -> dict[str, Callable[[Any], object]]:
    return {option: lambda value, option=option: boolean(value, option) for option in options}  # type: ignore[misc]


def _lists(*options: str) -> dict[str, Callable[[Any], object]]:
    return {option: lambda value, option=option: names(value, option) for option in options}  # type: ignore[misc]


_CHECKS: dict[str, Callable[[Any], object]] = {
    "planner": check_planner,
    "order": check_order,
    "alignment": lambda value: in_bytes(value, "alignment", 1),
    "place": checked_place,
    "capacity": _capacity,
    "time_limit": lambda value: seconds(value, "time_limit"),
    "seed": lambda value: integer(value, "seed", 0, 2**64 - 1),
    "threads": lambda value: integer(value, "threads", 1, 2**31 - 1),
    "on_improvement": lambda value: callback(value, "on_improvement", "a plan"),
    "on_order": lambda value: callback(value, "on_order", "an OrderProgress"),
    "on_interrupt": interrupting,
    "dims": _by_name("dims", "{'batch': 8}"),
    "kwargs": _by_name("kwargs", "{'mask': mask}"),
    **_switches("inplace", "zero_copy", "train", "inclusive", "trust", "keep_gradients"),
    **_lists("disable_inplace_ops", "donate", "barrier", "exclude"),
    "inplace_ops": checked,
}
