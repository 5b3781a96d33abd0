"""A graph of torch's operators that is traced already, as a graph of the core: a tensor has the name of its node."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.node import map_arg

from .... import _core
from ....errors import UnsupportedError
from ...private import OpOverload, schema_of
from ...reading.costs import cost_of
from ...reading.effects import draws, flat_tensors
from ...reading.geometry import address
from ...reading.loops import loops_of
from ...reading.relations import extent

_aten, _prims = torch.ops.aten, torch.ops.prims
_CONVERT = _prims.convert_element_type.default


@dataclass(frozen=True)
class Traced:
    """The graph of the core, the node of each op, and the bytes and multiplications that each op costs."""

    graph: _core.Graph
    nodes: Sequence[fx.Node]
    cost: Sequence[float]


def traced(nodes: fx.Graph, loops: Mapping[fx.Node, bool] | None = None) -> Traced:
    """Read a graph, whose nodes say what they make (`meta["val"]`); nodes that `loops` denies have none.

    UnsupportedError: sizes are symbolic.
    """
    return _Reading(loops or {}).read(nodes)


def name_of(node: fx.Node) -> str:
    """The name of the tensor that a node stands for."""
    if is_result(node):
        maker, place = node.args
        assert isinstance(maker, fx.Node)
        return f"{maker.name}.{place}"
    return node.name


def is_result(node: fx.Node) -> bool:
    """Whether a node is one of several results of another."""
    return node.target is operator.getitem and isinstance(node.args[0], fx.Node)


def results_of(node: fx.Node) -> list[tuple[str, Tensor] | None]:
    """What a node makes, by name; None for what is left out."""
    made = node.meta.get("val")
    if isinstance(made, Tensor):
        return [(node.name, made)]
    several = made if isinstance(made, (list, tuple)) else ()
    return [(f"{node.name}.{k}", one) if isinstance(one, Tensor) else None for k, one in enumerate(several)]


def tensors_of(value: Any) -> Iterator[fx.Node]:
    """The nodes for tensors among arguments, in order, each as often as it is given."""
    if isinstance(value, fx.Node):
        if isinstance(value.meta.get("val"), Tensor):
            yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_of(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_of(item)


def call_of(node: fx.Node) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The call of a node, by an operator of aten where it is one of torch's primitives that does the same."""
    if node.target is _CONVERT:
        return _aten._to_copy.default, node.args[:1], {"dtype": node.args[1]}
    if node.target is _prims.rev.default:
        return _aten.flip.default, node.args, {}
    return node.target, node.args, dict(node.kwargs)


class _Reading:
    def __init__(self, loops: Mapping[fx.Node, bool]) -> None:
        self._loops = loops
        self._tensors: list[_core.Tensor] = []
        self._ops: list[_core.Op] = []
        self._nodes: list[fx.Node] = []
        self._cost: list[float] = []
        self._root: dict[int, str] = {}  # of each storage
        self._readers: dict[int, list[str]] = {}
        self._changed: dict[int, str] = {}
        self._drawn: list[str] = []

    def read(self, nodes: fx.Graph) -> Traced:
        for node in nodes.nodes:
            for tensor in flat_tensors(node.meta.get("val")):
                if any(isinstance(size, torch.SymInt) for size in tensor.shape):
                    raise UnsupportedError(f"sizes are symbolic: {node.name} has {tuple(tensor.shape)}")
            if node.op in ("placeholder", "get_attr"):
                for made in results_of(node):
                    if made is not None:
                        self._tensor(*made, "weight")
            elif node.op == "call_function" and not is_result(node):
                self._op(node)
        returned = dict.fromkeys(name_of(node) for node in tensors_of(list(nodes.output_node().args)))
        return Traced(_core.Graph(self._tensors, self._ops, list(returned)), self._nodes, self._cost)

    def _tensor(self, name: str, tensor: Tensor, kind: str = "intermediate") -> str | None:
        """Note a tensor; the name of the root if it shows the bytes of another."""
        place = address(tensor)
        root = self._root.setdefault(place, name)
        size = int(tensor.untyped_storage().nbytes()) if root == name else extent(tensor)
        dtype = str(tensor.dtype).removeprefix("torch.")
        self._tensors.append(_core.Tensor(name, size, kind, list(tensor.shape), dtype))
        return None if root == name else root

    def _op(self, node: fx.Node) -> None:
        given = list(tensors_of([node.args, dict(node.kwargs)]))
        inputs = dict.fromkeys(name_of(one) for one in given)
        outputs, aliases = [], []
        for made in results_of(node):
            if made is None:
                continue
            root = self._tensor(*made)
            outputs.append(made[0])
            if root is not None:
                inputs.setdefault(root)
                offset = made[1].storage_offset() * made[1].dtype.itemsize if made[1].numel() else 0
                aliases.append((made[0], root, int(offset)))
        func, args, kwargs = _values(node)
        changes = isinstance(func, OpOverload) and schema_of(func).is_mutable
        loops = [] if changes or not self._loops.get(node, True) else _loops(node, (func, args, kwargs), given, inputs)
        after = self._after(node, given, changes)
        again = not changes and not draws(node.target, node.args, node.kwargs)
        op = _core.Op(
            *(node.name, str(node.target), list(inputs), outputs),
            aliases=aliases,
            after=after,
            recompute=again,
            loops=loops,
        )
        self._ops.append(op)
        self._nodes.append(node)
        known = isinstance(func, OpOverload)
        self._cost.append(float(cost_of(func, args, kwargs, node.meta["val"])) if known else 0.0)

    def _after(self, node: fx.Node, given: Sequence[fx.Node], changes: bool) -> list[str]:
        """Ops that must have run: those that read what this one writes over, and the last that drew random numbers."""
        found: dict[str, None] = {}
        for one in given:
            place = address(one.meta["val"])
            if place in self._changed:
                found[self._changed[place]] = None
            if changes:
                found.update(dict.fromkeys(self._readers.get(place, ())))
                self._changed[place] = node.name
            self._readers.setdefault(place, []).append(node.name)
        if draws(node.target, node.args, node.kwargs):
            found.update(dict.fromkeys(self._drawn))
            self._drawn = [node.name]
        return list(found)


