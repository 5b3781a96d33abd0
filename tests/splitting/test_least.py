"""Small graphs in pieces, against all ways of splitting and ordering them; see also benchmarks/split_small.py."""

from __future__ import annotations

from typing import Any

import pytest

from builders.split_cases import STORAGE, loads
from memplan import _core
from memplan.importers.graph_dict import graph_of
from oracles.iterations import least_load


def test_no_plan_below_the_least_and_no_bound_above_it(request: pytest.FixtureRequest) -> None:
    found = {seed: loads(seed) for seed in range(2000 if request.config.getoption("--slow") else 40)}
    assert not [(seed, one) for seed, one in found.items() if one.wrong()]
    assert sum(one.found == one.least for one in found.values()) >= 0.7 * len(found)
    assert sum(one.found == one.tried for one in found.values()) >= 0.95 * len(found)
    assert sum(one.bound == one.least for one in found.values()) >= 0.2 * len(found)


def through(step: int, before: int = 0) -> _core.Graph:
    """x, t and y of four rows of 10 bytes, of which the last op reads some of t."""
    copy = {"extent": 4, "reads": {"x": [0, 1, 1, 0]}, "writes": {"t": [0, 1]}}
    last: dict[str, Any] = {"extent": 1, "reads": {"t": [0, step, 1, before]}, "writes": {"y": [0, 1]}}
    ops = [
        {"name": "copy", "inputs": ["x"], "outputs": ["t"], "loops": [copy]},
        {"name": "last", "inputs": ["t"], "outputs": ["y"], "loops": [last]},
    ]
    tensors = [
        {"name": "x", "shape": [4, 10], "dtype": "int8", "kind": "input"},
        {"name": "t", "shape": [4, 10], "dtype": "int8"},
        {"name": "y", "shape": [1, 1], "dtype": "int8"},
    ]
    return graph_of({"tensors": tensors, "ops": ops, "outputs": ["y"]})


def test_rows_that_nobody_needs_bound_nothing() -> None:
    graph = through(1)
    assert least_load(graph) == 11
    assert _core.split_floor(graph, STORAGE) == 11
    nothing = through(1, before=-4)  # it reads rows beyond the last
    assert least_load(nothing) == 1
    assert _core.split_floor(nothing, STORAGE) == 1
