"""What a call of an operator of torch reads for which rows, found by poison: a wrong value in rows of its inputs.

Loops say which rows each iteration reads. Rows that are not named are poisoned, and the rows that the iteration writes
must stay as they were. Rows that are named are poisoned one by one, and something must change. What iterations add up
is computed with the rows of some iterations alone, and the parts must come to the whole.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from memplan.torch.reading.loops import Loop, Rows, Written

_POISONS = (math.nan, 1e3, -1e3, math.inf, -math.inf)
_SPREAD = 37.0  # values far from those of the cases


Says = Callable[..., list[Any]]  # what is said of a call: func, args, kwargs, result


class Case(NamedTuple):
    """A call. With `gaps`, rows within a window may be of no account, and with `idle` any row.

    With `finite`, rows may weigh nothing. What loops have statistics of is not poisoned: all rows count.

    What iterations add is zero where rows are that they share out, or rows of the inputs `shared`.
    Inputs `kept` are places in others: other values there would be other rows.
    """

    func: Any
    args: Sequence[Any]
    kwargs: dict[str, Any] = {}  # noqa: RUF012
    gaps: bool = False
    finite: bool = False
    idle: bool = False
    shared: Collection[int] = ()
    kept: Collection[int] = ()


class Poisoned:
    """A call that is made again and again with other values."""

    def __init__(self, case: Case, loops_of: Says, chance: random.Random) -> None:
        self.case, self._chance = case, chance
        self._leaves, self._form = pytree.tree_flatten((list(case.args), case.kwargs))
        self._at = [k for k, leaf in enumerate(self._leaves) if isinstance(leaf, Tensor)]
        self.inputs: list[Tensor] = [self._leaves[k] for k in self._at]
        self._result = self._call(self.inputs)
        self.whole = list(_tensors(self._result))
        self.loops: list[Loop] = loops_of(case.func, case.args, case.kwargs, self._result)
        for loop in self.loops:
            assert all(said is given for (said, _), given in zip(loop.inputs, self.inputs, strict=True))

    def run(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        return list(_tensors(self._call(inputs)))

    def _call(self, inputs: Sequence[Tensor]) -> Any:
        leaves = list(self._leaves)
        for k, tensor in zip(self._at, inputs, strict=True):
            leaves[k] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self._form)
        return self.case.func(*args, **kwargs)

    # What is said

    def check_form(self, loop: Loop) -> None:
        """Each output is made in one way, and all of its rows are."""
        assert loop.extent >= 2
        made = [id(t) for t, _ in loop.writes] + [id(t) for t in loop.sums] + [id(t) for t, _ in loop.early]
        assert sorted(made) == sorted(map(id, self.whole))
        for tensor, written in loop.writes:
            count = _merged(tensor, written.axes).shape[written.axes[0]]
            assert loop.extent * written.step >= count

    def check_rest(self, loop: Loop, iteration: int) -> None:
        """Rows that an iteration does not name change nothing of what it writes."""
        inputs = []
        for at, (tensor, rows) in enumerate(loop.inputs):
            if at in self.case.kept or _is_counted(loop, tensor):
                inputs.append(tensor)
                continue
            keep = None if rows is None else range(*_range(rows, iteration, iteration + 1, _count(tensor, rows)))
            inputs.append(
                tensor if rows is None else self._spoiled(tensor, rows, lambda row, keep=keep: row not in keep)
            )
        found = self.run(inputs)
        for tensor, written in loop.writes:
            place = _index(self.whole, tensor)
            assert _same(_part(found[place], written, iteration), _part(tensor, written, iteration)), (
                f"iteration {iteration} of {_text(loop)} reads rows that it does not name"
            )

    def mattering(self, loop: Loop, iteration: int) -> Iterator[tuple[int, int]]:
        """Inputs and rows of them that change what an iteration makes, among the first and last that it names."""
        for at, (_tensor, rows) in enumerate(loop.inputs):
            for row in () if rows is None else self.ends(loop, iteration, at):
                if any(self._matters(loop, iteration, at, row, poison) for poison in _POISONS):
                    yield at, row

    def ends(self, loop: Loop, iteration: int, at: int) -> list[int]:
        """The rows that have to matter: the first and the last; with gaps, those that are not the tensor's own ends."""
        tensor, rows = loop.inputs[at]
        assert rows is not None
        count = _count(tensor, rows)
        first, end = _range(rows, iteration, iteration + 1, count)
        begin, then = _range(rows, iteration, iteration + 1, None)
        if first >= end or self.case.idle:
            return []
        if self.case.gaps:
            return [row for row, whole in ((first, begin == first), (end - 1, then == end)) if whole]
        return sorted({first, end - 1})

    def _matters(self, loop: Loop, iteration: int, at: int, row: int, poison: float) -> bool:
        tensor, rows = loop.inputs[at]
        assert rows is not None
        inputs = [t for t, _ in loop.inputs]
        inputs[at] = self._spoiled(tensor, rows, lambda other: other == row, poison)
        found = self.run(inputs)
        parts = [(found[_index(self.whole, t)], t, written) for t, written in loop.writes]
        if any(
            not _same(_part(new, written, iteration), _part(old, written, iteration)) for new, old, written in parts
        ):
            return True
        of_all = [*loop.sums, *(first for first, _ in loop.early if _is_counted(loop, tensor))]
        return any(not _same(found[_index(self.whole, total)], total) for total in of_all)

    def check_sums(self, loop: Loop) -> None:
        """What iterations add comes to the whole."""
        cuts = sorted({0, loop.extent, *(self._chance.randrange(loop.extent) for _ in range(2))})
        parts = [self._alone(loop, a, b) for a, b in itertools.pairwise(cuts)]
        for total in loop.sums:
            place = _index(self.whole, total)
            summed = sum(part[place] for part in parts)
            torch.testing.assert_close(summed, total, rtol=1e-9, atol=1e-9, equal_nan=True)

    def _alone(self, loop: Loop, a: int, b: int) -> list[Tensor]:
        """What is added by iterations [a, b): other rows of what they share out are zero, of the rest another value."""
        inputs = []
        for at, (tensor, rows) in enumerate(loop.inputs):
            if rows is None or not tensor.is_floating_point():
                inputs.append(tensor)
                continue
            shares = rows.step == rows.window and rows.before == 0
            if shares or at in self.case.shared:
                own = range(math.ceil(a * rows.step), math.ceil(b * rows.step))
                inputs.append(_replaced(tensor, rows, lambda row, own=own: row not in own, 0.0))
            else:
                named = range(*_range(rows, a, b, _count(tensor, rows)))
                inputs.append(_replaced(tensor, rows, lambda row, named=named: row not in named, _SPREAD))
        return self.run(inputs)

    def check_early(self, loop: Loop) -> None:
        """What is made first depends on nothing but what it names."""
        for output, named in loop.early:
            kept = [*named, *(loop.statistics.inputs if loop.statistics else ())]
            inputs = [t if any(t is n for n in kept) else self._other(t) for t in self.inputs]
            assert _same(self.run(inputs)[_index(self.whole, output)], output)

    def check_unread(self, read_by: Says) -> None:
        """Inputs that are not read change nothing."""
        read = read_by(self.case.func, self.case.args, self.case.kwargs)
        inputs = [t if any(t is r for r in read) else torch.full_like(t, math.nan) for t in self.inputs]
        if len(read) < len(self.inputs) and "empty" not in str(self.case.func):
            assert all(_same(a, b) for a, b in zip(self.run(inputs), self.whole, strict=True))

    def _spoiled(self, tensor: Tensor, rows: Rows, which: Callable[[int], bool], poison: float = math.nan) -> Tensor:
        if tensor.is_floating_point():
            return _replaced(tensor, rows, which, _SPREAD if self.case.finite and poison != poison else poison)
        return _replaced(tensor, rows, which, self._other(tensor))

    def _other(self, tensor: Tensor) -> Tensor:
        """Other values: of indices, those that are there, but elsewhere."""
        if tensor.is_floating_point():
            return torch.full_like(tensor, math.nan)
        if tensor.dtype == torch.bool:
            return ~tensor
        flat = tensor.flatten().tolist()
        drawn = [self._chance.choice(flat) for _ in flat]
        return torch.tensor(drawn, dtype=tensor.dtype).view(tensor.shape)


