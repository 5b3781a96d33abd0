"""How some rows of values are computed: step by step, and nothing is kept longer than it is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from ..private import pytree
from .row_gradients import Gradients
from .row_losses import CONSUMING
from .row_values import Given, Made, Part, Scores, Value, in_order

_LEAST = 16  # rows of a piece: fewer make slow products
_SHARE = 6  # of the weights: as many numbers may a piece hold


class _At:
    """The place of a value, or of a tensor that is given, in a structure of arguments."""

    def __init__(self, place: int, is_value: bool) -> None:
        self.place, self.is_value = place, is_value


class _Call(NamedTuple):
    """A function with its arguments, taken apart. ``owned``: it may write over its first value; `unit` as of `Made`."""

    func: Callable[..., Any]
    leaves: Sequence[Any]
    nest: Any
    rank: int
    owned: bool
    unit: int


class _Step(NamedTuple):
    """A value to compute.

    ``at`` are places: of a tensor that is given; of hidden states, weight and bias; of a value and its part. Nothing
    reads the values at `ends` later.
    """

    kind: type[Value]
    at: Sequence[int]
    ends: Sequence[int]
    trained: bool
    call: _Call | None = None


class Program:
    """The steps to some values. It holds no tensors: `given` lists those that it needs.

    Attributes
    ----------
    given : list of Tensor
        Empty, once they were taken.
    rows, piece : int
        How many rows there are, and how many a piece should have.
    apart : set of int
        The places of tensors that are read by rows, and not by products alone.
    """

    def __init__(self, values: Sequence[Value]) -> None:
        order = in_order(values)
        self._places = {value: place for place, value in enumerate(order)}
        self._place_of: dict[int, int] = {}
        self.given: list[Tensor] = []
        self.places = [self._places[value] for value in values]
        last = {source: value for value in order for source in value.sources()}
        self._steps = [self._step(value, last) for value in order]
        self.rows = next(len(value.tensor) for value in order if isinstance(value, Given))
        self.apart = {
            self._tensor(source.tensor)
            for value in order
            if not isinstance(value, Scores)
            for source in value.sources()
            if isinstance(source, Given)
        }
        self.piece = self._rows_of_piece(order)
        del self._places, self._place_of

    def values(self, given: Sequence[Tensor], begin: int, end: int, gradients: Gradients | None) -> dict[int, Tensor]:
        """Rows [begin, end) of the values, by their places; autograd follows them if there are to be gradients."""
        values: dict[int, Any] = {}
        for place, step in enumerate(self._steps):
            with torch.set_grad_enabled(gradients is not None and step.trained):
                if step.call is not None:
                    values[place] = _called(step.call, values, given, begin, end, gradients)
                elif step.kind is Part:
                    values[place] = values[step.at[0]][step.at[1]]
                elif step.kind is Scores and torch.is_grad_enabled() and gradients is not None:
                    values[place] = gradients.product(step.at, begin, end)
                elif step.kind is Scores:
                    hidden, *weights = (given[at] for at in step.at)
                    values[place] = functional.linear(hidden[begin:end], *weights)
                elif gradients is not None:
                    values[place] = gradients.rows(step.at[0], begin, end)
                else:
                    values[place] = given[step.at[0]][begin:end]
            for ended in step.ends:
                del values[ended]
        return values

    def _step(self, value: Value, last: Mapping[Value, Value]) -> _Step:
        ended = [self._places[source] for source in dict.fromkeys(value.sources()) if last[source] is value]
        ends = [place for place in ended if place not in self.places]
        if isinstance(value, Given):
            return _Step(Given, (self._tensor(value.tensor),), ends, value.trained)
        if isinstance(value, Scores):
            read = [value.hidden.tensor, *value.tensors()]
            return _Step(Scores, [self._tensor(tensor) for tensor in read], ends, value.trained)
        if isinstance(value, Part):
            return _Step(Part, (self._places[value.of], value.place), ends, value.trained)
        assert isinstance(value, Made)
        leaves, nest = pytree.tree_flatten((value.args, value.kwargs))
        source = next(value.sources())
        owned = value.func in CONSUMING and self._places[source] in ends and _is_fresh(source)
        call = _Call(value.func, [self._at(leaf) for leaf in leaves], nest, value.rank, owned, value.unit)
        return _Step(Made, (), ends, value.trained, call)

    def _at(self, leaf: Any) -> Any:
        if isinstance(leaf, Value):
            return _At(self._places[leaf], True)
        return _At(self._tensor(leaf), False) if isinstance(leaf, Tensor) else leaf

    def _tensor(self, tensor: Tensor) -> int:
        """The place of a tensor among those that are given."""
        if id(tensor) not in self._place_of:
            self._place_of[id(tensor)] = len(self.given)
            self.given.append(tensor)
        return self._place_of[id(tensor)]

    def _rows_of_piece(self, order: Sequence[Value]) -> int:
        """Rows of a piece: it holds few numbers beside the weights or the hidden states, but products stay fast.

        Of each value whose rows are wide, backward may hold the numbers, and two gradients besides. If layers are
        narrow, a piece holds no more than the hidden states.
        """
        scores = [value for value in order if isinstance(value, Scores)]
        held = sum(prod(v.trail) for v in order if isinstance(v, (Scores, Made, Part)) and v.is_wide())
        for value, step in zip(order, self._steps, strict=True):
            if step.call is not None and not step.call.owned and value.reads_wide():
                held += 2 * value.widest
                break
        narrow = any(one.head.narrow for one in scores)
        most: int = 0 if narrow else sum(one.weight.numel() for one in scores) // _SHARE
        most = max(most, sum(one.hidden.tensor.numel() for one in scores))
        unit = max((value.unit for value in order if isinstance(value, Made)), default=0) or (1 if narrow else _LEAST)
        return max(unit, most // max(held, 1) // unit * unit)


def _called(
    call: _Call, values: dict[int, Any], given: Sequence[Tensor], begin: int, end: int, gradients: Gradients | None
) -> Any:
    """What a function makes of rows [begin, end)."""
    rows, front = end - begin, [1] * (call.rank - 1)

    def filled(leaf: Any) -> Any:
        if not isinstance(leaf, _At):
            return leaf
        if not leaf.is_value:
            return given[leaf.place] if gradients is None else gradients.whole(leaf.place)
        value = values[leaf.place]
        return value.reshape(*front, *value.shape) if front else value

    args, kwargs = pytree.tree_unflatten([filled(leaf) for leaf in call.leaves], call.nest)
    if call.owned:
        kwargs["owned"] = True
    if call.unit:
        kwargs["which"] = slice(begin // call.unit, end // call.unit)
    made = call.func(*args, **kwargs)
    if isinstance(made, Tensor):
        return made.reshape(rows, *made.shape[call.rank :])
    return [one.reshape(rows, *one.shape[call.rank :]) for one in made]


def _is_fresh(value: Value) -> bool:
    """Whether nothing needs the numbers of a value but what reads it: logits, and logits in another dtype."""
    if not isinstance(value, Made):
        return isinstance(value, Scores)
    [*sources] = value.sources()
    return len(sources) == 1 and isinstance(sources[0], Scores) and sources[0].dtype != value.dtype