def _values(node: fx.Node) -> tuple[Any, Any, Any]:
    func, args, kwargs = call_of(node)
    args, kwargs = map_arg((args, kwargs), lambda one: one.meta.get("val"))
    return func, args, kwargs


def _loops(node: fx.Node, call: Any, given: Sequence[fx.Node], inputs: Mapping[str, None]) -> list[_core.Loop]:
    """The loops of a node's call by places of names: a name is read whole unless all that have it are read alike."""
    place = {name: k for k, name in enumerate(inputs)}
    names = [name_of(one) for one in given]
    outputs = [made for made in results_of(node) if made is not None]
    at = {id(tensor): k for k, (_, tensor) in enumerate(outputs)}
    found = []
    func, args, kwargs = call
    for loop in loops_of(func, args, kwargs, node.meta["val"]):
        read: dict[str, set[Any]] = {}
        for name, (_, rows) in zip(names, loop.inputs, strict=True):
            read.setdefault(name, set()).add(rows)
        reads = [
            _numbers(place[name], next(iter(rows)))
            for name, rows in read.items()
            if len(rows) == 1 and None not in rows
        ]
        writes = [(at[id(tensor)], *written.axes, written.step) for tensor, written in loop.writes]
        early = [(at[id(tensor)], _early(tensors, given, place)) for tensor, tensors in loop.early]
        made = [*(w[0] for w in writes), *(at[id(t)] for t in loop.sums), *(e[0] for e in early)]
        statistics = None
        if loop.statistics is not None:
            statistics = (_early(loop.statistics.inputs, given, place), loop.statistics.nbytes)
            by_rows = {place[name] for name, (_, rows) in zip(names, loop.inputs, strict=True) if rows is not None}
            if not by_rows.intersection(statistics[0]) <= {k for k, *_ in reads}:  # some are read whole by another name
                continue
        if sorted(made) == list(range(len(outputs))):
            sums = [at[id(tensor)] for tensor in loop.sums]
            found.append(_core.Loop(loop.extent, reads, writes, sums, early, statistics))
    return found


def _early(tensors: Sequence[Tensor], given: Sequence[fx.Node], place: Mapping[str, int]) -> list[int]:
    wanted = {id(tensor) for tensor in tensors}
    return list(dict.fromkeys(place[name_of(one)] for one in given if id(one.meta["val"]) in wanted))


def _numbers(place: int, rows: Any) -> tuple[int, int, int, int, int, int, int]:
    fractions = [Fraction(number) for number in rows[1:]]
    per = math.lcm(*(number.denominator for number in fractions))
    step, window, before = (int(number * per) for number in fractions)
    return (place, *rows.axes, step, window, before, per)


def rows_of(loop: _core.Loop) -> tuple[dict[int, Any], dict[int, Any]]:
    """What iterations of a loop read and write, by places: axes with numbers, and axes with a step."""
    reads = {
        k: ((a, b), tuple(Fraction(n, per) for n in (step, window, before)))
        for k, a, b, step, window, before, per in loop.reads
    }
    return reads, {k: ((a, b), step) for k, a, b, step in loop.writes}
