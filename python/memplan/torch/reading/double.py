"""A module's double: what is traced in its place, since others may use the module meanwhile.

The double has the module's parts and attributes, with stand-ins for weights. Whatever refers to a part or to a weight,
a list, a hook, a closure, is copied as well, and refers to the double's. All else is shared. So forward binds
attributes of the double, and nothing of the module is fake at any time.
"""

from __future__ import annotations

import copy
import functools
import types
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ..private import left_alone, pytree
from .reached import CONTAINERS, Reached, attributes_of, held_by, is_atom


class Exchanging(TorchFunctionMode):
    """Gives torch the stand-ins of weights, wherever code has the weights from."""

    def __init__(self, stand_in: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self._stand_in = stand_in

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        args, kwargs = pytree.tree_map_only(Tensor, self._stand_in, (args, dict(kwargs or {})))
        return func(*args, **kwargs)


class Double:
    """The double of a module.

    Attributes
    ----------
    module : torch.nn.Module
        The double itself.
    """

    def __init__(self, module: torch.nn.Module, weights: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> None:
        """`weights` are the stand-ins of the parameters and buffers in `state`, by name."""
        self._swapped = {id(state[name]): stand_in for name, stand_in in weights.items()}
        reached = Reached(module, {id(tensor): tensor for tensor in state.values()})
        self._found, self._to_copy = reached.found, reached.to_copy
        self._copies: dict[int, Any] = {}
        parts = [part for part in self._found.values() if _is_part(part)]
        for part in parts:
            self._copies[id(part)] = _shell(part)
        self._originals = dict[int, torch.nn.Module]({id(self._copies[id(part)]): part for part in parts})
        for part in parts:
            vars(self._copies[id(part)]).update((key, self.of(value)) for key, value in list(vars(part).items()))
        self.module: torch.nn.Module = self.of(module)

    def original(self, part: torch.nn.Module) -> torch.nn.Module:
        """The part of the module that a part of the double stands for."""
        return self._originals[id(part)]

    def of(self, value: Any) -> Any:
        """What the double has where the module has a value."""
        if isinstance(value, Tensor):
            return self._swapped.get(id(value), value)
        if is_atom(value):
            return value
        if id(value) in self._copies:
            return self._copies[id(value)]
        if type(value) in CONTAINERS:
            return self._filled(value, copy.copy(value))
        if id(value) not in self._to_copy:
            return value
        return self._made(value)

    @contextmanager
    def sharing(self) -> Iterator[None]:
        """Put back what forward changes in objects that the double shares with the module."""
        shared = [value for key, value in self._found.items() if key not in self._copies and not is_atom(value)]
        held: list[Any] = [attributes for value in shared if (attributes := attributes_of(value))]
        held += [value for value in shared if isinstance(value, CONTAINERS)]
        before = [(value, copy.copy(value)) for value in held]
        try:
            yield
        finally:
            for value, then in before:
                if not _alike(value, then):
                    _refill(value, then)

    def _filled(self, value: Any, shell: Any) -> Any:
        """A container with what the double has for its items."""
        self._copies[id(value)] = shell
        items = [self.of(item) for item in (value.values() if isinstance(value, dict) else value)]
        if isinstance(value, dict):
            if any(id(key) in self._to_copy for key in value):
                shell.clear()
            shell.update(zip(map(self._key, value), items, strict=True))
        elif isinstance(value, set):
            shell.clear()
            shell.update(items)
        else:
            for place, item in enumerate(items):
                shell[place] = item
        return shell

    def _key(self, key: Any) -> Any:
        return self.of(key) if id(key) in self._to_copy else key

    def _made(self, value: Any) -> Any:
        """A copy of what refers to a part or a weight."""
        self._copies[id(value)] = value  # what a cycle meets
        compiled = left_alone(attributes_of(value))
        made = self._immutable(value) if compiled is None else self.of(compiled)
        if made is None:
            try:
                made = copy.copy(value)
            except Exception:  # it may be of any kind
                return value
            self._copies[id(value)] = made
            if isinstance(value, (dict, list, set)):
                self._filled(value, made)
        self._copies[id(value)] = made
        if compiled is not None:
            return made
        attributes_of(made).update((key, self.of(item)) for key, item in list(attributes_of(value).items()))
        return made

    def _immutable(self, value: Any) -> Any:
        if isinstance(value, tuple):
            items = [self.of(item) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        if isinstance(value, frozenset):
            return type(value)(map(self.of, value))
        if isinstance(value, types.MethodType):
            return types.MethodType(self.of(value.__func__), self.of(value.__self__))
        if isinstance(value, functools.partial):
            return type(value)(self.of(value.func), *self.of(value.args), **self.of(value.keywords))
        if isinstance(value, weakref.ref):
            return weakref.ref(self.of(value()))
        if isinstance(value, types.FunctionType):
            return self._function(value)
        return None

    def _function(self, function: types.FunctionType) -> Any:
        """A function whose closure, and whose global names, are the double's."""
        held = {key: self.of(item) for key, item in held_by(function)}
        cells = tuple(
            types.CellType(held["cell", name]) if ("cell", name) in held else types.CellType()
            for name in function.__code__.co_freevars
        )
        named = {key[1]: item for key, item in held.items() if isinstance(key, tuple) and key[0] == "global"}
        names = {**function.__globals__, **named} if named else function.__globals__
        made = types.FunctionType(function.__code__, names, function.__name__, held["__defaults__"], cells)
        made.__kwdefaults__, made.__qualname__ = held["__kwdefaults__"], function.__qualname__
        made.__module__, made.__doc__ = function.__module__, function.__doc__
        return made


def _is_part(value: Any) -> bool:
    return isinstance(value, torch.nn.Module) and not isinstance(value, type)


def _shell(part: torch.nn.Module) -> torch.nn.Module:
    """A part without attributes."""
    try:
        return object.__new__(type(part))
    except TypeError:  # of a class that is a container too
        return copy.copy(part)


def _alike(value: Any, then: Any) -> bool:
    """Whether a container holds the same objects."""
    if len(value) != len(then):
        return False
    if isinstance(value, dict):
        return all(key in value and value[key] is item for key, item in then.items())
    if isinstance(value, set):
        return bool(value == then)
    return all(one is other for one, other in zip(value, then, strict=True))


def _refill(value: Any, then: Any) -> None:
    value.clear()
    if isinstance(value, (dict, set)):
        value.update(then)
    else:
        value.extend(then)
