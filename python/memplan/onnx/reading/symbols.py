"""Symbolic dimensions of an ONNX model: named, checked against the sizes that the caller gives, bound."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from onnx import ModelProto, ValueInfoProto

from ...errors import SourceError
from ...importers import unbound
from ...text import counted
from .bodies import nested
from .types import static_shape, types

# What exporters write for a size that they do not know: it is no name, and twice the same is not one size.
_UNKNOWN = re.compile(r"\s*(\?|\*|-1|none|null|nan|unknown|dynamic|unk_*\d*|unk__.*)\s*", re.IGNORECASE)
_AXIS = re.compile(r"(.*)\[(-?\d+)\]", re.DOTALL)


class Shape(NamedTuple):
    """The shape of something that was given for an input, and how messages call it."""

    sizes: Sequence[int]
    what: str


class Bound(NamedTuple):
    """The sizes that were written, by symbol, and where the model says those that no input has: (value, axis)."""

    sizes: Mapping[str, int]
    inner: Mapping[str, Sequence[tuple[str, int]]]


def bind(model: ModelProto, dims: Mapping[str, int], shapes: Sequence[tuple[str, Shape]] = ()) -> Bound:
    """Write sizes in place of the symbolic dimensions of `model`: those of `dims`, and of the shapes of inputs.

    `dims` has names of dimensions, and `input[axis]`, which any dimension of an input is called too. A dimension that
    has no name, or one that says only that it is unknown, is called so alone.

    SourceError if a symbol of an input has no value (all of these are listed), if `dims` names one that the model does
    not have, or if two sizes are said of one dimension.
    """
    sizes = _Sizes(model, dict(shapes))
    for name, size in dims.items():
        sizes.say_by_name(name, size)
    for name, shape in shapes:
        sizes.say_shape(name, shape)
    sizes.check_all_said()
    inner: dict[str, list[tuple[str, int]]] = {}
    for value in _values(model):
        for axis, dimension in enumerate(_dimensions(value)):
            if (symbol := dimension.dim_param) in sizes.said:
                dimension.dim_value = sizes.said[symbol][0]
                if symbol not in sizes.places:
                    inner.setdefault(symbol, []).append((value.name, axis))
    return Bound({symbol: size for symbol, (size, _) in sizes.said.items()}, inner)


def check_followed(model: ModelProto, bound: Bound) -> None:
    """SourceError: a size that was given for what nodes make is not the one that follows from the others."""
    known = {name: static_shape(type) for graph in nested(model.graph) for name, type in types(graph).items()}
    for symbol, places in bound.inner.items():
        found = [(name, axis, shape[axis]) for name, axis in places if (shape := known.get(name)) and axis < len(shape)]
        if found and all(size != bound.sizes[symbol] for *_, size in found):
            others = ", ".join(f"{name} = {size}" for name, size in bound.sizes.items() if name != symbol)
            name, axis, size = found[0]
            raise SourceError(
                f"dims[{symbol!r}] is {bound.sizes[symbol]}, but dimension {axis} of {name!r} is {size}"
                + (f", as follows from {others}" if others else "")
            )


class _Sizes:
    """The sizes of a model's symbolic dimensions, and who said them."""

    def __init__(self, model: ModelProto, shapes: Mapping[str, Shape]) -> None:
        self.said: dict[str, tuple[int, str]] = {}
        self.places: dict[str, list[str]] = {}  # of symbols of inputs
        self._unknown: dict[str, list[str]] = {}  # the dimensions that bear what is no name
        self._inputs: dict[str, list[Any]] = {}
        for value in model.graph.input:
            if value.name in shapes and not value.type.tensor_type.HasField("shape"):
                value.type.tensor_type.shape.SetInParent()
                for _ in shapes[value.name].sizes:
                    value.type.tensor_type.shape.dim.add()
            self._inputs[value.name] = list(value.type.tensor_type.shape.dim)
            for axis, dimension in enumerate(self._inputs[value.name]):
                self._name(dimension, f"{value.name}[{axis}]")
                if dimension.dim_param:
                    self.places.setdefault(dimension.dim_param, []).append(f"dimension {axis} of {value.name!r}")
        for value in _values(model):
            for dimension in _dimensions(value):
                if _UNKNOWN.fullmatch(dimension.dim_param) and not dimension.dim_param[-1].isdigit():
                    dimension.ClearField("dim_param")
        others = (dimension.dim_param for value in _values(model) for dimension in _dimensions(value))
        self._known = dict.fromkeys([*self.places, *(name for name in others if name)])

    def _name(self, dimension: Any, axis: str) -> None:
        known = dimension.HasField("dim_value") and dimension.dim_value >= 0
        if not known and (not dimension.dim_param or _UNKNOWN.fullmatch(dimension.dim_param)):
            self._unknown.setdefault(dimension.dim_param, []).append(axis)
            dimension.dim_param = axis

    def say_by_name(self, name: str, size: int) -> None:
        """What `dims` says."""
        what = f"dims[{name!r}]"
        alike = self._unknown.get(name, [])
        if len(alike) > 1:
            raise SourceError(
                f"dims names {name!r}, which says only that a size is not known, of {len(alike)} dimensions: "
                f"name {', '.join(map(repr, alike))}"
            )
        if alike or name in self._known:
            return self._say(alike[0] if alike else name, size, what)
        if (dimension := self._of_axis(name)) is not None:
            return self._say_of(dimension, size, what, name)
        has = f"the model has {', '.join(map(repr, self._known))}" if self._known else "the model has none"
        raise SourceError(f"dims names no symbolic dimension of the model: {name!r}; {has}")

    def say_shape(self, name: str, shape: Shape) -> None:
        """What an example or a value says of an input."""
        own = self._inputs[name]
        if len(own) != len(shape.sizes):
            expected = counted(len(own), "dimensions")
            raise SourceError(f"{shape.what} must have {expected}, got the shape {list(shape.sizes)}")
        for axis, (dimension, size) in enumerate(zip(own, shape.sizes, strict=True)):
            self._say_of(dimension, size, f"dimension {axis} of {shape.what}", f"{name}[{axis}]")

    def check_all_said(self) -> None:
        """SourceError lists all symbols of inputs without a size."""
        missing = [
            unbound.Dimension((name,), places[0]) for name, places in self.places.items() if name not in self.said
        ]
        if missing:
            raise unbound.no_sizes(missing)

    def _of_axis(self, name: str) -> Any:
        """The dimension that `input[axis]` calls; None if there is none."""
        found = _AXIS.fullmatch(name)
        own = self._inputs.get(found[1], []) if found else []
        axis = int(found[2]) if found else 0
        return own[axis] if -len(own) <= axis < len(own) else None

    def _say_of(self, dimension: Any, size: int, what: str, axis: str) -> None:
        if dimension.dim_param:
            self._say(dimension.dim_param, size, what)
        elif dimension.dim_value != size:
            raise SourceError(f"{what} is {size}, but {axis!r} is {dimension.dim_value} in the model")

    def _say(self, symbol: str, size: int, what: str) -> None:
        before, who = self.said.setdefault(symbol, (size, what))
        if before != size:
            places = " and ".join(dict.fromkeys(self.places.get(symbol, [])))
            same = f"both are {symbol!r}" + (f", {places}" if places else "")
            raise SourceError(f"sizes contradict each other: {who} is {before}, {what} is {size}; {same}")


def _values(model: ModelProto) -> Iterator[ValueInfoProto]:
    for graph in nested(model.graph):
        yield from (*graph.input, *graph.output, *graph.value_info)


def _dimensions(value: ValueInfoProto) -> Any:
    return value.type.tensor_type.shape.dim
