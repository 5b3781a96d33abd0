"""Stand-ins without data: fake tensors of the same sizes, and the walk over nests of arguments and results.

A weight is never read, copied or allocated: only its sizes, strides, dtype and storage are looked at. Tensors
that share a storage have stand-ins that share one too.
"""

from __future__ import annotations

import copy
import enum
import types
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.fx.immutable_collections import immutable_dict, immutable_list
from torch.nn.parameter import is_lazy

from ...errors import SourceError
from ..private import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedOperatorException,
    disable_current_modes,
    neg_view,
    storage_key,
)
from . import ctc

PLAIN = (type(None), bool, int, float, complex, str, bytes, enum.Enum)
_CODE = (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType)
_TORCH = (torch.nn.Module, torch.dtype, torch.device, torch.memory_format, torch.layout, torch.Generator)
SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


class Fakes:
    """Makes fake tensors of one mode from real, meta and foreign fake tensors; one stand-in per tensor.

    Meta tensors are given the device of the first of `tensors`, what the run starts from, that has another one. `size`
    turns a symbolic size into a number; it raises SourceError where it cannot. With `symbols`, a ShapeEnv, sizes that
    depend on data are symbols.
    """

    def __init__(
        self, tensors: Iterable[Tensor] = (), size: Callable[[Any], int] | None = None, symbols: Any = None
    ) -> None:
        self.mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=symbols)
        self._size = size or known_size
        self._device = next((t.device for t in tensors if t.device.type != "meta"), torch.device("cpu"))
        self._storages: dict[int, Tensor] = {}
        self._made: dict[int, Tensor] = {}
        self._origin: dict[int, Tensor] = {}
        self._kept: list[object] = []  # what the ids and addresses above belong to

    def __call__(self, tensor: Tensor, what: str) -> Tensor:
        """The stand-in of `tensor`: a leaf, which requires a gradient if `tensor` does. Errors call it `what`.

        SourceError if it is not a dense tensor of torch itself: sparse, quantized, nested, not yet initialized, or of a
        subclass that has its own dispatch.
        """
        if id(tensor) not in self._made:
            require_dense(tensor, what)
            self._kept.append(tensor)
            with disable_current_modes(), torch.inference_mode(False), self.mode:
                self._made[id(tensor)] = self._make(tensor)
            self._origin[id(self._made[id(tensor)])] = tensor
        return self._made[id(tensor)]

    def made(self, tensor: Tensor) -> Tensor:
        """The stand-in of a tensor; itself if it has none."""
        return self._made.get(id(tensor), tensor)

    def stands_for(self, fake: Tensor, tensor: Tensor) -> None:
        """A tensor of the mode is the stand-in of another one from now on."""
        handle = tensor.untyped_storage()
        self._kept += [tensor, fake, handle]
        self._made[id(tensor)] = fake
        self._storages.setdefault(storage_key(handle), fake)

    @property
    def device(self) -> str:
        """The type of device that the run is on."""
        return self._device.type

    def origin(self, fake: Tensor) -> Tensor | None:
        """What a tensor is the stand-in of; None if it is none."""
        return self._origin.get(id(fake))

    def owns(self, tensor: Tensor) -> bool:
        """Whether the tensor is a fake one of this mode."""
        return isinstance(tensor, FakeTensor) and tensor.fake_mode is self.mode

    def running(self) -> ExitStack:
        """A context in which torch makes fake tensors of this mode only, whatever modes the caller has on."""
        stack = ExitStack()
        stack.enter_context(disable_current_modes())
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(ctc.taken_apart())
        if torch.get_default_device().type == "meta":
            stack.enter_context(torch.device(self._device))
        stack.enter_context(self.mode)
        return stack

    def _make(self, tensor: Tensor) -> Tensor:
        base = self._storage(tensor)
        sizes = [self._size(n) for n in tensor.shape]
        strides = [self._size(n) for n in tensor.stride()]
        empty = torch.empty(0, dtype=tensor.dtype, device=base.device)
        with torch.no_grad():
            fake = empty.set_(base.untyped_storage(), self._size(tensor.storage_offset()), sizes, strides)
            fake = neg_view(fake) if tensor.is_neg() else fake
            fake = fake.conj() if tensor.is_conj() else fake
        if isinstance(tensor, torch.nn.Parameter):
            return torch.nn.Parameter(fake, requires_grad=tensor.requires_grad)
        return fake.requires_grad_(tensor.requires_grad)

    def _storage(self, tensor: Tensor) -> Tensor:
        handle = tensor.untyped_storage()
        if storage_key(handle) not in self._storages:
            device = self._device if tensor.device.type == "meta" else tensor.device
            nbytes = self._size(handle.nbytes())
            self._kept.append(handle)
            self._storages[storage_key(handle)] = torch.empty(nbytes, dtype=torch.uint8, device=device)
        return self._storages[storage_key(handle)]


def known_size(size: int | torch.SymInt) -> int:
    """A size as a number: a symbolic one is its hint. SourceError names a symbol that has none."""
    if isinstance(size, int):
        return size
    if size.node.hint is None:
        raise SourceError(f"size {size} is not known: it depends on data")
    return int(size.node.hint)


