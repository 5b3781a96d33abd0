"""Numbers that are known late: read from tensors or options at each run, and what Python computes from them.

An optimizer reads its step counter as a number, computes with it in Python, and hands the result to operators. While a
step is traced without data, a `LateNumber` stands for such a number, and remembers how it is computed. torch takes it
for a float, and may hand on a plain one: a late number is NaN, and the bits that NaN leaves open tell which one it is.
"""

from __future__ import annotations

import itertools
import operator
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from weakref import WeakValueDictionary

from ...errors import SourceError
from ..private import pytree

_NAN = 0x7FF8 << 48
_COUNT = itertools.count(1)
_KNOWN: WeakValueDictionary[bytes, LateNumber] = WeakValueDictionary()

Guard = tuple[Callable[..., bool], tuple[Any, ...], bool]  # a comparison, its operands, and how it came out


class LateNumber(float):
    """Stands for what `function` returns for operands, late numbers among them. As a float, it is NaN.

    `now` is what it is while the step is traced; None if nobody knows. Code may branch on a number that is known, or
    count with it: `guards` then has the comparison, which has to come out the same at a run. `name` is what it is read
    from, for messages; `reads` are the ops that read it from tensors.
    """

    def __new__(cls, *_: Any, **__: Any) -> LateNumber:
        return super().__new__(cls, struct.unpack("<d", struct.pack("<Q", _NAN | next(_COUNT)))[0])

    def __init__(
        self,
        function: Callable[..., Any],
        operands: tuple[Any, ...] = (),
        *,
        now: Any = None,
        name: str = "",
        guards: list[Guard] | None = None,
        reads: tuple[Any, ...] = (),
    ) -> None:
        self.function, self.operands, self.now, self.name = function, operands, now, name
        self.guards, self.reads = guards, reads
        _KNOWN[_bits(self)] = self

    def value(self, known: Mapping[int, Any]) -> Any:
        """The number at a run; `known` has those that were read from tensors, by their ids."""
        if id(self) in known:
            return known[id(self)]
        return self.function(*(value_of(operand, known) for operand in self.operands))

    def _computed(self, function: Callable[..., Any], *operands: Any) -> Any:
        if not all(isinstance(operand, (int, float)) for operand in operands):
            return NotImplemented
        late = [operand for operand in operands if isinstance(operand, LateNumber)]
        known = all(number.now is not None for number in late)
        now = function(*(o.now if isinstance(o, LateNumber) else o for o in operands)) if known else None
        guards = next((number.guards for number in late if number.guards is not None), None)
        reads = tuple(dict.fromkeys(read for number in late for read in number.reads))
        return LateNumber(function, operands, now=now, name=late[0].name, guards=guards, reads=reads)

    def _compared(self, function: Callable[..., bool], *others: Any) -> Any:
        if not all(isinstance(other, (int, float)) for other in others):
            return NotImplemented
        result = self._computed(function, self, *others)
        if result.now is None or result.guards is None:
            raise SourceError("it branches on a number that is only known when it runs, such as a count of steps")
        outcome = bool(result.now)
        result.guards.append((function, (self, *others), outcome))
        return outcome

    def __hash__(self) -> int:
        return id(self)

    def __bool__(self) -> bool:
        return bool(self._compared(bool))

    def __int__(self) -> int:
        if self.now is None or self.guards is None:
            raise SourceError("it needs a whole number that is only known when it runs")
        self.guards.append((operator.eq, (self, self.now), True))
        return int(self.now)

    __index__ = __trunc__ = __round__ = __floor__ = __ceil__ = __int__  # type: ignore[assignment]


def _operation(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *others: self._computed(function, self, *others)


def _reflected(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, other: self._computed(function, other, self)


def _comparison(function: Callable[..., bool]) -> Callable[..., Any]:
    return lambda self, other: self._compared(function, other)


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    setattr(LateNumber, f"__{_name}__", _operation(getattr(operator, _name)))
    setattr(LateNumber, f"__r{_name}__", _reflected(getattr(operator, _name)))
for _name in ("neg", "pos", "abs"):
    setattr(LateNumber, f"__{_name}__", _operation(getattr(operator, _name)))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(LateNumber, f"__{_name}__", _comparison(getattr(operator, _name)))


def value_of(value: Any, known: Mapping[int, Any]) -> Any:
    """A number as it is at a run."""
    return value.value(known) if isinstance(value, LateNumber) else value


def restored(value: Any) -> Any:
    """The late number that a float stands for, which torch has handed on; anything else as it is."""
    if isinstance(value, float) and not isinstance(value, LateNumber) and float.__ne__(value, value):
        return _KNOWN.get(_bits(value), value)
    return value


def late_numbers(value: Any) -> Iterator[LateNumber]:
    """The late numbers in a nest of arguments."""
    return (leaf for leaf in map(restored, pytree.tree_leaves(value)) if isinstance(leaf, LateNumber))


def is_lost(value: Any) -> bool:
    """Whether a number is NaN and no late number: computed from one by what does not remember how."""
    return isinstance(value, float) and not isinstance(value, LateNumber) and float.__ne__(value, value)


def _bits(value: float) -> bytes:
    return struct.pack("<d", value)
