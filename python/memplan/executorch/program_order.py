"""The nodes of ExecuTorch's graphs in the order in which their tensors hold least.

What moves is an operator with all that belongs to it: the nodes that allocate what it writes, and those that take apart
what it returns. ExecuTorch counts a tensor from the first node that names it to the last, and so does this.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from executorch.exir import memory
from executorch.exir.memory_planning import get_node_tensor_specs
from torch import fx

from .. import _core
from ..running.ordering import PieceGraph
from .storages import memory_of
from .versions import is_control_flow, schema_of

_Unit = list[fx.Node]


@dataclass
class Order:
    """A graph whose nodes may be moved.

    Parameters
    ----------
    graph
        A graph whose nodes have specs.
    planned
        The specs that are placed.
    state
        Specs that are alive throughout.
    alignment
        Of what is placed, in bytes.
    inner
        Bytes that bodies need, by their names in the graph.
    """

    graph: fx.GraphModule
    planned: Collection[Any]
    state: Collection[Any]
    alignment: int
    inner: Mapping[str, int]

    def __post_init__(self) -> None:
        *nodes, self._output = self.graph.graph.nodes
        self._fixed = [node for node in nodes if node.op in ("placeholder", "get_attr")]
        self._units = _units(nodes)
        roots = [_root(spec) for spec in self.planned]
        self._size = {id(root): -(-root.nbytes() // self.alignment) * self.alignment for root in roots}
        self._memory = {id(root): memory_of(root, {}) for root in roots}
        self._kept = {id(_root(spec)) for spec in self.state} | set(_touched(self._output))

    def improve(self, order: str) -> int:
        """Move the nodes into an order of memplan's; the bytes that the graph holds at most then."""
        given = self._most(self._units)
        found = self._pieces().in_order(order)
        units = self._units if found is None else [self._units[k] for k in found]
        held = self._most(units)
        if found is None or any(held[number] > given[number] for number in given):
            return sum(given.values())
        self._move(units)
        return sum(held.values())

    def _move(self, units: list[_Unit]) -> None:
        for unit in units:
            for node in unit:
                self._output.prepend(node)
        for node in reversed(self._fixed):
            next(iter(self.graph.graph.nodes)).prepend(node)
        self.graph.graph.lint()
        self.graph.recompile()

    def _pieces(self) -> PieceGraph:
        pieces = PieceGraph(kept=self._kept)
        for node in self._fixed:
            for root in _roots(node):
                pieces.piece(root, self._size.get(root, 0), given=True)
        number = {node: k for k, unit in enumerate(self._units) for node in unit}
        opaque: list[int] = []  # the last of the ops that keep their order
        for k, unit in enumerate(self._units):
            used = [given for node in unit for given in node.all_input_nodes]
            touched = dict.fromkeys(root for node in unit for root in _touched(node))
            for root in touched:
                pieces.piece(root, self._size.get(root, 0))
            after = {number[given] for given in used if given in number}
            if any(map(_keeps_its_place, unit)):
                after.update(opaque)
                opaque = [k]
            changed = {root for node in unit for value in _changed(node) for root in _roots(value)}
            pieces.op(touched, changed, after, max((self.inner.get(str(given.target), 0) for given in used), default=0))
        return pieces

    def _most(self, units: list[_Unit]) -> dict[int, int]:
        """The most bytes of each memory that are alive at once in an order, without those of bodies."""
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for step, unit in enumerate([self._fixed, *units]):
            for root in {root for node in unit for root in _touched(node)}:
                first.setdefault(root, step)
                last[root] = step
        lives: dict[int, list[tuple[int, int, int]]] = {}  # by memory: bytes, first step, and the one after the last
        for root, number in self._memory.items():
            end = len(units) + 1 if root in self._kept else last.get(root, 0)
            lives.setdefault(number, []).append((self._size[root], first.get(root, 0), end + 1))
        return {number: _core.Problem(*zip(*rows, strict=True)).load for number, rows in lives.items()}


def _units(nodes: list[fx.Node]) -> list[_Unit]:
    """Operators in their order, each with what has to stay beside it."""
    units: dict[fx.Node, _Unit] = {}
    for node in nodes:
        if node.op in ("placeholder", "get_attr", "output") or node.target is memory.alloc:
            continue
        source = node.args[0] if node.target is operator.getitem else None
        if isinstance(source, fx.Node) and source in units:
            units[node] = units[source]
            units[source].append(node)
        else:
            allocated = [given for given in node.all_input_nodes if given.target is memory.alloc and given not in units]
            units[node] = [*allocated, node]
            units.update(dict.fromkeys(allocated, units[node]))  # of several results, each is taken from there
    return list({id(unit): unit for unit in units.values()}.values())


def _roots(node: fx.Node) -> list[int]:
    """What a node's tensors lie in, by identity."""
    return [id(_root(spec)) for spec in get_node_tensor_specs(node)]


def _touched(node: fx.Node) -> Iterator[int]:
    """What a node names: its own tensors and those of its arguments."""
    for named in (*node.all_input_nodes, node):
        yield from _roots(named)


def _root(spec: Any) -> Any:
    while spec.storage_base is not None:
        spec = spec.storage_base
    return spec


def _changed(node: fx.Node) -> Iterator[fx.Node]:
    """The arguments that an operator writes to, but for those that are allocated for it."""
    schema = schema_of(node.target)
    for position, argument in enumerate(schema.arguments if schema is not None else ()):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = node.args[position] if position < len(node.args) else node.kwargs.get(argument.name)
        for given in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(given, fx.Node) and given.target is not memory.alloc:
                yield given


def _keeps_its_place(node: fx.Node) -> bool:
    """Whether what an operator does besides its results is not known, or is to draw random numbers."""
    target: Any = node.target
    if is_control_flow(target):
        return True
    schema = schema_of(target)
    return torch.Tag.nondeterministic_seeded in getattr(target, "tags", ()) or (
        schema is not None and not schema.returns
    )
