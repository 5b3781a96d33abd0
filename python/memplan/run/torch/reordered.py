"""The calls of a network as a graph of torch.fx, in the order of a plan.

A tensor is known by the bytes that it shows, and as what. Each is what the last call made of it: calls that write to a
tensor, or view it, give it a new node. So whatever reads bytes comes after what has made them, as in the plan.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.amp.autocast_mode import _enter_autocast, _exit_autocast
from torch.func import functional_call
from torch.fx.graph import _PyTreeCodeGen, _PyTreeInfo
from torch.utils import _pytree as pytree

from ...errors import UnsupportedError
from ...importers.torch.effects import LIFTS
from ...importers.torch.fake import tensors_in
from ...importers.torch.graph import method, under_autocast
from ...importers.torch.inputs import call_of, in_spec, user_inputs
from ...importers.torch.late_numbers import LateNumber
from ...importers.torch.loops import unread
from ...options.source import Source
from .recording import CallRecord, Number, Recording, View

_aten = torch.ops.aten
_PLAIN = (
    *(type(None), bool, int, float, complex, str, range, slice, type(...)),
    *(torch.Size, torch.dtype, torch.device, torch.layout, torch.memory_format),
    *(torch._ops.OpOverload, torch._ops.HigherOrderOperator),
)
Call = tuple[tuple[Any, ...], Mapping[str, Any]]


def call_like(source: Source, recording: Recording) -> Call:
    """What a network is called with: arguments of the nest in which it takes them, with any tensors."""
    if source.reading.args or dict(source.reading.kwargs or {}):
        return tuple(source.reading.args), dict(source.reading.kwargs or {})
    value = source.value
    if isinstance(value, torch.export.ExportedProgram):
        return call_of([torch.empty(0) for _ in user_inputs(value)], value.call_spec.in_spec)
    spec = in_spec(value) if isinstance(value, fx.GraphModule) else None
    return call_of([torch.empty(0) for source in recording.sources if source.kind == "input"], spec)


def reordered(
    recording: Recording, calls: Sequence[tuple[str, CallRecord]], call: Call, held: Mapping[str, Any], train: bool
) -> fx.GraphModule:
    """A graph of the calls, by the names of their ops in the order in which they are to run, with its weights.

    `call` has arguments of the nest that the network is called with, `held` the weights that it has now, by name. With
    `train`, the calls are those of forward and backward: the graph returns the loss and the gradients by name, and its
    weights are those of the network without a gradient of their own.

    UnsupportedError: tensors among the arguments are in an object that `torch.utils._pytree` does not take apart. If
    there is one in the result, the graph returns all tensors of the result by their paths.
    """
    made = _Made(recording, held, train)
    inputs = _declare(made, call)
    for name, record in calls:
        made.call(name, record)
    for target, value in recording.updates:
        made.graph.call_function(_aten.copy_.default, (made.node(target), made.node(value)))
    out_spec = _return(made, train)
    made.graph.set_codegen(_PyTreeCodeGen(_PyTreeInfo(*inputs, out_spec)))
    return fx.GraphModule(made.attributes, made.graph, "Ordered")


class _Made:
    """A graph in the making."""

    def __init__(self, recording: Recording, held: Mapping[str, Any], train: bool) -> None:
        self.recording, self.graph = recording, fx.Graph()
        self.attributes: dict[str, Any] = {}
        self._held, self._train = held, train
        self._nodes: dict[View, fx.Node] = {}
        self._shown: dict[tuple[Any, ...], View] = {}  # a tensor that has a node, by what as_strided cannot change
        self._end: dict[int, int] = {}  # bytes of storages that tensors with nodes show
        self._numbers: dict[int, fx.Node] = {}
        self._unread: View | None = None  # of which the call that is appended reads the shape alone
        self._weights = {source.view: source for source in reversed(recording.sources) if source.kind == "weight"}
        self._names = {source.name for source in self._weights.values()}

    def put(self, view: View, node: fx.Node) -> None:
        """Say which node has a tensor from now on."""
        self._nodes[view] = node
        self._shown[_shown(view)] = view
        self._end[view.storage] = max(view.end, self._end.get(view.storage, 0))

    def node(self, view: View) -> fx.Node:
        """The node that has a tensor."""
        if view not in self._nodes and view in self._weights:
            source = self._weights[view]
            held = self._held.get(source.name)
            self.put(
                view, self._attribute(self._place(source.name), self._own(source.origin if held is None else held))
            )
        if view not in self._nodes and view == self._unread and _shown(view) not in self._shown:
            return self._blank(view)
        if view not in self._nodes:
            self.put(view, self._seen_as(view))
        return self._nodes[view]

    def _blank(self, view: View) -> fx.Node:
        """A tensor of the shape of one that is not there as yet."""
        where: dict[str, Any] = {"dtype": view.dtype, "device": self.recording.storages[view.storage].device}
        return self.graph.call_function(_aten.empty_strided.default, (list(view.sizes), list(view.strides)), where)

    def call(self, name: str, call: CallRecord) -> None:
        """Append a call."""
        func = call.function
        if _sees_otherwise(func) and not self._grows(call.outputs[0]):
            self.node(call.outputs[0])
            return
        for view in call.inputs:
            if view in call.outputs and view not in self._nodes and view not in self._weights:
                self.put(view, self._known(view))  # the call changes how it is seen, and not only its bytes
        place = unread(func, call.args)
        self._unread = None if place is None else call.args[place]
        func = _aten.clone.default if func in LIFTS else func  # what is written to it is not kept
        node = self._create(re.sub(r"\W", "_", name), func, call.args, call.kwargs)
        if call.number is not None:
            self._numbers[id(call.number)] = node
        self._results(call.result, node)

    def value(self, value: Any) -> Any:
        """An argument or a result as fx takes it."""
        if isinstance(value, View):
            return self.node(value)
        if isinstance(value, (Number, LateNumber)):
            return self._number(value)
        if isinstance(value, _PLAIN):
            return value
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
            mode = self.graph.call_function(_enter_autocast, (device, dtype, True, True))
            node = self._create(name, inner, args, kwargs)
            self.graph.call_function(_exit_autocast, (mode,))
            return node
        kind: str = "call_function"
        target: Any = func
        if func is method:
            kind, (target, *args) = "call_method", args
        if func is functional_call:
            (module, _, *args), kind = args, "call_module"
            target = self._attribute(f"_held_{len(self.attributes)}", module).target
            args, kwargs = args[0], args[1]
        args, kwargs = pytree.tree_map(self.value, (tuple(args), dict(kwargs)))
        return self.graph.create_node(kind, target, args, kwargs, name)

    def _results(self, result: Any, node: fx.Node) -> None:
        """Find the tensors in what a node returns."""
        if isinstance(result, View):
            self.put(result, node)
            return
        parts = result.items() if isinstance(result, Mapping) else enumerate(result) if _is_row(result) else ()
        for key, part in parts:
            if any(isinstance(leaf, View) for leaf in pytree.tree_leaves(part)):
                self._results(part, self.graph.call_function(operator.getitem, (node, key)))

    def _seen_as(self, view: View) -> fx.Node:
        """Another view of bytes that are there."""
        known = self._known(view)
        if self._grows(view):  # what it is given to resizes it
            return known
        where = (list(view.sizes), list(view.strides), view.offset)
        return self.graph.call_function(_aten.as_strided.default, (known, *where))

    def _known(self, view: View) -> fx.Node:
        """A node whose tensor shows bytes of the same storage."""
        if _shown(view) not in self._shown:
            raise UnsupportedError(f"a tensor {view} comes from no call that torch.fx can hold")
        return self._nodes[self._shown[_shown(view)]]

    def _grows(self, view: View) -> bool:
        return view.end > self._end.get(view.storage, 0)

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
    return isinstance(func, torch._ops.OpOverload) and torch.Tag.inplace_view in func.tags


def _shown(view: View) -> tuple[Any, ...]:
    return view.storage, view.dtype, view.conj, view.neg


def _is_row(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _declare(made: _Made, call: Call) -> tuple[list[str], pytree.TreeSpec]:
    """Nodes for the inputs; the names of the arguments, and how they nest."""
    args, kwargs = pytree.tree_map(lambda leaf: torch.empty(0) if isinstance(leaf, Tensor) else leaf, call)
    named = made.recording.named(args, kwargs)
    name_of = {id(tensor): path for name, value in named.items() for path, tensor in tensors_in(value, name)}
    views = {source.name: source.view for source in made.recording.sources if source.kind == "input"}
    leaves, spec = pytree.tree_flatten((tuple(args), dict(kwargs)))
    for number, leaf in enumerate(leaves):
        if isinstance(leaf, Tensor):
            node = made.graph.placeholder(re.sub(r"\W", "_", name_of[id(leaf)]))
            if name_of[id(leaf)] in made.recording.gradients:
                node = made.graph.call_function(_aten.detach.default, (node,))
            made.put(views[name_of[id(leaf)]], node)
        else:
            if _hides_tensors(leaf):
                raise UnsupportedError(
                    f"an argument has tensors in a {type(leaf).__name__}, which torch.fx does not see"
                )
            made.graph.placeholder(f"value_{number}")
    whole = [*named] if len(named) == len(args) + len(kwargs) else [f"arg_{k}" for k in range(len(args))]
    names = [re.sub(r"\W", "_", name) for name in whole[: len(args)]]
    return [*names, *kwargs], spec


def _return(made: _Made, train: bool) -> pytree.TreeSpec:
    """The node for what is returned; how that nests."""
    recording = made.recording
    result = (recording.loss, recording.gradients) if train else recording.result
    leaves, spec = pytree.tree_flatten(result)
    if any(_hides_tensors(leaf) for leaf in leaves):
        leaves, spec = pytree.tree_flatten(dict(tensors_in(result, "")))
    found = [recording.returned_view(leaf) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
    made.graph.output([made.value(leaf) for leaf in found])
    return spec


def _hides_tensors(leaf: Any) -> bool:
    """Whether an object has tensors that `torch.utils._pytree` does not find."""
    return not isinstance(leaf, (Tensor, View, Number, *_PLAIN)) and bool(tensors_in(leaf))
