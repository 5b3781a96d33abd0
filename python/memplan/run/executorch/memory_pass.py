"""ExecuTorch's memory planning pass, with memplan as its algorithm."""

from __future__ import annotations

from typing import Any

from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite
from executorch.exir.pass_base import PassResult
from executorch.exir.passes.memory_planning_pass import MemoryPlanningPass
from torch import fx

from ...facts.plan import Plan
from .algorithm import Algorithm
from .arena import Arena


class MemoryPass(MemoryPlanningPass):  # type: ignore[misc]
    """ExecuTorch's pass for one program at a time. It says what it has planned when the program is made."""

    def __init__(self, algorithm: Algorithm, **options: Any) -> None:
        super().__init__(memory_planning_algo=MemoryPlanningAlgorithmSuite([algorithm]), **options)
        self.algorithm = algorithm
        self.state: Any  # of ExecuTorch: the buffers that methods share
        self._ended = False

    @property
    def arenas(self) -> list[Arena]:
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
            self._ended = False
        with self.algorithm.method(graph_module):
            return super().run(graph_module, graph_signature)

    def run_multimethod(self) -> None:
        """Place what methods share; called after the last of them."""
        self._ended = True
        super().run_multimethod()
        if self.share_mutable_buffers and self.state.graph_modules:
            size = self.state.graph_modules[0].meta["non_const_buffer_sizes"][2]
            self.algorithm.check("shared buffers, memory 2", 2, size)
