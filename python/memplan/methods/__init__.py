"""Several methods, of which one runs at a time, in one arena."""

from .result import MethodsPlan
from .running import MethodsArena

__all__ = ["MethodsArena", "MethodsPlan"]
