"""The ops of backward in an order that needs less, whatever forward saves.

autograd makes the gradients of the inputs of ops one after another, and those that it adds up are all there at once.
Tensors of forward may be computed again, so they count here only while an op reads them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from torch import fx

from ... import _core
from .step_load import parts_of

OVER = _core.StorageOptions(zero_copy=False)  # results may lie over what ops say


def least_order(graph: _core.Graph, backward: Collection[str]) -> list[str] | None:
    """The names of the ops of backward, in an order of a lower floor; None if there is none.

    The floor is what backward holds where tensors of forward are there only while an op reads them.
    """
    ops = [op for op in graph.ops if op.name in backward]
    size = {tensor.name: tensor.bytes for tensor in graph.tensors}
    made = {name for op in ops for name in op.outputs}
    alone = [_alone(op, size, made) for op in ops]
    kept = [name for name in graph.outputs if name in made]
    floor = _core.Graph([tensor for tensor in graph.tensors if tensor.name in made], alone, kept)
    found = _core.order_of(floor, "best", OVER, interruptible=False)
    return None if found.found_by == "given" else [ops[k].name for k in found.ops]


def _alone(op: _core.Op, size: dict[str, int], made: Collection[str]) -> _core.Op:
    """An op of backward without tensors of forward, whose bytes are its workspace."""
    given = sum(size[name] for name in op.inputs if name not in made)
    over = sum(size[new] for new in {new for new, old, _ in op.inplace if old not in made})
    own = [name for name in op.inputs if name in made]
    inplace = [pair for pair in op.inplace if pair[1] in made]
    return _core.Op(op.name, op.type, own, list(op.outputs), inplace=inplace, workspace=max(given - over, 0))


def put_in_order(nodes: fx.Graph, names: Sequence[str], inside: Collection[fx.Node]) -> None:
    """Move ops of backward into an order, each with what only it needs; `inside` as in `parts_of`."""
    place = {node: k for k, node in enumerate(nodes.nodes)}
    named = {node.name: node for node in nodes.nodes}
    left = {part for name in names for part in parts_of(named[name], inside) if part.op != "placeholder"}
    for node in nodes.nodes:
        if node.op != "output" and not left.isdisjoint(node.all_input_nodes):
            left.add(node)
    end = nodes.output_node()
    for node in [*(named[name] for name in names), *sorted(left, key=place.__getitem__)]:
        for needed in sorted(_needed(node, left), key=place.__getitem__):
            end.prepend(needed)
            left.remove(needed)


def _needed(node: fx.Node, left: Collection[fx.Node]) -> set[fx.Node]:
    """Those that are left of a node and all that it needs."""
    found: set[fx.Node] = set()
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if node in left and node not in found:
            found.add(node)
            waiting += node.all_input_nodes
    return found
