"""Modules whose rows are independent: each row of what they return is made of the same row of what they are given.

A step without data says which operators a call of a module runs, and the loops of operators say which rows they read
and write. Rows are followed from the argument to the result. They lie along the first axis, or along all axes but the
last, taken together: the samples of a batch, or its tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from ..private import TorchDispatchMode, overload_name_of, schema_of
from ..reading.effects import draws, flat_tensors
from ..reading.loops import loops_of

Axes = tuple[int, int]
_LOSS_OF_CLASSES = torch.ops.aten.nll_loss_forward.default


@dataclass
class NotedCall:
    """A call of a module in forward: its operators [first, last), what it is given and what it returns."""

    name: str
    module: torch.nn.Module
    first: int
    given: Any
    last: int = -1
    result: Any = None


class Ran(NamedTuple):
    """An operator that ran."""

    func: Any
    args: Any
    kwargs: Any
    result: Any


class Noted(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes what a forward runs while it is on: operators, and calls of the modules of a model."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[NotedCall] = []
        self.ops: list[Ran] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.namespace != "prim":  # which asks what a tensor is
            self.ops.append(Ran(func, args, kwargs or {}, result))
        return result

    @contextmanager
    def noting(self, model: torch.nn.Module) -> Iterator[None]:
        """Meanwhile, what a model runs is noted."""
        names = {id(part): name for name, part in model.named_modules()}
        waiting: list[NotedCall] = []

        def begin(part: torch.nn.Module, given: Any) -> None:
            if id(part) in names:
                self.calls.append(NotedCall(names[id(part)], part, len(self.ops), given))
                waiting.append(self.calls[-1])

        def finish(part: torch.nn.Module, _: Any, result: Any) -> None:
            if waiting and waiting[-1].module is part:
                call = waiting.pop()
                call.last, call.result = len(self.ops), result

        hooks = [register_module_forward_pre_hook(begin), register_module_forward_hook(finish)]
        try:
            with self:
                yield
        finally:
            for hook in hooks:
                hook.remove()

    def independent(self) -> dict[str, Axes]:
        """The modules whose rows are independent in each call, with the axes along which they lie."""
        found: dict[str, Axes | None] = {}
        for call in self.calls:
            axes = self.rows(call)
            found[call.name] = axes if found.get(call.name, axes) == axes else None
        return {name: axes for name, axes in found.items() if axes is not None and name}

    def drawing(self) -> list[str]:
        """The innermost modules that draw random numbers, in the order of forward; "" is the whole model."""
        found: dict[str, None] = {}
        for at in (at for at, ran in enumerate(self.ops) if draws(ran.func, ran.args, ran.kwargs)):
            around = [call for call in self.calls if call.first <= at < call.last]
            found.update({call.name: None for call in around[-1:]})
        return list(found)

    def rows(self, call: NotedCall) -> Axes | None:
        """The axes of its one argument along which the rows of a call are independent; None if they are not."""
        if len(call.given) != 1 or not isinstance(call.given[0], Tensor) or not isinstance(call.result, Tensor):
            return None
        x, result = call.given[0], call.result
        if not x.is_floating_point() or x.dim() < 2 or result is x:
            return None
        ops = self.ops[call.first : call.last]
        for axes in dict.fromkeys([(0, x.dim() - 2), (0, 0)]):
            lead = x.shape[: axes[1] + 1]
            if prod(lead) > 1 and result.shape[: axes[1] + 1] == lead:
                lie = kept_apart(ops, {id(x): trimmed(x, axes)})
                if lie is not None and lie.get(id(result)) == trimmed(result, axes):
                    return axes
        return None


def kept_apart(ops: Sequence[Ran], lie: dict[int, Axes]) -> dict[int, Axes] | None:
    """Where rows lie, by tensors' ids, after operators: ``lie`` says where before. None if rows become mixed."""
    lie = dict(lie)
    for func, args, kwargs, made in ops:
        given = list(flat_tensors([args, kwargs]))
        if not any(id(tensor) in lie for tensor in given):
            if draws(func, args, kwargs) or schema_of(func).is_mutable:
                return None
            continue
        rows = _rows_made(func, args, kwargs, made, lie)
        if rows is None:
            return None
        lie.update(rows)
    return lie


def _rows_made(func: Any, args: Any, kwargs: Any, made: Any, lie: dict[int, Axes]) -> dict[int, Axes] | None:
    """Where rows lie in what an operator makes of them; None if it does not keep them apart."""
    if schema_of(func).is_mutable:
        func = _pure(func)
    if func is None or draws(func, args, kwargs):
        return None
    for loop in loops_of(func, args, kwargs, made):
        read = [(lie.get(id(tensor)), rows) for tensor, rows in loop.inputs]
        alike = all(rows is None if at is None else rows is not None and rows == (at, 1, 1, 0) for at, rows in read)
        early = loop.early and func is not _LOSS_OF_CLASSES  # of which each row has its own, or none
        if (
            alike
            and not (loop.sums or early or loop.statistics)
            and all(written.step == 1 for _, written in loop.writes)
        ):
            return {id(tensor): written.axes for tensor, written in loop.writes}
    return None


def _pure(func: Any) -> Any:
    """The operator that computes what one in place writes over its first argument; None if there is none."""
    namespace, _, name = schema_of(func).name.partition("::")
    if not name.endswith("_") or sum(one.is_write for one in _writes(func)) != 1:
        return None
    packet = getattr(getattr(torch.ops, namespace), name[:-1], None)
    return getattr(packet, overload_name_of(func), None)


def _writes(func: Any) -> list[Any]:
    return [argument.alias_info for argument in schema_of(func).arguments if argument.alias_info is not None]


def trimmed(tensor: Tensor, axes: Axes) -> Axes:
    """The axes without those of size 1 at both ends, as loops name them."""
    long = [axis for axis in range(axes[0], axes[1] + 1) if tensor.shape[axis] != 1]
    return (long[0], long[-1]) if long else axes
