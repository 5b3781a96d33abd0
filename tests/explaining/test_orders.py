"""What explanations say of orders: each figure by planning again, each witness against every order of small graphs."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import memplan
from builders.graphs import two_branches
from builders.order_rows import orders_of
from memplan import _core
from memplan.explaining.orders import Orders
from oracles.sharing import small_graph


def explained(plan: memplan.Plan) -> Orders:
    orders = plan.explain().orders
    assert orders is not None
    return orders


def check(plan: memplan.Plan, asked: dict[str, Any]) -> Orders:
    """Hold what is said of orders against plans in other orders, and the bound that is asked for apart."""
    e, orders = plan.explain(), explained(plan)
    best = memplan.plan(plan.graph, order="best", **asked)
    assert orders.load == _core.buffers_of(best.graph, plan.storage).problem.load or orders.found_by == "given"
    assert orders.bound <= orders.load
    assert orders.bound >= _core.order_bound(plan.graph, plan.storage)[0]
    advice = [a for a in e.advice if a.kind == "order"]
    assert bool(advice) == (orders.load < plan.load)
    for a in advice:
        assert a.load == orders.load == best.load
        assert e.load_step is not None
        at = best.order.index(e.load_step.op)
        assert a.bytes == plan.load - dict(loads(best))[at]
    if orders.op and (orders.alive or orders.made):
        assert sum(needed.bytes for needed in orders.alive) + orders.made == orders.bound
    assert [n.bytes for n in orders.alive] == sorted((n.bytes for n in orders.alive), reverse=True)
    return orders


def loads(plan: memplan.Plan) -> list[tuple[int, int]]:
    """The load of each step."""
    p = plan.problem
    spans = list(zip(p.size.tolist(), p.first.tolist(), p.last.tolist(), strict=True))
    assert p.parts is None
    return [(step, sum(s for s, first, last in spans if first <= step < last)) for step in range(len(plan.order))]


@pytest.mark.parametrize("name", ["resnet50_train", "gpt2_infer"])
def test_figures_of_networks(name: str) -> None:
    plan = memplan.plan(f"example:{name}")
    orders = check(plan, {})
    assert orders.load == orders.bound
    again = memplan.plan(f"example:{name}", order="best").explain()
    assert again.orders is not None
    assert (again.orders.load, again.orders.bound, again.orders.found_by) == (orders.load, orders.bound, "given")
    assert not [a for a in again.advice if a.kind == "order"]


@pytest.mark.parametrize("part", [*range(2), *(pytest.param(k, marks=pytest.mark.slow) for k in range(2, 40))])
def test_what_is_always_alive_is_alive_in_every_order(part: int) -> None:
    witnesses = 0
    for seed in range(part * 150, part * 150 + 150):
        graph = small_graph(random.Random(seed), streams=False, ops=5)
        orders = orders_of(graph)
        if len(orders) < 2:
            continue
        plan = memplan.plan(graph)
        said = plan.explain().orders
        if said is None or not said.op:
            continue
        for needed in said.alive:
            if needed.always:
                witnesses += 1
                for order in orders:
                    assert alive_beside(graph, order, said.op, needed.name), (seed, order, said.op, needed.name)
    assert witnesses > 40


def alive_beside(graph: dict[str, Any], order: list[int], op: str, tensor: str) -> bool:
    """Whether the bytes of a tensor are made before an op of an order, and used by it or later, or by the caller."""
    shows = {tensor}
    for run in graph["ops"]:
        for relation in ("alias", "overwrite", "slice", "concat"):
            for view in run.get(relation, ()):
                if relation == "concat" and view["output"] in shows:
                    shows.add(view["input"])
                elif view["input"] in shows:
                    shows.add(view["output"])
    ops = [graph["ops"][k] for k in order]
    at = next(k for k, run in enumerate(ops) if run["name"] == op)
    made = {t["name"] for t in graph["tensors"]} - {name for run in ops[at:] for name in run["outputs"]}
    kept = {*graph["outputs"], *(t["name"] for t in graph["tensors"] if t.get("kind") == "output")}
    used = kept | {name for run in ops[at:] for name in run["inputs"]}
    return bool(shows & made) and bool(shows & used)


def test_a_better_order_is_named_and_what_stops_it() -> None:
    plan = memplan.plan("example:resnet50_train")
    text = plan.explain().sentences[-1]
    best = memplan.plan("example:resnet50_train", order="best")
    assert text.startswith('With order="best" the ops need 150.06 MiB, 4.9% less, and no order needs less: ')
    assert f"{explained(plan).op}" in text
    assert "alive beside it in every order, above all convolution_backward" in text
    table = str(plan.explain())
    assert "Why no order needs less than 150.06 MiB" in table
    assert 'order="best"' in plan.explain().sentences[2]
    assert best.explain().sentences[-1].startswith("No order of the ops needs less: ")


def test_a_bound_below_the_best_order_says_by_how_much() -> None:
    plan = memplan.plan(two_branches())
    orders = explained(plan)
    text = plan.explain().sentences[-1]
    assert 'With order="best" the ops need 12 B, 42.9% less' in text
    if orders.bound == 12:
        assert "and no order needs less" in text
    else:
        assert f"; none needs less than {orders.bound} B" in text
    best = memplan.plan(two_branches(), order="best").explain().sentences[-1]
    assert best.startswith("No better order of the ops was found; none" if orders.bound < 12 else "No order of the ops")


def test_what_the_caller_keeps_bounds_every_order() -> None:
    tensors = [{"name": name, "bytes": 8, "kind": "output"} for name in "ab"]
    ops = [{"name": f"make_{name}", "inputs": [], "outputs": [name]} for name in "ab"]
    e = memplan.plan({"tensors": tensors, "ops": ops, "outputs": ["a", "b"]}).explain()
    assert e.orders is not None
    assert (e.orders.ops, e.orders.op, e.orders.bound, e.orders.load) == ((), "", 16, 16)
    assert e.sentences[-1] == "No order of the ops needs less: the caller keeps that much."
    assert "Why no order" not in str(e)


def test_several_ops_may_bound_every_order_together() -> None:
    """Whichever of two ops runs last, the other's output is kept beside its input and output."""
    tensors = [{"name": name, "bytes": 4} for name in "pq"]
    tensors += [{"name": name, "bytes": 8, "kind": "output"} for name in "ab"]
    ops = [
        {"name": "begin", "inputs": [], "outputs": ["p", "q"]},
        *({"name": f"make_{out}", "inputs": [given], "outputs": [out]} for given, out in ("pa", "qb")),
    ]
    e = memplan.plan({"tensors": tensors, "ops": ops, "outputs": ["a", "b"]}).explain()
    assert e.orders is not None
    assert (e.orders.bound, e.orders.load, e.orders.op) == (20, 20, "")
    expected = "in whatever sequence make_a, make_b run, one of them needs that much."
    assert e.sentences[-1] == f"No order of the ops needs less: {expected}"


