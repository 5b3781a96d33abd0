"""A model with ops in pieces: an ordinary model, whose weights stay shared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnx import ModelProto, NodeProto, helper, numpy_helper

from ... import _core
from ...errors import SourceError
from ..reading import Imported
from ..reading.bodies import label, small_constants
from ..writing.pieces import Cut, Written, piece_of
from .regions import Network, Region
from .walk import Held, Part, walk


class Splitter:
    """Writes a model that was imported as this graph with its ops in pieces."""

    def __init__(self, found: Imported, source: ModelProto, graph: _core.Graph) -> None:
        self.network = Network(graph)
        self._source, self._graph = source, graph
        self._loops = [op.loops for op in graph.ops]
        self._constants = small_constants(found.model.graph)
        self._opset = next((o.version for o in source.opset_import if not o.domain), 1)
        by_output = {name: node for node in source.graph.node for name in node.output if name}
        self._nodes = [by_output.get(next(filter(None, node.output))) for node in found.model.graph.node]
        self._own = dict[str, str]()  # names of the graph, by those of the model
        for op, node in zip(graph.ops, found.model.graph.node, strict=True):
            self._own.update(zip(filter(None, node.output), op.outputs, strict=True))
        self._name = {own: name for name, own in self._own.items()}

    def model(self, regions: Sequence[Region]) -> ModelProto:
        """A copy of the model with these regions. SourceError names a node of which no piece can be written."""
        made = _Nodes(self)
        walk(self.network, regions, made)
        copy = ModelProto()
        copy.CopyFrom(self._source)
        written = {name for node in self._nodes if node is not None for name in node.output}
        rest = [node for node in self._source.graph.node if not written.intersection(node.output)]
        del copy.graph.node[:]
        copy.graph.node.extend([*rest, *made.nodes])
        copy.graph.initializer.extend(made.constants)
        return copy

    def can_write(self, k: int, loop: int) -> bool:
        """Whether the first half of a loop of an op, and the second, can be written."""
        node = self._nodes[k]
        if node is None:
            return False
        extent = self.network.ops[k].loops[loop][0]
        parts = [Part(k, loop, *ends, False, {}, {}) for ends in ((0, extent // 2), (extent // 2, extent))]
        return all(self._piece(node, part) is not None for part in parts if part.first < part.end)

    def node(self, k: int) -> NodeProto:
        node: NodeProto | None = self._nodes[k]
        if node is None:
            raise SourceError(f"op {self._graph.ops[k].name!r} is not one node of the model")
        return node

    def name(self, own: str) -> str:
        """The name of the model for one of the graph."""
        return self._name.get(own, own)

    def part(self, part: Part) -> tuple[Sequence[NodeProto], Sequence[Any]]:
        """The nodes of a part, and the constants that they read besides."""
        node = self.node(part.op)
        written = self._piece(node, part)
        if written is None:
            raise SourceError(f"{label(node)} cannot be written in pieces along this loop")
        for k, one in enumerate(written.nodes):
            one.name = f"{next(iter(part.makes.values()))}:{k}"
        return written.nodes, written.constants

    def _piece(self, node: NodeProto, part: Part) -> Written | None:
        op, loop = self._graph.ops[part.op], self._loops[part.op][part.loop]
        fresh = NodeProto()
        fresh.CopyFrom(node)
        known = [name for name in (*node.input, *node.output) if name]
        own = {name: self._own.get(name, name) for name in known}
        made = {**{name: held.value for name, held in part.reads.items()}, **part.makes}
        values = {name: self.name(made.get(own[name], own[name])) for name in known}
        fresh.input[:] = [values.get(name, "") for name in node.input]
        fresh.output[:] = [values.get(name, "") for name in node.output]
        shapes = {values[name]: list(self.network.shapes[own[name]]) for name in known}
        rows_of = loop_dict(loop, op, {own[name]: values[name] for name in known})
        first, end = part.first, part.end
        if part.is_tile:
            for name, (axis, *_) in (*rows_of["reads"].items(), *rows_of["writes"].items()):
                shapes[name][axis] = shapes[name][axis] * (end - first) // loop.extent
            first, end = 0, end - first
            rows_of["extent"] = end
        return piece_of(fresh, Cut(rows_of, first, end, shapes), self._constants, self._opset)


class _Nodes:
    """Writes nodes, as a Maker of `walk`."""

    def __init__(self, splitter: Splitter) -> None:
        self._splitter = splitter
        self.nodes: list[NodeProto] = []
        self.constants: list[Any] = []

    def whole(self, op: int) -> None:
        self.nodes.append(self._splitter.node(op))

    def part(self, part: Part) -> None:
        nodes, constants = self._splitter.part(part)
        self.nodes.extend(nodes)
        self.constants.extend(constants)

    def slice(self, tensor: str, of: Held, new: Held) -> None:
        first = new.rows.begin - of.rows.begin
        numbers = {"first": first, "last": first + new.rows.end - new.rows.begin, "axis": new.rows.axis}
        names = [f"{new.value}:{what}" for what in numbers]
        self.constants.extend(map(_number, names, numbers.values()))
        self._add("Slice", [of.value, *names], new.value)

    def join(self, tensor: str, parts: Sequence[Held], new: Held) -> None:
        self._add("Concat", [part.value for part in parts], new.value, axis=new.rows.axis)

    def add(self, tensor: str, before: str | None, value: str, total: str) -> None:
        self._add("Identity" if before is None else "Add", [value] if before is None else [before, value], total)

    def _add(self, op_type: str, inputs: Sequence[str], output: str, **attributes: Any) -> None:
        named = [self._splitter.name(value) for value in inputs]
        self.nodes.append(helper.make_node(op_type, named, [self._splitter.name(output)], **attributes))


def _number(name: str, number: int) -> Any:
    import numpy as np

    return numpy_helper.from_array(np.array([number], np.int64), name)


def loop_dict(loop: _core.Loop, op: _core.Op, names: Mapping[str, str]) -> dict[str, Any]:
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
    early = [names[op.outputs[k]] for k, _ in loop.early]
    return {
        **{"extent": loop.extent, "reads": reads, "writes": writes, "sums": sums},
        **({"early": early} if early else {}),
    }
