"""What another order of the ops would bring, and why no order brings more."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from .. import _core
from ..plans.steps import Steps


@dataclass(frozen=True)
class Needed:
    """A tensor that is alive beside an op, where the op needs least.

    ``op`` and ``op_type`` say what made it. ``always``: it is alive there in every order, as the op waits for what
    makes it, and it is used by the op, by one that waits for the op, or by the caller. In place of the others, an order
    may have others alive, but no fewer bytes.
    """

    name: str
    bytes: int
    op: str
    op_type: str
    always: bool


@dataclass(frozen=True)
class Orders:
    """What the best order of the ops would bring, and what all orders need.

    Attributes
    ----------
    load : int
        Of the buffers in the best order that was found, sharing decided anew: what ``plan(order="best")`` has. That of
        the given order if no other is better.
    found_by : str
        The rule or search that found it; "given" if no other is better.
    bound : int
        Bytes that every order needs, whatever shares bytes.
    at_op : int
        The load in that order while the op runs that makes the load of the plan.
    ops : tuple of str
        The ops that the proof of the bound speaks of: one of them needs so much, in whatever sequence they run. None if
        the caller keeps so much, or if a search proves the bound.
    searched : bool
        A search through all sets of ops that may have run proves the bound.
    op, op_type : str
        The op, if it is one alone: it needs so much, whatever has run before it. Empty otherwise.
    alive : tuple of Needed
        What is alive beside that op where it needs least, the largest first. Empty too if no such state is known.
    made : int
        What the op adds to that: its outputs and workspace, less what it may write over.
    """

    load: int
    found_by: str
    bound: int
    at_op: int
    ops: tuple[str, ...] = ()
    searched: bool = False
    op: str = ""
    op_type: str = ""
    alive: tuple[Needed, ...] = ()
    made: int = 0


def orders_of(graph: _core.Graph, storage: _core.StorageOptions, op_at_load: int) -> Orders | None:
    """The best order that is found, and the bound with its witness; None if ops are on several streams.

    The work is counted, as that of ``plan(order="best")``. `op_at_load` runs where the load of the plan is highest.
    """
    best = _core.order_of(graph, "best", storage)
    if best.interrupted:
        raise KeyboardInterrupt
    ordered = graph if best.graph is None else best.graph
    bound, ops, needs = _core.order_bound(ordered, storage)
    if not needs:
        return None
    buffers = _core.buffers_of(ordered, storage)
    problem, at_op = buffers.problem, load_during(buffers, best.ops.index(op_at_load))
    if best.bound > bound:
        return Orders(problem.load, best.found_by, best.bound, at_op, searched=True)
    names = tuple(ordered.ops[k].name for k in ops)
    found = Orders(problem.load, best.found_by, bound, at_op, names)
    op, _, _, need, held, _, alive = needs[0]
    if len(ops) != 1:
        return found
    named = replace(found, op=ordered.ops[op].name, op_type=ordered.ops[op].type)
    if held and not alive:  # the search for a state in which it needs so little has ended before
        return named
    return replace(named, alive=_alive(ordered, alive), made=need - sum(size for _, size, _ in alive))


def load_during(buffers: _core.Buffers, op: int) -> int:
    """The most bytes in use while an op runs."""
    first, last = Steps(op + 1, buffers.begin_of_op).of(op)
    steps, load = buffers.problem.load_curve()
    low, high = np.searchsorted(steps, [first, last - 1], side="right") - 1
    return int(load[max(low, 0) : high + 1].max(initial=0))  # before the first step, nothing is in use


def _alive(graph: _core.Graph, alive: Iterable[tuple[int, int, bool]]) -> tuple[Needed, ...]:
    """What is said of tensors that are alive beside an op."""
    ops, tensors = graph.ops, graph.tensors
    index = {tensor.name: t for t, tensor in enumerate(tensors)}
    maker = {index[name]: k for k, run in enumerate(ops) for name in run.outputs}
    found = []
    for t, size, always in alive:
        made_by = ops[maker[t]] if t in maker else None
        named = (made_by.name, made_by.type) if made_by is not None else ("", tensors[t].kind)
        found.append(Needed(tensors[t].name, size, *named, always))
    return tuple(sorted(found, key=lambda needed: (-needed.bytes, needed.name)))
