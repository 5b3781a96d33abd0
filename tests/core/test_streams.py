"""Ops on several streams: which end before which begin, and what may share bytes, against reachability spelt out."""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import memplan
from memplan import _core
from memplan.importers.graph_dict import graph_of


def random_graph(seed: int, ops: int, streams: int) -> dict[str, Any]:
    """Each op reads two of the last tensors, and waits for an op now and then."""
    chance = random.Random(seed)
    tensors: list[dict[str, Any]] = [{"name": "x", "bytes": 8, "kind": "input"}]
    made = []
    for k in range(ops):
        inputs = sorted({chance.choice(tensors[-6:])["name"] for _ in range(2)})
        after = [f"o{chance.randrange(k)}"] if k and chance.random() < 0.2 else []
        tensors.append({"name": f"t{k}", "bytes": chance.randint(1, 9)})
        entry = {"name": f"o{k}", "inputs": inputs, "outputs": [f"t{k}"], "after": after}
        made.append({**entry, "stream": chance.randrange(streams)})
    return {"tensors": tensors, "ops": made, "outputs": [f"t{ops - 1}"]}


def befores(spec: dict[str, Any]) -> np.ndarray[Any, Any]:
    """Per op, the ops that end before it begins."""
    ops = spec["ops"]
    before = np.zeros((len(ops), len(ops)), dtype=bool)
    writer = {name: k for k, op in enumerate(ops) for name in op["outputs"]}
    place = {op["name"]: k for k, op in enumerate(ops)}
    for k, op in enumerate(ops):
        waits = [writer[name] for name in op["inputs"] if name in writer] + [place[name] for name in op["after"]]
        for w in waits + [j for j in range(k) if ops[j]["stream"] == op["stream"]]:
            before[k] |= before[w]
            before[k, w] = True
    return before


@pytest.mark.parametrize(("ops", "streams"), [(40, 2), (150, 2), (150, 4), (150, 20)])
def test_what_ends_before_what_begins(ops: int, streams: int) -> None:
    """Numbers for each stream, or bits for each op where streams are many."""
    for seed in range(5):
        spec = random_graph(seed, ops, streams)
        expected, order = befores(spec), _core.HappensBefore(graph_of(spec))
        got = np.array([[order.before(a, b) for a in range(ops)] for b in range(ops)])
        assert np.array_equal(got, expected)


@pytest.mark.parametrize(("ops", "streams"), [(40, 2), (150, 3), (60, 20)])
def test_what_may_share_bytes(ops: int, streams: int) -> None:
    """Of two tensors that share none, all that uses the one ends before the other is written."""
    for seed in range(5):
        spec = random_graph(seed, ops, streams)
        before = befores(spec)
        problem = memplan.plan(spec, "naive").problem
        users = {f"t{k}": {k} for k in range(ops)}
        for k, op in enumerate(spec["ops"]):
            for name in op["inputs"]:
                users.setdefault(name, set()).add(k)
        users[f"t{ops - 1}"].add(ops)  # until the end
        before = np.pad(before, ((0, 1), (0, 1)))
        apart = {(int(a), int(b)) for a, b in (() if problem.conflicts is None else problem.conflicts)}
        for a, b in combinations(range(len(problem)), 2):
            one, other = problem.names[a], problem.names[b]
            if "x" in (one, other):
                continue
            together = problem.first[a] < problem.last[b] and problem.first[b] < problem.last[a]
            follows = [
                all(before[int(later[1:]), user] for user in users[earlier])
                for earlier, later in ((one, other), (other, one))
            ]
            assert ((a, b) in apart) == (not together and not any(follows))


@pytest.mark.slow
def test_memory_is_in_proportion_to_ops_and_streams() -> None:
    """Bits for each pair of so many ops would take more than 2 GiB."""
    n = 140_000
    ops = [_core.Op(f"o{k}", "", [], [], stream=k % 2) for k in range(n)]
    order = _core.HappensBefore(_core.Graph([], ops))
    assert order.before(0, n - 2)
    assert not order.before(0, n - 1)
