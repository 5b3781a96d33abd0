"""What later layers do with facts. They say so when the package is imported, as facts import nothing of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_DONE: dict[str, Callable[..., Any]] = {}


def does(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator of the function that does it."""

    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        _DONE[name] = function
        return function

    return keep


def later(name: str) -> Callable[..., Any]:
    """The function that does it."""
    return _DONE[name]
