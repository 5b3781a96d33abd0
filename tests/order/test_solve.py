"""Plans in the best order: never worse than given, also within a time limit; time in proportion to the graph."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

import memplan
from builders.layered import layers
from memplan import _core
from memplan.importers.graph_dict import graph_of


def wide_choice(count: int, near: int = 300) -> _core.Graph:
    """Ops that each read two of the tensors made last: hundreds of them may run next at any time."""
    chance = random.Random(1)
    tensors: list[dict[str, Any]] = [{"name": "x", "bytes": 64, "kind": "input"}]
    ops: list[dict[str, Any]] = []
    for k in range(count):
        names = [tensor["name"] for tensor in tensors[-near:]]
        tensors.append({"name": f"t{k}", "bytes": chance.randint(1, 1000)})
        ops.append({"name": f"o{k}", "inputs": sorted({chance.choice(names) for _ in range(2)}), "outputs": [f"t{k}"]})
    return graph_of({"tensors": tensors, "ops": ops, "outputs": [f"t{count - 1}"]})


def recurrent(steps: int) -> _core.Graph:
    """A cell after another; each reads its part of one tensor, and what all make is put together in the end."""
    tensors: list[dict[str, Any]] = [{"name": "x", "bytes": 8, "kind": "input"}, {"name": "all", "bytes": 8 * steps}]
    parts = [f"x{k}" for k in range(steps)]
    cut = [{"output": part, "input": "all", "offset": 8 * k} for k, part in enumerate(parts)]
    ops = [
        {"name": "in", "inputs": ["x"], "outputs": ["all"]},
        {"name": "cut", "inputs": ["all"], "outputs": parts, "alias": cut},
    ]
    for k in range(steps):
        tensors += [{"name": parts[k], "bytes": 8}, {"name": f"g{k}", "bytes": 12}, {"name": f"h{k}", "bytes": 8}]
        before = [f"h{k - 1}"] if k > 0 else []
        ops.append({"name": f"gate{k}", "inputs": [parts[k], *before], "outputs": [f"g{k}"]})
        ops.append({"name": f"cell{k}", "inputs": [f"g{k}", *before], "outputs": [f"h{k}"]})
    tensors.append({"name": "y", "bytes": 8 * steps})
    ops.append({"name": "join", "inputs": [f"h{k}" for k in range(steps)], "outputs": ["y"]})
    return graph_of({"tensors": tensors, "ops": ops, "outputs": ["y"]})


def least_seconds(run: Callable[[], object]) -> float:
    """Of the processor, of three runs."""
    found = []
    for _ in range(3):
        begin = time.process_time()
        run()
        found.append(time.process_time() - begin)
    return min(found)


@pytest.mark.parametrize("limit", [1e-6, 0.02, 0.1])
def test_best_is_never_worse_than_given_within_a_limit(limit: float) -> None:
    graph = wide_choice(4000)
    best = memplan.plan(graph, order="best", time_limit=limit)
    assert best.peak <= memplan.plan(graph, "first_fit").peak  # with which every search begins


def read_twice(count: int, joined: int) -> _core.Graph:
    """Tensors that an op each reads, and one op that reads them all and may run at any time."""
    parts, results = [f"t{k}" for k in range(count)], [f"y{k}" for k in range(count)]
    tensors: list[dict[str, Any]] = [{"name": "x", "bytes": 8, "kind": "input"}, {"name": "z", "bytes": joined}]
    tensors += [{"name": part, "bytes": 8} for part in parts] + [{"name": name, "bytes": 4} for name in results]
    ops: list[dict[str, Any]] = [{"name": "make", "inputs": ["x"], "outputs": parts}]
    ops += [{"name": f"o{k}", "inputs": [parts[k]], "outputs": [results[k]]} for k in range(count)]
    ops.append({"name": "join", "inputs": parts, "outputs": ["z"]})
    return graph_of({"tensors": tensors, "ops": ops, "outputs": ["z"]})


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize(("order", "joined"), [("growth", 16), ("growth_backwards", 0)])
def test_lists_take_time_in_proportion_to_the_graph(order: str, joined: int) -> None:
    small, large = (read_twice(count, 8 + joined * count) for count in (2000, 20_000))
    few = least_seconds(lambda: _core.order_of(small, order))
    many = least_seconds(lambda: _core.order_of(large, order))
    assert many < 20 * few + 0.05  # 35 to 50 times as much before


def test_an_interrupt_ends_the_search_for_a_bound() -> None:
    graph = graph_of(layers(20_000))

    def seconds(alarm: float) -> float:
        begin = time.process_time()
        handler = signal.signal(signal.SIGALRM, signal.default_int_handler)
        try:
            signal.setitimer(signal.ITIMER_REAL, alarm)
            with pytest.raises(KeyboardInterrupt):
                _core.order_bound(graph, work=10**11)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, handler)
        return time.process_time() - begin

    assert seconds(0.3) < 1.5


@pytest.mark.few(2)
@pytest.mark.parametrize("order", ["lpmf", "bfs", "dfs", "newest", "oldest_backwards", "hill_valley"])
def test_a_rule_that_is_asked_to_end_gives_the_given_order(order: str) -> None:
    found = _core.order_of(recurrent(3000), order, time_limit=1e-9)
    assert list(found.ops) == sorted(found.ops)
    assert found.graph is None


def test_a_planner_without_a_plan_of_one_order_leaves_that_of_the_other() -> None:
    graph = memplan.capture("example:resnet50_train").graph
    capacity = memplan.plan(graph, order="best").peak
    best = memplan.plan(graph, order="best", capacity=capacity)
    assert best.peak <= capacity < memplan.plan(graph).peak
    with pytest.raises(memplan.InfeasibleError, match="in any order of the ops") as caught:
        memplan.plan(graph, order="best", capacity=capacity // 2)
    assert caught.value.problem is not None
