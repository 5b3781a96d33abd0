"""A network as it is: its plan, and the bytes that a percentage is of."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from .. import _core
from ..errors import SourceError, UnsupportedError
from ..estimating.estimate import estimate
from ..frontend import steps_of
from ..kinds import PLACED
from ..ops import without_overlap
from ..options.barriers import with_barriers
from ..solving.planning import plan, sharing_of

if TYPE_CHECKING:
    from ..importers import Captured
    from ..plans.plan import Plan

_WHEN_IT_RUNS = "what the network holds when it runs as it is, kernels' memory counted"
_AS_PLANNED = "the peak of the network as it is"


def plan_unchanged(
    read: Captured,
    planner: str,
    storage: _core.StorageOptions,
    barrier: Collection[str] = (),
    time_limit: float | None = None,
) -> Plan:
    """The plan of a network that was read; of one whose planner knows no outputs over inputs, without these."""
    assert isinstance(read.buffers, _core.Graph)
    graph = with_barriers(read.buffers, barrier)
    how = {"time_limit": time_limit, **sharing_of(storage)}
    try:
        found = plan(graph, planner, **how)
    except UnsupportedError:
        if (apart := without_overlap(graph)) is graph:
            raise
        found = plan(apart, planner, **how)
    return replace(found, source=read.source, notes=read.notes, scratch=read.above_results)


def whole_of(read: Captured, storage: _core.StorageOptions, planned: Plan) -> tuple[int, str]:
    """What a percentage is of: bytes, and what they are in words.

    They are what the network holds when it runs, if that is known, and what was read counts what kernels allocate. Else
    they are the peak of its plan.
    """
    held = _when_it_runs(read, storage)
    return (planned.peak, _AS_PLANNED) if held is None else (held, _WHEN_IT_RUNS)


def _when_it_runs(read: Captured, storage: _core.StorageOptions) -> int | None:
    """Bytes of a step of a module, of what has a place in the arena; None if another part of a step has none."""
    source = read.source
    if source is None or not source.reading.kernels or steps_of(source.value) is None:
        return None
    if not {*PLACED} <= {*storage.place}:
        return None
    how = source.reading
    try:
        found = estimate(source.value, args=how.args, kwargs=how.kwargs, train=how.train, optimizer=how.optimizer)
    except (SourceError, UnsupportedError):  # as where sizes depend on data, and are given
        return None
    inputs = found.inputs if "input" in storage.place else 0
    weights = found.weights + found.states if "weight" in storage.place else 0
    return found.total - found.kept + inputs + weights
