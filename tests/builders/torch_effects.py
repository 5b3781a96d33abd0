"""Programs of torch that write to what others read."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn


def overloads() -> Iterator[Any]:
    """The operators of aten."""
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        if name.startswith("aten::"):
            base, _, overload = name.removeprefix("aten::").partition(".")
            try:
                yield getattr(getattr(torch.ops.aten, base), overload or "default")
            except (AttributeError, RuntimeError):  # of TorchScript only
                continue


def value_for(argument: Any, dtype: torch.dtype) -> Any:
    """Something to give for an argument; KeyError if its type has none."""
    if argument.name in ("index", "indices"):
        return torch.zeros(4, 4, dtype=torch.int64)
    kind = str(argument.type).removeprefix("Optional[").rstrip("]")
    tensor = torch.ones(4, 4, dtype=dtype)
    kinds = {"Tensor": tensor, "List[Tensor": [tensor], "int": 1, "number": 1, "float": 0.5, "bool": True}
    kinds |= {"List[int": [4, 4], "List[number": [1], "List[float": [0.5], "List[bool": [True]}
    return kinds[kind]


def call_of(func: Any, dtype: torch.dtype) -> tuple[list[Any], dict[str, Any]]:
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for argument in func._schema.arguments:
        written = argument.alias_info is not None and argument.alias_info.is_write
        if argument.kwarg_only and (written or not argument.has_default_value()):
            kwargs[argument.name] = value_for(argument, dtype)
        elif not argument.kwarg_only:
            given = written or not argument.has_default_value()
            args.append(value_for(argument, dtype) if given else argument.default_value)
    return args, kwargs


def random_program(seed: int) -> Any:
    """A function of two tensors that reads, writes and looks at them through views, and draws random numbers."""
    rng = random.Random(seed)
    steps = [(rng.randrange(9), rng.randrange(99), rng.randrange(99), rng.randrange(4)) for _ in range(14)]

    def run(x: Tensor, y: Tensor) -> list[Tensor]:
        values = [x, y, x.clone()]
        for kind, first, second, at in steps:
            a, b = values[first % len(values)], values[second % len(values)]
            if kind == 0:
                values.append(a + b.sum())
            elif kind == 1:
                values.append(a[:])
                values.append(a.t())
            elif kind == 2:
                a[at].add_(b.mean())
            elif kind == 3:
                a[:, at].copy_(b[at] * 2)
            elif kind == 4:
                torch._foreach_mul_([a[0], b[1]], 0.5)
            elif kind == 5:
                torch.add(b, 1.0, out=(out := torch.empty(4, 4)))
                values.append(out)
            elif kind == 6:
                a[at].uniform_()
            elif kind == 7:
                values.append(torch.rand(4, 4))
            else:
                values.append(a.index_put_((torch.tensor([at]),), b[at].clone()).view(4, 4))
        return [value.clone() for value in values]

    return run


class Norms(nn.Module):
    """Running statistics, dropout in place, and a buffer that counts."""

    def __init__(self) -> None:
        super().__init__()
        self.bn, self.drop = nn.BatchNorm1d(4), nn.Dropout(0.5, inplace=True)
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        before, drift = self.bn.running_mean * 2, self.bn.running_var + y.sum()
        a = self.drop(self.bn(x))
        between = self.bn.running_mean + self.seen
        self.seen.add_(a.sum(0))
        b = self.drop(self.bn(y).relu_())
        return before, drift, a, between, b, self.bn.running_var.clone(), self.seen * 1


ARGS = (torch.arange(16.0).reshape(4, 4), torch.linspace(-1, 1, 16).reshape(4, 4))
