"""Where the tensors of a graph lie by a plan of any tool, and what is wrong with that."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..kinds import kind_of
from ..options.checks import check_donated
from ..text import offer

if TYPE_CHECKING:
    from .plan import Plan

_IN_ARENA = -1  # the region of what lies there


def offsets_of(plan: Plan) -> dict[str, int]:
    """The offsets of a plan by the names of tensors and workspaces."""
    if plan.placed is not None:  # what a file says of tensors, and of the buffers that are none
        inside = {name: offset for name, (_, offset, _) in plan.placed.items()}
        return {slot.name: slot.offset for slot in plan} | inside
    if plan.graph is None and plan.pools is None:
        names = plan.problem.names or [f"#{b}" for b in range(len(plan))]
        return dict(zip(names, plan.offsets.tolist(), strict=True))
    return dict(zip(plan.tensors.names, plan.tensors.offset.tolist(), strict=True))


def outside_of(plan: Plan) -> dict[str, tuple[str, int]]:
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


def refuse_unknown(given: Collection[str], known: Collection[str], what: str) -> None:
    """Refuse offsets of what is not there, and offer what is."""
    there = set(known)
    for name in given:
        if name not in there:
            raise ValueError(f"offsets names {name!r}, which is none of the {what}; {offer(name, list(known), what)}")


class Placed:
    """Where the tensors and workspaces of a graph lie: `given` in the arena, or `outside` it, in the bytes of others.

    Tensors of these `kinds` must have a place in the arena.
    """

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
        refuse_unknown(given, [*(t.name for t in graph.tensors), *self._workspaces.values()], "tensors and workspaces")
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
                region[t], offset[t] = _IN_ARENA, self._given[name]
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
        names = {tensor.name: t for t, tensor in enumerate(self._graph.tensors)}
        excluded = {int(self._region[names[name]]) for name in self._graph.layout.exclude if name in names}
        for t, tensor in enumerate(self._graph.tensors):
            kind = kind_of(tensor, returned)
            needed = tensor.bytes > 0 and kind in kinds and t not in excluded
            if self._region[t] == t and needed and tensor.name not in self._outside:
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
    plain = _core.Graph(graph.tensors, graph.ops, graph.outputs)  # whatever is asked of where things lie
    buffers = _core.buffers_of(plain, _core.StorageOptions(["workspace"]))
    rows = buffers.buffer_of_workspace.tolist()
    return {k: buffers.problem.name(b) for k, b in enumerate(rows) if b >= 0}