def check(case: Case, loops_of: Says, read_by: Says, chance: random.Random, iterations: int, loops: int) -> int:
    """Poison rows of a call, for some iterations of some loops. Gives how many loops it has."""
    call = Poisoned(case, loops_of, chance)
    call.check_unread(read_by)
    for loop in chance.sample(call.loops, min(loops, len(call.loops))):
        call.check_form(loop)
        some = any(rows is not None for _, rows in loop.inputs)
        for iteration in chance.sample(range(loop.extent), min(iterations, loop.extent)) if some else ():
            call.check_rest(loop, iteration)
        if loop.sums:
            call.check_sums(loop)
        call.check_early(loop)
    return len(call.loops)


def idle(make: Callable[[], Case], loops_of: Says, chance: random.Random, draws: int) -> list[str]:
    """Rows that are named and change nothing, in so many calls of one form with other values."""
    first = Poisoned(make(), loops_of, chance)
    left: dict[tuple[int, int, int, int], str] = {}
    for number, loop in enumerate(first.loops):
        iteration = chance.randrange(loop.extent)
        for at, (_, rows) in enumerate(loop.inputs):
            for row in () if rows is None else first.ends(loop, iteration, at):
                left[number, iteration, at, row] = f"row {row} of input {at}, iteration {iteration} of {_text(loop)}"
    for draw in range(draws):
        call = first if draw == 0 else Poisoned(make(), loops_of, chance)
        for number, iteration in {key[:2] for key in left}:
            for at, row in list(call.mattering(call.loops[number], iteration)):
                left.pop((number, iteration, at, row), None)
        if not left:
            break
    return list(left.values())


