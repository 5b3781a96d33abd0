"""A check for everybody: plans of other tools, held against a problem or a graph."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _core
from .api import capture
from .checks import check_donated, checked_place, names
from .errors import LISTED, invalid_plan
from .facts.plan import Plan
from .kinds import PLACED, kind_of
from .sizes import in_bytes
from .text import offer

_OUTSIDE = -1  # of what is not in the arena


def verify(
    source: Any,
    offsets: Any = None,
    *,
    capacity: int | str | None = None,
    alignment: int | str = 1,
    place: Collection[str] = PLACED,
    donate: Collection[str] = (),
    limit: int | None = LISTED,
    **options: Any,
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
        captured: Any = source.graph if source.graph is not None and _is_named(offsets) else source.problem
    else:
        captured = capture(source, **options)
    if isinstance(captured, _core.Problem):
        column = _of_buffers(captured, offsets)
        faults: list[Any] = list(_core.verify(captured, column, capacity=room, limit=more))
        peak = _core.peak_of(captured, column)
    else:
        outside = _outside(offsets) if isinstance(offsets, Plan) else {}
        step = in_bytes(alignment, "alignment", 1)
        placed = _Placed(captured, _by_name(offsets), outside, checked_place(place), step)
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
        if offsets.placed is not None:  # what a file says of tensors, and of the buffers that are none
            inside = {name: offset for name, (_, offset, _) in offsets.placed.items()}
            return {slot.name: slot.offset for slot in offsets} | inside
        return dict(zip(offsets.tensors.names, offsets.tensors.offset.tolist(), strict=True))
    if not isinstance(offsets, Mapping):
        expected = "a mapping from names to bytes, or a Plan; a problem takes an array too"
        raise TypeError(f"offsets must be {expected}, got {type(offsets).__name__}")
    for name, offset in offsets.items():
        if isinstance(offset, bool) or not isinstance(offset, (int, np.integer)):
            raise TypeError(f"offsets[{name!r}] must be an integer, got {offset!r}")
        if not -(2**63) <= offset < 2**63:
            raise ValueError(f"offsets[{name!r}] must fit int64, got {offset}")
    return {name: int(offset) for name, offset in offsets.items()}


def _outside(plan: Plan) -> dict[str, tuple[str, int]]:
    """Of tensors that a plan leaves outside the arena: in the bytes of which one, and where there."""
    if plan.graph is None or plan.buffers is None:
        return {}
    tensors, buffers = plan.graph.tensors, plan.buffers
    rows = zip(buffers.buffer_of_tensor.tolist(), buffers.root_of_tensor, buffers.offset_in_buffer, strict=True)
    return {
        tensor.name: (tensors[root].name, int(offset))
        for tensor, (buffer, root, offset) in zip(tensors, rows, strict=True)
        if buffer < 0
    }


def _of_buffers(problem: _core.Problem, offsets: Any) -> Any:
    """A column of offsets, in the order of the buffers."""
    if not _is_named(offsets) and offsets is not None:
        return offsets
    given = _by_name(offsets)
    buffers = [problem.name(b) for b in range(len(problem))]
    _refuse_unknown(given, buffers, "buffers")
    for name in buffers:
        if name not in given:
            raise ValueError(f"offsets has no {name!r}; each of the {len(buffers)} buffers needs one")
    return np.array([given[name] for name in buffers], dtype=np.int64)


def _refuse_unknown(given: Collection[str], known: Collection[str], what: str) -> None:
    there = set(known)
    for name in given:
        if name not in there:
            raise ValueError(f"offsets names {name!r}, which is none of the {what}; {offer(name, list(known), what)}")


class _Placed:
    """Where the tensors and workspaces of a graph lie."""

    def __init__(
        self,
        graph: _core.Graph,
        given: Mapping[str, int],
        outside: Mapping[str, tuple[str, int]],
        kinds: list[str],
        alignment: int,
    ) -> None:
        self._graph, self._alignment, self._outside = graph, alignment, outside
        self._workspaces = _workspaces(graph)
        _refuse_unknown(given, [*(t.name for t in graph.tensors), *self._workspaces.values()], "tensors and workspaces")
        self._given = given
        self._region, self._offset = self._addresses()
        self._require(kinds)
        self._in_arena = self._lying_there()

    def _addresses(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Per tensor, its region and its offset there: as given, or of a view where its bytes are, or outside."""
        position = {tensor.name: t for t, tensor in enumerate(self._graph.tensors)}
        region, offset = np.arange(len(position)), np.zeros(len(position), dtype=np.int64)
        known = self._given.keys() | self._outside.keys()
        for name, t in position.items():
            if name in self._given:
                region[t], offset[t] = _OUTSIDE, self._given[name]
            elif (place := self._outside.get(name)) is not None and place[0] in position:
                region[t], offset[t] = position[place[0]], place[1]
        self._views: set[str] = set()
        for op in self._graph.ops:
            self._views.update(view[0] for view in (*op.aliases, *op.overwrites))
            for output, source, inside in (*op.aliases, *op.overwrites, *op.slices):
                if output not in known:
                    t, s = position[output], position[source]
                    region[t], offset[t] = region[s], min(int(offset[s]) + inside, 2**63 - 1)
        return region, offset

    def _require(self, kinds: list[str]) -> None:
        returned = set(self._graph.outputs)
        for t, tensor in enumerate(self._graph.tensors):
            kind = kind_of(tensor, returned)
            if self._region[t] == t and tensor.bytes > 0 and kind in kinds and tensor.name not in self._outside:
                raise ValueError(
                    f"offsets has no {tensor.name!r}, a tensor of {tensor.bytes} bytes and kind {kind}; the option "
                    f"place says which kinds must have one"
                )
        for k, name in self._workspaces.items():
            if "workspace" in kinds and name not in self._given:
                raise ValueError(
                    f"offsets has no {name!r}, the workspace of {self._graph.ops[k].workspace} bytes of op "
                    f"{self._graph.ops[k].name!r}; the option place says which kinds must have one"
                )

    def _lying_there(self) -> tuple[_core.Problem, npt.NDArray[np.int64]]:
        """What lies in the arena, each at a step of its own: for all that does not depend on time."""
        tensors, ops = self._graph.tensors, self._graph.ops
        here = [(tensors[t].name, tensors[t].bytes, int(self._offset[t])) for t in np.flatnonzero(self._region < 0)]
        here += [
            (name, ops[k].workspace, self._given[name]) for k, name in self._workspaces.items() if name in self._given
        ]
        found, size, offset = ([row[column] for row in here] for column in range(3))
        steps = np.arange(len(here))
        # Views begin where they must, and not where buffers do.
        aligned = [1 if name in self._views else self._alignment for name in found]
        return _core.Problem(size, steps, steps + 1, aligned, found), np.array(offset, dtype=np.int64)

    @property
    def peak(self) -> int:
        return _core.peak_of(*self._in_arena)

    def faults(self, donate: list[str], capacity: int | None, limit: int | None) -> list[Any]:
        check_donated(self._graph, donate)
        alone = _core.verify(*self._in_arena, capacity=capacity, limit=limit)
        if alone:
            return list(alone)
        donated = [t for t, tensor in enumerate(self._graph.tensors) if tensor.name in donate]
        workspaces = [self._given.get(self._workspaces.get(k, ""), -1) for k in range(len(self._graph.ops))]
        return list(_core.replay_places(self._graph, self._offset, self._region, workspaces, donated, limit=limit))


def _workspaces(graph: _core.Graph) -> dict[int, str]:
    """The names of the ops' workspaces, as plans have them."""
    buffers = _core.buffers_of(graph, _core.StorageOptions(["workspace"]))
    rows = buffers.buffer_of_workspace.tolist()
    return {k: buffers.problem.name(b) for k, b in enumerate(rows) if b >= 0}
