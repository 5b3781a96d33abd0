"""The least cost of fitting a graph, by an integer program over stages, where all schedules would be too many.

After Checkmate (Jain et al. 2020). None of the code under test is used. Graphs are dicts without relations: every
tensor has bytes of its own. Before each op of the graph, ops may run again in their order, each once. In a schedule of
schedules.py, an op may run again several times there, so that its least cost may be lower.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple


class Staged(NamedTuple):
    """The least cost that was found, None if there is none; and whether that is proven."""

    cost: int | None
    proven: bool


def least_staged_cost(
    graph: Mapping[str, Any],
    capacity: int,
    never: Collection[str] = (),
    transfer: int | None = None,
    seconds: float = 10,
) -> Staged:
    """The cost of the reruns and moves of the best schedule within a capacity. Costs are integers."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    size = {t["name"]: t["bytes"] for t in graph["tensors"] if t.get("kind") != "input"}
    maker = {name: k for k, op in enumerate(graph["ops"]) for name in op["outputs"]}
    costs: list[Any] = []
    moved: dict[str, Any] = {}
    alive: dict[str, Any] = {}  # in the step before
    for stage, first in enumerate(graph["ops"]):
        for op in graph["ops"][: stage + 1]:
            again = op is not first
            if again and op["name"] in never:
                continue
            runs = model.new_bool_var("") if again else model.new_constant(1)
            costs += [op["cost"] * runs] if again else []
            now = {name: model.new_bool_var("") for name in size if maker[name] <= stage}
            for name, there in now.items():
                ways = [alive.get(name, 0)]
                if name in op["outputs"]:
                    ways.append(runs)
                if transfer is not None and name in op["inputs"] and name not in graph["outputs"]:
                    fetched = model.new_bool_var("")
                    model.add_implication(fetched, runs)
                    moved.setdefault(name, model.new_bool_var(""))
                    model.add_implication(fetched, moved[name])
                    costs.append(transfer * size[name] * fetched)
                    ways.append(fetched)
                model.add(there <= sum(ways))
                if name in op["inputs"] or name in op["outputs"]:
                    model.add_implication(runs, there)
                if name in graph["outputs"] and maker[name] < stage:
                    model.add(there == 1)
            twice = sum(size[name] for name in op["outputs"] if again and name in graph["outputs"])
            held = sum(size[name] * there for name, there in now.items()) + op.get("workspace", 0) + twice
            model.add(held <= capacity).only_enforce_if(runs)
            alive = now
    costs += [transfer * size[name] * once for name, once in moved.items()]
    model.minimize(sum(costs))
    solver = cp_model.CpSolver()
    solver.parameters.catch_sigint_signal = False  # or interrupts end the process from then on
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = seconds
    status = solver.solve(model)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Staged(round(solver.objective_value), status == cp_model.OPTIMAL)
    return Staged(None, status == cp_model.INFEASIBLE)
