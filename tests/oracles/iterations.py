"""The least load of a small graph, however its ops are split and ordered: all plays of single iterations are tried.

A play runs one iteration of an op at a time, or an op as a whole, as often as it likes; rows leave when nobody needs
them. Rows that are read are there, and nothing is paid for where they lie: so a play needs at most what any split
graph needs. Two kinds of tensors are never in parts: those that the caller gets or that some op reads whole, and sums.
None of the code under test is used; graphs are those of `memplan`, whose tensors have one axis, as in `oracles.rows`.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterable
from fractions import Fraction
from typing import Any, NamedTuple


class Move(NamedTuple):
    """An iteration, or an op as a whole. All are sets of cells, as bits."""

    reads: int
    writes: int
    over: int = 0  # cells that it may write over, where they leave
    once: bool = False  # it adds: not to what has been added


class Cells:
    """What there may be at a moment: rows of tensors, and iterations that have added to a sum."""

    def __init__(self, graph: Any) -> None:
        self.rows = {tensor.name: tensor.shape[0] for tensor in graph.tensors}
        size = {tensor.name: tensor.bytes for tensor in graph.tensors}
        self.groups: list[tuple[int, int]] = []  # cells that come and go together, and their bytes
        self._of: dict[str, list[int]] = {}  # per tensor: the cell of each row
        views = {output: source for op in graph.ops for output, source, _ in op.aliases}
        self._sums: set[str] = set()
        self._root = {name: name for name in self.rows}
        for output, source in views.items():  # in the order of the ops
            self._root[output] = self._root[source]
        whole = {self._root[name] for name in (*graph.outputs, *_read_whole(graph))}
        for op in graph.ops:
            sums = {op.outputs[o]: loop.extent for loop in op.loops for o in loop.sums}
            self._sums |= set(sums)
            for name in op.outputs:
                if name in views:
                    continue
                self._add(name, size[name], sums.get(name, self.rows[name]), name in whole or name in sums)
            for number, loop in enumerate(op.loops):
                if loop.statistics is not None:
                    self._root[statistics_of(op, number)] = statistics_of(op, number)
                    self._sums.add(statistics_of(op, number))
                    self._add(statistics_of(op, number), loop.statistics[1], loop.extent, True)
        self.kept = self.all_of(graph.outputs)

    def _add(self, name: str, size: int, count: int, together: bool) -> None:
        first = sum(group.bit_count() for group, _ in self.groups)
        self._of[name] = list(range(first, first + count))
        bits = [1 << cell for cell in self._of[name]]
        self.groups += [(sum(bits), size)] if together else [(bit, size // count) for bit in bits]

    def some_of(self, name: str, rows: Iterable[int]) -> int:
        """These rows of a tensor; those of inputs are always there."""
        root = self._root[name]
        if root in self._sums:  # which is nothing before the last iteration has added to it
            return self.all_of([root])
        cells = self._of.get(root, [])
        return sum(1 << cells[row] for row in rows) if cells else 0

    def all_of(self, names: Iterable[str]) -> int:
        found = 0
        for name in names:
            found |= sum(1 << cell for cell in self._of.get(self._root[name], []))
        return found

    def adds(self, name: str, iteration: int) -> int:
        return 1 << self._of[name][iteration]

    def load(self, held: int) -> int:
        return sum(size for group, size in self.groups if held & group)


def least_load(graph: Any) -> int:
    """The least load over all plays. A state is what there is; a play whose highest load is least goes on first."""
    cells = Cells(graph)
    moves = list(dict.fromkeys(move for op in graph.ops for move in _moves(op, cells)))
    best = {0: 0}
    waiting = [(0, 0)]
    loads: dict[int, int] = {}

    def load(held: int) -> int:
        if held not in loads:
            loads[held] = cells.load(held)
        return loads[held]

    def reach(held: int, most: int) -> None:
        if most < best.get(held, math.inf):
            best[held] = most
            heapq.heappush(waiting, (most, held))

    while waiting:
        most, held = heapq.heappop(waiting)
        if best[held] < most:
            continue
        if held & cells.kept == cells.kept:
            return most
        for reads, writes, over, once in moves:
            if reads & ~held or not writes & ~held or (once and writes & held):
                continue
            now = held | writes
            reach(now, max(most, load(now)))
            if over & held and not over & cells.kept:
                left = now & ~over
                reach(left, max(most, load(now) - min(load(over & held), load(writes))))
        for group, _ in cells.groups:
            if group & held and not group & cells.kept:
                reach(held & ~group, most)
    raise AssertionError("an op needs what nobody makes")


def _read_whole(graph: Any) -> Iterable[str]:
    for op in graph.ops:
        if op.aliases:
            continue
        for i, name in enumerate(op.inputs):
            if not op.loops or any(i not in (read[0] for read in loop.reads) for loop in op.loops):
                yield name


def _moves(op: Any, cells: Cells) -> Iterable[Move]:
    if op.aliases:
        return
    over = cells.all_of(source for _, source, _ in op.inplace)
    yield Move(cells.all_of(op.inputs), cells.all_of(op.outputs), over, any(loop.sums for loop in op.loops))
    for number, loop in enumerate(op.loops):
        known = cells.all_of([statistics_of(op, number)]) if loop.statistics is not None else 0
        for o, inputs in loop.early:
            yield Move(cells.all_of(op.inputs[i] for i in inputs) | known, cells.all_of([op.outputs[o]]))
        for iteration in range(loop.extent):
            move = _iteration(op, loop, iteration, cells)
            yield move._replace(reads=move.reads | known)
            if loop.statistics is not None:
                counted = _iteration(op, loop, iteration, cells, set(loop.statistics[0])).reads
                yield Move(counted, cells.adds(statistics_of(op, number), iteration), once=True)


def statistics_of(op: Any, number: int) -> str:
    """A name for the statistics of a loop."""
    return f"{op.name}: statistics of loop {number}"


def _iteration(op: Any, loop: Any, iteration: int, cells: Cells, among: Collection[int] | None = None) -> Move:
    reads = writes = over = 0
    listed = {read[0]: read for read in loop.reads}
    for i, name in enumerate(op.inputs):
        if among is not None and i not in among:
            continue
        if i not in listed:
            reads |= cells.all_of([name])
            continue
        *_, step, window, before, per = listed[i]
        begin = math.floor(Fraction(iteration * step - before, per))
        end = math.ceil(Fraction(iteration * step - before + window, per))
        some = cells.some_of(name, range(max(begin, 0), min(end, cells.rows[name])))
        reads |= some
        over |= some if any(source == name for _, source, _ in op.inplace) else 0
    for o, _, _, step in loop.writes:
        rows = range(iteration * step, min((iteration + 1) * step, cells.rows[op.outputs[o]]))
        writes |= cells.some_of(op.outputs[o], rows)
    for o in loop.sums:
        writes |= cells.adds(op.outputs[o], iteration)
    return Move(reads, writes, over, bool(loop.sums))
