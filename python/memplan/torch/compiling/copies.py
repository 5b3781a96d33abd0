"""Ops of forward that backward runs again, written into the joint graph of both: once for each time that they run.

A use reads what was made last. A view of what was made again is taken again too. Parts of an op, which are computed
where it is, come with it.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import fx

from ..private_compiler import detect_fake_mode
from ..reading.effects import flat_tensors
from .step_load import parts_of

AGAIN = "memplan_again"  # marks nodes that were not in the graph


def run_again(
    graph: fx.Graph, order: Sequence[str], backward: Collection[str], inside: Collection[fx.Node]
) -> set[str]:
    """Write ops that run again into a joint graph; the names of the nodes that this adds.

    `order` has the names of its ops as they are to run: "relu", and "relu~1" and "relu~2" where it runs again. What
    runs again before backward begins does not. `backward` are the names among them that are of backward, `inside` nodes
    that are parts of the only op that reads them.
    """
    nodes = {node.name: node for node in graph.nodes}
    copies = _Copies(graph, {nodes[name] for name in order if name in nodes}, inside)
    waiting: list[fx.Node] = []
    begun = False
    for name in order:
        if name not in nodes:
            waiting += [nodes[name.rpartition("~")[0]]] if begun else []
        elif name in backward:
            begun = True
            copies.before(nodes[name], waiting)
            waiting = []
    return copies.added


class _Copies:
    """The newest copy of each node, while ops of backward are met in their order."""

    def __init__(self, graph: fx.Graph, ops: Collection[fx.Node], inside: Collection[fx.Node]) -> None:
        self._graph, self._ops, self._inside = graph, ops, inside
        self._now: dict[fx.Node, fx.Node] = {}
        self._views: dict[tuple[fx.Node, ...], fx.Node] = {}
        self.added: set[str] = set()

    def before(self, op: fx.Node, again: Sequence[fx.Node]) -> None:
        """Run some ops again right before one, which reads what was made last."""
        parts = parts_of(op, self._inside)
        for part in reversed(parts[1:]):
            op.prepend(part)
        with self._graph.inserting_before(parts[-1]):
            for node in again:
                self._run_again(node)
            for part in parts:
                for used in part.all_input_nodes:
                    if used not in self._inside:
                        part.replace_input_with(used, self._newest(used))

    def _run_again(self, node: fx.Node) -> None:
        results = [user for user in node.users if user.target is operator.getitem and AGAIN not in user.meta]
        self._now[node] = self._copy(node)
        for result in results:
            self._now[result] = self._copy(result)

    def _newest(self, node: fx.Node) -> fx.Node:
        if node in self._now:
            return self._now[node]
        if node in self._ops or node.op != "call_function":
            return node
        read = [self._newest(used) for used in node.all_input_nodes]
        if read == node.all_input_nodes:
            return node
        key = (node, *read)
        if key not in self._views:
            self._views[key] = self._copy(node)
        return self._views[key]

    def _copy(self, node: fx.Node) -> fx.Node:
        """A copy of a node with its parts, which reads what was made last; its tensors have bytes of their own."""
        made = self._graph.node_copy(node, lambda used: (self._copy if used in self._inside else self._newest)(used))
        args, kwargs = fx.node.map_arg((made.args, made.kwargs), lambda given: given.meta["val"])
        target: Any = made.target
        with torch.no_grad(), detect_fake_mode(flat_tensors(node.meta["val"])) or nullcontext():
            made.meta = {**node.meta, "val": target(*args, **kwargs), AGAIN: True}
        self.added.add(made.name)
        return made
