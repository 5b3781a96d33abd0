"""Ops of a split graph as steps: iterations of nodes, on rows of tensors that lie in the arena.

A part of a node is the node that `piece_of` writes for the rows that it reads. Where no such node can be written, the
whole node runs outside of the arena, on these rows and zeros, and what it makes besides is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import NamedTuple

import numpy as np
import onnx.helper
from onnx import NodeProto, TensorProto, TypeProto

from ... import _core
from ...errors import UnsupportedError
from ...plans.changes import InPieces
from ..writing.pieces import Cut, Written, piece_of
from .memory import Place, PlaceOfRows, RowsOf
from .nodes import Builder, Compute
from .split import loop_dict
from .steps import Step
from .values import Array

_Numbers = tuple[int, int, int, int, int]  # the first axis and the last, rows [begin, end), and the row that lies first


class Held(NamedTuple):
    """A tensor of the split graph, and which of its rows; None for all."""

    name: str
    rows: RowsOf | None

    def place(self, places: Mapping[str, Place]) -> Place | PlaceOfRows:
        whole = places[self.name]
        return whole if self.rows is None else PlaceOfRows(whole, self.rows)


class PieceStep(Step):
    """A part of a node: what it reads, by names of the node, and where it writes each output of its op.

    It adds to what lies in the outputs `adds`.
    """

    def __init__(
        self,
        op: _core.Op,
        base: Step,
        compute: Compute,
        reads: Mapping[str, Held],
        writes: Mapping[str, Held],
        adds: frozenset[str] = frozenset(),
    ) -> None:
        self.op, self.node, self.run, self.outputs = op, base.node, base.run, op.outputs
        self._compute, self._reads, self._writes, self._adds = compute, reads, writes, adds

    def values(self, places: Mapping[str, Place]) -> Sequence[Array]:
        found = self._compute({name: held.place(places).read() for name, held in self._reads.items()})
        made = dict(zip(self.outputs, found, strict=True))
        return [
            np.add(self.target(name, places).read(), value, dtype=value.dtype) if name in self._adds else value
            for name, value in made.items()
        ]

    def target(self, name: str, places: Mapping[str, Place]) -> Place | PlaceOfRows:
        return self._writes[name].place(places)

    def moved(self, op: _core.Op) -> Step:
        step, names = copy(self), self._new_names(op)
        made = dict(zip(self.op.outputs, op.outputs, strict=True))
        step.op, step.outputs = op, op.outputs
        step._reads = {name: held._replace(name=names.get(held.name, held.name)) for name, held in self._reads.items()}
        step._writes = {made[name]: held._replace(name=made[name]) for name, held in self._writes.items()}
        step._adds = frozenset(made[name] for name in self._adds)
        return step


def steps_in_pieces(
    steps: Mapping[str, Step], pieces: InPieces, build: Builder, constants: Mapping[str, TensorProto]
) -> dict[str, Step]:
    """The steps of a split graph by the names of its ops, given those of the graph that was split.

    `constants` are small ones, by which nodes of pieces are written.

    UnsupportedError names an op that cannot be run in these pieces.
    """
    splitting = _Splitting(steps, pieces, build, constants)
    return {op.name: splitting.step(op, piece) for op, piece in zip(pieces.graph.ops, pieces.does, strict=True)}


class _Splitting:
    def __init__(
        self, steps: Mapping[str, Step], pieces: InPieces, build: Builder, constants: Mapping[str, TensorProto]
    ) -> None:
        self._steps, self._build, self._constants = steps, build, constants
        self._ops = pieces.whole.ops
        self._loops = [op.loops for op in self._ops]
        self._shape = {tensor.name: tuple(tensor.shape or ()) for tensor in pieces.whole.tensors}
        self._tensors = [tensor.name for tensor in pieces.graph.tensors]
        self._computed: dict[bytes, Compute] = {}

    def step(self, op: _core.Op, piece: _core.Piece) -> Step:
        does = {"whole": self._whole, "keep": self._move, "gather": self._move, "part": self._part}
        made = does.get(piece.does)
        if made is None:
            raise self._refused(piece)
        return made(op, piece)

    def _whole(self, op: _core.Op, piece: _core.Piece) -> Step:
        """As it was; tensors that ops outside of regions read have kept their names."""
        step = copy(self._steps[self._ops[piece.of].name])
        step.op = op
        return step

    def _move(self, op: _core.Op, piece: _core.Piece) -> Step:
        """Rows that are read again move to the front of their buffer, or rows of a block are copied to one."""
        [(before, there)], [(after, here)] = piece.reads, piece.writes
        shape = self._shape[self._tensors[after].rpartition("/")[0]]
        reads = {"": Held(self._tensors[before], _rows(there, shape))}
        writes = {op.outputs[0]: Held(op.outputs[0], _rows(here, shape))}
        return PieceStep(op, self._steps[self._ops[piece.of].name], lambda given: [given[""]], reads, writes)

    def _part(self, op: _core.Op, piece: _core.Piece) -> Step:
        old, loop = self._ops[piece.of], self._loops[piece.of][piece.loop]
        base = self._steps[old.name]
        name_of = {tensor: name for name, tensor in zip(base.node.input, base.inputs, strict=True) if tensor}
        reads = {
            name_of[tensor]: Held(self._tensors[held] if held >= 0 else "", _rows(rows, self._shape[tensor]))
            for tensor, (held, rows) in zip(old.inputs, piece.reads, strict=True)
        }
        writes = {
            output: Held(output, _rows(rows, self._shape[tensor]))
            for tensor, output, (_, rows) in zip(old.outputs, op.outputs, piece.writes, strict=True)
        }
        adds = frozenset(op.outputs[k] for k in loop.sums) if piece.iterations[0] else frozenset[str]()
        name_of.update(zip(old.outputs, filter(None, base.node.output), strict=True))
        compute = self._compute(piece, base, name_of, reads)
        if compute is None:
            compute = self._of_whole(piece, base, reads, list(writes.values()))
        there = {name: held for name, held in reads.items() if held.name}
        return PieceStep(op, base, compute, there, writes, adds)

    def _compute(
        self, piece: _core.Piece, base: Step, name_of: Mapping[str, str], reads: Mapping[str, Held]
    ) -> Compute | None:
        """What runs the node of a part; equal parts have one. None if it cannot be written."""
        loop = loop_dict(self._loops[piece.of][piece.loop], self._ops[piece.of], name_of)
        shapes = {name: list(self._shape[tensor]) for tensor, name in name_of.items()}
        for rows in (loop["reads"], loop["writes"]):
            for name, (axes, *numbers) in rows.items():
                if isinstance(axes, list):  # leading axes taken together are one
                    shapes[name], rows[name] = _together(shapes[name], *axes), [axes[1], *numbers]
        node = self._build.with_payload(base.node)
        written = piece_of(node, Cut(loop, *piece.iterations, shapes), self._constants, self._build.opset)
        if written is None:
            return None
        known = dict(self._build.types)
        for name, held in reads.items():
            if held.rows is not None:
                dtype = known[name].tensor_type.elem_type
                known[name] = onnx.helper.make_tensor_type_proto(dtype, held.rows.sizes)
        return self._once(base.node, written, known)

    def _once(self, node: NodeProto, written: Written, known: Mapping[str, TypeProto]) -> Compute:
        own, names = {"", *node.input, *node.output}, dict[str, str]()
        for one in written.nodes:
            one.input[:] = [name if name in own else names.setdefault(name, f"~{len(names)}") for name in one.input]
            one.output[:] = [name if name in own else names.setdefault(name, f"~{len(names)}") for name in one.output]
        for constant in written.constants:
            constant.name = names[constant.name]
        model = self._build.piece(node, written.nodes, written.constants, known)
        key = model.SerializeToString(deterministic=True)
        if key not in self._computed:
            dtypes = {known[name].tensor_type.elem_type for name in (*node.input, *node.output) if name in known}
            self._computed[key] = self._build.of_model(node, model, dtypes)
        return self._computed[key]

    def _of_whole(self, piece: _core.Piece, base: Step, reads: Mapping[str, Held], writes: Sequence[Held]) -> Compute:
        """The rows of what the whole node makes of the rows that are read, and of zeros."""
        if self._loops[piece.of][piece.loop].sums or any(not held.name for held in reads.values()):
            raise self._refused(piece)
        shape_of = {name: self._shape[t] for name, t in zip(base.node.input, base.inputs, strict=True) if t}
        rows_of = {name: held.rows._replace(base=0) for name, held in reads.items() if held.rows is not None}
        made = [None if held.rows is None else held.rows._replace(base=0) for held in writes]

        def compute(given: Mapping[str, Array]) -> list[Array]:
            whole = dict(given)
            for name, rows in rows_of.items():
                whole[name] = np.zeros(shape_of[name], given[name].dtype)
                rows.write(given[name], whole[name])
            found = base.run([whole[name] if name else None for name in base.node.input], {})
            pairs = zip(found, made, strict=True)
            return [value if rows is None else rows.of(value).reshape(rows.sizes) for value, rows in pairs]

        return compute

    def _refused(self, piece: _core.Piece) -> UnsupportedError:
        op = self._ops[piece.of]
        return UnsupportedError(f"op {op.name!r} ({op.type}) cannot be run in pieces along this loop")


def _rows(numbers: _Numbers | None, shape: tuple[int, ...]) -> RowsOf | None:
    """Rows of a tensor of this shape, whole."""
    if numbers is None:
        return None
    first, last, begin, end, base = numbers
    return RowsOf(shape[:first], last - first, shape[last + 1 :], begin, end, base)


def _together(shape: Sequence[int], first: int, last: int) -> list[int]:
    """A shape of the same rank, with all rows of some axes along the last of these."""
    rows = int(np.prod(shape[first : last + 1]))
    return [*shape[:first], *[1] * (last - first), rows, *shape[last + 1 :]]
