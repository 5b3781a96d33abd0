"""Sums of gradients that are written at once, so that what is added need not stay until the last of it is there.

A weight that is used several times, as that of a recurrent cell, has a gradient for each use. autograd adds them up as
they come. But Inductor computes a sum where it is read, so all of these gradients would stay until the last is there.
"""

from __future__ import annotations

import operator
from collections.abc import Collection

from torch import fx

from .step_load import IN_MEMORY, is_elementwise, is_loop, storages

_FAR = 16  # ops


def write_sums(nodes: fx.Graph, backward: Collection[str]) -> None:
    """Have elementwise ops of backward written where that frees bytes: two tensors go, or more, and one comes.

    These are ops that one op reads, and much later.
    """
    place = {node: k for k, node in enumerate(nodes.nodes)}
    for node in nodes.nodes:
        if node.name not in backward or not is_loop(node) or len(node.users) != 1:
            continue
        gone = [used for used in node.all_input_nodes if _goes(used, node) and _bytes(used) == _bytes(node)]
        if len(gone) > 1 and place[next(iter(node.users))] - place[node] > _FAR:
            node.meta[IN_MEMORY] = True


def _goes(made: fx.Node, reader: fx.Node) -> bool:
    """Whether a tensor is in memory, and nothing needs it after a reader; it may be a view."""
    if made.op != "call_function" or [*made.users] != [reader] or is_elementwise(made):
        return False
    if made.target is operator.getitem:
        return True
    shown = [used for used in made.all_input_nodes if storages(used).keys() & storages(made).keys()]
    return all(_goes(used, made) for used in shown)


def _bytes(node: fx.Node) -> list[int]:
    return [*storages(node).values()]
