"""One call of an algorithm: what ExecuTorch gives for a graph and a device, as storages and regions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from executorch.exir.memory_planning import MemoryAlgoResult, SpecAllocResult
from executorch.exir.schema import DeviceType
from torch import fx

from .arena import Given, specs_given
from .graphs import Region, names_of, outputs_of, placed_in, regions_of, sizes_of
from .storages import Storage, memory_of, storages_of

_CPU = (DeviceType.CPU, 0)
_BLOCK = 0  # ExecuTorch numbers blocks of tensors that share bytes; here an arena is one block


@dataclass
class Planned:
    """What was planned for a graph so far: the last device, the memory id that comes next, and what was given.

    `returned` are the storages that a branch returns and that have no place yet, by the identity of the spec.
    """

    device: tuple[bool, int, int]
    next_memory: int = 1
    given: Given | None = None
    returned: dict[int, Storage] = field(default_factory=dict)


class Call:
    """The specs of a graph on one device, and the room for its bodies.

    Memory ids count from 1 on each device. `memory_in_program` is where they are in the program: the ids of one device
    follow those of the device before, as in ExecuTorch's `apply_algo`.

    If the graph is a branch of a `cond`, what it returns is placed by the graph around it, in the bytes of the result.
    """

    def __init__(
        self,
        alignment: int,
        specs: list[Any],
        graph: fx.GraphModule,
        padding: int,
        planned: Mapping[fx.GraphModule, Planned],
        branch: bool,
    ) -> None:
        self.alignment, self.specs, self.graph, self.padding = alignment, specs, graph, padding
        given = specs_given(specs)
        for spec in specs:
            spec.realign(alignment)
        devices = {(spec.device, spec.device_index) for spec in specs}
        kind, index = devices.pop() if len(devices) == 1 else _CPU
        self.device = f"{kind.name}:{index}"
        key = ((kind, index) != _CPU, kind.value, index)
        before = planned.get(graph)
        follows = before is not None and before.device < key
        self.planned = Planned(key, before.next_memory) if before and follows else Planned(key)
        # ExecuTorch says how many bytes bodies need. Keep them free only while bodies need them, if that is known.
        self.reserved: list[int] = list(getattr(graph, "input_mem_buffer_sizes", None) or [])
        self.regions: list[Region] = regions_of(graph) if self.reserved else []
        self._known = bool(self.regions) and sizes_of(self.regions) == self.reserved
        bodies = [planned[module] for region in self.regions for module in region.modules if module in planned]
        self.given = self.planned.given = Given(
            alignment, padding, given, [body.given for body in bodies if body.given]
        )
        self._first_memory = self.planned.next_memory
        self.storages = self._storages(planned, branch)

    def memory_in_program(self, memory: int) -> int:
        return self._first_memory + memory - 1

    def memories(self) -> list[int]:
        """Those that hold something."""
        used = {memory for memory, row in self.storages.items() if row}
        return sorted(used | {memory for memory, size in enumerate(self.reserved) if size})

    def below(self, memory: int) -> int:
        """Bytes to keep free at the bottom of a memory, for bodies of a kind that is not known here."""
        return 0 if self._known or memory >= len(self.reserved) else self.reserved[memory]

    def inside(self, memory: int) -> list[Region]:
        """The regions that need bytes of a memory, and are placed."""
        return [region for region in self.regions if self._known and region.bytes(memory)]

    def write(self, result: MemoryAlgoResult, memory: int, offsets: list[int]) -> None:
        """Put specs where a plan of storages, and then of regions, has its buffers; specs of bodies too."""
        own = {id(spec) for spec in self.specs}
        storages = self.storages.get(memory, [])
        for region, offset in zip(self.inside(memory), offsets[len(storages) :], strict=True):
            for spec in placed_in(region):
                if id(spec) not in own and spec.mem_id == memory:
                    result.spec_dict[spec] = SpecAllocResult(memory, _BLOCK, offset + spec.mem_offset)
        for storage, offset in zip(storages, offsets[: len(storages)], strict=True):
            for spec, inside in storage.members:
                result.spec_dict[spec] = SpecAllocResult(memory, _BLOCK, offset + inside)

    def _storages(self, planned: Mapping[fx.GraphModule, Planned], branch: bool) -> dict[int, list[Storage]]:
        """What is placed, by memory id."""
        numbers = {id(spec): f"#{k}" for k, spec in enumerate(self.specs)}
        storages = storages_of(self.specs, {**numbers, **names_of(self.graph)})
        roots = {id(storage.members[0][0]): storage for row in storages.values() for storage in row}
        for region in self.regions:
            modules = [planned[module] for module in region.modules if module in planned]
            returned = {spec: storage for module in modules for spec, storage in module.returned.items()}
            for result, outputs in region.results:
                found = [returned[id(output)] for output in outputs if id(output) in returned]
                if len(found) < len(outputs):  # a branch has it in its arena
                    region.last = max(region.last, result.lifetime[1] + 1)
                for storage in found:
                    _put_into_result(storage, region, result, roots, storages)
        self._prolong(storages)
        if branch:
            self._hand_on(roots, storages)
        return {memory: row for memory, row in storages.items() if row}

    def _prolong(self, storages: Mapping[int, list[Storage]]) -> None:
        """Let live what bodies may return as it came, as long as the results."""
        of_spec = {id(spec): storage for row in storages.values() for storage in row for spec, _ in storage.members}
        for region in reversed(self.regions):  # what a later one returns may be the result of an earlier one
            results = [result for result, _ in region.results]
            ends = [of_spec[id(r)].last if id(r) in of_spec else r.lifetime[1] + 1 for r in results]
            last = max([region.last, *ends])
            for spec in region.passed_on:
                if id(spec) in of_spec:
                    of_spec[id(spec)].last = max(of_spec[id(spec)].last, last)
                for other in self.regions:
                    if any(spec is result for result, _ in other.results):
                        other.last = max(other.last, last)

    def _hand_on(self, roots: Mapping[int, Storage], storages: Mapping[int, list[Storage]]) -> None:
        """Take out what a branch returns: the graph around it places that."""
        outputs = outputs_of(self.graph)
        for output in outputs:
            storage = roots.get(id(output))
            if storage is None or sum(spec is other for spec, _ in storage.members for other in outputs) != 1:
                continue  # another result has its bytes too
            self.planned.returned[id(output)] = storage
            for row in storages.values():
                row[:] = [other for other in row if other is not storage]


def _put_into_result(
    storage: Storage, region: Region, result: Any, roots: dict[int, Storage], storages: dict[int, list[Storage]]
) -> None:
    """Let what a branch returns lie in the bytes of the result, or in bytes for it if the result has none."""
    home = roots.get(id(result))
    if home is None:
        row = storages.setdefault(memory_of(storage.members[0][0], {}), [])
        home = roots[id(result)] = Storage(f"{region.name}: result {len(row)}", 0, region.first, result.lifetime[1] + 1)
        row.append(home)
    home.bytes = max(home.bytes, storage.bytes)
    home.members += storage.members
