"""Random graphs planned with random options, and run byte by byte: what tests and the benchmark of sharing share."""

from __future__ import annotations

import random
from collections import Counter
from itertools import combinations
from typing import Any, NamedTuple

import memplan
from oracles.cells import ARENA, faults, random_graph, random_sequence
from oracles.sharing import least_peak

KINDS = ("input", "weight", "intermediate", "output", "workspace")
PLACES = [list(kinds) for count in range(6) for kinds in combinations(KINDS, count)]
USUAL = ["intermediate", "output", "workspace"]
PLANNERS = ("auto", "naive", "first_fit", "greedy_by_size", "valley:work=10000", "hill_climb:iterations=20")
ORDERS = ("given", "given", "best", "growth", "newest", "oldest_backwards", "dfs")
SEQUENCES = 3  # in which the ops of several streams run
TINY = 4  # ops, of graphs whose choices of sharing are all tried


class Case(NamedTuple):
    graph: dict[str, Any]
    planner: str
    options: dict[str, Any]


def random_case(seed: int, ops: int) -> Case:
    """A graph of up to so many ops, a planner, and options for what shares bytes."""
    chance = random.Random(seed)
    graph = random_graph(chance, ops, streams=chance.random() < 0.25)
    options: dict[str, Any] = {
        "order": chance.choice(ORDERS),
        "place": USUAL if chance.random() < 0.7 else chance.choice(PLACES),
        "donate": [t["name"] for t in graph["tensors"] if t["kind"] == "input" and chance.random() < 0.4],
        "alignment": chance.choice([1, 1, 1, 2, 4]),
        "inplace": chance.random() < 0.9,
        "zero_copy": chance.random() < 0.9,
    }
    return Case(graph, chance.choice(PLANNERS), options)


def planned(case: Case) -> memplan.Plan | None:
    """The plan; None where the planner is not for such a graph, or streams race for bytes that are overwritten."""
    try:
        return memplan.plan(case.graph, case.planner, **case.options)
    except memplan.errors.UnsupportedError:
        return None


def wrong(case: Case, plan: memplan.Plan, seed: int) -> list[str]:
    """What goes wrong when the graph runs where the plan puts it, in some of the orders in which it may run."""
    assert plan.graph is not None
    assert plan.buffers is not None
    offsets = plan.offsets.tolist()
    names = [tensor.name for tensor in plan.graph.tensors]
    roots = plan.buffers.root_of_tensor.tolist()
    lies = zip(plan.buffers.buffer_of_tensor.tolist(), plan.buffers.offset_in_buffer.tolist(), strict=True)
    place = {
        names[t]: (names[roots[t]], inside) if buffer < 0 else (ARENA, offsets[buffer] + inside)
        for t, (buffer, inside) in enumerate(lies)
    }
    workspaces = zip(plan.graph.ops, plan.buffers.buffer_of_workspace.tolist(), strict=True)
    scratch = {op.name: (ARENA, offsets[buffer]) for op, buffer in workspaces if buffer >= 0}
    position = {op["name"]: k for k, op in enumerate(case.graph["ops"])}
    sequences = [[position[op.name] for op in plan.graph.ops]]
    if len({op.get("stream", 0) for op in case.graph["ops"]}) > 1:
        chance = random.Random(seed)
        sequences += [random_sequence(case.graph, chance) for _ in range(SEQUENCES)]
    return [
        fault
        for k, sequence in enumerate(sequences)
        for fault in faults(
            case.graph, place, scratch, donated=case.options["donate"], sequence=sequence, seed=seed + k
        )
    ]


def check(seed: int, ops: int, seen: Counter[str]) -> list[str]:
    """Plan and run a random case; what goes wrong, and in `seen` what there was."""
    case = random_case(seed, ops)
    plan = planned(case)
    if plan is None:
        seen["refused"] += 1
        return []
    seen["planned"] += 1
    seen.update(f"{shared.how}" for shared in plan.sharing)
    seen["two names"] += sum(_reads_by_two_names(case.graph, op) for op in case.graph["ops"])
    return wrong(case, plan, seed)


def _reads_by_two_names(graph: dict[str, Any], op: dict[str, Any]) -> bool:
    """Whether two inputs of an op show the same bytes, or may: one is made from the other without a copy."""
    made = {
        (view["output"], view["input"])
        for other in graph["ops"]
        for relation in ("alias", "slice", "concat")
        for view in other.get(relation, ())
    }
    return any((a, b) in made for a in op["inputs"] for b in op["inputs"])


def against_the_least(seed: int) -> str:
    """Compare the plan of a tiny graph with the least peak of all choices of sharing; "too large" to be tried."""
    chance = random.Random(seed)
    graph = random_graph(chance, TINY, streams=chance.random() < 0.2)
    place = USUAL if chance.random() < 0.7 else chance.choice(PLACES)
    donate = [t["name"] for t in graph["tensors"] if t["kind"] == "input" and chance.random() < 0.4]
    try:
        least = least_peak(graph, place, donate)
    except ValueError:
        return "too large"
    plan = memplan.plan(graph, place=place, donate=donate)
    if not plan.lower_bound <= least <= plan.peak:
        return "wrong"
    return "least" if plan.peak == least else "above"
