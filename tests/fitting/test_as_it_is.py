"""A graph as it is: what is made to fit never peaks above its plan, and a capacity that it fits costs nothing."""

from __future__ import annotations

import random
from typing import Any

import pytest

import memplan
from builders.choices_of_sharing import shared_graph
from builders.graphs import chain
from memplan import _core
from memplan.fitting.fit import WAYS
from memplan.importers.graph_dict import graph_of

Dict = dict[str, Any]
EVERYWHERE = ("input", "intermediate", "output", "workspace")


def sliced() -> Dict:
    """A slice that keeps a large tensor alive if it is no copy: 194 bytes with a copy, 264 without."""
    tensors = [{"name": name, "bytes": size} for name, size in zip("xtuyz", (168, 168, 96, 96, 2), strict=True)]
    tensors[0]["kind"] = "input"
    ops = [
        {"inputs": ["x"], "outputs": ["t"]},
        {"inputs": ["t"], "outputs": ["u"], "slice": [{"output": "u", "input": "t", "offset": 72}]},
        {"inputs": ["u"], "outputs": ["y", "z"]},
    ]
    return {"tensors": tensors, "ops": ops, "outputs": ["y", "z"]}


def rows(count: int) -> Dict:
    """Two ops along rows of five bytes, which pieces would make of 16 bytes each where buffers are aligned."""
    tensors = [{"name": name, "shape": [count, 5], "dtype": "int8"} for name in "xty"]
    tensors[0]["kind"] = "input"
    loop = {"extent": count}
    ops = [
        {"inputs": [a], "outputs": [b], "loops": [loop | {"reads": {a: [0, 1, 1, 0]}, "writes": {b: [0, 1]}}]}
        for a, b in ("xt", "ty")
    ]
    return {"tensors": tensors, "ops": ops, "outputs": ["y"]}


@pytest.mark.parametrize("allow", [["recompute"], ["order"], ["offload"], ["split"], ["split", "recompute"], WAYS])
def test_sharing_that_only_the_plan_finds_counts(allow: list[str]) -> None:
    assert memplan.plan(sliced()).peak == 194
    for capacity in (194, 200, 250, "100%", "least"):
        found = memplan.fit(sliced(), capacity, allow=allow)
        assert (found.peak, found.added_cost, found.changes) == (194, 0, ())
        assert found.fitting.load_bound <= 194
    with pytest.raises(memplan.InfeasibleError):
        memplan.fit(sliced(), 193, allow=["order"])


def test_pieces_that_begin_at_multiples_are_not_taken_where_they_need_more() -> None:
    for count in (2, 3, 4, 13):
        peak = memplan.plan(rows(count), alignment=16).peak
        assert memplan.fit(rows(count), "least", allow=["split"], alignment=16).peak <= peak


def test_outputs_over_inputs_that_are_read_are_left_as_they_are() -> None:
    graph = rows(8)
    for op in graph["ops"]:
        op["ordered"] = [0]
    plan = memplan.plan(graph, place=EVERYWHERE)
    assert plan.peak < memplan.plan(graph, place=EVERYWHERE, overlap=False).peak
    for capacity in (plan.peak, "100%", "least"):
        found = memplan.fit(graph, capacity, place=EVERYWHERE)
        assert (found.peak, found.changes) == (plan.peak, ())
    assert [over.output for over in found.overlaps] == [over.output for over in plan.overlaps]
    assert memplan.fit(graph, "100%", "longest_path", place=EVERYWHERE).changes == ()  # which knows no such outputs


def test_a_graph_that_fits_need_not_be_one_that_fit_takes() -> None:
    streams = chain(2)
    streams["ops"][0]["stream"] = 1
    pinned = chain(2) | {"pin": {"t0": 128}}
    for graph in (streams, pinned):
        peak = memplan.plan(graph).peak
        assert memplan.fit(graph, peak).peak <= peak
        assert memplan.fit(graph, "100%").changes == ()
        with pytest.raises(memplan.errors.UnsupportedError):
            memplan.fit(graph, peak - 1)


def test_a_share_of_more_than_all_is_the_plan() -> None:
    plan = memplan.plan(chain(4))
    for share in ("100%", "100.0%", "250%"):
        found = memplan.fit(chain(4), share, time_limit=0.001)
        assert (found.peak, found.added_cost, found.cost_bound) == (plan.peak, 0, 0)
        assert found.fitting.capacity == int(plan.peak * float(share[:-1]) / 100)


