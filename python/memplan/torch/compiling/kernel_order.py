"""The nodes of Inductor's scheduler in the order in which their buffers hold least.

Inductor fuses its nodes first, and then looks for an order that holds little (`torch._inductor.memory`). What that
gives is held against memplan's: the same nodes, which wait for the same others, with buffers of the same sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from ...running.ordering import PieceGraph
from ..private_compiler import V, ir

_NO_BYTES = (ir.NoneLayout, ir.MultiOutputLayout)


def in_order(nodes: Sequence[Any], order: str, returned: Sequence[str]) -> list[Any]:
    """The nodes of a scheduler in an order of memplan's, or as they are if it holds no less.

    They are fused, in an order that torch has chosen: they know their sizes and who waits for whom. `returned` are the
    buffers that the graph returns.
    """
    pieces = piece_graph_of(nodes, set(returned))
    found = pieces.in_order(order)
    if found is None or pieces.load(found) >= pieces.load():
        return list(nodes)
    return [nodes[k] for k in found]


def piece_graph_of(nodes: Sequence[Any], returned: set[str]) -> PieceGraph:
    """The nodes as ops, and their buffers as what these touch."""
    pieces = PieceGraph()
    number = {node: k for k, node in enumerate(nodes)}
    opaque: list[int] = []  # the last of the nodes that keep their order
    for k, node in enumerate(nodes):
        touched = []
        for buffer in node.mpi_node.pred_buffers:
            name = _home(buffer)
            if not hasattr(buffer, "node"):  # an input that the graph may free
                pieces.piece(name, buffer.mpi_buffer.size_free, given=True)
            touched.append(name)
        for buffer in [*node.get_outputs(), *_parts(node)]:
            name = _home(buffer)
            own = name == buffer.get_name() and not isinstance(buffer.node.layout, _NO_BYTES)
            pieces.piece(name, buffer.mpi_buffer.size_free if own else 0)
            touched.append(name)
            if buffer.get_name() in returned:
                pieces.kept.add(name)
        after = {number[before] for before in node.mpi_node.pred_nodes}
        if _keeps_its_place(node):
            after.update(opaque)
            opaque = [k]
        pieces.op(touched, after=after)
    return pieces


def _home(buffer: Any) -> str:
    """The name of the buffer in whose bytes a buffer lies: what it mutates, or is a view of."""
    name, seen = str(buffer.get_name()), set()
    while name not in seen:
        seen.add(name)
        name = V.graph.scheduler.mutation_real_name.get(name, name)
        known = V.graph.scheduler.name_to_buf.get(name)
        viewed = known.node.get_inputs_that_alias_output() if known is not None else ()
        name = viewed[0] if viewed else name
    return name


def _parts(node: Any) -> Iterator[Any]:
    """What a kernel with several results makes; each is a node of its own, which only takes it out."""
    for buffer in node.get_outputs():
        if isinstance(buffer.node.layout, ir.MultiOutputLayout):
            users = [user.node for user in buffer.users if hasattr(user.node, "get_outputs")]
            yield from (part for user in users for part in user.get_outputs() if isinstance(part.node, ir.MultiOutput))


def _keeps_its_place(node: Any) -> bool:
    """Whether a node draws random numbers, or does what its results do not show."""
    if node.has_side_effects():
        return True
    operators = [getattr(inner.node, "op_overload", None) for inner in node.get_nodes()]
    return any(torch.Tag.nondeterministic_seeded in getattr(operator, "tags", ()) for operator in operators)
