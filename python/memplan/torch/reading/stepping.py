"""What an optimizer's step does while it is traced: the numbers that it reads, the ops it runs, the states it makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ...errors import SourceError
from ..private import TorchDispatchMode, pytree
from .effects import LIFTS, ONES, ZEROS
from .geometry import address
from .late_numbers import LateNumber, is_lost, restored, value_of
from .recorder import GraphRecorder
from .trace import ModulePaths

_aten = torch.ops.aten
# Operators that take no data from the tensors they are given
_FILLED = {*ZEROS, *ONES, _aten.full.default, _aten.full_like.default, _aten.new_full.default}
_NUMBERS = {"value", "alpha", "beta"}  # arguments that torch reads from a tensor, where it is given one
_FROM_DATA = {torch.tensor, torch.as_tensor, torch.asarray, torch.Tensor.new_tensor}


class StepCalls(TorchFunctionMode):
    """Follows the calls that a step makes in Python.

    A number that it reads from a tensor is a `LateNumber`, and the read goes to `graph`. Ops are named by `paths`, and
    by the parameter that they belong to: `owners` has their names, by the storages of all that belongs to them.
    """

    def __init__(self, graph: GraphRecorder | None, paths: ModulePaths, owners: Mapping[int, str]) -> None:
        super().__init__()
        self._graph, self._paths, self._owners = graph, paths, owners
        self._path = "update"

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        leaves = pytree.tree_leaves((args, named))
        owner = next((name for name in map(self._owner, leaves) if name is not None), None)
        if owner is not None:
            self._path = f"update.{owner}"
        with self._paths.within(self._path):
            if func is torch.Tensor.item:
                return self._read(args[0])
            for key in _NUMBERS & named.keys():
                named[key] = self._read(named[key]) if isinstance(named[key], Tensor) else named[key]
            _check_numbers(func, leaves)
            if func is torch.Tensor.__setitem__ and isinstance(args[2], LateNumber):
                args = (*args[:2], torch.full((), args[2], dtype=args[0].dtype, device=args[0].device))
            return func(*args, **named)

    def _owner(self, leaf: Any) -> str | None:
        return self._owners.get(address(leaf)) if isinstance(leaf, Tensor) else None

    def _read(self, tensor: Tensor) -> Any:
        if self._graph is None:
            return LateNumber(_unread)
        self._graph.op(self._paths.name("item"), str(_aten._local_scalar_dense.default), [tensor], ())
        number = LateNumber(_unread, reads=(self._graph.newest_op,))
        return self._graph.number(torch.Tensor.item, ((tensor,), {}), number)


def _unread() -> Any:
    raise SourceError("a number is needed before it is read from its tensor")


def _check_numbers(func: Any, leaves: list[Any]) -> None:
    if any(map(is_lost, leaves)):
        raise SourceError("it computes with a number that is only known when it runs, in a way that is not followed")
    if func in _FROM_DATA and any(isinstance(leaf, LateNumber) for leaf in leaves):
        raise SourceError("it makes a tensor of a number that is only known when it runs")


@dataclass(frozen=True)
class Creation:
    """The call that made a state, which takes nothing but sizes from the parameter or gradient that it was given."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def make(self, parameter: Tensor) -> Tensor:
        """The state of a parameter, as it is before its first step."""

        def given(leaf: Any) -> Any:
            return parameter.detach() if isinstance(leaf, Tensor) else value_of(leaf, {})

        if self.function in LIFTS:
            data: Tensor = self.args[0]
            return data.clone()
        args, kwargs = pytree.tree_map(given, (self.args, dict(self.kwargs)))
        made: Tensor = self.function(*args, **kwargs)
        return made


class Creations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Remembers which call made which storage, if it took no data for it, and what else was called."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.others: list[Any] = []
        self._made: dict[int, tuple[Tensor, Creation]] = {}  # with a tensor, so that its address is no other's

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = pytree.tree_map(restored, (args, dict(kwargs or {})))
        if any(map(is_lost, pytree.tree_leaves(given))):  # torch has computed with it on the way
            raise SourceError(f"a number that is only known when it runs is lost on the way to {func}")
        result = func(*args, **(kwargs or {}))
        if func in _FILLED or func in LIFTS:
            self._made.setdefault(address(result), (result, Creation(func, *given)))
        elif func is not _aten.detach.default:
            self.others.append(func)
        return result

    def of(self, tensor: Tensor) -> Creation | None:
        """How a tensor can be made again before a step; None if it cannot."""
        return self._made.get(address(tensor), (None, None))[1]
