"""Sizes that depend on data: what a module asks for, as the number that its caller gives, or the most that it allows.

`n = count.item()` or `mask.nonzero()` makes a size that is known when it runs. Code says what it may be:
`torch._check(n <= 64)`. So a module runs once with symbols in place of such sizes, u0, u1, ... as torch.export names
them. Then each has a number, and the module is traced as if that was always so. A run holds what comes against it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import ShapeEnv, free_unbacked_symbols

from ...errors import SourceError, UnsupportedError
from ...importers import notes
from ..private import pytree
from .failing import place_in

_LARGE = 1 << 62  # no bound of anybody


@dataclass(frozen=True)
class Late:
    """A size that depends on data: where code asks for it, and the most that it may be before code says anything."""

    name: str
    place: str
    most: int | None


class Expecting:
    """Calls what makes something whose size depends on data, and holds the size against the one of the plan."""

    def __init__(self, function: Callable[..., Any], made: Any, names: Sequence[str]) -> None:
        self._function, self._names, self._sizes = function, names, _sizes(made)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        made = self._function(*args, **kwargs)
        if _sizes(made) != self._sizes:
            planned, now = (", ".join(map(str, sizes)) for sizes in (self._sizes, _sizes(made)))
            names = ", ".join(self._names)
            raise UnsupportedError(
                f"{self._function}: the plan is for {planned} ({names}), and this run makes {now}; a plan with "
                f"dims={{{', '.join(f'{name!r}: N' for name in self._names)}}} runs with others"
            )
        return made


def _sizes(made: Any) -> list[Any]:
    return [list(leaf.shape) if isinstance(leaf, Tensor) else leaf for leaf in pytree.tree_leaves(made)]


@dataclass
class LateSizes:
    """The sizes that a module asks for, in order. `dims` are the numbers that its caller gives, by name."""

    dims: Mapping[str, int]
    env: Any = field(default_factory=lambda: ShapeEnv(allow_scalar_outputs=True, allow_dynamic_output_shape_ops=True))
    found: dict[Any, Late] = field(default_factory=dict)  # by symbol
    _asked: list[tuple[Any, Any]] = field(default_factory=list)  # operators, and what they return
    _given: int = 0

    # Asking

    def asks(self, func: Any, result: Any) -> Any:
        """Note what an operator returns with symbols; what the caller has given is a number from now on."""
        if not _depends_on_data(func) or not (symbols := _symbols(result)):
            return result
        self._asked.append((func, result))
        for symbol in symbols:
            if symbol not in self.found and isinstance(result, (torch.SymInt, Tensor, tuple)):
                most = self._most(symbol)
                self.found[symbol] = Late(str(symbol), place_in(sys._getframe()), most)
        return self._concrete(result) if all(str(symbol) in self.dims for symbol in symbols) else result

    def missing(self) -> list[Late]:
        """The sizes that have no number."""
        return [late for symbol, late in self.found.items() if self._number(symbol) is None]

    def check(self) -> None:
        """SourceError if the caller gives what the module does not ask for, or no number."""
        known = {late.name for late in self.found.values()}
        for name, number in self.dims.items():
            if name not in known:
                there = f"the module has {listed(list(self.found.values()))}" if known else _NONE
                raise SourceError(f"dims['{name}']: no such size; {there}")
            if isinstance(number, bool) or not isinstance(number, int) or number < 0:
                raise SourceError(f"dims['{name}'] must be an int >= 0, got {number!r}")

    # Giving

    def begin(self) -> None:
        """The module is traced from its beginning."""
        self._given = 0

    def gives(self, func: Any) -> tuple[Any, Expecting] | None:
        """What the next operator returns, whose size depends on data, and what runs it; None if no number says it."""
        if self._given == len(self._asked) or self._asked[self._given][0] is not func:
            return None
        result = self._asked[self._given][1]
        if not isinstance(result, (torch.SymInt, Tensor, tuple)):
            return None
        self._given += 1
        made = self._concrete(result)
        return made, Expecting(func, made, [self.found[symbol].name for symbol in _symbols(result)])

    def told(self) -> None:
        """Say for which sizes the plan is."""
        sizes = (
            f"{late.name} = {self._number(symbol)}"
            f"{'' if late.name in self.dims else ', the most that it may be'}{f' ({late.place})' if late.place else ''}"
            for symbol, late in self.found.items()
        )
        notes.say(f"sizes that depend on data are planned for: {'; '.join(sizes)}")

    def _concrete(self, result: Any) -> Any:
        def number(size: Any) -> int:
            return int(size) if not _symbols(size) else int(self._value(size.node.expr))

        def concrete(leaf: Any) -> Any:
            if isinstance(leaf, Tensor):
                sizes, strides = ([number(n) for n in ns] for ns in (leaf.shape, leaf.stride()))
                return torch.empty_strided(sizes, strides, dtype=leaf.dtype, device=leaf.device)
            return number(leaf) if isinstance(leaf, torch.SymInt) else leaf

        return pytree.tree_map(concrete, result)

    def _number(self, symbol: Any) -> int | None:
        late = self.found[symbol]
        if late.name in self.dims:
            return self.dims[late.name]
        exact = self.env.replacements.get(symbol)
        if exact is not None and all(self._number(s) is not None for s in exact.free_symbols if s in self.found):
            return int(self._value(exact))
        most = self._most(symbol)
        return most if most is not None and (late.most is None or most < late.most) else None

    def _value(self, expression: Any) -> Any:
        return expression.subs({symbol: self._number(symbol) for symbol in expression.free_symbols})

    def _most(self, symbol: Any) -> int | None:
        upper = self.env.var_to_range[symbol].upper if symbol in self.env.var_to_range else None
        return int(upper) if upper is not None and upper.is_Integer and upper < _LARGE else None


_NONE = (
    "a module has no symbolic sizes but those that depend on data, its arguments have the others; a program of "
    "torch.export.export(module, args, dynamic_shapes=...) has some"
)


def listed(sizes: Sequence[Late]) -> str:
    """Sizes with what is known of them, for messages."""
    known = [
        [*([] if late.most is None else [f"at most {late.most}"]), *([late.place] if late.place else [])]
        for late in sizes
    ]
    parts = (f" ({', '.join(each)})" if each else "" for each in known)
    return "; ".join(f"'{late.name}'{part}" for late, part in zip(sizes, parts, strict=True))


def advice(sizes: Sequence[Late]) -> str:
    """What makes sizes known, as a part of a message."""
    given = ", ".join(f"'{late.name}': N" for late in sizes)
    return (
        f"dims={{{given}}} plans for these sizes, and torch._check(... <= N) in the code for the most that one may be: "
        f"{listed(sizes)}"
    )


def _depends_on_data(func: Any) -> bool:
    return torch.Tag.dynamic_output_shape in func.tags or torch.Tag.data_dependent_output in func.tags


def _symbols(value: Any) -> list[Any]:
    found: dict[Any, None] = {}
    for leaf in pytree.tree_leaves(value):
        parts = [*leaf.shape] if isinstance(leaf, Tensor) else [leaf]
        for part in parts:
            if isinstance(part, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                found.update(dict.fromkeys(sorted(free_unbacked_symbols(part), key=str)))
    return list(found)
