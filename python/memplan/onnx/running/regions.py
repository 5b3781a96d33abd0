"""Regions of ops whose pieces read nothing of each other: each makes again the rows that another has, too.

A runtime orders nodes by itself. Pieces that keep rows for the next one are then run layer by layer, and all of them
are there at once. Pieces that read only what is there before the region may run in any order.

    rows 0 to 7 of y in two pieces, two convolutions of 3 rows      y [0, 4) of t [0, 5) of x [0, 6)
                                                                    y [4, 8) of t [3, 8) of x [2, 8)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ... import _core
from ...plans.changes import Change


class Region(NamedTuple):
    """Ops, ascending, each with the position of its loop; they run in so many pieces."""

    loop_of: Mapping[int, int]
    pieces: int


class Rows(NamedTuple):
    """Rows [begin, end) along an axis of a tensor."""

    axis: int
    begin: int
    end: int


class Op(NamedTuple):
    """An op of a graph, as `_core.Op`; its loops are (extent, reads, writes, sums)."""

    type: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    aliases: Sequence[tuple[str, str, int]]
    inplace: Sequence[tuple[str, str, int]]
    loops: Sequence[tuple[int, Sequence[tuple[int, ...]], Sequence[tuple[int, ...]], Sequence[int]]]


class Network:
    """A graph, read once: asking the core for the same again takes most of the time of a search."""

    def __init__(self, graph: _core.Graph) -> None:
        self.ops = [
            Op(op.type, op.inputs, op.outputs, op.aliases, op.inplace, [_loop(loop) for loop in op.loops])
            for op in graph.ops
        ]
        self.outputs = graph.outputs
        self.tensors = {tensor.name: tensor for tensor in graph.tensors}
        self.shapes = {name: tensor.shape or [] for name, tensor in self.tensors.items()}
        self.bytes = {name: tensor.bytes for name, tensor in self.tensors.items()}
        self.weights = {name for name, tensor in self.tensors.items() if tensor.kind == "weight"}
        self.maker = {name: k for k, op in enumerate(self.ops) for name in op.outputs}


def _loop(loop: _core.Loop) -> tuple[int, Sequence[tuple[int, ...]], Sequence[tuple[int, ...]], Sequence[int]]:
    return loop.extent, loop.reads, loop.writes, loop.sums


def regions_of(graph: _core.Graph, changes: Sequence[Change], pieces: Sequence[_core.Piece]) -> list[Region]:
    """The regions of a plan that `memplan.fit` made: by its changes, and what each op of the split graph does."""
    position = {op.name: k for k, op in enumerate(graph.ops)}
    loop_of = {piece.of: piece.loop for piece in pieces if piece.does == "part"}
    found = []
    for change in changes:
        ops = sorted(position[name] for name in change.ops)
        found.append(Region({k: loop_of[k] for k in ops if k in loop_of}, change.pieces))
    return found


class Iterations(NamedTuple):
    """Iterations [first, end) of an op in a piece, of which [valid, valid_end) make what they make in the whole."""

    first: int
    end: int
    valid: int
    valid_end: int


class Pull:
    """Which iterations the ops of a region run in each of its pieces.

    Where all rows are in proportion, a piece is a *tile*: each op runs as for a smaller picture, and makes as many rows
    as in any other piece. Rows at the edges of a tile, which lack neighbours, are made but not used. So all buffers of
    a kind have one size: a runtime that gives buffers again to outputs of their shape has a few, instead of one for
    each op. Otherwise each op makes the rows that are needed.
    """

    def __init__(self, graph: Network, region: Region) -> None:
        self._graph, self._region = graph, region
        inside = {name for k in region.loop_of for name in graph.ops[k].outputs}
        outside = {name for k, op in enumerate(graph.ops) if k not in region.loop_of for name in op.inputs}
        read = {name for k in region.loop_of for name in graph.ops[k].inputs}
        self.leaving = inside & (outside | set(graph.outputs))
        self._ends = {k for k in region.loop_of if not read.intersection(graph.ops[k].outputs)}
        self.is_tiled = False
        needed = [piece for number in range(region.pieces) if (piece := self._needed(number))]
        self.pieces = [_exactly(piece) for piece in needed]
        if self._is_in_proportion():
            self.pieces = self._tiles(needed)
            self.is_tiled = True

    def reads(self, k: int, first: int, end: int) -> dict[str, Rows]:
        """The rows that iterations of an op read, of the inputs that are not read whole."""
        op, found = self._graph.ops[k], dict[str, Rows]()
        for position, axis, _, step, window, before, per in op.loops[self._region.loop_of[k]][1]:
            name = op.inputs[position]
            if self.is_tiled:
                before, window = 0, step
            begin, stop = (first * step - before) // per, -((before - window - (end - 1) * step) // per)
            whole = self._graph.shapes[name][axis]
            found[name] = Rows(axis, min(max(begin, 0), whole), min(max(stop, 0), whole))
        return found

    def writes(self, k: int, first: int, end: int) -> dict[str, Rows]:
        """The rows that iterations of an op write; outputs that they add to are not among them."""
        op, shapes = self._graph.ops[k], self._graph.shapes
        return {
            op.outputs[position]: Rows(axis, first * step, min(end * step, shapes[op.outputs[position]][axis]))
            for position, axis, _, step in op.loops[self._region.loop_of[k]][2]
        }

    def _needed(self, number: int) -> dict[int, tuple[int, int]]:
        """The iterations of each op that a piece needs; ops ascending, those of which nothing is needed left out."""
        wanted, found = dict[str, Rows](), dict[int, tuple[int, int]]()
        for k in sorted(self._region.loop_of, reverse=True):
            op = self._graph.ops[k]
            extent, _, writes, _ = op.loops[self._region.loop_of[k]]
            spans = []
            if k in self._ends or self.leaving.intersection(op.outputs):
                spans.append(tuple(extent * n // self._region.pieces for n in (number, number + 1)))
            for position, _, _, step in writes:
                rows = wanted.get(op.outputs[position])
                if rows is not None:
                    spans.append((rows.begin // step, -(-rows.end // step)))
            spans = [span for span in spans if span[0] < span[1]]
            if not spans:
                continue
            found[k] = first, end = min(span[0] for span in spans), max(span[1] for span in spans)
            for name, rows in self.reads(k, first, end).items():
                before = wanted.get(name, rows)
                wanted[name] = Rows(rows.axis, min(before.begin, rows.begin), max(before.end, rows.end))
        return dict(sorted(found.items()))

    def _is_in_proportion(self) -> bool:
        """Whether the iterations of all ops, and the rows that they read and write, are multiples of one number."""
        loops = {k: self._graph.ops[k].loops[loop] for k, loop in self._region.loop_of.items()}
        self._unit = min(extent for extent, *_ in loops.values())
        for k, (extent, reads, writes, sums) in loops.items():
            op, shapes = self._graph.ops[k], self._graph.shapes
            read = [(shapes[op.inputs[position]][axis], step, per) for position, axis, _, step, _, _, per in reads]
            written = [(shapes[op.outputs[position]][axis], step, 1) for position, axis, _, step in writes]
            if sums or extent % self._unit or any(rows % self._unit for rows, *_ in (*read, *written)):
                return False
            if any(rows * per != extent * step for rows, step, per in (*read, *written)):
                return False
        return True

    def _tiles(self, needed: Sequence[Mapping[int, tuple[int, int]]]) -> list[dict[int, Iterations]]:
        """Tiles of one size that hold what is needed, in units of the op that has fewest iterations."""
        per = {k: self._graph.ops[k].loops[loop][0] // self._unit for k, loop in self._region.loop_of.items()}
        spans = [self._span(piece, per) for piece in needed]
        size = max(end - begin for begin, end in spans)
        found = []
        for (begin, _), piece in zip(spans, needed, strict=True):
            first = min(begin, self._unit - size)
            found.append({k: Iterations(first * per[k], (first + size) * per[k], *span) for k, span in piece.items()})
        return found

    def _span(self, piece: Mapping[int, tuple[int, int]], per: Mapping[int, int]) -> tuple[int, int]:
        """The units from the first row that a piece makes or reads to the last."""
        begins, ends = [], []
        for k, (first, end) in piece.items():
            begins.append(first // per[k])
            ends.append(-(-end // per[k]))
            for name, rows in self.reads(k, first, end).items():
                of_unit = self._graph.shapes[name][rows.axis] // self._unit
                begins.append(rows.begin // of_unit)
                ends.append(-(-rows.end // of_unit))
        return min(begins, default=0), max(ends, default=0)


def _exactly(piece: Mapping[int, tuple[int, int]]) -> dict[int, Iterations]:
    return {k: Iterations(*span, *span) for k, span in piece.items()}
