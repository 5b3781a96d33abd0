"""A piece of a call: iterations of a loop, which read rows of what is given and write rows of what is returned.

Rows keep the rank of their tensor: of axes that are taken together, all but the last have size 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from ...private import OpOverload
from ...reading.loops.calls import arguments_of


class Leaf(Protocol):
    """A tensor of a call."""

    @property
    def sizes(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> torch.dtype: ...


class Rows(NamedTuple):
    """Rows [begin, end) of axes that have `whole` of them; `asked` reaches over the ends where there is padding."""

    axes: tuple[int, int]
    begin: int
    end: int
    whole: int
    asked: tuple[int, int]

    @property
    def axis(self) -> int:
        return self.axes[1]

    @property
    def size(self) -> int:
        return self.end - self.begin

    def sizes(self, sizes: Sequence[int]) -> list[int]:
        """The shape of these rows of a tensor."""
        first, last = self.axes
        return [*sizes[:first], *[1] * (last - first), self.size, *sizes[last + 1 :]]


class Frame(NamedTuple):
    """A range of rows of a tensor, some of which are there: `present` from `skip` on, in padding."""

    axis: int
    skip: int
    present: int
    before: int
    after: int

    @classmethod
    def of(cls, rows: Rows, begin: int, end: int) -> Frame:
        """The range [begin, end) of all rows, where these are there."""
        first, last = max(begin, rows.begin), min(end, rows.end)
        if first >= last:
            return cls(rows.axis, 0, 0, end - begin, 0)
        return cls(rows.axis, first - rows.begin, last - first, first - begin, end - last)

    def padded(self, x: Tensor, value: float = 0.0) -> Tensor:
        """The range of rows of a tensor."""
        x = x.narrow(self.axis, self.skip, self.present)
        if self.before == self.after == 0:
            return x
        pads = [*[0, 0] * (x.dim() - 1 - self.axis), self.before, self.after]
        return torch.ops.aten.constant_pad_nd.default(x, pads, value)  # type: ignore[no-any-return]


class Part(NamedTuple):
    """A call that makes a piece; its tensors stand for their rows."""

    func: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


class Composed:
    """A function that calls operators of torch alone, and keeps nothing."""

    def __init__(self, function: Callable[..., Any], *bound: Any) -> None:
        self.function, self.bound = function, bound
        self.__name__ = function.__name__.lstrip("_")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*self.bound, *args, **kwargs)

    def __str__(self) -> str:
        return self.__name__

    def operators(self) -> Iterator[OpOverload]:
        """The operators that are bound, which it calls besides those of its own."""
        for bound in self.bound:
            func = bound.func if isinstance(bound, Part) else bound
            if isinstance(func, Composed):
                yield from func.operators()
            elif isinstance(func, OpOverload):
                yield func


class Piece:
    """Iterations [first, end) of a call.

    Attributes
    ----------
    reads : mapping
        The rows that are read of tensors given; what is not there is read whole.
    results : sequence
        What the call returns, with None for what it leaves out.
    writes : sequence
        For each of these the rows that are written; None if iterations add to it, or if it is made early.
    early : sequence
        Results that are made already.
    statistics
        The tensor of statistics, of all rows or, where they are made, of those before; None if there is none.
    """

    def __init__(
        self,
        call: Part,
        reads: Mapping[Any, Rows],
        results: Sequence[Leaf | None],
        writes: Sequence[Rows | None],
        iterations: tuple[int, int],
        extent: int,
        early: Sequence[Any] = (),
        statistics: Any = None,
    ) -> None:
        self.call, self.reads, self.results, self.writes = call, reads, results, writes
        self.first, self.end = iterations
        self.extent, self.early, self.statistics = extent, early, statistics
        names, defaults = arguments_of(call.func)
        self._names = names
        self._values = {**defaults, **dict(zip(names, call.args, strict=False)), **call.kwargs}

    def __getitem__(self, name: str) -> Any:
        """The value of an argument, its default if it is not given; None if there is no such argument."""
        return self._values.get(name)

    def read(self, name: str) -> Rows | None:
        """The rows that are read of an argument."""
        leaf = self[name]
        return None if leaf is None else self.reads.get(leaf)

    def made(self, place: int = 0) -> Rows | None:
        """The rows that are written of a result."""
        return self.writes[place]

    def sizes(self, place: int = 0) -> list[int]:
        """The shape of what is made of a result."""
        leaf, rows = self.results[place], self.writes[place]
        assert leaf is not None
        return list(leaf.sizes) if rows is None else rows.sizes(leaf.sizes)

    def rows(self, name: str, axis: int) -> Rows:
        """The rows of an axis of an argument that are read; all if it is read whole."""
        whole = int(self[name].sizes[axis])
        return self.read(name) or Rows((axis, axis), 0, whole, whole, (0, whole))

    def part(self, func: Callable[..., Any] | None = None, /, **changed: Any) -> Part:
        """The call, with other arguments."""
        place = {name: k for k, name in enumerate(self._names)}
        args, kwargs = list(self.call.args), dict(self.call.kwargs)
        for name, value in changed.items():
            if place[name] < len(args):
                args[place[name]] = value
            else:
                kwargs[name] = value
        return Part(func or self.call.func, tuple(args), kwargs)

    def after(self, function: Callable[..., Any], /, *bound: Any, **changed: Any) -> Part:
        """The call with other arguments, by a function of what is bound and the operator."""
        return self.part(Composed(function, *bound, self.call.func), **changed)


def rows_read(
    axes: tuple[int, int], numbers: Sequence[int | Fraction], iterations: tuple[int, int], sizes: Sequence[int]
) -> Rows:
    """Rows of an input that iterations read, by their step, window and how far they begin before."""
    step, window, before = numbers
    begin = math.floor(iterations[0] * step - before)
    end = math.ceil((iterations[1] - 1) * step - before + window)
    whole = math.prod(sizes[axes[0] : axes[1] + 1])
    low, high = (min(max(row, 0), whole) for row in (begin, end))
    return Rows(axes, low, max(low, high), whole, (begin, end))


def rows_written(axes: tuple[int, int], step: int, iterations: tuple[int, int], sizes: Sequence[int]) -> Rows:
    """Rows of an output that iterations write."""
    whole = math.prod(sizes[axes[0] : axes[1] + 1])
    begin, end = min(iterations[0] * step, whole), min(iterations[1] * step, whole)
    return Rows(axes, begin, end, whole, (begin, end))
