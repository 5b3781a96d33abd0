"""Which node of a graph has which tensor.

A tensor is known by the bytes that it shows, and as what. Each is what the last call made of it: calls that write to a
tensor, or view it, give it a new node. So whatever reads bytes comes after what has made them, as in the plan.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from ....errors import UnsupportedError
from ..recording import CallRecord, View
from .slicing import is_dense, slices_of

_aten = torch.ops.aten
VIEWS = {_aten.view.default, _aten._unsafe_view.default}  # they ask for a layout that kernels need not keep

_PRODUCTS = {_aten.mm.default, _aten.addmm.default, _aten.bmm.default, _aten.baddbmm.default}


class Nodes:
    """The nodes of a graph in the making, by the views that they show.

    What is given to the graph may lie elsewhere than when it was recorded. What kernels make may lie otherwise: when
    it was recorded, nothing had bytes, and torch guessed the strides.
    """

    def __init__(self, graph: fx.Graph) -> None:
        self._graph = graph
        self._nodes: dict[View, fx.Node] = {}
        self._views: dict[int, list[View]] = {}  # of a storage: those that have nodes
        self._whole: dict[int, list[View]] = {}  # of them: those that no slicing has made
        self._shown: dict[tuple[Any, ...], View] = {}  # a tensor that has a node, by what as_strided cannot change
        self._exact = set[View]()
        self._end: dict[int, int] = {}  # bytes of storages that tensors with nodes show

    def __contains__(self, view: View) -> bool:
        return view in self._nodes

    def has(self, storage: int) -> bool:
        """Whether there is a node that shows bytes of a storage."""
        return storage in self._end

    def put(self, view: View, node: fx.Node, exact: bool = False) -> None:
        """Say which node has a tensor from now on. `exact`: it lies as was recorded, and begins its storage."""
        if exact:
            self._exact.add(view)
        self._whole.setdefault(view.storage, []).append(view)
        self._put(view, node)

    def show(self, view: View, node: fx.Node) -> None:
        """Say which node has the bytes of a tensor: the next call changes how it is seen."""
        self._put(view, node)

    def of(self, view: View) -> fx.Node:
        """The node that has a tensor; a new one if it is another view of bytes that are there."""
        if view not in self._nodes:
            self._put(view, self._sliced(view) or self._strided(view))
        return self._nodes[view]

    def forget(self, storage: int) -> None:
        """A storage is made anew: nothing shows it any more."""
        for view in self._views.pop(storage, ()):
            self._nodes.pop(view, None)
            self._exact.discard(view)
            self._shown.pop(_shown(view), None)
        self._whole.pop(storage, None)
        self._end.pop(storage, None)

    def known(self, view: View) -> fx.Node:
        """A node whose tensor shows bytes of the same storage, and as the same."""
        if not self.is_known(view):
            raise UnsupportedError(f"a tensor {view} comes from no call that torch.fx can hold")
        return self._nodes[self._shown[_shown(view)]]

    def is_known(self, view: View) -> bool:
        """Whether a tensor is there that shows bytes of the same storage, and as the same."""
        return _shown(view) in self._shown

    def grows(self, view: View) -> bool:
        """Whether a tensor shows more bytes of its storage than there were."""
        return view.end > self._end.get(view.storage, 0)

    def _put(self, view: View, node: fx.Node) -> None:
        if view not in self._nodes:
            self._views.setdefault(view.storage, []).append(view)
        self._nodes[view] = node
        self._shown[_shown(view)] = view
        self._end[view.storage] = max(view.end, self._end.get(view.storage, 0))

    def _sliced(self, view: View) -> fx.Node | None:
        """A slice of what a call has made, if it is one."""
        for whole in reversed(self._whole.get(view.storage, ())):
            slices = slices_of(whole, view)
            if slices is None:
                continue
            node = self._nodes[whole]
            if slices.sizes != whole.sizes:
                node = self._call(_aten.reshape.default, node, list(slices.sizes))
            for axis, (begin, end) in enumerate(slices.ranges):
                if end - begin < slices.sizes[axis]:
                    node = self._call(_aten.slice.Tensor, node, axis, begin, end)
            return node
        return None

    def _strided(self, view: View) -> fx.Node:
        known, sizes, strides = self.known(view), list(view.sizes), list(view.strides)
        if self.grows(view):  # what it is given to resizes it
            return known
        whole = next((one for one in self._whole.get(view.storage, ()) if is_dense(one) and _spans(one, view)), None)
        if whole is None or whole in self._exact:
            return self._call(_aten.as_strided.default, known, sizes, strides, view.offset)
        laid = self.as_recorded(whole)
        flat = self._call(_aten.as_strided.default, laid, [(whole.end - whole.begin) // view.dtype.itemsize], [1])
        if view.offset > whole.offset:
            flat = self._call(_aten.slice.Tensor, flat, 0, view.offset - whole.offset)
        return self._call(_aten.as_strided.default, flat, sizes, strides)

    def lay(self, made: View, call: CallRecord) -> None:
        """See to it that what a call has made lies as was recorded: rows of rows do, and products of matrices."""
        if call.function not in _PRODUCTS and not all(map(_is_by_rows, (made, *call.inputs))):
            self.put(made, self.as_recorded(made))

    def as_recorded(self, view: View) -> fx.Node:
        """A tensor that has a node and no gaps, in the layout in which it was recorded: a copy if it is in another."""
        node = self._nodes[view]
        if not is_dense(view):
            return node
        order = sorted(range(len(view.sizes)), key=lambda axis: -view.strides[axis])
        if order == sorted(order):
            return self._call(_aten.contiguous.default, node)
        back = sorted(range(len(order)), key=order.__getitem__)
        turned = self._call(_aten.contiguous.default, self._call(_aten.permute.default, node, order))
        return self._call(_aten.permute.default, turned, back)

    def _call(self, func: Any, *args: Any) -> fx.Node:
        return self._graph.call_function(func, args)


def _is_by_rows(view: View) -> bool:
    step = 1
    for size, stride in zip(reversed(view.sizes), reversed(view.strides), strict=True):
        if stride != step:
            return False
        step *= max(size, 1)
    return True


def _spans(whole: View, view: View) -> bool:
    alike = _shown(whole) == _shown(view)
    return alike and whole.begin <= view.begin and view.end <= whole.end


def _shown(view: View) -> tuple[Any, ...]:
    return view.storage, view.dtype, view.conj, view.neg
