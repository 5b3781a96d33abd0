"""Programs of ExecuTorch inside memplan's plans: lowered, run by its runtime, and held against its own plans."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import pytest

import memplan

pytest.importorskip("torch")
pytest.importorskip("executorch")

import torch
from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge
from executorch.exir.passes import MemoryPlanningPass
from executorch.runtime import Runtime, Verification
from torch import Tensor, nn

memory_planning_pass = memplan.run.executorch.memory_planning_pass
Args = tuple[Any, ...]


def program_of(models: nn.Module | Mapping[str, Any], memory: Any, dynamic: Any = None, **config: Any) -> Any:
    """The program of a model, or of exported methods by name, planned by a pass."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        edge = to_edge(models, compile_config=EdgeCompileConfig(_check_ir_validity=False))
        return edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=memory, **config))


def runs(program: Any, *inputs: Args, method: str = "forward") -> list[list[Tensor]]:
    """What a method returns, run by run, on a memory of its own."""
    loaded = Runtime.get().load_program(program.buffer, verification=Verification.Minimal).load_method(method)
    return [[out.clone() for out in loaded.execute(args)] for args in inputs]


class Widths(nn.Module):
    """Convolutions of widths that the greedy algorithm does not put together well."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.wider = nn.Conv2d(3, 12, 3, padding=1), nn.Conv2d(8, 14, 3, padding=1)
        self.left, self.right = nn.Conv2d(12, 8, 3, padding=1), nn.Conv2d(12, 8, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.wide(x)
        left, right = self.left(y), self.right(y)
        return left.mean((2, 3)).sum() + self.wider(right).mean((2, 3))


def widths() -> tuple[Any, Args]:
    torch.manual_seed(0)
    inputs = (torch.randn(1, 3, 16, 16),)
    return torch.export.export(Widths().eval(), inputs), inputs


def exported(model: Callable[..., Any], *inputs: Tensor, **options: Any) -> Any:
    class Model(nn.Module):
        def forward(self, *args: Tensor) -> Any:
            return model(*args)

    return torch.export.export(Model().eval(), inputs, **options)


def test_a_program_runs_inside_the_plan_as_it_does_inside_executorchs() -> None:
    model, inputs = widths()
    memory = memory_planning_pass()
    ours, theirs = program_of(model, memory), program_of(model, MemoryPlanningPass())
    assert torch.equal(runs(ours, inputs)[0][0], runs(theirs, inputs)[0][0])
    (arena,) = memory.arenas
    (plan,) = memory.plans
    sizes = [program.executorch_program.execution_plan[0].non_const_buffer_sizes for program in (ours, theirs)]
    assert sizes == [[0, arena.bytes], [0, arena.greedy_bytes]]
    assert arena.bytes == plan.peak == plan.load == arena.load < arena.greedy_bytes
    assert plan["aten_convolution_default_1"].bytes == 8 * 16 * 16 * 4
    assert str(arena).startswith(f"method 1, memory 1: {arena.bytes:,} bytes; peak")
    assert "1 arenas" in repr(memory.algorithm)


@pytest.mark.parametrize("allocated", [(True, False), (False, True), (False, False)])
def test_inputs_and_outputs_are_placed_only_if_asked_for(allocated: tuple[bool, bool]) -> None:
    model, inputs = widths()
    memory = memory_planning_pass(alloc_graph_input=allocated[0], alloc_graph_output=allocated[1])
    program = program_of(model, memory)
    expected = widths()[0].module()(*inputs)
    torch.testing.assert_close(runs(program, inputs)[0][0], expected)
    assert ("x" in memory.plans[0]) == allocated[0]
    assert ("aten_add_tensor" in memory.plans[0]) == allocated[1]
