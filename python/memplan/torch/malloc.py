"""glibc's malloc keeps much of what is freed: it gives that back when it is told to."""

from __future__ import annotations

import ctypes
import gc


def trim() -> None:
    """Give free memory back to the system, where malloc can."""
    function = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if function is not None:
        function(0)


def tidy() -> None:
    """Free what only cycles of Python hold, and give free memory back."""
    gc.collect()
    trim()
