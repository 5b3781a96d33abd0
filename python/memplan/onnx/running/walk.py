"""A graph with regions in pieces, step by step: which values are made of which.

A value is a tensor of the graph by its name, or rows of one by a fresh name. A tensor that is made in pieces is joined
only if something reads it whole; pieces of other regions read their rows of its parts.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from graphlib import TopologicalSorter
from typing import NamedTuple, Protocol

from .regions import Iterations, Network, Pull, Region, Rows


class Held(NamedTuple):
    """A value that holds rows of a tensor, some of which are those of the whole."""

    value: str
    rows: Rows
    valid: Rows


class Part(NamedTuple):
    """Iterations [first, end) of an op along a loop: the values that it reads and makes, by tensor.

    In a tile, it is computed as if there were no other rows.
    """

    op: int
    loop: int
    first: int
    end: int
    is_tile: bool
    reads: Mapping[str, Held]
    makes: Mapping[str, str]


class Maker(Protocol):
    """What is told of each step, in an order in which they may run."""

    def whole(self, op: int) -> None: ...

    def part(self, part: Part) -> None: ...

    def slice(self, tensor: str, of: Held, new: Held) -> None: ...

    def join(self, tensor: str, parts: Sequence[Held], new: Held) -> None: ...

    def add(self, tensor: str, before: str | None, value: str, total: str) -> None: ...


def walk(graph: Network, regions: Sequence[Region], maker: Maker) -> None:
    """Tell `maker` all steps."""
    _Walk(graph, regions, maker).walk()


class _Walk:
    def __init__(self, graph: Network, regions: Sequence[Region], maker: Maker) -> None:
        self._graph, self._regions, self._maker = graph, regions, maker
        self._parts = dict[str, list[Held]]()
        self._count = 0

    def walk(self) -> None:
        for unit in _units(self._graph, self._regions):
            if isinstance(unit, Region):
                self._region(unit)
            else:
                for name in self._graph.ops[unit].inputs:
                    self._require(name)
                self._maker.whole(unit)
        for name in self._graph.outputs:
            self._require(name)

    def _region(self, region: Region) -> None:
        pull, sums = Pull(self._graph, region), dict[str, str]()
        for piece in pull.pieces:
            here, known = dict[str, Held](), dict[tuple[str, Rows], Held]()  # what is made, and read, in this piece
            for k, iterations in piece.items():
                self._part(pull, k, region.loop_of[k], iterations, here, known, sums)
            for name, held in here.items():
                if name in pull.leaving:
                    self._parts.setdefault(name, []).append(held)

    def _part(
        self,
        pull: Pull,
        k: int,
        loop: int,
        iterations: Iterations,
        here: dict[str, Held],
        known: dict[tuple[str, Rows], Held],
        sums: dict[str, str],
    ) -> None:
        op, (first, end, *valid) = self._graph.ops[k], iterations
        read = pull.reads(k, first, end)
        for name in op.inputs:
            if name not in read:
                self._require(name)
        for name, rows in read.items():
            if (name, rows) not in known:
                known[name, rows] = self._rows(name, rows, here)
        makes = {name: self._fresh(name) for name in op.outputs}
        reads = {name: known[name, rows] for name, rows in read.items()}
        self._maker.part(Part(k, loop, first, end, pull.is_tiled, reads, makes))
        written, of_whole = pull.writes(k, first, end), pull.writes(k, *valid)
        for name, rows in written.items():
            here[name] = Held(makes[name], rows, of_whole[name])
        for name in makes.keys() - written.keys():
            last, before = end == op.loops[loop][0], sums.get(name)
            sums[name] = name if last else self._fresh(name) if before else makes[name]
            if last or before:
                self._maker.add(name, before, makes[name], sums[name])

    def _fresh(self, name: str) -> str:
        while True:
            self._count += 1
            fresh = f"{name}/{self._count}"
            if fresh not in self._graph.shapes:
                return fresh

    def _require(self, name: str) -> None:
        """The whole of a tensor of which all rows are there, by its name."""
        parts = self._parts.pop(name, None)
        if parts is not None:
            self._joined(name, parts, Rows(parts[0].rows.axis, 0, self._graph.shapes[name][parts[0].rows.axis]), name)

    def _rows(self, name: str, rows: Rows, here: Mapping[str, Held]) -> Held:
        """A value that holds these rows of a tensor, made in this piece, or before."""
        if name in here:
            return self._sliced(name, here[name], rows)
        all_rows = Rows(rows.axis, 0, self._graph.shapes[name][rows.axis])
        return self._joined(name, self._parts.get(name) or [Held(name, all_rows, all_rows)], rows, None)

    def _joined(self, name: str, parts: Sequence[Held], rows: Rows, new: str | None) -> Held:
        """Rows out of parts, which may overlap; as few as suffice."""
        taken, row = list[Held](), rows.begin
        while row < rows.end:
            part = max((part for part in parts if part.valid.begin <= row), key=lambda part: part.valid.end)
            end = min(part.valid.end, rows.end)
            taken.append(self._sliced(name, part, Rows(rows.axis, row, end)))
            row = end
        if len(taken) == 1 and new is None:
            return taken[0]
        joined = Held(new or self._fresh(name), rows, rows)
        self._maker.join(name, taken, joined)
        return joined

    def _sliced(self, name: str, part: Held, rows: Rows) -> Held:
        if part.rows == rows:
            return part
        new = Held(self._fresh(name), rows, rows)
        self._maker.slice(name, part, new)
        return new


def _units(graph: Network, regions: Sequence[Region]) -> list[int | Region]:
    """Ops, and regions, each after what it reads. O(n log n)."""
    region_of = {k: len(graph.ops) + r for r, region in enumerate(regions) for k in region.loop_of}
    unit_of = [region_of.get(k, k) for k in range(len(graph.ops))]
    position, waits = dict[int, int](), dict[int, set[int]]()
    for k, op in enumerate(graph.ops):
        unit = unit_of[k]
        position[unit] = k
        waits.setdefault(unit, set()).update(
            {unit_of[graph.maker[name]] for name in op.inputs if name in graph.maker} - {unit}
        )
    sorter, ready, found = TopologicalSorter(waits), list[tuple[int, int]](), list[int | Region]()
    sorter.prepare()
    while sorter.is_active():
        for unit in sorter.get_ready():
            heapq.heappush(ready, (position[unit], unit))
        unit = heapq.heappop(ready)[1]
        found.append(unit if unit < len(graph.ops) else regions[unit - len(graph.ops)])
        sorter.done(unit)
    return found
