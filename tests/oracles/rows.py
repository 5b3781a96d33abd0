"""What the rows of tensors hold, as symbols: of a graph whose ops run whole, and of one whose ops run in pieces.

A row is the hash of the op that made it, its number, and the rows that were read for it; so two rows are equal only if
they were made of the same rows. Statistics are sums over iterations. Tensors have one axis, and views show all rows of
what they view. Buffers hold nothing where nothing was written, and whoever reads nothing fails.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from fractions import Fraction
from typing import Any

Rows = list[Any]  # of a tensor; None where nothing was written


def run_whole(graph: Any, chosen: Mapping[str, int]) -> dict[str, Rows]:
    """The rows of all tensors; ops that are not `chosen` read and write whatever they do as one."""
    held: dict[str, Rows] = {}
    shapes = {tensor.name: tensor.shape[0] for tensor in graph.tensors}
    for tensor in graph.tensors:
        if tensor.kind in ("input", "weight"):
            held[tensor.name] = [hash((tensor.name, r)) for r in range(shapes[tensor.name])]
    for op in graph.ops:
        inputs = [held[name] for name in op.inputs]
        if op.aliases:
            held[op.outputs[0]] = inputs[0]
            continue
        if op.name in chosen:
            loop = op.loops[chosen[op.name]]
            counted = statistics(op, loop, inputs, range(loop.extent), shapes)
            made = _made(op, loop, inputs, range(loop.extent), shapes, counted)
            made |= {op.outputs[o]: early(op.name, [inputs[i] for i in of], counted) for o, of in loop.early}
        else:
            made = {
                name: [hash((op.name, o, r, _all(inputs))) for r in range(shapes[name])]
                for o, name in enumerate(op.outputs)
            }
        for name, rows in made.items():
            held[name] = rows
    return held


def run_pieces(graph: Any, split: Any) -> dict[str, Rows]:
    """The rows of the tensors of a split graph that the graph has too, each op by what its piece says."""
    tensors = split.graph.tensors
    shapes = {tensor.name: tensor.shape[0] for tensor in graph.tensors}
    held: dict[str, Rows] = {}  # tensors that share bytes share the list
    lost = set[str]()  # others are written over their rows
    for tensor in tensors:
        if tensor.kind in ("input", "weight"):
            held[tensor.name] = [hash((tensor.name, r)) for r in range(shapes[tensor.name])]
    for op, piece in zip(split.graph.ops, split.pieces, strict=True):
        of = graph.ops[piece.of]
        for output, source, _ in (*op.overwrites, *op.aliases):
            held[output] = held[source]
        if piece.does == "part":
            lost |= {source for _, source, _ in op.overwrites if source in shapes}
        if piece.does == "whole":
            inputs = [held[name] for name in op.inputs]
            for o, name in enumerate(op.outputs):
                if not op.aliases:
                    held[name] = [hash((op.name, o, r, _all(inputs))) for r in range(shapes[name])]
        elif piece.does == "keep":
            ((_, (*_, begin, end, base)),) = piece.reads
            ((to, (*_, first, last, new)),) = piece.writes
            buffer = held[tensors[to].name]
            assert (first, last) == (begin, end)
            assert new <= begin
            rows = buffer[begin - base : end - base]
            buffer[:] = rows + [None] * (len(buffer) - len(rows))
        elif piece.does == "gather":
            ((block, (*_, begin, end, base)),) = piece.reads
            ((to, (*_, first, last, new)),) = piece.writes
            assert (first, last) == (begin, end)
            buffer = held.setdefault(tensors[to].name, [None] * tensors[to].shape[0])
            assert 0 <= begin - base < end - base <= len(held[tensors[block].name])
            assert 0 <= begin - new < end - new <= len(buffer)
            buffer[begin - new : end - new] = held[tensors[block].name][begin - base : end - base]
        elif piece.does == "early":
            inputs = [held[tensors[t].name] for t, _ in piece.reads if t >= 0]
            held[op.outputs[0]] = early(of.name, inputs, _known(piece, tensors, held))
        elif piece.does == "statistics":
            inputs, sizes = _inputs(of, op, piece, tensors, held, shapes)
            name = tensors[piece.statistics].name
            if piece.iterations[0] == 0:
                held[name] = [0]
            held[name][0] += statistics(of, of.loops[piece.loop], inputs, range(*piece.iterations), sizes)
        elif not op.aliases:
            _run_part(of, op, piece, tensors, held, shapes)
    return {name: rows for name, rows in held.items() if name in shapes and name not in lost}


def early(name: str, inputs: list[Rows], counted: Any) -> Rows:
    """What an op makes before its first iteration."""
    return [hash((name, "early", _all(inputs), counted))]


def statistics(of: Any, loop: Any, inputs: list[Rows], iterations: range, shapes: Mapping[str, int]) -> Any:
    """What these iterations add to the statistics; None if the loop has none."""
    if loop.statistics is None:
        return None
    counted = set(loop.statistics[0])
    some = [rows if at in counted else [0] for at, rows in enumerate(inputs)]
    rows = [_seen(of, loop, some, i, shapes, counted) for i in iterations]
    return sum(hash((of.name, i, seen)) for i, seen in zip(iterations, rows, strict=True))


def _known(piece: Any, tensors: Any, held: dict[str, Rows]) -> Any:
    return None if piece.statistics is None else held[tensors[piece.statistics].name][0]


def _inputs(
    of: Any, op: Any, piece: Any, tensors: Any, held: dict[str, Rows], shapes: Mapping[str, int]
) -> tuple[list[Rows], Mapping[str, int]]:
    """What a piece reads, and the rows that the inputs have in the graph."""
    inputs: list[Rows] = []
    for t, rows in piece.reads:
        if t < 0:
            inputs.append([None] * 1000)
            continue
        buffer = held[tensors[t].name]
        if rows is None:
            inputs.append(buffer)
            continue
        *_, begin, end, base = rows
        there: Rows = [None] * 1000  # rows that are not named are not there
        for r in range(begin, end):
            assert 0 <= r - base < len(buffer), (op.name, r, base, len(buffer))
            there[r] = buffer[r - base]
        inputs.append(there)
    reads = [(i, rows) for i, (_, rows) in enumerate(piece.reads) if rows is not None]
    return inputs, {of.inputs[i]: shapes[of.inputs[i]] for i, _ in reads} | dict(shapes)


def _run_part(of: Any, op: Any, piece: Any, tensors: Any, held: dict[str, Rows], shapes: Mapping[str, int]) -> None:
    inputs, sizes = _inputs(of, op, piece, tensors, held, shapes)
    known = _known(piece, tensors, held)
    made = _made(of, of.loops[piece.loop], inputs, range(*piece.iterations), sizes, known)
    for o, (t, rows) in enumerate(piece.writes):
        name = tensors[t].name
        new = made.get(of.outputs[o])
        if new is None:
            continue
        if rows is None:
            held[name] = [a + b for a, b in zip(held[name], new, strict=True)] if name in held else list(new)
            continue
        *_, begin, end, base = rows
        if name not in held:
            held[name] = [None] * tensors[t].shape[0]
        for r in range(begin, end):
            held[name][r - base] = new[r]


def _made(
    of: Any, loop: Any, inputs: list[Rows], iterations: range, shapes: Mapping[str, int], counted: Any
) -> dict[str, Rows]:
    """Rows that these iterations make; of sums, what they add. Rows of others are None."""
    made: dict[str, Rows] = {of.outputs[o]: [None] * shapes[of.outputs[o]] for o, *_ in loop.writes}
    made |= {of.outputs[o]: [0] * shapes[of.outputs[o]] for o in loop.sums}
    for i in iterations:
        seen = (*_seen(of, loop, inputs, i, shapes, range(len(inputs))), counted)
        for o, _, _, step in loop.writes:
            name = of.outputs[o]
            for r in range(i * step, min((i + 1) * step, shapes[name])):
                made[name][r] = hash((of.name, o, r, seen))
        for o in loop.sums:
            name = of.outputs[o]
            made[name] = [value + hash((of.name, o, r, i, seen)) for r, value in enumerate(made[name])]
    return made


def _seen(
    of: Any, loop: Any, inputs: list[Rows], i: int, shapes: Mapping[str, int], among: Collection[int]
) -> tuple[Any, ...]:
    """What an iteration reads of these inputs."""
    listed = {read[0]: read for read in loop.reads}
    seen = []
    for at, rows in enumerate(inputs):
        if at not in among:
            continue
        if at not in listed:
            seen.append(_all([rows]))
            continue
        _, _, _, step, window, before, per = listed[at]
        begin = math.floor(Fraction(i * step - before, per))
        end = math.ceil(Fraction(i * step - before + window, per))
        seen.append(tuple((r, _there(rows[r])) for r in range(max(begin, 0), min(end, shapes[of.inputs[at]]))))
    return tuple(seen)


def _all(inputs: list[Rows]) -> tuple[Any, ...]:
    return tuple(tuple(_there(row) for row in rows) for rows in inputs)


def _there(row: Any) -> Any:
    assert row is not None, "a row is read that was not written"
    return row
