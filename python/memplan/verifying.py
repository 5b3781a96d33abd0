"""A check for everybody: plans of other tools, held against a problem or a graph."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _core
from .importers import captured
from .kinds import PLACED
from .options.checks import checked_place, names
from .options.taking import request
from .plans.failing import LISTED, invalid_plan
from .plans.placed import Placed, offsets_of, outside_of, refuse_unknown
from .plans.plan import Plan
from .sizes import in_bytes

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options.keywords import VerifyOptions


def verify(
    source: Any,
    offsets: Any = None,
    *,
    capacity: int | str | None = None,
    alignment: int | str = 1,
    place: Collection[str] = PLACED,
    donate: Collection[str] = (),
    limit: int | None = LISTED,
    **options: Unpack[VerifyOptions],
) -> int:
    """Check a plan that any tool has made, by code that shares nothing with the planners; returns its peak in bytes.

    On a problem: buffers that are alive together, or that conflict, share no bytes. On a graph, by a replay of its ops:
    each op finds its inputs as they were written, and writes over an input only where it may.

    Parameters
    ----------
    source, options
        What was planned: a problem, a graph, or any other source, with the options of `capture`; or a plan, whose
        problem or graph counts.
    offsets
        Bytes from the beginning of the arena: a mapping from names to offsets, or a `Plan`, as of `read_plan`. For a
        problem, also an array in the order of its buffers. For a graph, names are those of tensors, and
        "conv1.workspace" is the workspace of op "conv1". A view or slice that is not named lies in what it shows. May
        be left out for a plan, which is then checked as `Plan.verify` does.
    capacity
        Bytes that the arena has, as an integer or text such as "1.5GiB". None: any number.
    alignment
        For a graph: bytes of which all offsets must be multiples.
    place
        For a graph: kinds of tensors that must have an offset. Others may have one. Those without lie outside.
    donate
        For a graph: names of graph inputs whose bytes may be taken.
    limit
        How many violations are listed at most; None for all.

    Raises
    ------
    InvalidPlanError
        Where the plan is wrong: which buffers or tensors share which bytes, and when. `violations` lists all.
    TypeError, ValueError
        Bad input, such as a name that the source does not have, or a buffer without an offset.
    """
    room = None if capacity is None else in_bytes(capacity, "capacity")
    more = None if limit is None else limit + 1
    if isinstance(source, Plan):
        if offsets is None:
            source.verify(limit)
            offsets = source.offsets
        buffers: Any = source.graph if source.graph is not None and _is_named(offsets) else source.problem
    else:
        buffers = captured(source, request("verify", options).reading).buffers
    if isinstance(buffers, _core.Problem):
        column = _of_buffers(buffers, offsets)
        faults: list[Any] = list(_core.verify(buffers, column, capacity=room, limit=more))
        peak = _core.peak_of(buffers, column)
    else:
        outside = outside_of(offsets) if isinstance(offsets, Plan) else {}
        step = in_bytes(alignment, "alignment", 1)
        placed = Placed(buffers, _by_name(offsets), outside, checked_place(place), step)
        faults = placed.faults(names(donate, "donate"), room, more)
        peak = placed.peak
    if faults:
        raise invalid_plan("the plan", faults, limit)
    return peak


def _is_named(offsets: Any) -> bool:
    return isinstance(offsets, (Mapping, Plan))


def _by_name(offsets: Any) -> dict[str, int]:
    """Offsets by name: given so, or those of a plan's tensors."""
    if isinstance(offsets, Plan):
        return offsets_of(offsets)
    if not isinstance(offsets, Mapping):
        expected = "a mapping from names to bytes, or a Plan; a problem takes an array too"
        raise TypeError(f"offsets must be {expected}, got {type(offsets).__name__}")
    for name, offset in offsets.items():
        if isinstance(offset, bool) or not isinstance(offset, (int, np.integer)):
            raise TypeError(f"offsets[{name!r}] must be an integer, got {offset!r}")
        if not -(2**63) <= offset < 2**63:
            raise ValueError(f"offsets[{name!r}] must fit int64, got {offset}")
    return {name: int(offset) for name, offset in offsets.items()}


def _of_buffers(problem: _core.Problem, offsets: Any) -> Any:
    """A column of offsets, in the order of the buffers."""
    if not _is_named(offsets) and offsets is not None:
        return offsets
    given = _by_name(offsets)
    buffers = [problem.name(b) for b in range(len(problem))]
    refuse_unknown(given, buffers, "buffers")
    for name in buffers:
        if name not in given:
            raise ValueError(f"offsets has no {name!r}; each of the {len(buffers)} buffers needs one")
    return np.array([given[name] for name in buffers], dtype=np.int64)
