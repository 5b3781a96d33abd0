"""Tensors whose values are known without data: small whole numbers and truths that depend on no input, as positions.

Code branches on them, as eager torch does: whether positions begin anew, whether a mask hides anything. So they are
real tensors while a network is traced. Each has a stand-in, which is what is recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from .effects import flat_tensors
from .fake import Fakes
from .geometry import address

_MOST = 1 << 16  # elements of a tensor
# What makes elements whose values are by chance
_UNWRITTEN = {"empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided", "resize_", "resize_as_"}
_TOLD = {torch.ops.aten._local_scalar_dense.default, torch.ops.aten.equal.default}  # what tells a value


class Known:
    """Keeps which real tensors stand for which fake ones. What is written with unknown values is forgotten."""

    def __init__(self, fakes: Fakes) -> None:
        self._fakes = fakes
        self._real: dict[int, Tensor] = {}  # by the storage of its stand-in: a tensor in the storage with the values

    def __contains__(self, tensor: Tensor) -> bool:
        """Whether the values of a tensor are known."""
        return not self._fakes.owns(tensor) and address(self._fakes.made(tensor)) in self._real

    def told(self, func: Any, args: Sequence[Any]) -> bool:
        """Whether a call only tells values that are known."""
        return func in _TOLD and all(tensor in self for tensor in flat_tensors(args))

    def value(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What a call returns, whose tensors are all known."""
        with _disable_current_modes():
            return func(*args, **kwargs)

    def lifted(self, tensor: Tensor, stand_in: Tensor) -> Tensor:
        """What the caller gets of data that it has just made, unless the data are in memory of others, as of numpy."""
        if self._fakes.owns(tensor) or not _is_small(stand_in) or not tensor.untyped_storage().resizable():
            return stand_in
        self._keep(tensor, stand_in)
        return tensor

    def after(self, func: Any, call: tuple[Any, Any], made: Any, written: Sequence[Tensor]) -> Any:
        """What the caller gets of a call: what was made, or real tensors for it. `written` are stand-ins."""
        certain = not _is_by_chance(func) and all(tensor in self for tensor in flat_tensors([*call]))
        if written:
            if certain:
                return self.value(func, *call)
            for tensor in written:
                self._forget(tensor)
            return made
        outputs = list(flat_tensors(made))
        if not certain or not outputs or not all(map(_is_small, outputs)):
            return made
        real = self.value(func, *call)
        for tensor, stand_in in zip(flat_tensors(real), outputs, strict=True):
            self._keep(tensor, stand_in)
        return real

    def _keep(self, tensor: Tensor, stand_in: Tensor) -> None:
        self._fakes.stands_for(stand_in, tensor)
        self._real.setdefault(address(stand_in), tensor)

    def _forget(self, stand_in: Tensor) -> None:
        real = self._real.pop(address(stand_in), None)
        if real is not None:
            real.untyped_storage().resize_(0)  # nobody reads what was there before


def _is_by_chance(func: Any) -> bool:
    return torch.Tag.nondeterministic_seeded in func.tags or func._schema.name.partition("::")[2] in _UNWRITTEN


def _is_small(tensor: Tensor) -> bool:
    whole = not (tensor.is_floating_point() or tensor.is_complex())
    return whole and tensor.device.type == "cpu" and tensor.numel() <= _MOST
