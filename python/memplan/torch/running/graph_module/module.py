"""The calls of a network as a graph of torch.fx, with its inputs and what it returns."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx

from ....errors import UnsupportedError
from ....options.source import Source
from ...private import PyTreeCodeGen, PyTreeInfo, assert_true, pytree
from ...reading.fake import tensors_in
from ...reading.inputs import call_of, in_spec, user_inputs
from ..recording import CallRecord, Number, Recording, View
from .storages import made_anew
from .writing import PLAIN, Writing

_aten = torch.ops.aten
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
    made = Writing(recording, held, train)
    inputs = _declare(made, call)
    in_pieces = any(record.piece for _, record in calls)
    if in_pieces:
        _require_recorded(made)
    anew = made_anew(recording, [record for _, record in calls])
    for place, (name, record) in enumerate(calls):
        made.call(name, record, {view: anew[place, view] for view in record.outputs if (place, view) in anew})
    for target, value in recording.updates:
        made.graph.call_function(_aten.copy_.default, (made.node(target), made.node(value)))
    out_spec = _return(made, train)
    if in_pieces:
        made.graph.eliminate_dead_code()
    made.graph.set_codegen(PyTreeCodeGen(PyTreeInfo(*inputs, out_spec)))
    return fx.GraphModule(made.attributes, made.graph, "Ordered")


def _declare(made: Writing, call: Call) -> tuple[list[str], pytree.TreeSpec]:
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
            made.nodes.put(views[name_of[id(leaf)]], node)
        else:
            if _hides_tensors(leaf):
                raise UnsupportedError(
                    f"an argument has tensors in a {type(leaf).__name__}, which torch.fx does not see"
                )
            made.graph.placeholder(f"value_{number}")
    whole = [*named] if len(named) == len(args) + len(kwargs) else [f"arg_{k}" for k in range(len(args))]
    names = [re.sub(r"\W", "_", name) for name in whole[: len(args)]]
    return [*names, *kwargs], spec


def _require_recorded(made: Writing) -> None:
    """Pieces are rows of what was recorded: inputs have these sizes, and lie in this order of their axes."""
    for source in made.recording.sources:
        if source.kind != "input":
            continue
        view, node = source.view, made.node(source.view)
        shape = made.graph.call_function(getattr, (node, "shape"))
        same = made.graph.call_function(operator.eq, (shape, view.sizes))
        text = f"{source.name} must have the shape {list(view.sizes)}, for which it was planned in pieces"
        made.graph.call_function(assert_true, (same, text))
        if not made.recording.storages[view.storage].written:
            made.nodes.put(view, made.nodes.as_recorded(view))


def _return(made: Writing, train: bool) -> pytree.TreeSpec:
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
    return not isinstance(leaf, (Tensor, View, Number, *PLAIN)) and bool(tensors_in(leaf))
