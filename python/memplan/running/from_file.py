"""A plan that was read from a file, with the graph of a network: changed as it was, and replayed on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .. import _core
from ..errors import GraphError, SourceError, UnsupportedError
from ..plans.changes import Fitting, InPieces
from ..plans.failing import invalid_plan
from ..plans.plan import Plan
from .matching import ANOTHER


def with_graph(plan: Plan, graph: _core.Graph) -> Plan:
    """A plan from a JSON file, with the graph that it is of, replayed on it.

    Raises
    ------
    TypeError
        The plan does not say where the tensors of a graph lie.
    SourceError, InvalidPlanError
        The plan is not of this graph. The message names the first tensor or op.
    """
    if plan.placed is None:
        raise TypeError("the plan does not say where tensors lie: a JSON file of a network's plan does")
    fitting = plan.fitting
    if fitting is not None and any(change.kind == "split" for change in fitting.changes):
        pieces = _split_again(fitting, graph)
        fitting, graph = replace(fitting, pieces=pieces), pieces.graph
    graph = _in_order(_with_copies(graph, plan.order), plan.order)
    buffers = _buffers(plan, plan.placed, graph)
    faults = _core.replay(graph, buffers, plan.offsets)
    if faults:
        raise invalid_plan("the plan, on the network that was given,", faults)
    return replace(plan, graph=graph, buffers=buffers, fitting=fitting)


def _split_again(fitting: Fitting, graph: _core.Graph) -> InPieces:
    """The graph of a network in the pieces that a plan had when it was written to a file.

    Raises
    ------
    UnsupportedError
        The file is older than pieces in files: it says nothing of loops.
    SourceError
        The plan is not of this graph. The message names the op.
    """
    whole = _in_order(graph, fitting.split_order)
    position = {op.name: k for k, op in enumerate(whole.ops)}
    loops = [[_along(loop) for loop in op.get("loops", [])] for op in whole.to_dict()["ops"]]
    regions = []
    for change in fitting.changes:
        if change.kind != "split":
            continue
        if len(change.loops) != len(change.ops):
            raise UnsupportedError("ops of the plan run in pieces, and its file does not say along which loops")
        rows = []
        for name, loop in zip(change.ops, map(_along, change.loops), strict=True):
            if name not in position or (loop and loop not in loops[position[name]]):
                raise SourceError(f"{ANOTHER}: the plan has the op {name!r} in pieces, along a loop that it has not")
            at = position[name]
            rows.append((at, loops[at].index(loop) if loop else None, name in change.again))
        regions.append((sorted(rows, key=lambda row: row[0]), change.pieces, bool(change.blocks)))
    inplace = any(change.over for change in fitting.changes)
    split = _core.split(whole, regions, _core.StorageOptions(inplace=inplace))
    return InPieces(whole, split.graph, tuple(split.pieces))


def _along(loop: Mapping[str, Any]) -> dict[str, Any]:
    """What a loop goes along: what its pieces hold besides depends on whether kernels were counted."""
    return {key: value for key, value in loop.items() if key not in ("workspace", "copied")}


def _with_copies(graph: _core.Graph, order: Sequence[str]) -> _core.Graph:
    """The graph with the ops that an order has besides: copies, "conv~1", and moves of tensors, "t~out" and "t~in"."""
    known = {op.name for op in graph.ops}
    if not any("~" in name for name in order if name not in known):
        return graph
    graph = _in_order(graph, [name for name in order if name in known])
    ops = graph.ops
    position = {op.name: k for k, op in enumerate(ops)}
    facts = _core.op_costs(graph, "auto"), _core.again_of(graph)

    def changed(reruns: list[tuple[int, int]], fetches: list[tuple[int, int]]) -> _core.Graph:
        return _core.rerun_graph(graph, *facts, _core.StorageOptions(), reruns, fetches).graph

    def is_alone(pair: tuple[int, int]) -> bool:
        """Whether an op may run again by itself; a view comes with what it shows."""
        if not ops[pair[1]].aliases:
            return True
        try:
            changed([pair], [])
        except GraphError:
            return False
        return True

    reruns: list[tuple[int, int]] = []
    fetches: list[tuple[int, int]] = []
    follows = len(position)
    for name in reversed(order):
        follows = position.get(name, follows)
        if name in position:
            continue
        of, _, what = name.rpartition("~")
        if what.isdecimal() and of not in position:  # "t~in~1" is the second time
            of, _, what = of.rpartition("~")
        if of in position and what.isdecimal():
            reruns.append((follows, position[of]))
        elif (tensor := graph.index(of)) is not None and what == "in":
            fetches.append((follows, tensor))
    try:
        return changed([pair for pair in reruns if is_alone(pair)], fetches)
    except GraphError as error:
        raise SourceError(f"{ANOTHER}: its ops cannot run again as in the plan: {error}") from error


def _in_order(graph: _core.Graph, order: Sequence[str]) -> _core.Graph:
    """The graph with its ops in the order that a file has, if it has one."""
    if not order:
        return graph
    position = {op.name: k for k, op in enumerate(graph.ops)}
    for name in order:
        if name not in position:
            raise SourceError(f"{ANOTHER}: the plan has the op {name!r}, the network has none of this name")
    if len(order) != len(position):
        raise SourceError(f"{ANOTHER}: the plan has {len(order)} ops, the network {len(position)}")
    return _core.reordered(graph, [position[name] for name in order])


def _buffers(plan: Plan, placed: Mapping[str, tuple[int, int, int]], graph: _core.Graph) -> _core.Buffers:
    """Where the tensors of a graph lie, as a file says; the others have bytes of their own outside of the arena."""
    for name, (_, _, size) in placed.items():
        index = graph.index(name)
        if index is None:
            raise SourceError(f"{ANOTHER}: the plan has the tensor {name!r}, the network has none of this name")
        if graph.tensor(index).bytes != size:
            expected = f"tensor {name!r} has {size} bytes in the plan and {graph.tensor(index).bytes} in the network"
            raise SourceError(f"{ANOTHER}: {expected}")
    ops = graph.ops
    views = {view: (graph.index(of), begin) for op in ops for view, of, begin in (*op.aliases, *op.overwrites)}
    buffer_of: list[int] = []
    inside: list[int] = []
    root_of: list[int] = []
    for position, tensor in enumerate(graph.tensors):
        buffer, offset, root = -1, 0, position
        if tensor.name in placed:
            buffer, address, _ = placed[tensor.name]
            offset = address - int(plan.offsets[buffer])
        elif tensor.name in views:
            source, begin = views[tensor.name]
            assert source is not None
            root, offset = root_of[source], inside[source] + begin
        buffer_of.append(buffer)
        inside.append(offset)
        root_of.append(root)
    return _core.Buffers(plan.problem, buffer_of, inside, root_of, [-1] * len(ops), [], [], plan.naive)
