"""The bound of fit on what any schedule adds, where no exact search helps: what reruns read has to be there."""

from __future__ import annotations

import random

import pytest

import memplan
from builders.fit_cases import APART, Dict, fitted, fitted_or_error, small_graph
from memplan import _core
from memplan.importers.graph_dict import graph_of


def deep(middle: int = 100) -> Dict:
    """t is idle while `b` runs, where 400 bytes are needed. It is made from d, which nothing else reads."""
    size = {"d": middle, "t": 100, "a": 100, "b": 200, "c": 100, "z": 1}
    made_from = {"d": ["x"], "t": ["d"], "a": ["t"], "b": ["a"], "c": ["b"], "z": ["c", "t"]}
    return {
        "tensors": [{"name": "x", "bytes": 10, "kind": "input"}, *({"name": n, "bytes": s} for n, s in size.items())],
        "ops": [
            {"name": f"f_{name}", "inputs": inputs, "outputs": [name], "cost": 10 if name == "d" else 1}
            for name, inputs in made_from.items()
        ],
        "outputs": ["z"],
    }


@pytest.mark.parametrize(
    ("middle", "least", "bound"),
    [
        (100, 11, 11),  # t comes back, and so does d
        (1, 11, 11),  # there is no room for d either
    ],
)
def test_what_a_rerun_reads_comes_back_too(middle: int, least: float, bound: float) -> None:
    found = fitted(deep(middle), 300, states=0, work=20_000)
    assert found.added_cost == least
    assert found.cost_bound == pytest.approx(bound)


def test_what_a_rerun_reads_may_be_kept_instead_where_there_is_room() -> None:
    found = fitted(deep(5), 305, states=0, work=20_000)
    assert found.added_cost == 1
    assert found.cost_bound == pytest.approx(1)
    # In the bound, four fifths of d stay in 4 bytes, the rest comes back at 2, and t at 1.
    assert fitted(deep(5), 304, states=0, work=20_000).cost_bound == pytest.approx(3)


def test_what_a_rerun_reads_may_be_fetched_instead() -> None:
    found = fitted(deep(5), 300, states=0, work=20_000, transfer=0.1)
    assert found.added_cost == 2  # d moves out and back
    assert found.cost_bound == pytest.approx(2)
    # In the bound, four fifths of d stay in 4 bytes, a fifth moves at 1 / 5, and t comes back at 1.
    assert fitted(deep(5), 304, states=0, work=20_000, transfer=0.1).cost_bound == pytest.approx(1.2)


def test_what_cannot_come_back_holds_what_is_made_from_it() -> None:
    """t or s has to leave. f_d may not run again, so that t needs d, which is as large: s leaves, at 5."""
    graph = deep()
    graph["tensors"].insert(1, {"name": "s", "bytes": 100})
    graph["ops"].insert(0, {"name": "f_s", "inputs": ["x"], "outputs": ["s"], "cost": 5})
    graph["ops"][-1]["inputs"].append("s")
    graph["ops"][1]["recompute"] = False
    found = fitted(graph, 400, states=0, work=20_000)
    assert found.added_cost == 5
    assert found.cost_bound == pytest.approx(5)


def changing(chance: random.Random) -> Dict:
    """A random graph in which outputs may be written over inputs, and some tensors are changed in place."""
    graph = small_graph(chance, 8)
    size = {tensor["name"]: tensor["bytes"] for tensor in graph["tensors"]}
    ops: list[Dict] = []
    for op in graph["ops"]:
        ops.append(op)
        name = op["outputs"][0]
        if chance.random() < 0.2:
            changed = {"name": f"{name}_", "type": "aten.relu_", "inputs": [name], "outputs": [f"{name}_"], "cost": 1}
            ops.append(changed | {"alias": [{"output": f"{name}_", "input": name, "offset": 0}]})
            graph["tensors"].append({"name": f"{name}_", "bytes": size[name]})
        elif chance.random() < 0.5:
            op["type"] = "aten.relu.default"
    return graph | {"ops": ops}


@pytest.mark.parametrize("transfer", [None, 0.5])
def test_the_bound_holds_where_tensors_share_bytes(transfer: float | None) -> None:
    """It is held against the search through all states of small graphs."""
    sharing = _core.StorageOptions()
    positive = 0
    for seed in range(400):
        chance = random.Random(seed)
        graph = changing(chance)
        load = _core.buffers_of(graph_of(graph), sharing).problem.load
        capacity = chance.randint(load * 7 // 10, load - 1)
        best = fitted_or_error(graph, capacity, storage=sharing, transfer=transfer, work=20_000)
        if isinstance(best, memplan.InfeasibleError):
            continue
        searched = fitted_or_error(graph, capacity, storage=sharing, states=0, work=20_000, transfer=transfer)
        if isinstance(searched, memplan.InfeasibleError):
            continue
        assert searched.cost_bound <= best.cost_bound
        positive += searched.cost_bound > 0
    assert positive > 30


def test_the_bound_is_whole_where_all_costs_are() -> None:
    """Costs of 3 add up to a multiple of 3."""
    raised = 0
    for seed in range(250):
        graph = small_graph(random.Random(seed))
        graph["ops"] = [op | {"cost": 3 * op["cost"]} for op in graph["ops"]]
        load = _core.buffers_of(graph_of(graph), APART).problem.load
        found = fitted_or_error(graph, load * 8 // 10, states=0, work=20_000)
        if isinstance(found, memplan.InfeasibleError):
            continue
        assert found.cost_bound % 3 == 0
        raised += found.cost_bound > 0
    assert raised > 10
