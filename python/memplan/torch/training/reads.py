"""What a forward reads from outside of itself: tensors that were there before it, and their versions.

torch counts how often a tensor was written to: its version. A forward that runs again reads the same numbers if all
that it read from outside has the version that it had, in the same storage. What forward makes itself is of no account.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple
from weakref import WeakSet, ref

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ...errors import UnsupportedError
from ..private import storage_key, version_of

_SHOW_THE_SAME = {"data", "T", "H", "mT", "mH", "real", "imag"}  # attributes of a tensor that show its bytes


class ChangedError(UnsupportedError):
    """A module cannot compute again what it has computed: `module` is its name."""

    def __init__(self, module: str, message: str) -> None:
        super().__init__(message)
        self.module = module


class _Read(NamedTuple):
    """A tensor, its version and its storage when forward met it. What is freed cannot be read again."""

    tensor: ref[Tensor]
    version: int
    storage: int | None


class Reads(TorchFunctionMode):
    """Notes what is read while it is on: by functions of torch, and by autograd.

    Parameters
    ----------
    own : iterable of Tensor
        What forward may change: its rerun reads copies.
    """

    def __init__(self, own: Iterable[Tensor]) -> None:
        super().__init__()
        self.generators: dict[int, tuple[torch.Generator, Tensor]] = {}  # that it draws from, and their first states
        self._inside = {_storage(tensor) for tensor in own}
        self._outside: set[int | None] = set()
        self._read: dict[int, _Read] = {}
        _WAITING.add(self)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        asks = getattr(func, "__name__", "") == "__get__"
        if not asks or func.__self__.__name__ in _SHOW_THE_SAME:
            self._note_all(args)
        if kwargs:
            self._note_all(kwargs.values())
            generator = kwargs.get("generator")
            if isinstance(generator, torch.Generator) and id(generator) not in self.generators:
                self.generators[id(generator)] = generator, generator.get_state()
        result = func(*args, **kwargs) if kwargs else func(*args)
        if not asks:
            self._made(result)
        return result

    def note(self, tensor: Tensor) -> None:
        """Note a tensor, if forward has not made it."""
        storage = _storage(tensor)
        if storage in self._inside or id(tensor) in self._read or tensor.is_inference():
            return
        self._outside.add(storage)
        self._read[id(tensor)] = _Read(ref(tensor), version_of(tensor), storage)

    def changed(self) -> Tensor | None:
        """A tensor that is not as it was when it was read; None for none."""
        for seen, version, storage in self._read.values():
            tensor = seen()
            if tensor is not None and (version_of(tensor) != version or _storage(tensor) != storage):
                return tensor
        return None

    def done(self) -> None:
        """What was read will not be read again, but by another backward pass."""
        _WAITING.discard(self)

    def __contains__(self, tensor: Tensor) -> bool:
        read = self._read.get(id(tensor))
        return read is not None and read.tensor() is tensor

    def _note_all(self, values: Iterable[Any]) -> None:
        for value in values:
            if isinstance(value, Tensor):
                self.note(value)
            elif isinstance(value, (tuple, list)):
                self._note_all(value)

    def _made(self, result: Any) -> None:
        if isinstance(result, Tensor):
            storage = _storage(result)
            if storage not in self._outside:
                self._inside.add(storage)
        elif isinstance(result, (tuple, list)):
            for part in result:
                self._made(part)


_WAITING: WeakSet[Reads] = WeakSet()


def is_read_again(tensor: Tensor) -> bool:
    """Whether a forward that is still to run again reads a tensor."""
    return any(tensor in reads for reads in list(_WAITING))


def _storage(tensor: Tensor) -> int | None:
    """What tensors of the same bytes have in common; None for tensors without bytes of their own, as sparse ones."""
    try:
        return int(storage_key(tensor.untyped_storage()))
    except (NotImplementedError, RuntimeError):
        return None