def require_dense(tensor: Tensor, what: str) -> None:
    """SourceError unless a tensor is a dense one of torch itself."""
    kind = type(tensor)
    if is_lazy(tensor):
        raise SourceError(f"{what} is not initialized: run the lazy module once before importing it")
    if not isinstance(tensor, FakeTensor) and kind.__torch_dispatch__ is not Tensor.__torch_dispatch__:
        subclass = f"{kind.__module__}.{kind.__qualname__}"
        sharded = kind.__module__.startswith("torch.distributed.")
        advice = "; give the module as it is before it is sharded, as by fully_shard" if sharded else ""
        raise SourceError(f"{what}: expected a plain tensor, got the subclass {subclass}{advice}")
    if tensor.is_nested or tensor.is_quantized or tensor.layout != torch.strided:
        form = "nested" if tensor.is_nested else "quantized" if tensor.is_quantized else str(tensor.layout)
        raise SourceError(f"{what}: expected a dense (strided) tensor, got a {form} one")


def map_tensors(value: Any, replace: Callable[[Tensor, str], Tensor], path: str) -> Any:
    """`value` with every tensor replaced: in mappings, sequences and the attributes of objects, at any depth.

    What holds no tensor that changes is passed on as it is; what does is copied, never changed itself. `replace` is
    given a tensor and its path, `cache.layers.0.keys`.
    """
    return _Walk(replace).visit(value, path)


def tensors_in(value: Any, path: str = "output") -> list[tuple[str, Tensor]]:
    """All tensors of a nest, with their paths, in the order of the walk."""
    found: list[tuple[str, Tensor]] = []

    def collect(tensor: Tensor, where: str) -> Tensor:
        found.append((where, tensor))
        return tensor

    map_tensors(value, collect, path)
    return found


class _Walk:
    def __init__(self, replace: Callable[[Tensor, str], Tensor]) -> None:
        self._replace = replace
        self._done: dict[int, Any] = {}
        self._kept: list[Any] = []

    def visit(self, value: Any, path: str) -> Any:
        if isinstance(value, Tensor):
            return self._replace(value, path)
        if isinstance(value, (*PLAIN, *_CODE, *_TORCH, *SYMBOLIC)):
            return value
        if id(value) not in self._done:
            self._kept.append(value)
            self._done[id(value)] = value  # what a cycle meets
            self._done[id(value)] = self._inside(value, path)
        return self._done[id(value)]

    def _inside(self, value: Any, path: str) -> Any:
        if isinstance(value, Mapping):
            return self._mapping(value, path)
        if isinstance(value, (list, tuple)):
            return self._sequence(value, path)
        if isinstance(getattr(value, "__dict__", None), dict):
            return self._object(value, path)
        return value

    def _mapping(self, value: Mapping[Any, Any], path: str) -> Any:
        items = {key: self.visit(item, _join(path, key)) for key, item in value.items()}
        changed = {key: item for key, item in items.items() if item is not value[key]}
        if not changed:
            return value
        replaced: Any = dict(value) if isinstance(value, immutable_dict) else copy.copy(value)
        for key, item in changed.items():
            replaced[key] = item
        return replaced

    def _sequence(self, value: list[Any] | tuple[Any, ...], path: str) -> Any:
        items = [self.visit(item, _join(path, number)) for number, item in enumerate(value)]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        if isinstance(value, tuple):
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        replaced = list(value) if isinstance(value, immutable_list) else copy.copy(value)
        replaced[:] = items
        return replaced

    def _object(self, value: Any, path: str) -> Any:
        old = vars(value)
        new = {key: self.visit(item, _join(path, key)) for key, item in list(old.items())}
        if all(new[key] is old[key] for key in new):
            return value
        replaced = copy.copy(value)
        vars(replaced).update(new)
        return replaced


def _join(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)


def describe(value: Any) -> str:
    """A short text of an argument: tensors by dtype and sizes, `float32[1, 3, 224, 224]`."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}[{', '.join(map(str, value.shape))}]"
    if isinstance(value, (bool, int, float, str, type(None))):
        text = repr(value)
        return text if len(text) <= 40 else text[:37] + "..."
    return f"{type(value).__module__}.{type(value).__name__}" if isinstance(value, np.ndarray) else type(value).__name__


def depends_on_data(error: BaseException) -> bool:
    """Whether torch could not run something because a size or a branch depends on data."""
    return isinstance(error, (DynamicOutputShapeException, DataDependentOutputException))


def explain(error: BaseException) -> str:
    """Why torch could not run something without data, in a few words: the end of a sentence."""
    if isinstance(error, DynamicOutputShapeException):
        return "the size of its output depends on data, which cannot be planned"
    if isinstance(error, DataDependentOutputException):
        return "it reads the value of a tensor, and values are not known when planning"
    if isinstance(error, UnsupportedOperatorException):
        return "it has no fake (meta) kernel to tell the sizes of its outputs; torch.library.register_fake gives it one"
    first = str(error).strip().split("\n", 1)[0].rstrip(". ")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
