"""What a model is called with: arguments by position and by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def positional(args: object) -> tuple[Any, ...]:
    """The arguments by position; TypeError for anything but a tuple or list, such as ``args=x`` for ``args=(x,)``."""
    if isinstance(args, (tuple, list)):
        return tuple(args)
    raise TypeError(f"args must be a tuple of the positional arguments, args=(x,), got {type(args).__name__}")


def keywords(value: object, name: str = "kwargs") -> dict[str, Any]:
    """A mapping from names, or None for an empty one; TypeError for anything else."""
    if value is None:
        return {}
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return dict(value)
    raise TypeError(f"{name} must be a mapping from names to values, got {type(value).__name__}")
