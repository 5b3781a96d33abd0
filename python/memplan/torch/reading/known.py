"""Tensors whose values are known without data: small whole numbers and truths that depend on no input, as positions.

Code branches on them, as eager torch does: whether positions begin anew, whether a mask hides anything. So they are
real tensors while a network is traced. Each has a stand-in, which is what is recorded.

Only operators of torch make them, of numbers and of each other, and nothing may write to them: what is recorded would
not be what the code holds. Then the network is traced once more, and nothing is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..private import disable_current_modes, schema_of
from .effects import flat_tensors
from .fake import Fakes
from .geometry import Geometry, address, geometry

_aten = torch.ops.aten
_MOST = 1 << 16  # elements of a tensor
_MOST_TOGETHER = 1 << 20  # elements of all that are known
_TOLD = {_aten._local_scalar_dense.default, _aten.equal.default}  # what tells a value
# What makes tensors of numbers alone
_MAKERS = {"arange", "eye", "full", "ones", "scalar_tensor", "tril_indices", "triu_indices", "zeros"}
_BY_CHANCE = ("_philox", "empty", "new_empty", "resize", "_resize")  # how the names begin of what writes no values


class WrittenError(Exception):
    """What was known is written to."""


class Known:
    """Keeps which real tensors stand for which fake ones, while a network is traced."""

    def __init__(self) -> None:
        self._fakes = Fakes()
        self._storages: set[int] = set()  # of stand-ins
        self._held: list[tuple[Tensor, Tensor, Geometry]] = []  # real tensors, with values and places that they had
        self._elements = 0
        self._written = False

    def begin(self, fakes: Fakes) -> None:
        """The stand-ins are these, as long as the network is traced."""
        self._fakes = fakes

    @property
    def used(self) -> bool:
        """Whether anything was known."""
        return bool(self._held)

    def __contains__(self, tensor: Tensor) -> bool:
        """Whether the values of a tensor are known."""
        return not self._fakes.owns(tensor) and address(self._fakes.made(tensor)) in self._storages

    def told(self, func: Any, args: Sequence[Any]) -> bool:
        """Whether a call only tells values that are known."""
        return func in _TOLD and all(tensor in self for tensor in flat_tensors(args))

    def value(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What a call returns, whose tensors are all known."""
        with disable_current_modes():
            return func(*args, **kwargs)

    def lifted(self, func: Any, tensor: Tensor, stand_in: Tensor) -> Tensor:
        """What the caller gets of data that it has just made, unless the data are in memory of others, as of numpy."""
        if self._fakes.owns(tensor):
            return stand_in
        self.met(tensor)
        if (
            func is not _aten.lift_fresh.default
            or not tensor.untyped_storage().resizable()
            or not self._may_hold([stand_in])
        ):
            return stand_in
        self._hold(tensor, stand_in)
        return tensor

    def after(self, func: Any, call: tuple[Any, Any], made: Any, written: Sequence[Tensor]) -> Any:
        """What the caller gets of a call: what was made, or real tensors for it. `written` are stand-ins.

        WrittenError if it writes to what is known.
        """
        if any(address(tensor) in self._storages for tensor in written):
            self._written = True  # whoever catches the error
            raise WrittenError(f"{func} writes to a tensor that is known")
        given, outputs = list(flat_tensors([*call])), list(flat_tensors(made))
        certain = _is_certain(func, given) and all(tensor in self for tensor in given)
        if written or not certain or not outputs or not self._may_hold(outputs):
            return made
        real = self.value(func, *call)
        for tensor, stand_in in zip(flat_tensors(real), outputs, strict=True):
            self._hold(tensor, stand_in)
        return real

    def met(self, tensor: Tensor) -> None:
        """The code has another tensor; WrittenError if it may write to what is known through that, as through numpy."""
        begin, end = _memory(tensor)
        for known, _, _ in self._held:
            first, last = _memory(known)
            if begin < last and first < end:
                self._written = True
                raise WrittenError("a tensor shares memory with one that is known")

    def is_as_it_was(self) -> bool:
        """Whether all that was known has the values that it had, in the same places: some writes are not seen."""
        with disable_current_modes():
            return not self._written and all(
                geometry(tensor) == place and torch.equal(tensor, values) for tensor, values, place in self._held
            )

    def _may_hold(self, stand_ins: Sequence[Tensor]) -> bool:
        more = sum(tensor.numel() for tensor in stand_ins)
        return self._elements + more <= _MOST_TOGETHER and all(map(_is_small, stand_ins))

    def _hold(self, tensor: Tensor, stand_in: Tensor) -> None:
        self._fakes.stands_for(stand_in, tensor)
        self._storages.add(address(stand_in))
        self._elements += tensor.numel()
        with disable_current_modes():
            self._held.append((tensor, tensor.clone(), geometry(tensor)))


def _is_certain(func: Any, given: Sequence[Tensor]) -> bool:
    """Whether a call of an operator gives the same whenever its tensors are the same."""
    namespace, _, name = schema_of(func).name.partition("::")
    if namespace != "aten" or torch.Tag.nondeterministic_seeded in func.tags or name.startswith(_BY_CHANCE):
        return False
    return bool(given) or name in _MAKERS


def _memory(tensor: Tensor) -> tuple[int, int]:
    """Addresses of the bytes of its storage, from the first to the one after the last."""
    if tensor.device.type != "cpu" or tensor.layout != torch.strided:
        return 0, 0
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.data_ptr() + storage.nbytes()


def _is_small(tensor: Tensor) -> bool:
    whole = not (tensor.is_floating_point() or tensor.is_complex())
    return whole and tensor.device.type == "cpu" and tensor.numel() <= _MOST