def _is_counted(loop: Loop, tensor: Tensor) -> bool:
    return loop.statistics is not None and any(tensor is counted for counted in loop.statistics.inputs)


def _range(rows: Rows, a: int, b: int, count: int | None) -> tuple[int, int]:
    """Rows that iterations [a, b) read, as far as they exist."""
    begin = math.floor(a * rows.step - rows.before)
    end = math.ceil((b - 1) * rows.step - rows.before + rows.window)
    if count is None:
        return begin, end
    return min(max(begin, 0), count), min(max(end, 0), count)


def _merged(tensor: Tensor, axes: tuple[int, int]) -> Tensor:
    """The tensor with these axes as one: a view if rows lie evenly."""
    return tensor.flatten(*axes) if axes[0] < axes[1] else tensor


def _count(tensor: Tensor, rows: Rows) -> int:
    return int(_merged(tensor, rows.axes).shape[rows.axes[0]])


def _part(tensor: Tensor, written: Written, iteration: int) -> Tensor:
    whole = _merged(tensor, written.axes)
    begin, end = iteration * written.step, (iteration + 1) * written.step
    return whole[(slice(None),) * written.axes[0] + (slice(begin, end),)]


def _replaced(tensor: Tensor, rows: Rows, which: Callable[[int], bool], value: float | Tensor) -> Tensor:
    """A tensor that lies in memory as this one, with another value in some rows."""
    copy = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
    copy.copy_(tensor)
    whole = _merged(copy, rows.axes)
    assert whole.untyped_storage().data_ptr() == copy.untyped_storage().data_ptr(), "rows do not lie evenly"
    chosen = [row for row in range(whole.shape[rows.axes[0]]) if which(row)]
    place = (slice(None),) * rows.axes[0] + (chosen,)
    whole[place] = _merged(value, rows.axes)[place] if isinstance(value, Tensor) else value
    return copy


def _same(a: Tensor, b: Tensor) -> bool:
    if a.is_complex():
        return _same(torch.view_as_real(a), torch.view_as_real(b))
    if a.is_floating_point():
        return bool(torch.equal(torch.isnan(a), torch.isnan(b)) and torch.equal(a.nan_to_num(), b.nan_to_num()))
    return torch.equal(a, b)


def _index(tensors: Sequence[Tensor], tensor: Tensor) -> int:
    return next(k for k, other in enumerate(tensors) if other is tensor)


def _tensors(result: Any) -> Iterator[Tensor]:
    yield from (leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, Tensor))


def _text(loop: Loop) -> str:
    return f"{loop.extent} iterations, reads {[rows for _, rows in loop.inputs]}, writes {[w for _, w in loop.writes]}"
