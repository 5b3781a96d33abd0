"""What rules say of a call of an operator: its loops, by the tensors that it is given and returns.

Iteration i of a loop reads rows [i * step - before, i * step - before + window) of an input, rounded outwards, and
writes rows [i * step, (i + 1) * step) of an output, both as far as they exist. Rows lie along an axis, or along
consecutive axes that are taken together. An input that is not listed is read whole.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple, TypeAlias

from torch import Tensor

from ...private import schema_of

Axes = tuple[int, int]  # the first and the last
Number: TypeAlias = int | Fraction
Slot: TypeAlias = str | tuple[str, int]  # an argument by its name in the schema, or one of a list of tensors


_MOST = 2**31  # iterations, and rows of each number


class Rows(NamedTuple):
    """Rows of an input."""

    axes: Axes
    step: Number = 1
    window: Number = 1
    before: Number = 0


class Written(NamedTuple):
    """Rows of an output."""

    axes: Axes
    step: int = 1


class Statistics(NamedTuple):
    """Numbers over all rows of some inputs, which every iteration needs."""

    inputs: Sequence[Tensor]
    nbytes: int


class Loop(NamedTuple):
    """All tensors given, in order, with the rows that are read (None: all); and each returned in one of three ways."""

    extent: int
    inputs: Sequence[tuple[Tensor, Rows | None]]
    writes: Sequence[tuple[Tensor, Written]]
    sums: Sequence[Tensor]
    early: Sequence[tuple[Tensor, Sequence[Tensor]]]
    statistics: Statistics | None = None


class Call:
    """A call of an operator, its arguments by the names of its schema; `results` may hold None for what is left out."""

    def __init__(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> None:
        names, defaults = arguments_of(func)
        self._values = {**defaults, **dict(zip(names, args, strict=False)), **kwargs}
        self._at: dict[Slot, int] = {}
        self.inputs: list[Tensor] = []
        for name, value in [*zip(names, args, strict=False), *kwargs.items()]:
            for slot, tensor in _slots(name, value):
                self._at[slot] = len(self.inputs)
                self.inputs.append(tensor)
        self.results = list(result) if isinstance(result, (list, tuple)) else [result]
        self.outputs = [output for output in self.results if isinstance(output, Tensor)]

    def __getitem__(self, name: str) -> Any:
        """The value of an argument, its default if it is not given; None if the operator has no such argument."""
        return self._values.get(name)

    def slots(self) -> Iterator[tuple[Slot, Tensor]]:
        """All tensors given."""
        return ((slot, self.inputs[at]) for slot, at in self._at.items())

    def tensor(self, slot: Slot) -> Tensor | None:
        """The tensor that is given; None if there is none."""
        return self.inputs[self._at[slot]] if slot in self._at else None

    def loop(
        self,
        extent: int,
        reads: Mapping[Any, Rows],
        writes: Mapping[int, Written],
        sums: Sequence[int] = (),
        early: Mapping[int, Sequence[Slot]] | None = None,
        statistics: tuple[Sequence[Slot], int] | None = None,
    ) -> Iterator[Loop]:
        """The loop, of inputs by their slots and outputs by their places in the result; nothing if it cannot be said.

        That is so for more iterations or rows than the core counts.

        An output without elements is made early. Inputs that are not given are passed over. `statistics` are numbers of
        8 bytes, and the inputs that they are of; early outputs need them.
        """
        longest: Number = max([extent, *(one.step for one in writes.values())])
        for rows in reads.values():
            longest = max(longest, rows.step, rows.window, rows.before, -rows.before)
        if extent < 2 or longest > _MOST:
            return
        read = dict[int, Rows]()
        for slot, rows in reads.items():
            tensor = self.tensor(slot)
            if tensor is None:
                continue
            axes = trimmed(tensor, rows.axes)
            if axes is not None and is_even(tensor, axes):
                read[self._at[slot]] = rows._replace(axes=axes)
        written, added, first = list[tuple[Tensor, Written]](), list[Tensor](), list[tuple[Tensor, list[Tensor]]]()
        for place, output in enumerate(self.results):
            if not isinstance(output, Tensor):
                continue
            if place in writes:
                axes = trimmed(output, writes[place].axes)
                if axes is None or not is_even(output, axes) or shows_again(output, axes):
                    return
                written.append((output, writes[place]._replace(axes=axes)))
            elif place in sums:
                added.append(output)
            elif output.numel() == 0 or (early and place in early):
                slots = early[place] if early and place in early else ()
                first.append((output, [self.inputs[self._at[slot]] for slot in slots if slot in self._at]))
            else:
                return
        inputs = [(tensor, read.get(at)) for at, tensor in enumerate(self.inputs)]
        counted = None
        if statistics is not None:
            slots, numbers = statistics
            counted = Statistics([self.inputs[self._at[slot]] for slot in slots], 8 * numbers)
            if not any(self._at[slot] in read for slot in slots):
                return
        yield Loop(extent, inputs, written, added, first, counted)


def trimmed(tensor: Tensor, axes: Axes) -> Axes | None:
    """The axes without those of size 1 at both ends, so that rows have one name; None if there is no other."""
    long = [axis for axis in range(axes[0], axes[1] + 1) if tensor.shape[axis] != 1]
    return (long[0], long[-1]) if long else None


def is_even(tensor: Tensor, axes: Axes) -> bool:
    """Whether rows of axes that are taken together lie evenly: one step in memory from each to the next."""
    long = [axis for axis in range(axes[0], axes[1] + 1) if tensor.shape[axis] != 1]
    pairs = itertools.pairwise(long)
    return all(tensor.stride(a) == tensor.stride(b) * tensor.shape[b] for a, b in pairs)


def shows_again(tensor: Tensor, axes: Axes | None = None) -> bool:
    """Whether several elements of a tensor are the same bytes; `axes`: those of its rows."""
    first, last = axes or (0, tensor.dim() - 1)
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return any(stride == 0 and size > 1 for size, stride in [*pairs][first : last + 1])


def _slots(name: str, value: Any) -> Iterator[tuple[Slot, Tensor]]:
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, (list, tuple)):
        for place, item in enumerate(value):
            if isinstance(item, Tensor):
                yield (name, place), item


@cache
def arguments_of(func: Any) -> tuple[list[str], dict[str, Any]]:
    """The names of the arguments of an operator, and what those are that need not be given."""
    arguments = schema_of(func).arguments
    defaults = {a.name: a.default_value for a in arguments if a.has_default_value()}
    return [a.name for a in arguments], defaults
