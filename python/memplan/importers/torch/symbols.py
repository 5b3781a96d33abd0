"""Symbolic sizes of a traced graph, and the numbers that the caller gives to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils import _pytree as pytree

from ...errors import SourceError
from ..unbound import Dimension, no_sizes
from .failing import OTHERS, place_of_node

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


class Symbols:
    """The symbols in the sizes of a graph's inputs, bound to numbers within the ranges that the export holds for.

    Placeholders hold fake tensors or symbolic numbers in `meta["val"]`. `dims` has numbers by the symbol's name
    (`s77`), or by that of the `torch.export.Dim` where torch still knows it; it does not after a graph has been saved
    and loaded.

    SourceError if dims names something else (the message lists the symbols), gives a number outside its symbol's range,
    or leaves a symbol without one; or if a size depends on data.
    """

    def __init__(
        self, graph: fx.Graph, dims: Mapping[str, int] | None = None, ranges: Mapping[Any, Any] | None = None
    ) -> None:
        _refuse_data_dependent(graph)
        self._where: dict[Any, str] = {}
        self._shape_env: Any = None
        self._find(graph)
        self._labels = {symbol: self._dim_name(symbol) for symbol in self._where}
        self._ranges = ranges if ranges is not None else getattr(self._shape_env, "var_to_range", {})
        self._value = self._bound(dims or {})
        self._check_ranges(dims or {}, ranges or {})

    def __bool__(self) -> bool:
        return bool(self._where)

    def __call__(self, size: Any) -> int:
        """A size as a number; SourceError names the symbol that has none."""
        if isinstance(size, int):
            return size
        expression = size.node.expr.subs(self._value) if isinstance(size, torch.SymInt) else size
        unknown = sorted(map(str, getattr(expression, "free_symbols", ())))
        if unknown:
            raise SourceError(f"size {size}: symbol '{unknown[0]}' is not in the sizes of the inputs")
        if expression != int(expression):
            raise SourceError(f"size {size} is {expression}, not a whole number, with {self._bindings()}")
        return int(expression)

    def scalar(self, value: Any) -> Any:
        """A symbolic number as a plain one; other things as they are."""
        if isinstance(value, torch.SymInt):
            return self(value)
        if isinstance(value, (torch.SymFloat, torch.SymBool)):
            number = value.node.expr.subs(self._value)
            return float(number) if isinstance(value, torch.SymFloat) else bool(number)
        return value

    def unknown(self, value: Any) -> bool:
        """Whether a value is a number that depends on data."""
        return isinstance(value, _SYMBOLIC) and bool(free_unbacked_symbols(value))

    def _find(self, graph: fx.Graph) -> None:
        for node in graph.find_nodes(op="placeholder"):
            for place, size in _symbolic(node.meta.get("val")):
                self._shape_env = self._shape_env or size.node.shape_env
                for symbol in sorted(size.node.expr.free_symbols, key=str):
                    self._where.setdefault(symbol, f"{place} of '{node.name}'")

    def _dim_name(self, symbol: Any) -> str | None:
        names = getattr(self._shape_env, "source_name_to_debug_name", {})
        sources = getattr(self._shape_env, "var_to_sources", {}).get(symbol, ())
        found = [names[_source_name(s)] for s in sources if _source_name(s) in names]
        return str(found[0]) if found else None

    def _bound(self, dims: Mapping[str, int]) -> dict[Any, Any]:
        by_name = {name: s for s in self._where for name in (str(s), self._labels[s]) if name is not None}
        for name, number in dims.items():
            if name not in by_name:
                raise SourceError(f"dims['{name}']: no such symbolic size; {self._known()}")
            if isinstance(number, bool) or not isinstance(number, int) or number < 0:
                raise SourceError(f"dims['{name}'] must be an int >= 0, got {number!r}")
        value = {by_name[name]: number for name, number in dims.items()}
        missing = [symbol for symbol in self._where if symbol not in value]
        if missing:
            raise no_sizes([self._dimension(symbol) for symbol in missing])
        return value

    def _dimension(self, symbol: Any) -> Dimension:
        label, example = self._labels[symbol], getattr(self._shape_env, "backed_var_to_val", {}).get(symbol)
        names = (str(symbol),) if label is None else (label, str(symbol))
        span = _span(self._ranges.get(symbol))
        return Dimension(names, self._where[symbol], span, None if example is None else int(example))

    def _check_ranges(self, dims: Mapping[str, int], ranges: Mapping[Any, Any]) -> None:
        for symbol, number in self._value.items():
            given = {str(symbol), self._labels[symbol]} & dims.keys()
            allowed = ranges.get(symbol)
            if given and allowed is not None and not allowed.lower <= number <= allowed.upper:
                raise SourceError(f"dims['{given.pop()}']: the export holds for {_span(allowed)}, got {number}")

    def _known(self) -> str:
        if not self._where:
            return "the source has none"
        return f"the source has {', '.join(self._title(symbol) for symbol in self._where)}"

    def _title(self, symbol: Any) -> str:
        label = self._labels.get(symbol)
        named = f"'{symbol}' or '{label}'" if label else f"'{symbol}'"
        return f"{named} ({self._where[symbol]})"

    def _bindings(self) -> str:
        return ", ".join(f"{symbol}={number}" for symbol, number in self._value.items())


def _symbolic(value: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(value, _SYMBOLIC):
        yield "the value", value
    if isinstance(value, Tensor):
        for axis, size in enumerate(value.shape):
            if isinstance(size, torch.SymInt):
                yield f"dimension {axis}", size


def _span(allowed: Any) -> str:
    """A range of sizes in words; empty if it is not known."""
    if allowed is None:
        return ""
    return f"{allowed.lower} to {allowed.upper}" if allowed.upper.is_Integer else f"{allowed.lower} or more"


def _refuse_data_dependent(graph: fx.Graph) -> None:
    for node in graph.nodes:
        values = pytree.tree_leaves(node.meta.get("val"))
        symbols = sorted({str(symbol) for value in values for symbol in _unbacked_sizes(value)})
        if symbols:
            where = f"node '{node.name}' ({node.target})"
            problem = f"its size depends on data (symbol '{symbols[0]}'), which cannot be planned"
            raise SourceError(f"{where}: {problem}{place_of_node(node)}; ways out: {OTHERS}")


def _unbacked_sizes(value: Any) -> set[Any]:
    sizes = [size for _, size in _symbolic(value)] if isinstance(value, Tensor) else []
    return {symbol for size in sizes for symbol in free_unbacked_symbols(size)}


def _source_name(source: Any) -> str:
    name = source.name
    return str(name() if callable(name) else name)
