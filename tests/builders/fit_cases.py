"""Small random graphs made to fit, held against all schedules: what tests and the benchmark of `fit` share."""

from __future__ import annotations

import random
from collections.abc import Collection
from typing import Any, NamedTuple

import pytest

import memplan
from memplan import _core
from memplan.importers.graph_dict import graph_of
from memplan.plans.costs import costs_of
from oracles.schedules import computed, least_added_cost
from oracles.stages import least_staged_cost

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
    again = _core.again_of(made)
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


def above_its_floor(chance: random.Random, most: int) -> tuple[Dict, int]:
    """A small graph, and a capacity below its load that lets the largest op run; rather higher than lower."""
    while True:
        graph = small_graph(chance, most)
        load, floor = _core.buffers_of(graph_of(graph), APART).problem.load, largest_op(graph)
        if floor < load:
            return graph, max(chance.randint(floor, load - 1), chance.randint(floor, load - 1))


def check_random(seed: int, ways: Collection[str] = ("recompute",), most: int = 10) -> str:
    """What came out for a random graph: "equal" to the best of all schedules where the search alone looks, "above" or
    "not found"; or "infeasible". AssertionError where a claim is wrong."""
    chance = random.Random(seed)
    graph, capacity = above_its_floor(chance, most)
    transfer = chance.choice([0.0, 0.25, 0.5, 1.0]) if "offload" in ways else None
    recompute = "recompute" in ways
    never = [op["name"] for op in graph["ops"] if op.get("recompute") is False or not recompute]
    least = least_added_cost(graph, capacity, never, transfer)
    found = fitted_or_error(graph, capacity, transfer=transfer, recompute=recompute, states=10_000_000)
    if isinstance(found, memplan.InfeasibleError):
        assert found.proven
        assert least is None
        return "infeasible"
    assert least is not None
    assert found.added_cost == found.cost_bound == least
    searched = fitted_or_error(graph, capacity, states=0, work=100_000, transfer=transfer, recompute=recompute)
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


def training_graph(chance: random.Random, layers: int) -> Dict:
    """Layers forwards, some of which read an earlier one too, and backwards; some leave a gradient of a weight."""
    tensors: list[Dict] = [{"name": "x", "bytes": 4, "kind": "input"}]
    ops: list[Dict] = []
    outputs = []

    def add(name: str, inputs: list[str], made: list[str]) -> None:
        tensors.extend({"name": one, "bytes": chance.randint(2, 12)} for one in made)
        op = {"name": f"make_{name}", "inputs": list(dict.fromkeys(inputs)), "outputs": made}
        ops.append(op | {"cost": chance.randint(1, 20)})
        if chance.random() < 0.2:
            ops[-1]["workspace"] = chance.randint(1, 6)
        if chance.random() < 0.05:
            ops[-1]["recompute"] = False

    reads: list[list[str]] = []
    for k in range(layers):
        before = [f"t{k - 1}"] if k else ["x"]
        if k > 2 and chance.random() < 0.3:
            before.append(f"t{chance.randrange(k - 1)}")
        add(f"t{k}", before, [f"t{k}"] + [f"s{k}"] * (chance.random() < 0.2))
        reads.append(before)
    gradients = {f"t{layers - 1}": [f"t{layers - 1}"]}  # of a tensor: those that add up to it
    for k in reversed(range(layers)):
        kept = [f"s{k}"] if any(t["name"] == f"s{k}" for t in tensors) else [chance.choice([f"t{k}", reads[k][0]])]
        made = [f"g{k}_{i}" for i in range(len(reads[k]))]
        for read, one in zip(reads[k], made, strict=True):
            gradients.setdefault(read, []).append(one)
        if chance.random() < 0.3:
            made.append(f"w{k}")
            outputs.append(f"w{k}")
        add(f"g{k}", [*gradients[f"t{k}"], *kept], made)
    return {"tensors": tensors, "ops": ops, "outputs": [*outputs, "g0_0"]}


class Middle(NamedTuple):
    """What came out for a training graph; no cost where nothing fits, or nothing was found."""

    least: int | None  # of the schedules in stages
    proven: bool  # whether that is the least
    found: float | None
    bound: float


def check_training(seed: int, ways: Collection[str] = ("recompute",), seconds: float = 10, work: int = 10**8) -> Middle:
    """A graph of 14 to 30 ops, fitted by the search alone, beside an integer program. AssertionError where a claim is
    wrong."""
    chance = random.Random(seed)
    graph = training_graph(chance, chance.randint(7, 15))
    load, floor = _core.buffers_of(graph_of(graph), APART).problem.load, largest_op(graph)
    capacity = chance.randint((2 * floor + load) // 3, load)
    transfer = chance.choice([1, 2]) if "offload" in ways else None
    recompute = "recompute" in ways
    never = [op["name"] for op in graph["ops"] if op.get("recompute") is False or not recompute]
    least, proven = least_staged_cost(graph, capacity, never, transfer, seconds)
    found = fitted_or_error(graph, capacity, transfer=transfer, recompute=recompute, states=0, work=work)
    if isinstance(found, memplan.InfeasibleError):
        assert not found.proven or least is None
        return Middle(least, proven, None, 0)
    if least is not None:
        assert found.cost_bound <= least + 1e-6
    if proven:
        assert least is not None
        assert found.added_cost >= least
    exact = fitted_or_error(graph, capacity, transfer=transfer, recompute=recompute, work=0)
    if isinstance(exact, _core.Fitted) and exact.added_cost == exact.cost_bound and least is not None:
        assert exact.added_cost <= least
    return Middle(least, proven, found.added_cost, found.cost_bound)
