"""Memories that are filled one after another: what goes where, by capacity.

The first memory is the fastest. What it cannot hold goes to the next one, so that as few bytes as possible are written
to and read from the later ones. What was put into a memory by name stays there, and so do the arenas of bodies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from executorch.exir import memory
from executorch.exir.memory_planning import get_node_tensor_specs
from executorch.exir.schema import DeviceType

from .._core import Problem
from ..plans.plan import Plan
from ..plans.pools import Pool
from .call import Call
from .storages import Storage


class Banks(NamedTuple):
    """The memories of a call that are filled, the fastest first, and the bytes that each may give it."""

    room: Mapping[int, int]
    free: list[Storage]  # that may lie in any of them

    @staticmethod
    def of(call: Call, capacities: Mapping[int, int]) -> Banks | None:
        """None where there is no choice, or where memories of another device are numbered behind those of the CPU."""
        specs = (spec for node in call.graph.graph.nodes for spec in get_node_tensor_specs(node))
        if len(capacities) < 2 or any(spec.device != DeviceType.CPU for spec in (*call.specs, *specs)):
            return None
        room = {k: max(size - call.below(k) - call.padding, 0) for k, size in capacities.items()}
        free = [storage for row in call.storages.values() for storage in row if storage.members[0][0].mem_id is None]
        return Banks(room, free) if free else None

    def put(self, call: Call, memories: Mapping[int, int]) -> None:
        """Move the free storages into these memories, by the identity of the storage."""
        chosen = {id(storage) for storage in self.free}
        for row in call.storages.values():
            row[:] = [storage for storage in row if id(storage) not in chosen]
        for storage in self.free:
            call.storages.setdefault(memories[id(storage)], []).append(storage)

    def fill(self, call: Call, plan: Callable[..., Plan]) -> dict[int, list[int]]:
        """Put the free storages where the plan in pools has them; the offsets that it found in each memory.

        InfeasibleError: they do not fit, or no way was found.
        """
        rows = [(k, storage) for k in self.room for storage in call.storages.get(k, [])]
        regions = [(k, region) for k in self.room for region in call.inside(k)]
        problem = Problem(
            [*(storage.bytes for _, storage in rows), *(region.bytes(k) for k, region in regions)],
            [*(storage.first for _, storage in rows), *(region.first for _, region in regions)],
            [*(storage.last for _, storage in rows), *(region.last for _, region in regions)],
            call.alignment,
            [
                *(storage.name for _, storage in rows),
                *(f"{region.name}: bodies in memory {k}" for k, region in regions),
            ],
        )
        chosen = {id(storage) for storage in self.free}
        fixed = [k if id(what) not in chosen else 0 for k, what in (*rows, *regions)]
        pools = [
            Pool(f"memory {k}", size, accepts=[b for b, at in enumerate(fixed) if at in (0, k)])
            for k, size in self.room.items()
        ]
        uses = _uses(call)
        accesses = [max((uses.get(id(spec), 0) for spec, _ in storage.members), default=0) for _, storage in rows]
        found = plan(problem, pools=pools, accesses=[*(max(n, 1) for n in accesses), *(1 for _ in regions)])
        number = dict(zip((pool.name for pool in pools), self.room, strict=True))
        slots = list(found)
        self.put(call, {id(storage): number[slot.pool] for (_, storage), slot in zip(rows, slots, strict=False)})
        return _offsets(call, self.room, [*rows, *regions], slots, found.pools, number)


def _offsets(
    call: Call, room: Mapping[int, int], rows: list[Any], slots: list[Any], pools: Any, number: Mapping[str, int]
) -> dict[int, list[int]]:
    """Those of storages and regions in each memory, in the order in which the call has them."""
    at: dict[tuple[int, int], int] = {}
    for (_, what), slot in zip(rows, slots, strict=True):
        at[number[slot.pool], id(what)] = slot.offset - pools[slot.pool].begin
    return {k: [at[k, id(what)] for what in (*call.storages.get(k, []), *call.inside(k))] for k in room}


def _uses(call: Call) -> dict[int, int]:
    """How many nodes read or write a spec, by its identity."""
    found: dict[int, int] = {}
    for node in call.graph.graph.nodes:
        if node.target in (memory.alloc, memory.view) or node.op == "output":
            continue
        named = {id(spec) for one in (node, *node.all_input_nodes) for spec in get_node_tensor_specs(one)}
        for spec in named:
            found[spec] = found.get(spec, 0) + 1
    return found
