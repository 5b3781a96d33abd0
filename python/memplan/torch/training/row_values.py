"""Values that rows have, each computed of the same row of others: a graph of functions that work by rows.

Rows are samples or tokens: all axes of a tensor but its last ones, taken together. A function works by rows if the
loops of the operators that it runs say so: it is tried on tensors without data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice, product
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from ..private import disable_current_modes, pytree, version_of
from ..reading.effects import mutated
from .row_flow import Lie, Ran, followed
from .rows import Noted

_TRIED = 16  # ways to take the tensors of a call
_FEW = 8  # numbers of a row are few if they are not more than this share of the widest row
_PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "dot", "matmul", "linear"}
_PASSES = {"_to_copy", "alias", "clone", "detach", "expand", "unsqueeze", "view"}  # with operators of single numbers


class Value:
    """What each row has: numbers of shape `trail`. ``trained``: they have gradients."""

    def __init__(self, trail: Sequence[int], dtype: torch.dtype, trained: bool, widest: int) -> None:
        self.trail, self.dtype, self.trained, self.widest = torch.Size(trail), dtype, trained, widest

    def is_wide(self) -> bool:
        """Whether rows are nearly as long as those of logits."""
        return self._is_beside(self)

    def reads_wide(self) -> bool:
        """Whether it is computed of such rows."""
        return any(source._is_beside(self) for source in self.sources())

    def _is_beside(self, other: Value) -> bool:
        return prod(self.trail) * _FEW > other.widest

    def sources(self) -> Iterator[Value]:
        """The values that it is computed of."""
        return iter(())

    def tensors(self) -> Sequence[Tensor]:
        """The tensors that it is computed of, besides values."""
        return ()


class Given(Value):
    """Rows of a tensor, (rows, *trail)."""

    def __init__(self, tensor: Tensor) -> None:
        super().__init__(tensor.shape[1:], tensor.dtype, tensor.requires_grad, 0)
        self.tensor = tensor

    def tensors(self) -> Sequence[Tensor]:
        return (self.tensor,)


class Scores(Value):
    """Logits: what a linear layer makes of rows."""

    def __init__(self, head: Any, hidden: Given, trained: bool) -> None:
        module = head.module
        super().__init__((module.out_features,), hidden.dtype, trained, module.out_features)
        self.head, self.hidden, self.weight, self.bias = head, hidden, module.weight, module.bias
        self.waiting: list[Any] = []  # weak references to tensors that are computed of them

    def sources(self) -> Iterator[Value]:
        yield self.hidden

    def tensors(self) -> Sequence[Tensor]:
        return (self.weight,) if self.bias is None else (self.weight, self.bias)


class Made(Value):
    """What a function makes of values and tensors. Rows lie along axis `rank` - 1 of what it is given.

    With a `unit`, that many rows belong together, and the function is told `which` of these it is given: a slice.
    """

    unit = 0

    def __init__(
        self, func: Callable[..., Any], args: Any, kwargs: Any, rank: int, made: Tensor | None, trained: bool = False
    ) -> None:
        self.func, self.args, self.kwargs, self.rank = func, args, kwargs, rank
        leaves = pytree.tree_leaves((args, kwargs))
        self._sources = [leaf for leaf in leaves if isinstance(leaf, Value)]
        self._tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        widest = max(source.widest for source in self._sources)
        if made is None:  # several results, see `Part`
            super().__init__((), torch.float32, trained, widest)
        else:
            super().__init__(made.shape[rank:], made.dtype, made.requires_grad, widest)

    def sources(self) -> Iterator[Value]:
        return iter(self._sources)

    def tensors(self) -> Sequence[Tensor]:
        return self._tensors


class Part(Value):
    """One of the results of a function."""

    def __init__(self, of: Made, place: int, made: Tensor) -> None:
        super().__init__(made.shape[of.rank :], made.dtype, made.requires_grad, of.widest)
        self.of, self.place = of, place

    def sources(self) -> Iterator[Value]:
        yield self.of


def unhooked() -> AbstractContextManager[Any]:
    """Meanwhile, autograd keeps tensors as they are, whatever hooks are around."""
    return saved_tensors_hooks(_same, _same)


def _same(tensor: Any) -> Any:
    return tensor


def in_order(values: Sequence[Value]) -> list[Value]:
    """All that values are computed of, sources first, and the values."""
    found: dict[Value, None] = {}
    waiting = [(value, False) for value in reversed(values)]
    while waiting:
        value, ready = waiting.pop()
        if ready:
            found[value] = None
        elif value not in found:
            waiting.append((value, True))
            waiting += [(source, False) for source in value.sources()]
    return list(found)


def scores_of(values: Sequence[Value]) -> list[Scores]:
    """The logits that values are computed of."""
    return [value for value in in_order(values) if isinstance(value, Scores)]


def versions_of(value: Value) -> list[tuple[Tensor, int]]:
    """The tensors that a value is computed of, and how often each was written to."""
    read = (tensor for one in in_order([value]) for tensor in one.tensors())
    return [(tensor, version_of(tensor)) for tensor in read if not tensor.is_inference()]


def moved(value: Value, move: Callable[[Tensor], Tensor]) -> Value:
    """The same of other rows: `move` takes rows of the tensors that are given."""
    known: dict[Value, Value] = {}
    for one in in_order([value]):
        if isinstance(one, Given):
            known[one] = Given(move(one.tensor))
        elif isinstance(one, Scores):
            hidden: Any = known[one.hidden]
            scores = known[one] = Scores(one.head, hidden, one.trained)
            scores.waiting = one.waiting
        elif isinstance(one, Part):
            of: Any = known[one.of]
            known[one] = Part(of, one.place, _like(one, of.rank))
        elif isinstance(one, Made):
            args, kwargs = pytree.tree_map_only(Value, known.__getitem__, (one.args, one.kwargs))
            made = None if isinstance(one, _Several) else _like(one, one.rank)
            known[one] = type(one)(one.func, args, kwargs, one.rank, made, one.trained)
    return known[value]


class _Several(Made):
    """A function with several results."""


def _like(value: Value, rank: int) -> Tensor:
    return _stand((*[1] * rank, *value.trail), value.dtype, value.trained)


def _stand(shape: Sequence[int], dtype: torch.dtype, trained: bool) -> Tensor:
    """A tensor without data."""
    with disable_current_modes():
        return torch.empty(tuple(shape), dtype=dtype, device="meta", requires_grad=trained)


class _Way(NamedTuple):
    """How a tensor of a call is taken: row by row with `rest` for each row, after it is broadcast; or whole."""

    rest: Sequence[int] | None
    spread: bool = False


def made_by_rows(func: Callable[..., Any], args: Any, kwargs: Any, lead: Sequence[int]) -> Any:
    """What a function makes of values whose rows have shape `lead`, as values; None if it does not work by rows."""
    leaves, nest = pytree.tree_flatten((args, kwargs))
    values = [leaf for leaf in leaves if isinstance(leaf, Value)]
    rank = len(lead) + max(len(value.trail) for value in values)
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    for taken in islice(product(*(_ways(tensor, lead, rank) for tensor in tensors)), _TRIED):
        found = _tried(func, leaves, nest, taken, lead)
        if found is not None:
            return found
    return None


def _ways(tensor: Tensor, lead: Sequence[int], rank: int) -> list[_Way]:
    """How a tensor beside values may be taken, the likeliest first."""
    shape, ways = tuple(tensor.shape), [_Way(None)]
    aligned = (*[1] * (rank - len(shape)), *shape)
    front = aligned[: len(lead)]
    if shape and any(size != 1 for size in front) and all(a in (1, b) for a, b in zip(front, lead, strict=False)):
        ways.insert(0, _Way(aligned[len(lead) :], True))
    if shape[: len(lead)] == tuple(lead):
        ways.insert(0, _Way(shape[len(lead) :]))
    return ways


def _tried(func: Any, leaves: Sequence[Any], nest: Any, taken: Sequence[_Way], lead: Sequence[int]) -> Any:
    """The same for one way to take the tensors."""
    sizes = {size for leaf in leaves if isinstance(leaf, Value) for size in leaf.trail}
    sizes.update(size for leaf in leaves if isinstance(leaf, Tensor) for size in leaf.shape)
    rows = next(count for count in range(7, 1000) if count not in sizes)
    rank = len(lead)
    front = (*[1] * (rank - 1), rows)
    ways, stands, lie = iter(taken), list[Any](), dict[int, tuple[int, int]]()
    for leaf in leaves:
        way = next(ways) if isinstance(leaf, Tensor) else None
        if isinstance(leaf, Value):
            stands.append(_stand((*front, *leaf.trail), leaf.dtype, leaf.trained))
        elif way is not None:
            shape = leaf.shape if way.rest is None else (*front, *way.rest)
            stands.append(_stand(shape, leaf.dtype, leaf.requires_grad))
        else:
            stands.append(leaf)
        if isinstance(leaf, Value) or (way is not None and way.rest is not None):
            lie[id(stands[-1])] = (rank - 1, rank - 1)
    noted = Noted()
    args, kwargs = pytree.tree_unflatten(stands, nest)
    try:
        with disable_current_modes(), noted, unhooked():
            result = func(*args, **kwargs)
    except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError):
        return None  # the error is that of whole logits
    for place, stand in enumerate(stands):
        if result is stand and isinstance(leaves[place], Value):
            return leaves[place]
    if any(_name(ran) in _PRODUCTS for ran in noted.ops):
        return None  # layers of a network, which would run twice
    if any(way.spread for way in taken) and not all(map(_is_pointwise, noted.ops)):
        return None
    found = _results(result, noted.ops, lie, front)
    widest = max(prod(leaf.trail) for leaf in leaves if isinstance(leaf, Value))
    if not found or max(prod(one.shape[rank:]) for one in found) > widest:
        return None
    given = {id(stand) for stand in stands}
    if any(id(tensor) in given for ran in noted.ops for tensor in mutated(ran.func, ran.args, ran.kwargs)):
        return None
    ways = iter(taken)
    filled = [_filled(leaf, next(ways), lead) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
    args, kwargs = pytree.tree_unflatten(filled, nest)
    if isinstance(result, Tensor):
        return Made(func, args, kwargs, rank, result)
    several = _Several(func, args, kwargs, rank, None, any(one.requires_grad for one in found))
    return type(result)([Part(several, place, one) for place, one in enumerate(found)])


def _results(result: Any, ops: Sequence[Ran], lie: dict[int, tuple[int, int]], front: Sequence[int]) -> list[Tensor]:
    """The tensors that a function has returned, where each keeps rows apart; else none."""
    found = [result] if isinstance(result, Tensor) else list(result) if isinstance(result, tuple) else []
    if not all(isinstance(one, Tensor) and one.shape[: len(front)] == tuple(front) for one in found):
        return []
    rank = len(front)
    after = followed(ops, {one: Lie(axes) for one, axes in lie.items()})
    if after.mixed is not None or any(after.lie.get(id(one)) != Lie((rank - 1, rank - 1)) for one in found):
        return []
    return found


def _is_pointwise(ran: Ran) -> bool:
    return torch.Tag.pointwise in ran.func.tags or _name(ran) in _PASSES


def _name(ran: Ran) -> str:
    return str(ran.func.overloadpacket.__name__)


def _filled(tensor: Tensor, way: _Way, lead: Sequence[int]) -> Any:
    """A tensor as it is given to a value."""
    if way.rest is None:
        return tensor
    if way.spread:
        shape = (*[1] * (len(lead) + len(way.rest) - tensor.dim()), *tensor.shape)
        tensor = tensor.reshape(shape).expand(*lead, *way.rest)
    return Given(tensor.reshape(-1, *way.rest))
