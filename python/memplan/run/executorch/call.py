"""One call of an algorithm: what ExecuTorch gives for a graph and a device, as storages and regions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from executorch.exir.memory_planning import MemoryAlgoResult, SpecAllocResult
from executorch.exir.schema import DeviceType
from torch import fx

from .arena import Arena, SpecGiven, specs_given
from .graphs import Region, names_of, placed_in, regions_of, sizes_of
from .storages import Storage, storages_of

_CPU = (DeviceType.CPU, 0)
_BLOCK = 0  # ExecuTorch numbers blocks of tensors that share bytes; here an arena is one block


@dataclass
class Planned:
    """What was planned for a graph so far: the last device, the memory id that comes next, and arenas by memory id."""

    device: tuple[bool, int, int]
    next_memory: int = 1
    arenas: dict[int, Arena] = field(default_factory=dict)


class Call:
    """The specs of a graph on one device, with lifetimes that hold for what the runtime does with bodies.

    Memory ids count from 1 on each device. `memory_in_program` is where they are in the program: the ids of one device
    follow those of the device before, as in ExecuTorch's `apply_algo`.
    """

    def __init__(
        self, alignment: int, specs: list[Any], graph: fx.GraphModule, padding: int, before: Planned | None
    ) -> None:
        self.alignment, self.specs, self.graph, self.padding = alignment, specs, graph, padding
        self.given: list[SpecGiven] = specs_given(specs)
        for spec in specs:
            spec.realign(alignment)
        devices = {(spec.device, spec.device_index) for spec in specs}
        kind, index = devices.pop() if len(devices) == 1 else _CPU
        self.device = f"{kind.name}:{index}"
        key = ((kind, index) != _CPU, kind.value, index)
        follows = before is not None and before.device < key
        self.planned = Planned(key, before.next_memory, before.arenas) if before and follows else Planned(key)
        self._first_memory = self.planned.next_memory
        self._read_bodies()

    def _read_bodies(self) -> None:
        """ExecuTorch says how many bytes bodies need. Keep them free only while bodies need them, if that is known."""
        self.reserved: list[int] = list(getattr(self.graph, "input_mem_buffer_sizes", None) or [])
        regions = regions_of(self.graph) if any(self.reserved) else []
        self.regions: list[Region] = regions if sizes_of(regions) == self.reserved else []

    def memory_in_program(self, memory: int) -> int:
        return self._first_memory + memory - 1

    def storages(self) -> dict[int, list[Storage]]:
        """What is placed, by memory id."""
        numbers = {id(spec): f"#{k}" for k, spec in enumerate(self.specs)}
        storages = storages_of(self.specs, {**numbers, **names_of(self.graph)})
        of_spec = {id(spec): storage for row in storages.values() for storage in row for spec, _ in storage.members}
        for region in reversed(self.regions):  # what a later one returns may lie in an earlier one
            for spec in region.passed_on:
                for holder in [other for other in self.regions if any(spec is result for result in other.results)]:
                    holder.last = max(holder.last, region.last)
                if id(spec) in of_spec:
                    of_spec[id(spec)].last = max(of_spec[id(spec)].last, region.last)
        return storages

    def below(self, memory: int) -> int:
        """Bytes to keep free at the bottom of a memory, for bodies of a kind that is not known here."""
        return 0 if self.regions or memory >= len(self.reserved) else self.reserved[memory]

    def inside(self, memory: int) -> list[Region]:
        """The regions that need bytes of a memory."""
        return [region for region in self.regions if region.bytes(memory)]

    def write(self, result: MemoryAlgoResult, memory: int, storages: list[Storage], offsets: list[int]) -> None:
        """Put specs where a plan of `storages`, and then of the regions, has its buffers; specs of bodies too."""
        own = {id(spec) for spec in self.specs}
        regions = self.inside(memory)
        for storage, offset in zip(storages, offsets[: len(storages)], strict=True):
            for spec, inside in storage.members:
                result.spec_dict[spec] = SpecAllocResult(memory, _BLOCK, offset + inside)
        for region, offset in zip(regions, offsets[len(storages) :], strict=True):
            for spec in placed_in(region):
                if id(spec) not in own and spec.mem_id == memory:
                    result.spec_dict[spec] = SpecAllocResult(memory, _BLOCK, offset + spec.mem_offset)
