"""Small random graphs made to fit, held against all schedules: what tests and the benchmark of `fit` share."""

from __future__ import annotations

import random
from typing import Any

import pytest

import memplan
from fit_oracle import computed, least_added_cost
from memplan import _core
from memplan.fitting.again import again_of
from memplan.fitting.costs import costs_of
from memplan.importers.graph_dict import graph_of

APART = _core.StorageOptions(inplace=False, zero_copy=False)
Dict = dict[str, Any]


def small_graph(chance: random.Random, most: int = 10) -> Dict:
    """Up to `most` ops whose later half reads what the first half made, as backward passes do."""
    count = chance.randint(3, most)
    tensors: list[Dict] = [{"name": "x", "bytes": chance.randint(0, 6), "kind": "input"}]
    ops: list[Dict] = []
    names = ["x"]
    for k in range(count):
        if k > count // 2 and chance.random() < 0.6:
            inputs = [names[-1], names[max(0, count - k - 1)]]
        else:
            inputs = [chance.choice(names[-6:]) for _ in range(chance.randint(1, 3))]
        outputs = [f"t{k}"] + [f"u{k}"] * (chance.random() < 0.2)
        tensors += [{"name": name, "bytes": chance.randint(1, 8)} for name in outputs]
        op = {"name": f"op{k}", "inputs": list(dict.fromkeys(inputs)), "outputs": outputs, "cost": chance.randint(0, 9)}
        if chance.random() < 0.3:
            op["workspace"] = chance.randint(1, 4)
        if chance.random() < 0.1:
            op["recompute"] = False
        ops.append(op)
        names += outputs
    kept = [names[-1], *(chance.choice(names[1:]) for _ in range(chance.randint(0, 2)))]
    return {"tensors": tensors, "ops": ops, "outputs": list(dict.fromkeys(kept))}


def fitted(graph: Dict, capacity: int, storage: _core.StorageOptions = APART, **options: Any) -> _core.Fitted:
    """What the core makes of a graph; its load and what it computes are checked."""
    made = graph_of(graph)
    again = [again_of(op) for op in made.ops]
    found = _core.fit_graph(made, costs_of(made, "auto"), again, storage, capacity, **options)
    assert _core.buffers_of(found.graph, storage).problem.load == found.load <= capacity
    assert found.cost_bound <= found.added_cost
    assert found.added_cost == pytest.approx(sum(change.cost for change in found.changes))
    original = {op.name: op.name.rsplit("~", 1)[0] for op in found.graph.ops if "~" in op.name}
    assert computed(found.graph.to_dict(), original) == computed(graph, {})
    return found


def largest_op(graph: Dict) -> int:
    """The bytes that the largest op touches."""
    size = {t["name"]: t["bytes"] for t in graph["tensors"] if t.get("kind") != "input"}
    touched = [{*op["inputs"], *op["outputs"]} for op in graph["ops"]]
    return max(
        sum(size.get(t, 0) for t in names) + op.get("workspace", 0)
        for names, op in zip(touched, graph["ops"], strict=True)
    )


def check_random(seed: int, moves: bool = False, most: int = 10) -> str:
    """What came out for a random graph: "equal" to the best of all schedules where the search alone looks, "above" or
    "not found"; or "infeasible". AssertionError where a claim is wrong."""
    chance = random.Random(seed)
    graph = small_graph(chance, most)
    load = _core.buffers_of(graph_of(graph), APART).problem.load
    capacity = chance.randint(largest_op(graph) if moves else load * 7 // 10, load)
    transfer = chance.choice([0.0, 0.25, 0.5, 1.0]) if moves else None
    never = [op["name"] for op in graph["ops"] if op.get("recompute") is False]
    least = least_added_cost(graph, capacity, never, transfer)
    found = fitted_or_error(graph, capacity, transfer=transfer)
    if isinstance(found, memplan.InfeasibleError):
        assert found.proven
        assert least is None
        return "infeasible"
    assert least is not None
    assert found.added_cost == found.cost_bound == least
    searched = fitted_or_error(graph, capacity, states=0, work=100_000, transfer=transfer)
    if isinstance(searched, memplan.InfeasibleError):
        assert not searched.proven
        return "not found"
    assert searched.cost_bound <= least <= searched.added_cost
    return "equal" if searched.added_cost == least else "above"


def fitted_or_error(graph: Dict, capacity: int, **options: Any) -> _core.Fitted | memplan.InfeasibleError:
    try:
        return fitted(graph, capacity, **options)
    except memplan.InfeasibleError as error:
        return error
