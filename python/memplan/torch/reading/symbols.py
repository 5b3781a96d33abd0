"""Symbolic sizes of a traced graph, and the numbers that the caller gives to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from ...errors import SourceError
from ...importers import notes, unbound
from ..private import OpOverload, pytree, traced_sizes
from .failing import OTHERS, place_of_node

_LARGE = 1 << 62  # no bound of anybody
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


class Symbols:
    """The symbols in the sizes of a graph's inputs, bound to numbers within the ranges that the export holds for.

    Placeholders hold fake tensors or symbolic numbers in `meta["val"]`. `dims` has numbers by the symbol's name
    (`s77`), or by that of the `torch.export.Dim` where torch still knows it; it does not after a graph has been saved
    and loaded.

    A size that depends on data has a symbol too (`u0`), and so has a place where a view lies. Without a number, a size
    is the most that `torch._check` allows, and a place is the first.

    SourceError if dims names something else (the message lists the symbols), gives a number outside its symbol's range,
    or leaves a symbol without one; or if a size depends on data, and neither dims nor code says what it may be.
    """

    def __init__(
        self, graph: fx.Graph, dims: Mapping[str, int] | None = None, ranges: Mapping[Any, Any] | None = None
    ) -> None:
        self._where: dict[Any, str] = {}
        self._shape_env: Any = None
        self._find(graph)
        sizes = _late_in(graph)
        self._places = {symbol: node for symbol, node in _places_in(graph).items() if symbol not in sizes}
        self._late = sizes | self._places
        for symbol, node in self._late.items():
            self._where[symbol] = f"depends on data, node '{node.name}'"
            self._shape_env = self._shape_env or _shape_env_of(node)
        self._labels = {symbol: self._dim_name(symbol) for symbol in self._where}
        self._ranges = ranges if ranges is not None else getattr(self._shape_env, "var_to_range", {})
        self._value = self._bound(self._with_bounds(dims or {}))
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
            raise SourceError(f"size {size} is {expression}, not a whole number, with {self.bindings()}")
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
        """Whether a value is a number that depends on data, and that nobody knows."""
        return isinstance(value, _SYMBOLIC) and bool(free_unbacked_symbols(value) - self._value.keys())

    def makes(self, node: fx.Node) -> list[str]:
        """The names of the sizes that depend on data, and that a node makes."""
        return [str(symbol) for symbol in _made_by(node) if symbol in self._late]

    def unbacked(self) -> dict[str, int]:
        """The numbers of the sizes that depend on data, by name."""
        return {str(symbol): int(self._value[symbol]) for symbol in self._late}

    def _with_bounds(self, dims: Mapping[str, int]) -> dict[str, int]:
        """The numbers by the symbols' names, with the most that sizes may be which depend on data."""
        found = dict(dims)
        for symbol, node in self._late.items():
            if str(symbol) in found:
                continue
            if symbol in self._places:  # memory is the same for all
                found[str(symbol)] = _least(self._ranges.get(symbol))
                continue
            most = _most(self._ranges.get(symbol))
            if most is None or most in _counts(node, symbol):
                raise _unknown_size(node, symbol, most)
            found[str(symbol)] = most
            place = place_of_node(node).removeprefix("; ") or f"node '{node.name}'"
            notes.say(
                f"a size that depends on data is planned for the most that it may be: {symbol} = {most} ({place})"
            )
        return found

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
        for name, number in dims.items():
            if value[by_name[name]] != number:
                [other] = (one for one in dims if one != name and by_name[one] is by_name[name])
                raise SourceError(
                    f"sizes contradict each other: dims['{name}'] is {number}, dims['{other}'] is {dims[other]}; "
                    f"both are {self._title(by_name[name])}"
                )
        missing = [symbol for symbol in self._where if symbol not in value]
        if missing:
            raise unbound.no_sizes([self._dimension(symbol) for symbol in missing])
        return value

    def _dimension(self, symbol: Any) -> unbound.Dimension:
        label, example = self._labels[symbol], traced_sizes(self._shape_env).get(symbol)
        names = (str(symbol),) if label is None else (label, str(symbol))
        span = _span(self._ranges.get(symbol))
        return unbound.Dimension(names, self._where[symbol], span, None if example is None else int(example))

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

    def bindings(self) -> str:
        """The numbers of the symbols, for messages."""
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


