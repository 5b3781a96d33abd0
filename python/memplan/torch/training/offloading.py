"""Eager training within a budget: what modules keep for the backward pass lies elsewhere until it is read.

torch calls a hook with each tensor that autograd keeps, and one when it is read. The first copies the bytes out, and
autograd keeps a handle; the second brings them back. On CUDA, host memory is pinned memory of the CPU; on the CPU, it
is a file.

A tensor and its views are copied once, as long as nobody writes to them: they have one version. Tensors that share
bytes and have versions of their own, as the parts that `unsafe_chunk` makes, have copies of their own: the version of
one does not say whether the other was written to.
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
from torch.autograd.graph import saved_tensors_hooks

from ...errors import UnsupportedError
from ..private import FakeTensor, base_of, version_of
from ..reading.geometry import span
from .choosing import Way
from .replaced_forward import Wrapped, replaced_forward

_LEAST = 4096  # bytes of a storage that is worth a copy
_ALIGNED = 64  # bytes: torch aligns its storages so


def outside(model: torch.nn.Module, store: Store, transfer: float = 1.0) -> Way:
    """Modules keep tensors in host memory; on the CPU, in a file."""
    make = partial(_Outside, store=store)
    return Way(
        False,
        lambda names: replaced_forward(model, names, make),
        lambda found: found.rewritten,
        transfer=transfer,
    )


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
                # What autograd keeps must not keep what has made it.
                return tensor if leaf else tensor.detach(), version_of(tensor)
            return _Handle(tensor, self._store.out(tensor))

        def unpack(packed: tuple[Tensor, int] | _Handle) -> Tensor:
            if isinstance(packed, _Handle):
                return packed.tensor()
            tensor, version = packed
            if version_of(tensor) != version:  # autograd does not look where there are hooks
                what = f"module '{self.name}' has kept {self.named(tensor)}, which was written to since its forward"
                raise UnsupportedError(f"memplan.torch.offload(): {what}; write to it after the backward pass")
            return tensor

        with saved_tensors_hooks(pack, unpack):
            return self.forward(*args, **kwargs)


class _Handle:
    """A tensor whose bytes lie elsewhere."""

    def __init__(self, tensor: Tensor, outside: _Bytes) -> None:
        self._outside = outside
        self._dtype, self._device = tensor.dtype, tensor.device
        offset = tensor.storage_offset() - outside.begin // tensor.dtype.itemsize
        self._lies = (offset, tuple(tensor.shape), tensor.stride())

    def tensor(self) -> Tensor:
        """The tensor, back where it was."""
        offset, shape, stride = self._lies
        empty = torch.empty(0, dtype=self._dtype, device=self._device)
        return empty.set_(self._outside.back(), offset, shape, stride)


class _Bytes:
    """Bytes [begin, end) of the storage of a tensor, elsewhere. While someone reads them, they are back once."""

    def __init__(self, root: Tensor, begin: int, end: int, fetch: Callable[[], Tensor]) -> None:
        self._of, self._version = (weakref.ref(root), weakref.ref(root.untyped_storage())), version_of(root)
        self.begin, self.end = begin, end
        self._fetch = fetch
        self._here: weakref.ref[Any] | None = None
        self._lock = threading.Lock()

    def are(self, root: Tensor, begin: int, end: int) -> bool:
        """Whether they hold these bytes of a tensor, which nobody has written to since."""
        tensor, storage = self._of
        same = tensor() is root and storage() is root.untyped_storage() and self._version == version_of(root)
        return same and self.begin <= begin and end <= self.end

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
        """The bytes of a tensor elsewhere; once for all views of one tensor, as long as nobody writes to it."""
        root = base_of(tensor)
        begin, end = span(tensor)
        with self._lock:
            known = self._out.get(id(root))
            if known is not None and known.are(root, begin, end):
                return known
            outside = self._out[id(root)] = self._moved(root, *_region(root, begin, end))
            return outside

    def _moved(self, root: Tensor, begin: int, end: int) -> _Bytes:
        size = end - begin
        empty = partial(torch.empty, size, dtype=torch.uint8, device=root.device)
        if isinstance(root, FakeTensor):  # has no data
            return _Bytes(root, begin, end, empty)
        bytes_ = torch.empty(0, dtype=torch.uint8, device=root.device)
        bytes_.set_(root.untyped_storage(), begin, (size,), (1,))
        self.moved += size
        if root.device.type != "cpu":  # copies run in the current stream, as kernels do
            host = torch.empty(size, dtype=torch.uint8, pin_memory=True).copy_(bytes_, non_blocking=True)
            return _Bytes(root, begin, end, lambda: empty().copy_(host, non_blocking=True))
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115
        free = self._free.get(size)
        offset = free.pop() if free else self._end
        self._end = max(self._end, offset + size)
        _write(self._file, offset, bytes_)
        outside = _Bytes(root, begin, end, partial(_read, self._file, offset, size))
        weakref.finalize(outside, self._drop, offset, size)
        return outside

    def _drop(self, offset: int, size: int) -> None:
        with self._lock:
            self._free.setdefault(size, []).append(offset)


def _region(root: Tensor, begin: int, end: int) -> tuple[int, int]:
    """The bytes of a storage that are copied for a tensor and its views: [begin, end) among them.

    They begin where kernels find the same alignment as before.
    """
    first, last = span(root)
    if begin < first or last < end:  # a view may show what the tensor does not
        first, last = 0, root.untyped_storage().nbytes()
    return first // _ALIGNED * _ALIGNED, last


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