def test_a_search_through_all_orders_may_prove_the_bound() -> None:
    """Only the last of two readers may write over what both read; for the cuts, either may."""
    readers = [{"name": n, "inputs": ["a"], "outputs": [n], "inplace": [{"output": n, "input": "a"}]} for n in "bc"]
    ops = [{"name": "make", "inputs": [], "outputs": ["a"]}, *readers]
    graph = {"tensors": [{"name": name, "bytes": 10} for name in "abc"], "ops": ops, "outputs": []}
    e = memplan.plan(graph).explain()
    assert e.orders is not None
    assert (e.orders.bound, e.orders.load, e.orders.searched, e.orders.ops) == (20, 20, True, ())
    assert e.sentences[-1] == "No order of the ops needs less, as a search through all orders shows."


def test_several_streams_and_problems_have_no_orders(tmp_path: Path) -> None:
    graph = two_branches()
    graph["ops"][0]["stream"] = 1
    for source in (graph, memplan.Problem([4, 2], [0, 1], [2, 3])):
        e = memplan.plan(source).explain()
        assert (e.orders, len(e.sentences)) == (None, 3)
    e = memplan.plan(two_branches()).explain()
    e.to_json(tmp_path / "e.json")
    e.to_html(tmp_path / "e.html")
    written = json.loads((tmp_path / "e.json").read_text(encoding="utf-8"))["orders"]
    assert e.orders is not None
    assert (written["load"], written["bound"]) == (e.orders.load, e.orders.bound)
    assert [n["name"] for n in written["alive"]] == [n.name for n in e.orders.alive]


def test_options_that_leave_an_op_nothing_in_use() -> None:
    """With one of them, the op with the highest load runs before any byte is in use."""
    plan = memplan.plan(small_graph(random.Random(2817), streams=False, ops=5))
    assert [a for a in plan.explain().advice if a.kind != "order"]
