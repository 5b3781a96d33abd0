"""Overloads of torch's operators that write into what they are given: they write there, and nowhere else."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from builders.running import random_plan
from builders.torch_effects import call_of, overloads
from builders.torch_nets import Net
from builders.torch_running import planned, same
from memplan.running.plans import program_of
from memplan.torch.running.kernels import out_overload


def has_reduction(func: Any) -> bool:
    return any(argument.name == "reduction" for argument in func._schema.arguments)


def test_a_loss_writes_nothing_behind_its_place() -> None:
    """Some overloads first make what they are given as large as their input, by its strides."""
    tried = 0
    for func in filter(has_reduction, overloads()):
        out = out_overload(func, "cpu")
        names = [] if out is None else [argument.name for argument in out._schema.arguments if argument.is_out]
        try:
            args, kwargs = call_of(func, torch.float32)
            expected = func(*args, **kwargs)
        except (IndexError, KeyError, RuntimeError):  # it takes others
            continue
        if out is None or len(names) != 1:
            continue
        tried += 1
        whole = torch.empty(100 + expected.numel())
        place = whole[100:].view(expected.shape)
        out(*args, **kwargs, **{names[0]: place})
        assert torch.equal(place, expected), func
        assert whole.untyped_storage().nbytes() == 4 * whole.numel(), func
    assert tried > 3


def test_a_loss_between_other_tensors() -> None:
    def compute(net: Net, x: Tensor) -> Any:
        y = x.sigmoid()
        return nn.functional.binary_cross_entropy(y, torch.ones_like(y)) * 2, y * 3, y.exp()

    module, x = Net(compute), torch.randn(4, 4)
    plan = planned(module, x)
    program = program_of(plan)
    for seed in range(5):
        run = program.bind(random_plan(plan, seed)).run((x,), {}, check=True)
        assert same(run.outputs, module(x))
