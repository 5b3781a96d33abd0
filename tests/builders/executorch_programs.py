"""Programs of ExecuTorch, and what runs them."""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge
from executorch.runtime import Runtime, Verification
from torch import Tensor, nn

Args = tuple[Any, ...]


def program_of(models: nn.Module | Mapping[str, Any], memory: Any, **config: Any) -> Any:
    """The program of a model, or of exported methods by name, planned by a pass."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=FutureWarning)
        edge = copy.deepcopy(lowered_once(tuple(models.items()) if isinstance(models, Mapping) else models))
        return edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=memory, **config))


@functools.cache
def lowered_once(models: Any) -> Any:
    """A model, or pairs of names and methods. It takes most of the time of a program; passes of memory get a copy."""
    methods = dict(models) if isinstance(models, tuple) else models
    return to_edge(methods, compile_config=EdgeCompileConfig(_check_ir_validity=False))


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


@functools.cache
def widths() -> tuple[Any, Args]:
    torch.manual_seed(0)
    inputs = (torch.randn(1, 3, 16, 16),)
    return torch.export.export(Widths().eval(), inputs), inputs


def sizes(program: Any) -> list[list[int]]:
    """The bytes of the arenas of each method."""
    return [method.non_const_buffer_sizes for method in program.executorch_program.execution_plan]
