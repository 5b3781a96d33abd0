"""Several methods, of which one runs at a time, in one arena."""

from .running import MethodsArena

__all__ = ["MethodsArena"]
