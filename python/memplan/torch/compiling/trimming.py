"""malloc gives free memory back once after code was compiled: compiling frees much that no later step needs."""

from __future__ import annotations

import gc
import threading

from ..malloc import trim
from ..training.library import cpu_if_built

_SETTLED = 2  # calls after the last code was loaded: in the first one, torch may still compile
_lock = threading.Lock()
_calls = _SETTLED  # since code was loaded last


def loaded() -> None:
    """Code was compiled, or found in a cache."""
    global _calls
    _calls = 0


def called() -> None:
    """Wrapper code calls this first whenever it runs."""
    global _calls
    if _calls >= _SETTLED:
        return
    with _lock:
        _calls += 1
        settled = _calls == _SETTLED
    if settled:
        gc.collect()
        if (library := cpu_if_built()) is not None:
            library.give_back()
        trim()
