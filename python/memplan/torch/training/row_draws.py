"""Random numbers of modules in pieces: drawn whole, when the first piece asks for them, and read by rows.

So every row gets the numbers that it gets where the module runs as a whole, and the generator ends in the same state.
Numbers are kept until all pieces have run, and drawn again in the backward pass. Those that are 0 or 1, as masks of
dropout are, are kept as bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..private import TorchDispatchMode
from ..reading.effects import draws
from .reads import ChangedError
from .row_flow import Asked, Draw, Lie, Ran, asked


class Part(NamedTuple):
    """Rows [begin, begin + size) of `rows`, along an axis."""

    begin: int
    size: int
    rows: int
    axis: int

    def axis_of(self, lie: Lie) -> int:
        """The axis along which these rows lie in a tensor."""
        return lie.axes[0] if lie.axes[0] == lie.axes[1] else self.axis

    def sizes(self, whole: Sequence[int], lie: Lie | None) -> list[int]:
        """The shape of these rows of a tensor."""
        sizes = list(whole)
        if lie is not None:
            sizes[self.axis_of(lie)] = sizes[self.axis_of(lie)] // self.rows * self.size
        return sizes


class Draws:
    """What a call of a module draws: ``draws`` are those of the whole, in order."""

    def __init__(self, module: str, draws: Sequence[Draw], pieces: int) -> None:
        self.module, self.draws = module, draws
        self._first = torch.get_rng_state()
        self._pieces = pieces
        self._begin()

    def _begin(self) -> None:
        self._wholes: list[Tensor] = []
        self._state, self._left = self._first, self._pieces

    def drawn(self, place: int, numbers: Asked, part: Part) -> Tensor:
        """Numbers of some rows, which are asked for."""
        if place >= len(self.draws):
            raise self.other()
        lie, order = self.draws[place]
        shape = list(numbers.shape)
        axis = 0 if lie is None else part.axis_of(lie)
        if lie is not None:
            if shape[axis] % part.size:
                raise self.other()
            shape[axis] = shape[axis] // part.size * part.rows
        if place == len(self._wholes):
            torch.set_rng_state(self._state)
            self._wholes.append(numbers.drawn(shape, order))
            self._state = torch.get_rng_state()
        whole = self._wholes[place]
        if list(whole.shape) != shape:
            raise self.other()
        if lie is None:
            return whole
        if lie.times == 1:
            step = shape[axis] // part.rows
            return whole.narrow(axis, part.begin * step, part.size * step)
        apart = whole.view(*shape[:axis], -1, part.rows, *shape[axis + 1 :])
        return apart.narrow(axis + 1, part.begin, part.size).flatten(axis, axis + 1)

    def other(self) -> ChangedError:
        """The error where a piece draws otherwise than the whole did."""
        problem = "draws other random numbers in a piece than in the step without data, which ran it as a whole"
        return ChangedError(self.module, f"module '{self.module}' {problem}")

    def ended(self) -> None:
        """A piece has run; after the last, nothing is kept."""
        self._left -= 1
        if self._left == 0:
            self._begin()


class OfRows(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it is on, random numbers are those of some rows."""

    def __init__(self, draws: Draws, part: Part) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._draws, self._part, self._count = draws, part, 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        numbers = asked(Ran(func, args, kwargs, None))
        if numbers is None:
            if draws(func, args, kwargs):
                raise self._draws.other()
            return func(*args, **kwargs)
        place, self._count = self._count, self._count + 1
        drawn = self._draws.drawn(place, numbers, self._part)
        return drawn.clone() if numbers.over is None else numbers.over.copy_(drawn)
