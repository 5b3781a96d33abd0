"""A traced graph of torch with ops in pieces, as the core has split it: more nodes, which any compiler takes.

Rows of a tensor are values of their own. What reads rows gets a slice of those that there are, or joins several. What
reads the whole tensor joins all. What adds up is added.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx
from torch.fx.node import map_arg

from .... import _core
from ....errors import SourceError
from ...private import OpOverload, codegen_of, disable_current_modes
from ...private_compiler import detect_fake_mode
from ...reading.effects import flat_tensors
from ...reading.loops import name_of as operator_of
from .calls import Part, Piece, Rows, rows_read, rows_written
from .inlining import Inlining
from .network import Traced, call_of, is_result, name_of, results_of, rows_of
from .statistics import STATISTICS
from .table import early_of, part_of

_aten = torch.ops.aten
KEPT = "memplan.kept"  # in `meta` of nodes: rows are copied for later pieces, so that the others are free


class Leaf(NamedTuple):
    """A tensor of the graph, or its rows."""

    name: str
    sizes: tuple[int, ...]
    dtype: torch.dtype


class _Held(NamedTuple):
    """Rows [begin, end) of a tensor along axes, in a node."""

    node: fx.Node
    axes: tuple[int, int]
    begin: int
    end: int


def in_pieces(
    module: fx.GraphModule, read: Traced, pieces: Sequence[_core.Piece], decompositions: Any = None
) -> fx.GraphModule:
    """A copy of a graph that was read so: these pieces, in their order. Compilers see no operator that is decomposed.

    SourceError names a node of which no piece can be made.
    """
    with disable_current_modes():  # constants have bytes
        return _Writing(module, read, pieces, decompositions).module()


class _Writing:
    def __init__(
        self, module: fx.GraphModule, read: Traced, pieces: Sequence[_core.Piece], decompositions: Any
    ) -> None:
        self._module, self._read, self._pieces = module, read, pieces
        self._graph = fx.Graph()
        self._graph.set_codegen(copy.copy(codegen_of(module.graph)))
        self._whole: dict[str, fx.Node] = {}
        self._other: dict[fx.Node, fx.Node] = {}  # of what is no tensor
        self._parts: dict[str, list[_Held]] = {}
        self._sums: dict[str, fx.Node] = {}
        self._numbers: dict[int, Leaf] = {}  # by op: its statistics until now
        self._shape = {tensor.name: tuple(tensor.shape or ()) for tensor in read.graph.tensors}
        self._dtype = {tensor.name: getattr(torch, tensor.dtype) for tensor in read.graph.tensors}
        self._slices: dict[tuple[fx.Node, int, int, int], fx.Node] = {}
        self._ops: Sequence[_core.Op] = read.graph.ops
        self._constants: dict[str, Tensor] = {}
        values = [t for node in module.graph.nodes for t in flat_tensors(node.meta.get("val"))]
        self._fake: AbstractContextManager[Any] = detect_fake_mode(values) or nullcontext()
        self._inlining = Inlining(self._fake, self._emit, _value, self._constant, decompositions)

    def module(self) -> fx.GraphModule:
        nodes = self._module.graph.nodes
        for node in nodes:
            if node.op in ("placeholder", "get_attr"):
                self._keep_node(node)
        for piece in self._pieces:
            if piece.does == "whole":
                self._keep_node(self._read.nodes[piece.of])
            elif piece.does == "keep":
                self._kept(piece)
            elif piece.does != "gather":  # who reads rows of several blocks joins them
                self._part(piece)
        self._keep_node(self._module.graph.output_node())
        self._graph.eliminate_dead_code()
        made = fx.GraphModule({**_attributes(self._module), **self._constants}, self._graph)
        made.meta.update(self._module.meta)
        made.graph.lint()
        return made

    def _keep_node(self, node: fx.Node) -> None:
        """The node as it is, of whole tensors."""
        copied = self._graph.node_copy(node, self._whole_of)
        copied.meta = {**node.meta}
        self._other[node] = copied
        if isinstance(node.meta.get("val"), Tensor):
            self._whole[node.name] = copied
            return
        for user in node.users:
            if is_result(user):
                result = self._graph.node_copy(user, lambda _: copied)
                result.meta = {**user.meta}
                self._whole[name_of(user)] = result

    def _whole_of(self, node: fx.Node) -> fx.Node:
        name = name_of(node)
        if name in self._parts:
            self._assemble(name)
        return self._whole[name] if name in self._whole else self._other[node]

    def _part(self, piece: _core.Piece) -> None:
        node, op = self._read.nodes[piece.of], self._ops[piece.of]
        loop, iterations = op.loops[piece.loop], piece.iterations
        func, args, kwargs = call_of(node)
        args, kwargs = map_arg((args, kwargs), lambda one: one)
        reads, writes = rows_of(loop)
        place = {name: k for k, name in enumerate(op.inputs)}
        results = [None if made is None else self._leaf(made[0]) for made in results_of(node)]
        given = self._leaves((args, kwargs))
        rows: dict[Leaf, Rows] = {}
        for one in _flat(given):
            if place[one.name] in reads:
                axes, numbers = reads[place[one.name]]
                rows[one] = rows_read(axes, numbers, iterations, one.sizes)
        at = {name: k for k, name in enumerate(op.outputs)}
        made = [writes.get(at[leaf.name]) if leaf is not None else None for leaf in results]
        written = [
            None if leaf is None or wrote is None else rows_written(wrote[0], wrote[1], iterations, leaf.sizes)
            for leaf, wrote in zip(results, made, strict=True)
        ]
        early = {op.outputs[k] for k, _ in loop.early}
        call = Part(func, *given)
        known = self._numbers.get(piece.of) if loop.statistics is not None else None
        if piece.does == "early":
            mine = {op.outputs[k] for k, (tensor, _) in enumerate(piece.writes) if tensor >= 0}
            self._early(node, Piece(call, {}, results, [None] * len(results), (0, 0), loop.extent, (), known), mine)
            return
        if piece.does == "statistics":
            known = None if iterations[0] == 0 else known
            counted = Piece(call, rows, results, (), iterations, loop.extent, (), known)
            self._numbers[piece.of] = self._numbers_of(node, STATISTICS[operator_of(func)].of(counted), rows)
            return
        firsts = [leaf for leaf in results if leaf is not None and leaf.name in early and leaf.sizes.count(0) == 0]
        part = part_of(Piece(call, rows, results, written, iterations, loop.extent, firsts, known))
        if part is None:
            raise SourceError(f"{node.name} ({node.target}) cannot be computed in pieces along this loop")
        found = self._call(
            node, self._onto(part, results), rows, len(results) if not isinstance(node.meta["val"], Tensor) else None
        )
        for leaf, wrote, value in zip(results, written, found, strict=True):
            if leaf is None or value is None or leaf.name in early:
                continue
            if wrote is not None:
                held = _Held(value, wrote.axes, wrote.begin, wrote.end)
                if list(value.meta["val"].shape) != wrote.sizes(leaf.sizes):
                    raise AssertionError(f"{node.name}: {tuple(value.meta['val'].shape)} are not {wrote}")
                before = self._parts.get(leaf.name, [])  # a second pass makes rows again
                self._parts[leaf.name] = [o for o in before if o.end <= held.begin or held.end <= o.begin] + [held]
            else:
                self._add(leaf.name, value, iterations[1] == loop.extent)

    def _early(self, node: fx.Node, piece: Piece, names: set[str]) -> None:
        results: Sequence[Any] = piece.results
        for place, leaf in enumerate(results):
            if leaf is None or leaf.name not in names:
                continue
            part = early_of(piece, place)
            if part is not None and 0 not in leaf.sizes:
                [made] = self._call(node, part, {}, None)
                assert made is not None
                self._whole[leaf.name] = made
            else:
                made = self._emit(_aten.full.default, (list(leaf.sizes), 0), {"dtype": leaf.dtype})
                self._whole[leaf.name] = made

    def _numbers_of(self, node: fx.Node, part: Part, rows: Mapping[Leaf, Rows]) -> Leaf:
        """What stands for the statistics that a part makes."""
        [made] = self._call(node, part, rows, None)
        assert made is not None
        leaf = Leaf(f"statistics of {node.name}", tuple(_value(made).shape), torch.float64)
        self._whole[leaf.name] = made
        return leaf

    def _call(self, node: fx.Node, part: Part, rows: Mapping[Leaf, Rows], several: int | None) -> list[fx.Node | None]:
        """Nodes for what a part makes: one, or as many as the operator makes."""

        def tensor(leaf: Leaf) -> fx.Node:
            if leaf in rows:
                return self._rows(leaf.name, rows[leaf].axes, rows[leaf].begin, rows[leaf].end)
            return self._whole_named(leaf.name)

        args, kwargs = _mapped((part.args, dict(part.kwargs)), tensor)
        if part.func is call_of(node)[0]:
            if part.func is not node.target:  # a primitive stands for it
                args, kwargs = (args[0], node.args[1]), {}
            made = self._emit(node.target, args, kwargs)
        elif isinstance(part.func, OpOverload) and part.func not in _COMPOSITE:
            made = self._emit(part.func, args, kwargs)
        else:
            return [None if one is None else one.node for one in self._inlining.write(part.func, args, kwargs)]
        if several is None:
            return [made]
        found = made.meta["val"]
        return [
            self._emit(operator.getitem, (made, k), {}) if isinstance(found[k], Tensor) else None
            for k in range(several)
        ]

    def _constant(self, tensor: Tensor) -> fx.Node:
        """A node for a tensor that is known."""
        name = f"memplan_constant{len(self._constants)}"
        self._constants[name] = tensor
        node = self._graph.get_attr(name)
        with self._fake:
            made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
        node.meta = {"val": made}
        return node

    def _emit(self, target: Any, args: Any, kwargs: Any) -> fx.Node:
        values, named = map_arg((tuple(args), dict(kwargs)), lambda one: one.meta["val"])
        with self._fake, torch.no_grad():
            try:
                made = target(*values, **named)
            except (RuntimeError, ValueError):  # fake tensors raise either
                if target is not _aten.view.default:
                    raise
                copied = self._emit(_aten.clone.default, args[:1], {"memory_format": torch.contiguous_format})
                return self._emit(target, (copied, *args[1:]), kwargs)
        node = self._graph.call_function(target, tuple(args), dict(kwargs))
        node.meta = {"val": made}
        return node

    def _kept(self, piece: _core.Piece) -> None:
        """What later pieces read is copied, so that the rest is free."""
        for held, name in zip(piece.writes, self._ops[piece.of].outputs, strict=False):
            if held[1] is not None:
                first, last, begin, end, _ = held[1]
                rows = self._rows(name, (first, last), begin, end)
                copied = self._emit(_aten.clone.default, (rows,), {})
                copied.meta[KEPT] = True
                self._parts[name] = [_Held(copied, (first, last), begin, end)]

    def _onto(self, part: Part, results: Sequence[Leaf | None]) -> Part:
        """The part; where its operator may add to what there is of a sum, that."""
        if part.func not in _ADDED or results[0] is None or results[0].name not in self._sums:
            return part
        return Part(_ADDED[part.func], (self._sums.pop(results[0].name), *part.args), part.kwargs)

    def _add(self, name: str, value: fx.Node, last: bool) -> None:
        before = self._sums.pop(name, None)
        total = value if before is None else self._emit(_aten.add.Tensor, (before, value), {})
        if last:
            self._whole[name] = total
        else:
            self._sums[name] = total

    def _whole_named(self, name: str) -> fx.Node:
        if name in self._parts:
            self._assemble(name)
        return self._whole[name]

    def _assemble(self, name: str) -> None:
        """The whole of a tensor of which all rows are there."""
        parts = sorted(self._parts.pop(name), key=lambda held: held.begin)
        joined = self._joined([held.node for held in parts], parts[0].axes[1])
        shape = self._shape[name]
        if tuple(joined.meta["val"].shape) != shape:
            joined = self._emit(_aten.view.default, (joined, list(shape)), {})
        self._whole[name] = joined

    def _joined(self, nodes: Sequence[fx.Node], axis: int) -> fx.Node:
        return nodes[0] if len(nodes) == 1 else self._emit(_aten.cat.default, (list(nodes), axis), {})

    def _rows(self, name: str, axes: tuple[int, int], begin: int, end: int) -> fx.Node:
        """Rows of a tensor."""
        held = self._parts.get(name)
        if held is not None and any(one.axes != axes for one in held):
            self._assemble(name)
            held = None
        parts = held or [self._as_rows(name, axes)]
        found = [
            self._slice(one, max(begin, one.begin), min(end, one.end))
            for one in sorted(parts, key=lambda one: one.begin)
            if one.begin < end and begin < one.end
        ]
        if not found:  # none at all
            return self._slice(parts[0], parts[0].begin, parts[0].begin)
        return self._joined(found, axes[1])

    def _as_rows(self, name: str, axes: tuple[int, int]) -> _Held:
        """A whole tensor, seen as rows of axes that are taken together."""
        node, (first, last) = self._whole[name], axes
        shape = self._shape[name]
        whole = 1
        for size in shape[first : last + 1]:
            whole *= size
        if whole != shape[last]:
            sizes = [*shape[:first], *[1] * (last - first), whole, *shape[last + 1 :]]
            key = (node, *axes, -1)
            if key not in self._slices:
                self._slices[key] = self._emit(_aten.view.default, (node, sizes), {})
            node = self._slices[key]
        return _Held(node, axes, 0, whole)

    def _slice(self, held: _Held, begin: int, end: int) -> fx.Node:
        if (begin, end) == (held.begin, held.end):
            return held.node
        key = (held.node, held.axes[1], begin - held.begin, end - held.begin)
        if key not in self._slices:
            self._slices[key] = self._emit(_aten.slice.Tensor, (key[0], *key[1:]), {})
        return self._slices[key]

    def _leaf(self, name: str) -> Leaf:
        return Leaf(name, self._shape[name], self._dtype[name])

    def _leaves(self, value: Any) -> Any:
        return _mapped(value, lambda node: self._leaf(name_of(node)), fx.Node)


def _value(node: fx.Node) -> Tensor:
    return node.meta["val"]  # type: ignore[no-any-return]


def _attributes(module: fx.GraphModule) -> dict[str, Any]:
    """What nodes of a graph take from its module, by name."""
    names = dict.fromkeys(str(node.target) for node in module.graph.find_nodes(op="get_attr"))
    return {name: operator.attrgetter(name)(module) for name in names}


_ADDED: Mapping[Any, Any] = {_aten.mm.default: _aten.addmm.default, _aten.bmm.default: _aten.baddbmm.default}
_COMPOSITE = {_aten.reshape.default}


def _mapped(value: Any, change: Any, kind: type = Leaf) -> Any:
    """A nest of arguments with some of its leaves changed."""
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, dict):
        return {name: _mapped(item, change, kind) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [_mapped(item, change, kind) for item in value]
        return items if isinstance(value, list) else tuple(items)
    return value


def _flat(value: Any) -> list[Leaf]:
    found: list[Leaf] = []
    _mapped(value, found.append)
    return found
