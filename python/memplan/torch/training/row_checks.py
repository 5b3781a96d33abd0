"""A piece of a call must run what the whole runs, with fewer rows: a step without data shows whether it does.

Operators are the same, with the same numbers. What has rows in the whole is smaller by as many, all else as large.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..private import TorchDispatchMode, schema_of
from ..reading.effects import flat_tensors
from .reads import ChangedError
from .row_draws import Part
from .row_flow import Lie, Ran

Shapes = tuple[tuple[int, ...], ...]
_NUMBERS = ("number", "float", "bool", "str", "Tensor")  # types of arguments that are no sizes
_DETACH = torch.ops.aten.detach.default  # which autograd calls, as what it keeps asks for


class Made(NamedTuple):
    """What an operator makes: shapes, and where rows lie in each; and the numbers that it is given."""

    func: Any
    shapes: Sequence[tuple[int, ...]]
    lies: Sequence[Lie | None]
    numbers: Sequence[Any]


def made_by(ops: Sequence[Ran], lie: Mapping[int, Lie]) -> Iterator[Made]:
    """What operators make, where rows lie by tensors' ids."""
    for func, args, kwargs, result in ops:
        if func is not _DETACH:
            made = list(flat_tensors(result))
            yield Made(func, shapes_of(made), [lie.get(id(one)) for one in made], _numbers(func, args, kwargs))


def shapes_of(tensors: Sequence[Tensor]) -> Shapes:
    return tuple(tuple(tensor.shape) for tensor in tensors)


class Checked(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it is on, operators must make some rows of what these have made."""

    def __init__(self, module: str, made: Sequence[Made], part: Part) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._module, self._made, self._part = module, iter(made), part

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func.namespace == "prim" or func is _DETACH:
            return result
        whole = next(self._made, None)
        if whole is None or whole.func is not func or whole.numbers != _numbers(func, args, kwargs):
            raise ChangedError(self._module, f"module '{self._module}' runs {func} otherwise on some of its rows")
        sizes = [self._part.sizes(*pair) for pair in zip(whole.shapes, whole.lies, strict=True)]
        if [list(one.shape) for one in flat_tensors(result)] != sizes:
            raise ChangedError(self._module, f"module '{self._module}': {func} does not make some rows of the whole")
        return result


def _numbers(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The arguments that are numbers, flags or names, and no sizes; also numbers in the place of tensors."""
    names, known = _arguments(func)
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    return [given.get(name) for name in known if not isinstance(given.get(name), Tensor)]


@cache
def _arguments(func: Any) -> tuple[list[str], list[str]]:
    """The names of all arguments of an operator, and of those that may be numbers."""
    arguments = schema_of(func).arguments
    known = [a.name for a in arguments if str(a.type).removeprefix("Optional[").rstrip("]") in _NUMBERS]
    return [a.name for a in arguments], known
