"""ExecuTorch's memory planning pass, with memplan as its algorithm."""

from __future__ import annotations

import re
from collections.abc import Callable
from os import PathLike
from typing import Any

from executorch.exir import memory
from executorch.exir.memory_planning import (
    MemoryPlanningAlgorithmSuite,
    _get_mutable_buffer_specs,
    collect_specs_from_nodes,
    get_node_tensor_specs,
)
from executorch.exir.pass_base import PassResult
from executorch.exir.passes.memory_planning_pass import MemoryPlanningPass
from torch import fx

from ..files import write_text
from ..plans.plan import Plan
from .algorithm import Algorithm
from .arena import PlannedArena
from .program_order import Order


class MemoryPass(MemoryPlanningPass):  # type: ignore[misc]
    """ExecuTorch's pass for one program at a time. It says what it has planned when the program is made."""

    def __init__(
        self,
        algorithm: Algorithm,
        memory_of: Callable[[fx.Node], int | None] | None = None,
        order: str = "given",
        **options: Any,
    ):
        super().__init__(memory_planning_algo=MemoryPlanningAlgorithmSuite([algorithm]), **options)
        self.algorithm = algorithm
        if self.share_mutable_buffers:  # memory 2 is that of the state
            algorithm.keep_memories()
        self._memory_of = memory_of
        self._order = order
        self._signature: Any = None
        self.state: Any  # of ExecuTorch: the buffers that methods share
        self._ended = False
        self._shared_bytes = 0

    @property
    def arenas(self) -> list[PlannedArena]:
        """What was planned for the last program, in the order of planning: bodies before the graph around them."""
        return self.algorithm.arenas

    @property
    def plans(self) -> list[Plan]:
        """The plans of all `arenas` that have one."""
        return self.algorithm.plans

    def run(self, graph_module: fx.GraphModule, graph_signature: Any = None) -> PassResult:
        """Plan a method."""
        if self._ended:
            self.algorithm.clear()
            self.state = type(self.state)()
            self._ended, self._shared_bytes = False, 0
        if self._memory_of is not None:
            _choose_memories(graph_module, self._memory_of)
        self._signature = graph_signature
        with self.algorithm.method(graph_module):
            return super().run(graph_module, graph_signature)

    def _set_alloc_node_spec(self, graph_module: fx.GraphModule) -> None:
        """ExecuTorch's, after which all nodes have their specs; it has not looked at lifetimes yet."""
        super()._set_alloc_node_spec(graph_module)
        if self._order != "given":
            _reorder(graph_module, self._order, self, self._signature)

    def run_multimethod(self) -> None:
        """Place what methods share; called after the last of them."""
        self._ended = True
        super().run_multimethod()
        if self.share_mutable_buffers and self.state.graph_modules:
            size = self.state.graph_modules[0].meta["non_const_buffer_sizes"][2]
            self.algorithm.check("shared buffers, memory 2", 2, size)
            self._shared_bytes = size

    def to_header(self, path: str | PathLike[str]) -> None:
        """Write a C header that defines the bytes of each arena, for the static buffers of a program without a heap.

        Names are of the form ``PUT_MEMORY_1_BYTES``. Arenas of bodies lie in those of methods, and are left out. All
        begin at multiples of ``PLANNED_ALIGNMENT``.
        """
        sizes = {f"{arena.method} memory {arena.memory}": arena.bytes for arena in self.arenas if not arena.body}
        if self._shared_bytes:
            sizes["shared memory 2"] = self._shared_bytes
        lines = [f"#define {re.sub('[^A-Z0-9]+', '_', name.upper())}_BYTES {size}" for name, size in sizes.items()]
        text = ["#pragma once", f"#define PLANNED_ALIGNMENT {self.alignment}", *lines]
        write_text(path, "\n".join(text) + "\n")


def _reorder(graph: fx.GraphModule, order: str, options: MemoryPlanningPass, signature: Any) -> int:
    """Put the nodes of a graph and of its bodies into an order; the bytes that it holds then."""
    bodies = {name: body for name, body in graph.named_children() if isinstance(body, fx.GraphModule)}
    inner = {name: _reorder(body, order, options, None) for name, body in bodies.items()}
    own = signature is not None
    placed = collect_specs_from_nodes(
        graph.graph.nodes,
        signature,
        do_assertion=False,
        ignore_graph_input=own and not options.alloc_graph_input,
        ignore_graph_output=own and not options.alloc_graph_output,
        ignore_mutable_buffers=options.share_mutable_buffers or not options.alloc_mutable_buffers,
    )
    state = _get_mutable_buffer_specs(graph.graph.nodes, signature)
    return Order(graph, list(placed), state, options.alignment, inner).improve(order)


def _choose_memories(graph: fx.GraphModule, memory_of: Callable[[fx.Node], int | None]) -> None:
    """Put what nodes make into the memories that are chosen for them. What `memory_of` has no choice for stays."""
    for module in graph.modules():
        for node in module.graph.nodes if isinstance(module, fx.GraphModule) else ():
            if node.op not in ("placeholder", "call_function") or node.target in (memory.alloc, memory.view):
                continue
            chosen = memory_of(node)
            for spec in get_node_tensor_specs(node) if chosen is not None else ():
                spec.mem_id = chosen
