"""What a module refers to, at any depth: its parts, and what its attributes, hooks and closures hold."""

from __future__ import annotations

import functools
import logging
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx

from ..private import OperatorBase, OpOverloadPacket
from .fake import PLAIN, SYMBOLIC

CONTAINERS = (dict, OrderedDict, defaultdict, list, set, deque)  # that are copied as they are met
_ATOMS = (
    *(*PLAIN, *SYMBOLIC, type, types.BuiltinFunctionType, types.ModuleType, logging.Logger, np.ndarray),
    *(torch.dtype, torch.device, torch.memory_format, torch.layout, torch.Generator, torch.Size),
    *(fx.Graph, fx.Node, torch.jit.ScriptModule, torch.jit.ScriptFunction, OpOverloadPacket),
    *(OperatorBase, torch.UntypedStorage, torch.autograd.graph.Node),
)


def is_atom(value: Any) -> bool:
    """Whether a value is neither copied nor looked into."""
    return isinstance(value, _ATOMS) or _compiles(value)


def _compiles(value: Any) -> bool:
    """Whether a value belongs to torch's compiler, which is off while a module is traced."""
    return type(value).__module__.startswith("torch._dynamo") and not isinstance(value, torch.nn.Module)


def held_by(value: Any) -> Iterator[tuple[Any, Any]]:
    """What a value refers to, with a key each: the name of an attribute, a key, a position."""
    if isinstance(value, dict):
        yield from value.items()
        yield from ((("key", number), key) for number, key in enumerate(value) if not is_atom(key))
    elif isinstance(value, (list, tuple, deque)):
        yield from enumerate(value)
    elif isinstance(value, (set, frozenset)):
        yield from ((("item", number), item) for number, item in enumerate(value))
    elif isinstance(value, weakref.ref):
        yield "()", value()
    elif isinstance(value, types.MethodType):
        yield "__func__", value.__func__
        yield "__self__", value.__self__
    elif isinstance(value, functools.partial):
        yield from (("func", value.func), ("args", value.args), ("keywords", value.keywords))
    elif isinstance(value, types.FunctionType):
        yield from _in_function(value)
    yield from attributes_of(value).items()


def attributes_of(value: Any) -> dict[str, Any]:
    """The attributes that an object has itself."""
    found = None if isinstance(value, types.MethodType) else getattr(value, "__dict__", None)
    return found if isinstance(found, dict) else {}


def _in_function(function: types.FunctionType) -> Iterator[tuple[Any, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield ("cell", name), cell.cell_contents
        except ValueError:  # not bound yet
            continue
    for name in function.__code__.co_names:
        if isinstance(function.__globals__.get(name), torch.nn.Module):
            yield ("global", name), function.__globals__[name]
    yield from (("__defaults__", function.__defaults__), ("__kwdefaults__", function.__kwdefaults__))


class Reached:
    """All that is reached from a value, by their ids; `to_copy` are those from which a module or a tensor is."""

    def __init__(self, value: Any, tensors: dict[int, Tensor]) -> None:
        self.found: dict[int, Any] = {}
        holders: dict[int, list[int]] = {}
        seeds: list[int] = []
        todo = [value]
        while todo:
            holder = todo.pop()
            if id(holder) in self.found:
                continue
            self.found[id(holder)] = holder
            if isinstance(holder, torch.nn.Module) or id(holder) in tensors:
                seeds.append(id(holder))
            for _, item in () if isinstance(holder, Tensor) else held_by(holder):
                if not is_atom(item):
                    holders.setdefault(id(item), []).append(id(holder))
                    todo.append(item)
        self.to_copy: set[int] = set()
        while seeds:
            key = seeds.pop()
            if key not in self.to_copy:
                self.to_copy.add(key)
                seeds += holders.get(key, ())
