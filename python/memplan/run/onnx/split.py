"""A model with ops in pieces, as the core has split its graph: an ordinary model, whose weights stay shared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from onnx import ModelProto, NodeProto, helper, numpy_helper

from ... import _core
from ...errors import SourceError
from ...export.onnx.pieces import Cut, piece_of
from ...importers.onnx import Imported
from ...importers.onnx.bodies import label, small_constants


class _Rows(NamedTuple):
    """Rows [begin, end) along an axis of a tensor, in a value of the model."""

    value: str
    axis: int
    begin: int
    end: int


def split_model(found: Imported, source: ModelProto, graph: _core.Graph, pieces: Sequence[_core.Piece]) -> ModelProto:
    """A copy of a model that was imported with the graph that was split: these pieces, in their order.

    SourceError names a node of which no piece can be written.
    """
    return _Splitting(found, source, graph, pieces).model()


class _Splitting:
    def __init__(self, found: Imported, source: ModelProto, graph: _core.Graph, pieces: Sequence[_core.Piece]) -> None:
        self._source, self._graph, self._pieces = source, graph, pieces
        self._shapes = {t.name: list(t.shape or []) for t in graph.tensors}
        self._constants = small_constants(found.model.graph)
        self._opset = next((o.version for o in source.opset_import if not o.domain), 1)
        by_output = {name: node for node in source.graph.node for name in node.output if name}
        self._nodes = [by_output.get(next(filter(None, node.output))) for node in found.model.graph.node]
        self._own = dict[str, str]()  # names of the graph, by those of the model
        for op, node in zip(graph.ops, found.model.graph.node, strict=True):
            self._own.update(zip(filter(None, node.output), op.outputs, strict=True))
        self._name = {own: name for name, own in self._own.items()}
        self._parts = dict[str, list[_Rows]]()
        self._sums = dict[str, str]()
        self._made: list[NodeProto] = []
        self._weights: list[Any] = []
        self._count = 0

    def model(self) -> ModelProto:
        for piece in self._pieces:
            if piece.does == "keep":
                self._keep(piece)
            elif piece.does == "whole":
                self._whole(piece)
            else:
                self._part(piece)
        outputs = {output.name for output in self._source.graph.output}
        for name in list(self._parts):
            if name in outputs:
                self._assembled(name)
        copy = ModelProto()
        copy.CopyFrom(self._source)
        written = {name for node in self._nodes if node is not None for name in node.output}
        rest = [node for node in self._source.graph.node if not written.intersection(node.output)]
        del copy.graph.node[:]
        copy.graph.node.extend([*rest, *self._made])
        copy.graph.initializer.extend(self._weights)
        return copy

    def _node(self, piece: _core.Piece) -> NodeProto:
        node: NodeProto | None = self._nodes[piece.of]
        if node is None:
            raise SourceError(f"op {self._graph.ops[piece.of].name!r} is not one node of the model")
        return node

    def _whole(self, piece: _core.Piece) -> None:
        node = self._node(piece)
        for name in node.input:
            if name in self._parts:
                self._assembled(name)
        self._made.append(node)

    def _keep(self, piece: _core.Piece) -> None:
        """What later pieces read is copied, so that the rest is free."""
        for held, output in zip(piece.writes, self._graph.ops[piece.of].outputs, strict=False):
            if held[1] is not None:
                axis, _, begin, end, _ = held[1]
                name = self._name[output]
                self._parts[name] = [_Rows(self._rows(name, axis, begin, end), axis, begin, end)]

    def _part(self, piece: _core.Piece) -> None:
        node, op = self._node(piece), self._graph.ops[piece.of]
        loop, (first, end) = op.loops[piece.loop], piece.iterations
        position = {name: k for k, name in enumerate(op.inputs)}
        fresh = NodeProto()
        fresh.CopyFrom(node)
        new = {name: self._fresh(name) for name in node.output if name}
        read = dict[str, str]()
        for name in filter(None, node.input):
            held = piece.reads[position[self._own.get(name, name)]]
            if held[1] is not None:
                axis, _, begin, stop, _ = held[1]
                read[name] = self._rows(name, axis, begin, stop)
            elif name in self._parts:
                self._assembled(name)
        names = {**read, **new}
        fresh.input[:] = [names.get(name, name) for name in node.input]
        fresh.output[:] = [names.get(name, name) for name in node.output]
        known = {name: self._shapes[self._own.get(name, name)] for name in [*node.input, *node.output] if name}
        shapes = {names.get(name, name): shape for name, shape in known.items()}
        rows_of = _written(loop, op, {self._own.get(name, name): names.get(name, name) for name in known})
        cut = Cut(rows_of, first, end, shapes)
        written = piece_of(fresh, cut, self._constants, self._opset)
        if written is None:
            raise SourceError(f"{label(node)} cannot be written in pieces along this loop")
        for k, one in enumerate(written.nodes):
            one.name = f"{op.name}/{first}:{k}"
        self._made.extend(written.nodes)
        self._weights.extend(written.constants)
        for name, value in new.items():
            rows = cut.write(value)
            if rows is not None:
                self._parts.setdefault(name, []).append(_Rows(value, rows.axis, rows.begin, rows.end))
            else:
                self._add(name, value, end == loop.extent)

    def _add(self, name: str, value: str, last: bool) -> None:
        before = self._sums.pop(name, None)
        total = name if last else self._fresh(name)
        inputs, kind = ([value], "Identity") if before is None else ([before, value], "Add")
        self._made.append(helper.make_node(kind, inputs, [total]))
        if not last:
            self._sums[name] = total

    def _fresh(self, name: str) -> str:
        self._count += 1
        return f"{name}/{self._count}"

    def _assembled(self, name: str) -> None:
        """The whole of a tensor of which all rows are there, by its name."""
        parts = sorted(self._parts.pop(name), key=lambda rows: rows.begin)
        self._made.append(helper.make_node("Concat", [rows.value for rows in parts], [name], axis=parts[0].axis))

    def _rows(self, name: str, axis: int, begin: int, end: int) -> str:
        """A value that holds these rows of a tensor."""
        whole = self._shapes[self._own.get(name, name)][axis]
        known = self._parts.get(name, [_Rows(name, axis, 0, whole)])
        parts = [rows for rows in known if rows.end > begin and rows.begin < end]
        values = []
        for rows in sorted(parts, key=lambda rows: rows.begin):
            first, last = max(begin, rows.begin), min(end, rows.end)
            values.append(rows.value if (first, last) == (rows.begin, rows.end) else self._slice(rows, first, last))
        if len(values) == 1:
            return values[0]
        joined = self._fresh(name)
        self._made.append(helper.make_node("Concat", values, [joined], axis=axis))
        return joined

    def _slice(self, rows: _Rows, begin: int, end: int) -> str:
        value = self._fresh(rows.value)
        numbers = {"first": begin - rows.begin, "last": end - rows.begin, "axis": rows.axis}
        tensors = [numpy_helper.from_array(_vector(n), f"{value}:{what}") for what, n in numbers.items()]
        self._weights.extend(tensors)
        self._made.append(helper.make_node("Slice", [rows.value, *(t.name for t in tensors)], [value]))
        return value


def _vector(number: int) -> Any:
    import numpy as np

    return np.array([number], np.int64)


def _written(loop: _core.Loop, op: _core.Op, names: Mapping[str, str]) -> dict[str, Any]:
    """A loop as in a graph dict, with other names."""

    def axis(first: int, last: int) -> Any:
        return first if first == last else [first, last]

    def number(value: int, per: int) -> Any:
        return value // per if value % per == 0 else f"{value}/{per}"

    reads = {
        names[op.inputs[k]]: [axis(first, last), *(number(n, per) for n in (step, window, before))]
        for k, first, last, step, window, before, per in loop.reads
    }
    writes = {names[op.outputs[k]]: [axis(first, last), step] for k, first, last, step in loop.writes}
    sums: Sequence[str] = [names[op.outputs[k]] for k in loop.sums]
    return {"extent": loop.extent, "reads": reads, "writes": writes, "sums": sums}