def _unknown_size(node: fx.Node, symbol: Any, most: int | None) -> SourceError:
    problem = f"its size depends on data (symbol '{symbol}'), which cannot be planned"
    known = "" if most is None else f" (at most {most})"
    return SourceError(
        f"node '{node.name}' ({node.target}): {problem}{place_of_node(node)}; ways out: dims={{'{symbol}': N}}{known}, "
        f"which plans for that size, torch._check(... <= N) in the code for the most that it may be, {OTHERS}"
    )


def _late_in(graph: fx.Graph) -> dict[Any, fx.Node]:
    """The symbols in sizes of tensors that depend on data, with the node that has such a tensor first."""
    found: dict[Any, fx.Node] = {}
    for node in graph.nodes:
        values = pytree.tree_leaves(node.meta.get("val"))
        for symbol in sorted({symbol for value in values for symbol in _unbacked_sizes(value)}, key=str):
            found.setdefault(symbol, node)
    return found


def _places_in(graph: fx.Graph) -> dict[Any, fx.Node]:
    """The symbols that depend on data and say where views lie, with the first node that has such a view."""
    found: dict[Any, fx.Node] = {}
    for node in graph.nodes:
        if isinstance(node.target, OpOverload) and node.target.is_view:
            for number in (given.meta.get("val") for given in node.all_input_nodes):
                if isinstance(number, torch.SymInt):
                    found.update({symbol: node for symbol in free_unbacked_symbols(number) if symbol not in found})
    return found


def _shape_env_of(node: fx.Node) -> Any:
    values = [value for each in (node, *node.all_input_nodes) for value in pytree.tree_leaves(each.meta.get("val"))]
    return next((size.node.shape_env for value in values for _, size in _symbolic(value)), None)


def _made_by(node: fx.Node) -> list[Any]:
    """The symbols that depend on data in what a node makes, and in nothing that it is given."""

    def symbols(of: fx.Node) -> set[Any]:
        values = pytree.tree_leaves(of.meta.get("val"))
        numbers = [value for value in values if isinstance(value, _SYMBOLIC)]
        sizes = {symbol for value in values for symbol in _unbacked_sizes(value)}
        return sizes | {symbol for number in numbers for symbol in free_unbacked_symbols(number)}

    given = {symbol for operand in node.all_input_nodes for symbol in symbols(operand)}
    return sorted(symbols(node) - given, key=str)


def _most(span: Any) -> int | None:
    upper = getattr(span, "upper", None)
    return int(upper) if upper is not None and upper.is_Integer and upper < _LARGE else None


def _least(span: Any) -> int:
    lower = getattr(span, "lower", None)
    return max(0, int(lower)) if lower is not None and lower.is_Integer else 0


def _counts(node: fx.Node, symbol: Any) -> set[Any]:
    """The elements of what a node looks at: the most that it may make, whatever code says of it."""
    if symbol not in _made_by(node):
        return set()
    values = [value for given in node.all_input_nodes for value in pytree.tree_leaves(given.meta.get("val"))]
    counts = [value.numel() for value in values if isinstance(value, Tensor)]
    return {count for count in counts if isinstance(count, int)}


def _unbacked_sizes(value: Any) -> set[Any]:
    sizes = [size for _, size in _symbolic(value)] if isinstance(value, Tensor) else []
    return {symbol for size in sizes for symbol in free_unbacked_symbols(size)}


def _source_name(source: Any) -> str:
    name = source.name
    return str(name() if callable(name) else name)
