"""The joint graph of forward and backward with ops in pieces, so that what lies between them is never whole.

A region may hold ops of both: the loss of a language model, from its hidden states to their gradient. Then its backward
runs within forward, for 1 in place of the gradient that backward will be given, and backward multiplies
(`tangents.py`). So ops of backward that are linear in no scalar have no pieces.
"""

from __future__ import annotations

import copy
import logging
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from ... import _core
from ...errors import SourceError, UnsupportedError
from ..private_compiler import inductor_prims, select_decomp_table
from ..running.pieces.graph import KEPT, in_pieces
from ..running.pieces.network import Traced, traced
from ..running.pieces.random_rows import RANDOM_ROWS
from .resizing import decompose, enlarge
from .step_load import SCALES, storages
from .sums_in_place import scatter_over_totals
from .tangents import linear_in, move_to_forward

log = logging.getLogger("memplan.torch")
_SEPARATE = _core.StorageOptions(inplace=False, zero_copy=False)
_WORK = 3_000_000  # of a search
MOST = 64  # pieces
_BYTE = 10.0  # operations that a processor does in the time in which it reads a byte of memory


@dataclass(frozen=True)
class Split:
    """A graph with ops in pieces, the regions, what they add to the cost, and a reason where there are none."""

    module: fx.GraphModule
    changes: Sequence[_core.SplitChange] = ()
    cost: float = 0.0
    reason: str = ""

    @property
    def pieces(self) -> int:
        """The most of a region."""
        return max((change.pieces for change in self.changes), default=0)


def copied(module: fx.GraphModule) -> fx.GraphModule:
    """A graph that may be changed."""
    own = fx.GraphModule(module, copy.deepcopy(module.graph))
    own.meta.update(module.meta)
    return own


def split_graph(module: fx.GraphModule, capacity: int | None, most: int = MOST, *, again: bool = False) -> Split:
    """A graph of which as much is split as a capacity asks for, or as little as is found where that is None.

    No op is in more than ``most`` pieces. ``again``: rows may be made again, and regions may run in several passes.
    """
    own = copied(module)
    enlarge(own.graph)
    split = _split(own, capacity, most, again)
    decompose(split.module)
    return split


def _split(own: fx.GraphModule, capacity: int | None, most: int, again: bool) -> Split:
    scatter_over_totals(own.graph)
    linear = linear_in(own.graph)
    try:
        read = traced(own.graph, {node: tangent is not None for node, tangent in linear.items()})
        found = _found(read, capacity, most, again)
        if any(_is_no_use(own, change, linear) for change in found.changes):
            read = traced(own.graph, dict.fromkeys(linear, False))
            found = _found(read, capacity, most, again)
        if not found.changes:
            return Split(own, reason=_reason(linear))
        loops = {
            read.nodes[piece.of].name: piece.loop for piece in found.pieces if piece.does in ("part", "statistics")
        }
        if linear:
            _hoist(own, found.changes, linear)
            read = traced(own.graph)
        regions = [(_region(read, change, loops), change.pieces, bool(change.blocks)) for change in found.changes]
        pieces = _core.split(read.graph, regions, _SEPARATE)
        made = in_pieces(own, read, pieces.pieces, select_decomp_table())
        _write_at_once(made.graph)
    except (UnsupportedError, SourceError) as reason:
        return Split(own, reason=str(reason))
    for change in found.changes:
        log.info("%d pieces of %s, so that %s are never whole", change.pieces, change.ops, change.tensors)
    return Split(made, found.changes, found.added_cost)


def _write_at_once(graph: fx.Graph) -> None:
    """Have some nodes written where they stand. Inductor puts loops off until they are read, and keeps what they read.

    So the logits of all pieces would be there for what is gathered of them, all rows for those that later pieces read,
    and random numbers in place of the mask that they are compared for.
    """
    for joined in graph.find_nodes(op="call_function", target=torch.ops.aten.cat.default):
        for piece in dict.fromkeys(joined.args[0]):
            if piece.op != "call_function" or _bytes(piece) >= max(map(_bytes, piece.all_input_nodes), default=0):
                continue
            joined.replace_input_with(piece, _written(graph, piece))
    for node in list(graph.nodes):
        drawn = node.op == "call_function" and any(used.target is RANDOM_ROWS for used in node.all_input_nodes)
        if KEPT in node.meta or (drawn and node.meta["val"].dtype is torch.bool):
            users = list(node.users)
            written = _written(graph, node)
            for user in users:
                user.replace_input_with(node, written)


def _written(graph: fx.Graph, node: fx.Node) -> fx.Node:
    """The same, written where it stands."""
    with graph.inserting_after(node):
        written = graph.call_function(inductor_prims.force_stride_order, (node, list(node.meta["val"].stride())))
    written.meta = {**node.meta}
    return written


def _found(read: Traced, capacity: int | None, most: int, again: bool) -> _core.FoundSplit:
    return _core.find_split(read.graph, list(read.cost), _SEPARATE, capacity or 0, _WORK, _BYTE, most, again)


def _is_no_use(module: fx.GraphModule, change: _core.SplitChange, linear: Mapping[fx.Node, fx.Node | None]) -> bool:
    """Whether forward would save something as large as what is never whole: as where something else reads logits."""
    members, late = _members(module, change, linear)
    if not late:
        return False
    left = [node for node in late if any(user not in late for user in node.users)]
    return max(map(_bytes, left), default=0) >= max(map(_bytes, members))


def _members(
    module: fx.GraphModule, change: _core.SplitChange, linear: Mapping[fx.Node, fx.Node | None]
) -> tuple[list[fx.Node], set[fx.Node]]:
    """The ops of a region, and those of backward among them that forward is to run."""
    names = set(change.ops)
    members = [node for node in module.graph.nodes if node.name in names]
    late = {node for node in members if node in linear}
    if len(late) == len(members):
        return members, set()
    return members, late | {user for node in late for user in node.users if user.target is operator.getitem}


def _bytes(node: fx.Node) -> int:
    return max(storages(node).values(), default=0)


def _reason(linear: Mapping[fx.Node, fx.Node | None]) -> str:
    """Why a loss may not be in pieces."""
    for node, tangent in linear.items():
        if tangent is None:
            return f"{node.name} of backward is linear in no gradient of a scalar"
    return ""


def _hoist(module: fx.GraphModule, changes: Sequence[_core.SplitChange], linear: dict[Any, Any]) -> None:
    """Let backward run within forward where a region holds both."""
    for change in changes:
        _, late = _members(module, change, linear)
        if not late:
            continue
        for saved in move_to_forward(module.graph, late, linear):
            for user in saved.users:
                if user not in linear and user not in late:
                    user.meta[SCALES] = True


def _region(read: Traced, change: _core.SplitChange, loops: Mapping[str, int]) -> list[tuple[int, int | None, bool]]:
    """The ops of a region that are in pieces, with their loops. Its last may be a view that shows all of them."""
    place = {op.name: k for k, op in enumerate(read.graph.ops)}
    again, known = set(change.again), dict(zip(change.ops, change.loops, strict=True))
    named = [name for name in change.ops if name in loops or known[name] is None]
    return sorted(((place[name], loops.get(name), name in again) for name in named), key=lambda one: one[0])
