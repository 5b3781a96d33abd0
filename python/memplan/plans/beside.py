"""What kernels allocate beside the arena of a plan, when it runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .record import PlanRecord

_PIECES = re.compile(r"/\d+of(\d+)$")  # as the core numbers the pieces of an op,
_AGAIN = re.compile(r"~\d+$")  # and the runs of an op after the first


def beside(plan: PlanRecord) -> int:
    """Bytes for which the arena has no room: the most that an op and what is alive with it need, above the peak.

    A piece of an op needs its share.
    """
    if not plan.scratch:
        return 0
    step, load = plan.problem.load_curve()
    most = plan.peak
    for position, name in enumerate(plan.order):
        own = _scratch_of(name, plan.scratch)
        if own:
            at = int(np.searchsorted(step, plan.steps.of(position)[0], side="right")) - 1
            most = max(most, own + (int(load[at]) if at >= 0 else 0))
    return most - plan.peak


def _scratch_of(name: str, scratch: Mapping[str, int]) -> int:
    """Bytes of an op, by its own name, or by that which it had before it ran again, or in pieces."""
    pieces = 1
    while name not in scratch:
        whole = _AGAIN.sub("", name)
        if whole == name and (found := _PIECES.search(name)) is not None:
            pieces, whole = pieces * int(found[1]), name[: found.start()]
        if whole == name:
            return 0
        name = whole
    return -(-scratch[name] // pieces)
