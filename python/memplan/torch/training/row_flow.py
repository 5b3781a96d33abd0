"""Where rows lie in what operators make of them, as the loops of operators say.

Row k of a tensor that is followed lies in rows [k * step, (k + 1) * step) of an axis of another tensor, or of axes that
are taken together; and where these are taken together with an axis before, at the same place of each of its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..private import overload_name_of, pytree, schema_of
from ..reading.effects import draws, flat_tensors
from ..reading.loops import loops_of, name_of, shows_again
from ..reading.loops.calls import trimmed as long_axes

Axes = tuple[int, int]
_LOSS_OF_CLASSES = torch.ops.aten.nll_loss_forward.default
# New tensors, whose rows are all alike
_NEW = {
    *("empty", "full", "ones", "zeros", "empty_like", "full_like", "ones_like", "zeros_like"),
    *("new_empty", "new_full", "new_ones", "new_zeros"),
}
_SAFE = {  # of which torch does not say that they make views
    torch.ops.aten.unsafe_split.Tensor: torch.ops.aten.split.Tensor,
    torch.ops.aten.unsafe_split_with_sizes.default: torch.ops.aten.split_with_sizes.default,
}
# What draws numbers one by one, of parameters that all have in common
_OVER_SELF = {"bernoulli_", "uniform_", "normal_", "exponential_", "log_normal_", "cauchy_", "geometric_"}
_OF_A_SHAPE = {"rand", "randn", "randint"}
_LIKE_SELF = {"rand_like", "randn_like", "randint_like"}
_NO_ROWS = (0, 0)


class Ran(NamedTuple):
    """An operator that ran."""

    func: Any
    args: Any
    kwargs: Any
    result: Any


class Lie(NamedTuple):
    """Where rows lie in a tensor: `step` of its rows for each, one after another, and that `times` over."""

    axes: Axes
    step: int = 1
    times: int = 1

    def along(self, axes: Axes, shape: Sequence[int]) -> Lie | None:
        """The same along more axes, taken together."""
        if axes[0] > self.axes[0] or axes[1] < self.axes[1]:
            return None
        before, after = prod(shape[axes[0] : self.axes[0]]), prod(shape[self.axes[1] + 1 : axes[1] + 1])
        return Lie(axes, self.step * after, self.times * before)

    def short(self, shape: Sequence[int]) -> Lie:
        """The same along as few axes as have them."""
        (first, last), step, times = self
        while first < last and times % shape[first] == 0:
            first, times = first + 1, times // shape[first]
        while first < last and step % shape[last] == 0:
            last, step = last - 1, step // shape[last]
        return Lie((first, last), step, times)


class Draw(NamedTuple):
    """Where rows lie in random numbers, if they do; and the order of axes in memory, in which they are drawn."""

    lie: Lie | None
    order: Sequence[int]


class Flow(NamedTuple):
    """Where rows lie by tensors' ids; draws of random numbers; and the first operator that mixes rows."""

    lie: Mapping[int, Lie]
    draws: Sequence[Draw] = ()
    mixed: int | None = None  # the place of an operator


def followed(ops: Sequence[Ran], lie: Mapping[int, Lie], lead: Sequence[int] | None = None) -> Flow:
    """Follow rows through operators. ``lie`` says where they lie before.

    Where ``lead`` is given, random numbers may be drawn, and new tensors whose shapes begin with it are taken to have
    rows too. Whether they do, another number of rows shows.
    """
    lie, drawn = dict(lie), list[Draw]()
    for place, ran in enumerate(ops):
        given = list(flat_tensors([ran.args, ran.kwargs]))
        numbers = None if lead is None else asked(ran)
        if lead is not None and (numbers is not None or name_of(ran.func) in _NEW):
            at = _lie_of_new(ran, given, lie, lead)
            if numbers is not None:
                order = sorted(range(ran.result.dim()), key=lambda axis: -ran.result.stride(axis))
                if not ran.result.permute(order).is_contiguous():
                    return Flow(lie, drawn, place)
                drawn.append(Draw(at, order))
            if at is not None:
                lie[id(ran.result)] = at
            continue
        if not any(id(tensor) in lie for tensor in given):
            if draws(ran.func, ran.args, ran.kwargs) or schema_of(ran.func).is_mutable:
                return Flow(lie, drawn, place)
            if lead is not None and name_of(ran.func) == "expand" and _begins(ran.result, given[0], lead):
                lie[id(ran.result)] = Lie(trimmed(ran.result, (0, len(lead) - 1)))
            continue
        rows = _rows_made(ran, lie)
        if rows is None:
            return Flow(lie, drawn, place)
        lie.update(rows)
    return Flow(lie, drawn)


