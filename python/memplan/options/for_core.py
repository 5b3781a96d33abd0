"""What is asked of a planner, as the core takes it: it is made here, and passed on whole."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..planning.registry import in_python
from .records import Search

_NOTHING = Search()
_LEAST = 1e-3  # seconds that a call of the core is given, however late it is


def core_options(
    planner: str,
    search: Search = _NOTHING,
    *,
    capacity: int | None = None,
    lower_bound: int = 0,
    earlier: Mapping[str, int] | None = None,
    warm: npt.NDArray[np.int64] | None = None,
    tell: Callable[..., Any] | None = None,
) -> _core.PlanOptions:
    """A planner of the registry, wherever it comes from, with its options. Ctrl-C ends its search.

    Bytes are given apart, as `capacity` of the search may be a share: the capacity, a bound that is proven, and where
    buffers began in an earlier plan, by name or one by one. `tell` hears of better plans as the core has them.
    """
    return _core.PlanOptions(  # by position: keywords would take microseconds
        planner,
        in_python(planner),
        search.time_limit,
        search.seed,
        search.threads,
        capacity,
        lower_bound,
        earlier,
        warm,
        tell,
        search.on_order,
        True,
    )


def time_left(limit: float | None, begin: float) -> float | None:
    """Seconds of a time limit that are left; it counts from `begin`, a time of `time.perf_counter`."""
    return None if limit is None else max(limit - (time.perf_counter() - begin), _LEAST)
