"""The joint graph of forward and backward as a graph of memplan, and what forward saves if some ops run again.

Storages are the tensors. Views are not ops: who reads a view uses its storage. An elementwise op whose result one other
reads alone, forward or backward as it is, is part of that one.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch.utils.checkpoint import CheckpointPolicy

from ... import _core
from ..private import HigherOrderOperator, OpOverload, schema_of
from ..private_compiler import partitioners
from ..reading.costs import cost_of
from ..reading.effects import draws
from .backward_order import OVER, least_order, put_in_order
from .copies import run_again
from .early_sums import write_sums
from .part_copies import copy_parts
from .step_load import (
    USUAL,
    Fusion,
    hint,
    in_registers,
    is_elementwise,
    parts_of,
    read_by,
    storages,
    total_of,
    written_over,
)

_WORK = 300_000_000  # of one search


class Joint:
    """A joint graph; ``fusion``: what Inductor is taken to do.

    Attributes
    ----------
    graph : Graph
        Its storages and ops; ops have the names of their nodes.
    cost : list of float
        Of each op: floating-point operations, and bytes that it touches.
    again : list of str
        What running each op again does, as for `fit_graph`: ops of backward do not.
    """

    def __init__(self, nodes: fx.Graph, info: partitioners.NodeInfo, fusion: Fusion = USUAL) -> None:
        self._nodes, self._info, self._in_place = nodes, info, fusion.in_place
        self._types = partitioners.get_default_op_list()
        self._outside = {s for node in info.inputs for s in storages(node)}
        self._backward = self._of_backward()
        write_sums(nodes, self._backward)
        self._inside = in_registers([*nodes.nodes], self._are_apart, rows=fusion.rows)
        self.cost: list[float] = []
        self.again: list[str] = []
        ops: list[_core.Op] = []
        size: dict[int, int] = {}
        for node in sorted(nodes.nodes, key=lambda node: node.name in self._backward):
            made = {s: bytes for s, bytes in storages(node).items() if s not in size and s not in self._outside}
            if node.op == "output" or node in self._inside or node in info.inputs:
                continue
            read = dict.fromkeys(s for used in read_by(node, self._inside) for s in storages(used) if s in size)
            if not made and not _changes(node):
                continue
            size.update(made)
            names = ([f"s{s}" for s in read], [f"s{s}" for s in made])
            ops.append(_core.Op(node.name, str(node.target), *names, inplace=self._over(node, size)))
            self.cost.append(sum(cost_of_node(part) for part in parts_of(node, self._inside)))
            self.again.append("same" if self._may_run_again(node) else "never")
        kept = {s for node in nodes.output_node().all_input_nodes for s in storages(node)}
        tensors = [_core.Tensor(f"s{s}", bytes) for s, bytes in size.items()]
        self.graph = _core.Graph(tensors, ops, [f"s{s}" for s in size if s in kept])

    def within(self, capacity: int) -> list[fx.Node]:
        """What forward saves, if the graph is to fit a capacity; InfeasibleError if no way was found."""
        fitted = _core.fit_graph(self.graph, self.cost, self.again, OVER, capacity, work=_WORK)
        return self.saved([op.name for op in fitted.graph.ops])

    def put_in_order(self) -> bool:
        """Move the ops of backward into an order of a lower floor; whether there is one. The graph is another then."""
        if any(_changes(node) for node in self._nodes.nodes if node.name in self._backward):
            return False
        order = least_order(self.graph, self._backward)
        if order is not None:
            put_in_order(self._nodes, order, self._inside)
        return order is not None

    def copy_parts(self) -> bool:
        """Copy parts of gradients that are read long after the rest; whether there are any. The graph changes."""
        return copy_parts(self._nodes, self._backward)

    def saved(self, order: Sequence[str]) -> list[fx.Node]:
        """What forward saves, if ops run in this order, some again; these are written into the graph."""
        self._backward |= run_again(self._nodes, order, self._backward, self._inside)
        found: dict[fx.Node, None] = {}
        seen: set[fx.Node] = set()
        waiting = list(self._needed())
        while waiting:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            if node in self._info.inputs or not self._is_free(node):
                found[node] = None
            else:
                waiting += node.all_input_nodes
        return [node for node in self._nodes.nodes if node in found]

    def _of_backward(self) -> set[str]:
        """Ops that follow gradients, and those that forward does not need: ops among them, and what enlarges."""
        found: set[str] = set()
        begun = False
        for node in self._nodes.nodes:
            if node.op == "placeholder":
                continue
            follows = node in self._info.tangents_closure
            begun |= follows
            if follows or (not self._info.is_required_fw(node) and (begun or _enlarges(node))):
                found.add(node.name)
        return found | {node.name for node in self._info.tangents_closure}

    def _needed(self) -> Iterator[fx.Node]:
        """What backward reads of forward."""
        for node in self._nodes.nodes:
            if node.op == "output" or node in self._info.tangents_closure or node not in self._info.required_bw_nodes:
                continue
            yield node  # a gradient that forward makes
        for node in self._info.tangents_closure:
            yield from (used for used in node.all_input_nodes if used not in self._info.tangents_closure)

    def _is_free(self, node: fx.Node) -> bool:
        """Whether a node is never saved: views, what is no tensor, parts of others, and where one asks for that."""
        if partitioners.must_recompute(node) or node in self._inside:
            return True
        if not isinstance(node.meta.get("val"), torch.Tensor):
            return True
        return node.name in self._backward or (_is_view(node) and not _saved(node))

    def _are_apart(self, node: fx.Node, user: fx.Node) -> bool:
        return (node.name in self._backward) != (user.name in self._backward) or _saved(node)

    def _over(self, node: fx.Node, size: Mapping[int, int]) -> list[tuple[str, str, int]]:
        """What a node may be written over."""
        total = total_of(node)
        if total is None and not self._in_place:
            return []
        there = written_over(node, self._inside) if total is None else storages(total)
        return [(f"s{made}", f"s{old}", 0) for made in storages(node) for old in there if old in size and old != made]

    def _may_run_again(self, node: fx.Node) -> bool:
        if node.name in self._backward or node.op != "call_function":
            return False
        parts = list(parts_of(node, self._inside))
        random = any(self._types.is_random(part) or _draws_random_numbers(part) for part in parts)
        return not random and not any(_saved(part) or _changes(part) for part in parts)


def cost_of_node(node: fx.Node) -> float:
    """Operations and bytes of a node, for the sizes that the graph is compiled with."""
    if not isinstance(node.target, OpOverload):
        return 0.0
    args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda given: given.meta.get("val"))
    return float(hint(cost_of(node.target, args, kwargs, node.meta["val"])))


def _is_view(node: fx.Node) -> bool:
    """Whether a node shows tensors that it reads; not those of an op that makes several."""
    read = {storage for used in node.all_input_nodes for storage in storages(used)}
    return node.target is not operator.getitem and not _changes(node) and storages(node).keys() <= read


def _enlarges(node: fx.Node) -> bool:
    """Whether an elementwise op makes more bytes than it reads."""
    read = {storage: size for used in node.all_input_nodes for storage, size in storages(used).items()}
    return is_elementwise(node) and sum(storages(node).values()) > sum(read.values()) > 0


def _draws_random_numbers(node: fx.Node) -> bool:
    """Also of Inductor's seeds, which the types of its partitioner do not count."""
    return draws(node.target, node.args, node.kwargs)


def _saved(node: fx.Node) -> bool:
    """Whether it has to be saved: it has effects, or one asks for it."""
    return bool(node.meta.get("recompute") == CheckpointPolicy.MUST_SAVE)


def _changes(node: fx.Node) -> bool:
    target: Any = node.target
    if isinstance(target, OpOverload):
        return bool(schema_of(target).is_mutable)
    return node.op == "call_function" and isinstance(target, HigherOrderOperator)
