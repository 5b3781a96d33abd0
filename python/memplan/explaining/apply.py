"""`Explanation.apply`: what would lower the load is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from .. import _core
from ..errors import GraphError
from ..importers.graph_dict import graph_of
from ..kinds import MOVE_OUT
from ..plans.changes import Change, Fitting, InPieces, changes_of, splits_of
from ..plans.costs import costs_of, moves
from ..plans.plan import Plan
from ..solving.planning import plan as planned
from ..solving.planning import sharing_of
from .advice import Advice, with_changes
from .explanation import Explanation
from .splits import found_split

_OPTIONS = ("inplace", "zero_copy", "disable_inplace_ops", "donate", "INPLACE_OPS", "inplace_ops")
_Pairs = list[tuple[int, int]]


def apply(
    explanation: Explanation, advice: Sequence[Advice | str], planner: str | None = None, transfer: float | None = None
) -> Plan:
    """See `Explanation.apply`."""
    plan = explanation.plan
    if plan is None or plan.graph is None or plan.storage is None:
        raise TypeError(
            "advice is applied to the plan of a graph; this is of a problem, from a file, or of what is held"
        )
    chosen = [_found(explanation, one) for one in advice or explanation.advice[:1]]
    if not chosen:
        raise ValueError("there is no advice: nothing that is known lowers the load")
    asked = [change for one in chosen for change in (*([one.also] if one.also else []), (one.kind, one.names))]
    graph, storage = with_changes(plan.graph, plan.storage, [change for change in asked if change[0] in _OPTIONS])
    changes = [Change("donate", names) for kind, names in asked if kind == "donate"]
    again = [name for kind, names in asked if kind == "recompute" for name in names]
    away = [name for kind, names in asked if kind == "offload" for name in names if name not in again]
    reruns, fetches = (_coming_back(explanation, graph, names) for names in (again, away))
    price = moves(graph, "auto", transfer, 0.0) if away else 0.0
    graph, moved, added = _moved(graph, storage, reruns, fetches, price)
    changes += moved
    pieces: InPieces | None = None
    for kind, names in asked:
        if kind == "hand_over":
            outputs = _outputs_in(graph, names)
            graph = handed_over(graph, outputs)
            changes.append(Change("hand_over", outputs, tuple(f"{name}~out" for name in outputs)))
    if any(kind == "split" for kind, _ in asked):
        found_pieces = found_split(graph, storage, explanation.load)
        if found_pieces is not None:
            pieces = InPieces(graph, found_pieces.graph, tuple(found_pieces.pieces))
            graph, added = pieces.graph, added + found_pieces.added_cost
            changes += splits_of(found_pieces.changes, pieces.whole)
    if any(kind == "order" for kind, _ in asked):
        best = _core.order_of(graph, "best", storage)
        if best.interrupted:
            raise KeyboardInterrupt
        graph = _core.reordered(graph, best.ops)
        changes.append(Change("order"))
    found = planned(graph, planner or plan.planner, **sharing_of(storage))
    order = pieces.order if pieces else ()
    cost = sum(costs_of(plan.graph, "auto"))
    fitting = Fitting(tuple(changes), found.peak, cost, added, split_order=order, pieces=pieces)
    return replace(found, source=plan.source, fitting=fitting, scratch=plan.scratch)


def _found(explanation: Explanation, one: Advice | str) -> Advice:
    """Advice as it is, or that of a kind."""
    if isinstance(one, Advice):
        return one
    kinds = [advice.kind for advice in explanation.advice]
    if one not in kinds:
        raise ValueError(f"there is no advice of kind {one!r}; there is {', '.join(kinds) or 'none'}")
    return explanation.advice[kinds.index(one)]


def _coming_back(explanation: Explanation, graph: _core.Graph, names: Sequence[str]) -> _Pairs:
    """The step at which each tensor is used next, and the position of the tensor that owns its bytes."""
    root = _roots(graph)
    last = {idle.name: idle.last for idle in explanation.idle}
    positions = {tensor.name: t for t, tensor in enumerate(graph.tensors)}
    return [(last[name], positions[root.get(name, name)]) for name in names if name in last]


def _roots(graph: _core.Graph) -> dict[str, str]:
    """Of views, the tensors that own their bytes."""
    root: dict[str, str] = {}
    for op in graph.ops:
        root.update((view, root.get(of, of)) for view, of, _ in (*op.aliases, *op.overwrites))
    return root


def _outputs_in(graph: _core.Graph, names: Sequence[str]) -> tuple[str, ...]:
    """The graph outputs that lie in the bytes of tensors."""
    root = _roots(graph)
    owners = {root.get(name, name) for name in names}
    return tuple(name for name in graph.outputs if root.get(name, name) in owners)


def _moved(
    graph: _core.Graph, storage: _core.StorageOptions, again: _Pairs, fetched: _Pairs, transfer: float
) -> tuple[_core.Graph, list[Change], float]:
    """The graph in which ops run again and tensors are fetched, as far as they may."""
    if not again and not fetched:
        return graph, [], 0.0
    facts = costs_of(graph, "auto"), _core.again_of(graph)
    maker = {graph.index(name): k for k, op in enumerate(graph.ops) for name in op.outputs}
    reruns = [(step, maker[tensor]) for step, tensor in again if tensor in maker]

    def changed(reruns: _Pairs, fetches: _Pairs) -> Any:
        return _core.rerun_graph(graph, *facts, storage, reruns, fetches, transfer)

    reruns = _possible(reruns, lambda pairs: changed(pairs, []))
    fetches = _possible(fetched, lambda pairs: changed([], pairs))
    found = changed(reruns, fetches)
    return found.graph, list(changes_of(found.changes)), float(found.added_cost)


def _possible(pairs: _Pairs, trial: Callable[[_Pairs], object]) -> _Pairs:
    """Those that the rules of docs/fit.md allow; GraphError says why, if none is."""
    kept, refused = [], None
    for pair in pairs:
        try:
            trial([pair])
        except GraphError as error:
            refused = error
        else:
            kept.append(pair)
    if refused is not None and not kept:
        raise refused
    return kept


def handed_over(graph: _core.Graph, names: Sequence[str]) -> _core.Graph:
    """The graph whose outputs of these names are copied out of the arena after their last use."""
    spec = graph.to_dict()
    spec["outputs"] = [name for name in spec["outputs"] if name not in names]
    for tensor in spec["tensors"]:
        if tensor["name"] in names and tensor.get("kind") == "output":
            tensor["kind"] = "intermediate"
    last = {name: k for k, op in enumerate(spec["ops"]) for name in (*op["inputs"], *op["outputs"])}
    added: dict[int, list[dict[str, Any]]] = {}
    for name in names:
        op = {"name": f"{name}~out", "type": MOVE_OUT, "inputs": [name], "outputs": [], "recompute": False}
        added.setdefault(last[name], []).append(op)
    spec["ops"] = [op for k, own in enumerate(spec["ops"]) for op in (own, *added.get(k, ()))]
    return graph_of(spec)
