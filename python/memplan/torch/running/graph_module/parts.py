"""Nodes for pieces of calls: what they make is a tensor of its own, or is copied to its rows of one.

Pieces that lie in a row in a tensor, or beside rows that are kept, share a storage. The first of them makes room.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, fx

from ...private import FakeTensorMode, pytree
from ..pieces import Inlining
from ..recording import CallRecord, Recording, View
from .nodes import VIEWS, Nodes
from .slicing import is_dense

_aten = torch.ops.aten


class Parts:
    """What writes pieces of the calls of a recording; `constant` makes a node for a tensor that is known."""

    def __init__(
        self, graph: fx.Graph, recording: Recording, nodes: Nodes, constant: Callable[[Tensor], fx.Node]
    ) -> None:
        self._graph, self._recording, self._nodes, self._constant = graph, recording, nodes, constant
        self._fake = FakeTensorMode()
        self._inlining = Inlining(self._fake, self._emit, lambda node: self._given[node], self._held)
        self._name, self._given = "", dict[fx.Node, Tensor]()  # of the piece that is written

    def call(self, name: str, call: CallRecord, nodes: Mapping[View, fx.Node], anew: Mapping[View, bool]) -> None:
        """Append a piece, which is given tensors by `nodes`. Some of its results make their storage `anew`."""
        args, kwargs = pytree.tree_map(
            lambda leaf: nodes[leaf] if isinstance(leaf, View) else leaf, (call.args, dict(call.kwargs))
        )
        self._name, self._given = name, {node: self._without_bytes(view) for view, node in nodes.items()}
        made = self._inlining.write(call.function, args, kwargs, functional=not call.written)
        found = [one for one in made if one is not None] if call.outputs else []
        for view, one in zip(call.outputs, found, strict=True):
            if view in anew:
                self._nodes.forget(view.storage)
                if anew[view] and one.own and _lies_as(one.tensor, view):
                    self._nodes.put(view, one.node)
                    self._nodes.lay(view, call)
                    continue
            self._graph.call_function(_aten.copy_.default, (self._room(view), one.node))

    def _emit(self, target: Any, args: Any, kwargs: Any) -> fx.Node:
        target = _aten.reshape.default if target in VIEWS else target
        return self._graph.create_node("call_function", target, args, kwargs, self._name)

    def _held(self, tensor: Tensor) -> fx.Node:
        node = self._constant(tensor)
        self._given[node] = self._fake.from_tensor(tensor)
        return node

    def _without_bytes(self, view: View) -> Tensor:
        device = self._recording.storages[view.storage].device
        with self._fake:
            return torch.empty_strided(view.sizes, view.strides, dtype=view.dtype, device=device)

    def _room(self, view: View) -> fx.Node:
        """The rows of a storage that a piece writes."""
        storage = view.storage
        if not self._nodes.has(storage):
            whole = self._all_of(view)
            where: dict[str, Any] = {"dtype": view.dtype, "device": self._recording.storages[storage].device}
            sizes = (list(whole.sizes), list(whole.strides))
            self._nodes.put(whole, self._graph.call_function(_aten.empty_strided.default, sizes, where), exact=True)
        if self._nodes.grows(view):
            raise AssertionError(f"{view} is beyond the bytes that are there")
        return self._nodes.of(view)

    def _all_of(self, view: View) -> View:
        """The bytes of a storage as one tensor."""
        views = [one for one in self._recording.storages[view.storage].views if one.dtype == view.dtype]
        end = max(one.end for one in views)
        for one in views:
            if one.begin == 0 and one.end == end and is_dense(one):
                return one
        size = end // view.dtype.itemsize
        return View(view.storage, 0, (size,), (1,), view.dtype, False, False, 0, end)


def _lies_as(tensor: Tensor, view: View) -> bool:
    """Whether a new tensor lies in its storage as a view does in its own."""
    strides = zip(view.sizes, tensor.stride(), view.strides, strict=True)
    alike = tensor.dtype == view.dtype and all(size <= 1 or mine == its for size, mine, its in strides)
    return alike and tensor.storage_offset() == view.offset == 0