class Asked(NamedTuple):
    """Random numbers that are drawn one by one from the usual generator of the CPU, alike for all rows."""

    ran: Ran
    shape: Sequence[int]

    @property
    def over(self) -> Tensor | None:
        """The tensor that they are written over."""
        return self.ran.args[0] if name_of(self.ran.func) in _OVER_SELF else None

    def drawn(self, shape: Sequence[int], order: Sequence[int]) -> Tensor:
        """As many as another shape has, with axes in this order in memory: bytes, where all are 0 or 1."""
        args = list(self.ran.args)
        if isinstance(args[0], Tensor):
            flags = name_of(self.ran.func) == "bernoulli_"
            new = args[0].new_empty([shape[axis] for axis in order], dtype=torch.bool if flags else None)
            args[0] = new.permute([order.index(axis) for axis in range(len(order))])
        else:
            args[self._place] = list(shape)
        made: Tensor = self.ran.func(*args, **self.ran.kwargs)
        return made

    @property
    def _place(self) -> int:
        return next(k for k, arg in enumerate(self.ran.args) if isinstance(arg, (list, tuple)))


def asked(ran: Ran) -> Asked | None:
    """What an operator draws; None if it draws nothing, or otherwise."""
    func, args, kwargs = ran.func, ran.args, ran.kwargs
    if not draws(func, args, kwargs) or kwargs.get("generator") not in (None, torch.default_generator):
        return None
    name, tensors = name_of(func), list(flat_tensors([args, kwargs]))
    device = kwargs.get("device") or (tensors[0].device if tensors else "cpu")
    if torch.device(device).type != "cpu":
        return None
    if name in _OVER_SELF | _LIKE_SELF:
        return Asked(ran, tensors[0].shape) if len(tensors) == 1 else None
    if name in _OF_A_SHAPE:
        return Asked(ran, next(arg for arg in args if isinstance(arg, (list, tuple))))
    return None


def _lie_of_new(ran: Ran, given: Sequence[Tensor], lie: Mapping[int, Lie], lead: Sequence[int]) -> Lie | None:
    """Where rows lie in a new tensor, if it is taken to have rows: along axes that are as long as those of rows."""
    made = ran.result
    for tensor in given:
        if id(tensor) in lie and tensor.shape == made.shape:
            return lie[id(tensor)]
    count = len(lead)
    firsts = range(made.dim() - count + 1 if count == 1 else 1)
    first = next((k for k in firsts if tuple(made.shape[k : k + count]) == tuple(lead)), None)
    return None if first is None else Lie(trimmed(made, (first, first + count - 1)))


def _begins(made: Tensor, given: Tensor, lead: Sequence[int]) -> bool:
    """Whether a tensor begins with axes along which another one is repeated."""
    repeated = all(made.stride(axis) == 0 or made.shape[axis] == 1 for axis in range(min(len(lead), made.dim())))
    return repeated and tuple(made.shape[: len(lead)]) == tuple(lead) and given.shape != made.shape


def _rows_made(ran: Ran, lie: Mapping[int, Lie]) -> dict[int, Lie] | None:
    """Where rows lie in what an operator makes of them; None if it does not keep them apart."""
    if name_of(ran.func) == "expand":  # which loops do not say, as other rows may be the same bytes
        source, shape = ran.args[0], ran.result.shape
        (first, last), *rest = lie[id(source)]
        more = len(shape) - source.dim()
        return {id(ran.result): Lie((first + more, last + more), *rest)}
    func = _pure(ran.func) if schema_of(ran.func).is_mutable else _SAFE.get(ran.func, ran.func)
    if func is None or draws(func, ran.args, ran.kwargs):
        return None
    args, kwargs, result, stood_for = _dense(ran)
    for loop in loops_of(func, args, kwargs, result):
        early = loop.early and func is not _LOSS_OF_CLASSES  # of which each row has its own, or none
        if loop.sums or early or loop.statistics:
            continue
        counts = {_iterations(lie.get(stood_for(tensor)), tensor, rows) for tensor, rows in loop.inputs} - {_NO_ROWS}
        if len(counts) == 1 and (found := counts.pop()) is not None:
            count, times = found
            return {
                stood_for(tensor): Lie(written.axes, written.step * count, times).short(tensor.shape)
                for tensor, written in loop.writes
            }
    return None


def _dense(ran: Ran) -> tuple[Any, Any, Any, Callable[[Tensor], int]]:
    """Arguments and results without repeated bytes, of which loops do not tell; and whose ids these have."""
    tensors = list(flat_tensors([ran.args, ran.kwargs, ran.result]))
    if not any(map(shows_again, tensors)):
        return ran.args, ran.kwargs, ran.result, id
    stands = {id(one): torch.empty(one.shape, dtype=one.dtype, device="meta") for one in tensors}
    ids = {id(stand): one for one, stand in stands.items()}
    mapped = pytree.tree_map_only(Tensor, lambda one: stands[id(one)], (ran.args, ran.kwargs, ran.result))
    return (*mapped, lambda stand: ids[id(stand)])


def _iterations(at: Lie | None, tensor: Tensor, rows: Any) -> tuple[int, int] | None:
    """How many iterations of a loop read one row of a tensor, and how often all rows come; None if they mix rows."""
    if at is None or rows is None:
        return _NO_ROWS if at is None and rows is None else None
    whole = at.along(rows.axes, tensor.shape)
    if whole is None or rows.step != rows.window or rows.before or whole.step % rows.step:
        return None
    return int(whole.step // rows.step), whole.times


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
    return long_axes(tensor, axes) or axes
