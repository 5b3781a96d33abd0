"""Nodes of torch.fx for the calls of a recording, one after another."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.func import functional_call

from ...private import HigherOrderOperator, OpOverload, enter_autocast, exit_autocast, pytree
from ...reading.effects import LIFTS
from ...reading.graph import method, under_autocast
from ...reading.late_numbers import LateNumber
from ...reading.loops import unread
from ..recording import CallRecord, Number, Recording, View
from .nodes import VIEWS, Nodes
from .parts import Parts

_aten = torch.ops.aten
PLAIN = (
    *(type(None), bool, int, float, complex, str, range, slice, type(...)),
    *(torch.Size, torch.dtype, torch.device, torch.layout, torch.memory_format),
    *(OpOverload, HigherOrderOperator),
)


class Writing:
    """A graph in the making, with the weights and all else that its nodes take from a module."""

    def __init__(self, recording: Recording, held: Mapping[str, Any], train: bool) -> None:
        self.recording, self.graph = recording, fx.Graph()
        self.attributes: dict[str, Any] = {}
        self.nodes = Nodes(self.graph)
        self._parts = Parts(self.graph, recording, self.nodes, self._constant)
        self._held, self._train = held, train
        self._numbers: dict[int, fx.Node] = {}
        self._unread: View | None = None  # of which the call that is appended reads the shape alone
        self._weights = {source.view: source for source in reversed(recording.sources) if source.kind == "weight"}
        self._weight_in = {view.storage: view for view in self._weights}
        self._names = {source.name for source in self._weights.values()}

    def node(self, view: View) -> fx.Node:
        """The node that has a tensor."""
        if view.storage in self._weight_in and not self.nodes.has(view.storage):
            self._take_weight(self._weight_in[view.storage])
        if view not in self.nodes and view in self._weights:
            self._take_weight(view)
        if view not in self.nodes and view == self._unread and not self.nodes.is_known(view):
            return self._blank(view)
        if view.begin == view.end and not self.nodes.has(view.storage):
            return self._blank(view)
        return self.nodes.of(view)

    def _take_weight(self, view: View) -> None:
        source = self._weights[view]
        held = self._held.get(source.name)
        tensor = self._own(source.origin if held is None else held)
        self.nodes.put(view, self._attribute(self._place(source.name), tensor))

    def _blank(self, view: View) -> fx.Node:
        """A tensor of the shape of one that is not there as yet, or that has no elements."""
        where: dict[str, Any] = {"dtype": view.dtype, "device": self.recording.storages[view.storage].device}
        return self.graph.call_function(_aten.empty_strided.default, (list(view.sizes), list(view.strides)), where)

    def call(self, name: str, call: CallRecord, anew: Mapping[View, bool]) -> None:
        """Append a call. Some of its results make their storage `anew`; see `made_anew`."""
        func, name = call.function, re.sub(r"\W", "_", name)
        if _sees_otherwise(func) and not self.nodes.grows(call.outputs[0]):
            self.node(call.outputs[0])
            return
        for view in call.inputs:
            if view in call.outputs and view not in self.nodes and view not in self._weights:
                self.nodes.show(view, self.nodes.known(view))
        place = unread(func, call.args)
        self._unread = None if place is None else call.args[place]
        if call.piece:
            self._parts.call(name, call, {view: self.node(view) for view in call.inputs}, anew)
            return
        func = _aten.clone.default if func in LIFTS else func  # what is written to it is not kept
        if func in VIEWS and not self.recording.storages[call.outputs[0].storage].written:
            func = _aten.reshape.default
        node = self._create(name, func, self._in_rows(call), call.kwargs)
        if call.number is not None:
            self._numbers[id(call.number)] = node
        self._results(call.result, node)
        for view, fresh in zip(call.outputs, call.fresh, strict=True):
            if fresh:
                self.nodes.lay(view, call)

    def _in_rows(self, call: CallRecord) -> tuple[Any, ...]:
        """The arguments of a call; a gradient of one sample in rows, as the backward of batch norm needs it."""
        if call.function is not _aten.native_batch_norm_backward.default or call.args[0].sizes[0] != 1:
            return call.args
        rows: dict[str, Any] = {"memory_format": torch.contiguous_format}
        copied = self.graph.call_function(_aten.clone.default, (self.node(call.args[0]),), rows)
        return (copied, *call.args[1:])

    def value(self, value: Any) -> Any:
        """An argument or a result as fx takes it."""
        if isinstance(value, View):
            return self.node(value)
        if isinstance(value, fx.Node):
            return value
        if isinstance(value, (Number, LateNumber)):
            return self._number(value)
        if isinstance(value, PLAIN):
            return value
        return self._constant(value)

    def _constant(self, value: Any) -> fx.Node:
        return self._attribute(f"_held_{len(self.attributes)}", value)

    def _number(self, number: Number | LateNumber) -> Any:
        """The node that has a number; what is read from options of an optimizer is taken as it is now."""
        if isinstance(number, LateNumber) and id(number) not in self._numbers:
            if not number.operands:
                return number.value({})
            operands = tuple(self.value(operand) for operand in number.operands)
            self._numbers[id(number)] = self.graph.call_function(number.function, operands)
        return self._numbers[id(number)]

    def _create(self, name: str, func: Callable[..., Any], args: Any, kwargs: Any) -> fx.Node:
        if isinstance(func, partial) and func.func is under_autocast:
            device, dtype, inner = func.args
            mode = self.graph.call_function(enter_autocast, (device, dtype, True, True))
            node = self._create(name, inner, args, kwargs)
            self.graph.call_function(exit_autocast, (mode,))
            return node
        kind: str = "call_function"
        target: Any = func
        if func is method:
            kind, (target, *args) = "call_method", args
        if func is functional_call:
            (module, _, *args), kind = args, "call_module"
            target = self._constant(module).target
            args, kwargs = args[0], args[1]
        args, kwargs = pytree.tree_map(self.value, (tuple(args), dict(kwargs)))
        return self.graph.create_node(kind, target, args, kwargs, name)

    def _results(self, result: Any, node: fx.Node) -> None:
        """Find the tensors in what a node returns."""
        if isinstance(result, View):
            self.nodes.put(result, node)
            return
        parts = result.items() if isinstance(result, Mapping) else enumerate(result) if _is_row(result) else ()
        for key, part in parts:
            if any(isinstance(leaf, View) for leaf in pytree.tree_leaves(part)):
                self._results(part, self.graph.call_function(operator.getitem, (node, key)))

    def _place(self, name: str) -> str:
        """Where a weight is held: a state of an optimizer is named as if its parameter were a module."""
        owner, _, own = name.rpartition(".")
        return f"{owner}_{own}" if owner in self._names else name

    def _own(self, tensor: Any) -> Tensor:
        if not self._train:
            return tensor  # type: ignore[no-any-return]
        own = tensor.detach()
        return nn.Parameter(own, requires_grad=False) if isinstance(tensor, nn.Parameter) else own

    def _attribute(self, name: str, value: Any) -> fx.Node:
        self.attributes[name] = value
        return self.graph.get_attr(name)


def _sees_otherwise(func: Any) -> bool:
    """Whether an operator changes the sizes and strides of a tensor alone, for which another node may stand."""
    return isinstance(func, OpOverload) and torch.Tag.inplace_view in func.tags


def _is_row(value: Any) -> bool:
    return isinstance(value, (list, tuple))