def test_a_curve_begins_with_the_plan() -> None:
    curve = memplan.pareto(sliced(), ["100%", 250, 300])
    assert curve.load == 194
    assert [(point.capacity, point.peak, point.added_cost) for point in curve] == [
        (300, 194, 0),
        (250, 194, 0),
        (194, 194, 0),
    ]
    assert [point.capacity for point in memplan.pareto(sliced())] == [194]


def test_only_what_is_written_over_was_donated() -> None:
    tensors = [{"name": "x", "bytes": 8, "kind": "input"}, {"name": "u", "bytes": 4}, {"name": "y", "bytes": 20}]
    ops = [
        {"inputs": ["x"], "outputs": ["u"], "slice": [{"output": "u", "input": "x", "offset": 4}]},
        {"inputs": ["u"], "outputs": ["y"]},
    ]
    found = memplan.fit({"tensors": tensors, "ops": ops, "outputs": ["y"]}, "least", allow=["donate"])
    assert (found.peak, found.changes) == (20, ())


def test_what_is_proven_of_one_schedule_is_not_said_of_all() -> None:
    """Where buffers begin at multiples, the plan of one schedule may need more than that of another."""
    wrong = []
    for seed in (23, 244, 293):
        graph = shared_graph(random.Random(seed))
        least = memplan.fit(graph, "least", allow=["recompute"], alignment=64)
        found = memplan.fit(graph, least.peak, allow=["recompute"], alignment=64)
        wrong += [seed] if found.peak > least.peak else []
    assert not wrong


def test_the_floor_of_pieces_counts_nothing_that_may_lie_outside() -> None:
    tensors = [{"name": name, "shape": [4, 8], "dtype": "int8"} for name in "xty"]
    tensors[0]["kind"] = "input"
    ops: list[Dict] = [
        {"inputs": ["x"], "outputs": ["t"], "inplace": [{"output": "t", "input": "x"}]},
        {"inputs": ["t"], "outputs": ["y"], "inplace": [{"output": "y", "input": "t"}]},
    ]
    graph = {"tensors": tensors, "ops": ops, "outputs": ["y"]}
    assert memplan.fit(graph, 0, allow=["split", "donate"]).peak == 0
    ops[0] = {"inputs": ["x"], "outputs": ["t"], "slice": [{"output": "t", "input": "x"}]}
    ops[1].pop("inplace")
    assert memplan.fit(graph, 32, allow=["split"]).peak == 32


def test_the_floor_of_pieces_counts_what_two_inputs_show_once() -> None:
    tensors = [{"name": name, "bytes": size} for name, size in zip("xtuy", (8, 100, 60, 4), strict=True)]
    tensors[0]["kind"] = "input"
    ops: list[Dict] = [
        {"inputs": ["x"], "outputs": ["t"]},
        {"inputs": ["t"], "outputs": ["u"], "slice": [{"output": "u", "input": "t", "offset": 20}]},
        {"inputs": ["t", "u"], "outputs": ["y"]},
    ]
    graph = {"tensors": tensors, "ops": ops, "outputs": ["y"]}
    assert memplan.plan(graph).peak == 104
    assert _core.split_floor(graph_of(graph), _core.StorageOptions()) == 104
    with pytest.raises(memplan.InfeasibleError) as caught:
        memplan.fit(graph, 103, allow=["split"])
    assert caught.value.proven


@pytest.mark.parametrize("seed", range(24))
def test_random_graphs_never_above_their_plan(seed: int) -> None:
    chance = random.Random(seed)
    graph = shared_graph(chance)
    options: Dict = {"alignment": (1, 16, 64)[seed % 3]}
    if chance.random() < 0.3:
        options["place"] = EVERYWHERE
    plan = memplan.plan(graph, **options)
    ways = [way for way in WAYS if chance.random() < 0.5] or ["recompute"]
    options |= {"allow": ways, "transfer": 0.5} if "offload" in ways else {"allow": ways}
    for capacity in ("100%", plan.peak):
        found = memplan.fit(graph, capacity, **options)
        assert (found.peak, found.added_cost, found.changes) == (found.peak, 0, ())
        assert found.peak <= plan.peak
    least = memplan.fit(graph, "least", **options)
    assert least.fitting.load_bound <= least.peak <= plan.peak
    for capacity in {least.peak, (least.peak + plan.peak) // 2}:
        found = memplan.fit(graph, capacity, **options)
        assert found.peak <= capacity
        assert 0 <= found.cost_bound <= found.added_cost
