"""The orderings that a plan adds, by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import memplan
from oracles import plain as oracle

Dict = dict[str, Any]


Edge = tuple[str, str]


def loses_something(source: Dict, plan: memplan.Plan, edges: Iterable[Edge]) -> bool:
    """Whether some order that data, `after` and the edges allow, streams aside, loses a value."""
    assert plan.buffers is not None
    buffers, names = plan.buffers, [t["name"] for t in source["tensors"]]
    place, region = {}, {}
    for t, name in enumerate(names):
        b = int(buffers.buffer_of_tensor[t])
        place[name] = int(buffers.offset_in_buffer[t]) + (int(plan.offsets[b]) if b >= 0 else 0)
        region[name] = oracle.ARENA if b >= 0 else names[buffers.root_of_tensor[t]]
    workspace = {
        o["name"]: int(plan.offsets[b]) if (b := int(buffers.buffer_of_workspace[k])) >= 0 else oracle.NOWHERE
        for k, o in enumerate(source["ops"])
    }
    before = oracle.waits(source, edges, streams=False)
    return any(
        oracle.replay(source, place, workspace, region=region, donated=["x"], sequence=order)
        for order in oracle.legal_orders(before)
    )


def edges_of(source: Dict, **options: Any) -> list[Edge]:
    """The edges of a plan; with them nothing is lost, and without any one of them something is."""
    plan = memplan.plan(source, **options)
    edges = plan.reuse_edges()
    assert not loses_something(source, plan, edges)
    for edge in edges:
        assert loses_something(source, plan, [e for e in edges if e != edge]), edge
    return edges
