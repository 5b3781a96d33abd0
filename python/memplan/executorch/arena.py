"""What was planned for one arena of a program, and what ExecuTorch's greedy algorithm would have made of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import SimpleNamespace
from typing import Any

from ..plans.plan import Plan
from ..sizes import with_bytes


@dataclass(frozen=True)
class PlannedArena:
    """One planned arena: a memory of a device, for a method or for a control-flow body.

    Attributes
    ----------
    method : str
        The name given to `memory_planning_pass`, or "method 1" and so on, in the order of the program.
    body : str
        The path of a control-flow body; empty for the method itself. The arena of a body lies in that of the method.
    memory : int
        The memory id, as it is in the program.
    device : str
        The device that has the memory, as "CPU:0".
    bytes : int
        The size of the arena in the program: the peak of the plan and the padding.
    padding : int
        Bytes behind the plan, which delegates such as XNNPACK may read.
    plan : Plan or None
        Where each tensor lies; None if ExecuTorch's greedy algorithm has planned instead. The buffers are tensors,
        by the names of the nodes that make them, with all that lies in them (`storage_base`), and a buffer for each
        operator with bodies ("cond: bodies"). Steps are positions of nodes.
    fallback : str
        Why the planner failed, if the greedy algorithm has planned instead.
    """

    method: str
    body: str
    memory: int
    device: str
    bytes: int
    padding: int
    plan: Plan | None
    fallback: str = ""
    _greedy: Callable[[], int] = field(default=lambda: 0, repr=False)

    @property
    def name(self) -> str:
        """Method, body and memory in words."""
        return arena_name(self.method, self.body, self.memory)

    @property
    def load(self) -> int | None:
        """Bytes of the tensors alive at the worst step: no plan has fewer. None without a plan."""
        return None if self.plan is None else self.plan.load

    @cached_property
    def greedy_bytes(self) -> int:
        """The size of this arena by ExecuTorch's greedy algorithm. It is computed when it is asked for."""
        return self._greedy()

    def __str__(self) -> str:
        peak = f"{self.name}: {with_bytes(self.bytes)}"
        return f"{peak}, by greedy" if self.plan is None else f"{peak}; {self.plan}"


def arena_name(method: str, body: str, memory: int) -> str:
    return f"{method}, {f'body {body}, ' if body else ''}memory {memory}"


class SpecGiven:
    """What the greedy algorithm reads of a spec, as it was before planning."""

    def __init__(self, spec: Any) -> None:
        self.bytes = spec.nbytes()
        self.alignment = spec.alignment
        self.lifetime = list(spec.lifetime)
        self.storage_base: SpecGiven | None = None
        self.storage_base_offset = spec.storage_base_offset
        self.mem_id = spec.mem_id

    @property
    def memory(self) -> int:
        """The memory id of what it lies in, in the end."""
        return int(self.mem_id or 1) if self.storage_base is None else self.storage_base.memory

    @property
    def allocated_memory(self) -> int:
        return int(-(-self.bytes // self.alignment) * self.alignment)

    def realign(self, alignment: int) -> int:
        self.alignment = alignment
        return self.allocated_memory


@dataclass(frozen=True)
class Given:
    """What an algorithm was given in one call; `bodies` are what it was given for the bodies in the graph."""

    alignment: int
    padding: int
    specs: Sequence[SpecGiven]
    bodies: Sequence[Given]

    def greedy_bytes(self, memory: int) -> int:
        """The size that the greedy algorithm gives to a memory, with its own arenas for bodies."""
        from executorch.exir.memory_planning import greedy

        reserved = max((body.greedy_bytes(memory) for body in self.bodies), default=0)
        graph = SimpleNamespace(input_mem_buffer_sizes=[0] * memory + [reserved])
        specs = [spec for spec in self.specs if spec.memory == memory]
        sizes = greedy(self.alignment, specs, graph, None, self.padding).bufsizes
        return max([reserved, *map(int, sizes[memory : memory + 1])])


def specs_given(specs: Sequence[Any]) -> list[SpecGiven]:
    """Copies of specs, which lie in one another as those do."""
    given = {id(spec): SpecGiven(spec) for spec in specs}
    for spec in specs:
        if spec.storage_base is not None:
            given[id(spec)].storage_base = given.get(id(spec.storage_base))
    return list(given.values())
