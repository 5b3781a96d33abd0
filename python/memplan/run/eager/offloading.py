"""Eager training within a budget: what modules keep for the backward pass lies elsewhere until it is read.

torch calls a hook with each tensor that autograd keeps, and one when it is read. The first copies the bytes of its
storage out, and autograd keeps a handle; the second brings them back. A storage that is kept several times is copied
once. On CUDA, host memory is pinned memory of the CPU; on the CPU, it is a file.
"""

from __future__ import annotations

import os
import tempfile
import threading
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd.graph import saved_tensors_hooks

from ...errors import UnsupportedError
from .choosing import Way
from .wrapping import Wrapped, replaced_forward

_LEAST = 4096  # bytes of a storage that is worth a copy


def outside(model: torch.nn.Module, store: Store, transfer: float = 1.0) -> Way:
    """Modules keep tensors in host memory; on the CPU, in a file."""
    return Way(False, lambda names: replaced_forward(model, names, partial(_Outside, store=store)), transfer=transfer)


class _Outside(Wrapped):
    """The forward of a module, whose saved tensors lie elsewhere."""

    def __init__(
        self, name: str, module: torch.nn.Module, forward: Callable[..., Any], model: torch.nn.Module, store: Store
    ) -> None:
        super().__init__(name, module, forward, model)
        self._store = store

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return self.forward(*args, **kwargs)
        weights = [*self.module.parameters(), *self.module.buffers()]
        stay = {id(tensor.untyped_storage()) for tensor in weights}

        def pack(tensor: Tensor) -> tuple[Tensor, int] | _Handle:
            strided = tensor.layout == torch.strided
            leaf = tensor.is_leaf and tensor.requires_grad
            if (
                leaf
                or not strided
                or id(tensor.untyped_storage()) in stay
                or tensor.untyped_storage().nbytes() < _LEAST
            ):
                return tensor, tensor._version
            return _Handle(tensor, self._store.out(tensor))

        def unpack(packed: tuple[Tensor, int] | _Handle) -> Tensor:
            if isinstance(packed, _Handle):
                return packed.tensor()
            tensor, version = packed
            if tensor._version != version:  # autograd does not look where there are hooks
                what = f"module '{self.name}' has kept {self.named(tensor)}, which was written to since its forward"
                raise UnsupportedError(f"memplan.run.offload(): {what}; write to it after the backward pass")
            return tensor

        with saved_tensors_hooks(pack, unpack):
            return self.forward(*args, **kwargs)


class _Handle:
    """A tensor whose bytes lie elsewhere."""

    def __init__(self, tensor: Tensor, outside: _Bytes) -> None:
        self._outside = outside
        self._dtype, self._device = tensor.dtype, tensor.device
        self._lies = (tensor.storage_offset(), tuple(tensor.shape), tensor.stride())

    def tensor(self) -> Tensor:
        """The tensor, back where it was."""
        offset, shape, stride = self._lies
        empty = torch.empty(0, dtype=self._dtype, device=self._device)
        return empty.set_(self._outside.back(), offset, shape, stride)


class _Bytes:
    """The bytes of a storage elsewhere. While someone reads them, they are back once."""

    def __init__(self, storage: Any, version: int, fetch: Callable[[], Tensor]) -> None:
        self._of, self._version = weakref.ref(storage), version
        self._fetch = fetch
        self._here: weakref.ref[Any] | None = None
        self._lock = threading.Lock()

    def are(self, storage: Any, version: int) -> bool:
        """Whether they are those of a storage, which nobody has written to since."""
        return self._of() is storage and self._version == version

    def back(self) -> Any:
        """A storage of these bytes."""
        with self._lock:
            storage = None if self._here is None else self._here()
            if storage is None:
                storage = self._fetch().untyped_storage()
                self._here = weakref.ref(storage)
            return storage


class Store:
    """Where bytes go: pinned memory for those of a GPU, else a file. What autograd drops makes room in the file."""

    def __init__(self, folder: str | None) -> None:
        if folder is not None and not os.path.isdir(folder):
            raise FileNotFoundError(f"folder must be a folder that exists, got {folder!r}")
        self.moved = 0
        self._folder = folder
        self._file: Any = None
        self._end = 0
        self._free: dict[int, list[int]] = {}
        self._out: weakref.WeakValueDictionary[int, _Bytes] = weakref.WeakValueDictionary()
        self._lock = threading.RLock()  # bytes may be dropped while others are moved

    def __reduce__(self) -> tuple[type[Store], tuple[str | None]]:
        """A copy of a model, or one from a file, has a file of its own for its tensors."""
        return Store, (self._folder,)

    def out(self, tensor: Tensor) -> _Bytes:
        """The bytes of the storage of a tensor elsewhere; once, as long as nobody writes to it."""
        storage, version = tensor.untyped_storage(), tensor._version
        with self._lock:
            known = self._out.get(id(storage))
            if known is not None and known.are(storage, version):
                return known
            outside = self._out[id(storage)] = self._moved(tensor, storage, version)
            return outside

    def _moved(self, tensor: Tensor, storage: Any, version: int) -> _Bytes:
        size = storage.nbytes()
        empty = partial(torch.empty, size, dtype=torch.uint8, device=tensor.device)
        if isinstance(tensor, FakeTensor):  # has no data
            return _Bytes(storage, version, empty)
        whole = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
        self.moved += size
        if tensor.device.type != "cpu":  # copies run in the current stream, as kernels do
            host = torch.empty(size, dtype=torch.uint8, pin_memory=True).copy_(whole, non_blocking=True)
            return _Bytes(storage, version, lambda: empty().copy_(host, non_blocking=True))
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115
        free = self._free.get(size)
        offset = free.pop() if free else self._end
        self._end = max(self._end, offset + size)
        _write(self._file, offset, whole)
        outside = _Bytes(storage, version, partial(_read, self._file, offset, size))
        weakref.finalize(outside, self._drop, offset, size)
        return outside

    def _drop(self, offset: int, size: int) -> None:
        with self._lock:
            self._free.setdefault(size, []).append(offset)


def _write(file: Any, offset: int, whole: Tensor) -> None:
    data, done = _content(whole), 0
    while done < len(data):
        done += os.pwrite(file.fileno(), data[done:], offset + done)


def _read(file: Any, offset: int, size: int) -> Tensor:
    found = torch.empty(size, dtype=torch.uint8)
    data, done = _content(found), 0
    while done < size:
        read = os.preadv(file.fileno(), [data[done:]], offset + done)
        if not read:
            raise OSError(f"the file of tensors moved out ends at {offset + done} bytes")
        done += read
    return found


def _content(whole: Tensor) -> memoryview:
    array: Any = whole.numpy()
    return memoryview(array)
