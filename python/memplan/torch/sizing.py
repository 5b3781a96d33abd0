"""Calls of a module with other sizes, for the largest that fits."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from .. import calls
from ..errors import SourceError


class Sized:
    """The arguments of a call with another size along some axes: without data, on the meta device."""

    def __init__(
        self, model: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None, axes: Mapping[str, int] | None
    ) -> None:
        self._call = _bound(model, args, kwargs)
        arguments = self._call.arguments
        self._tensors = {name: tuple(v.shape) for name, v in arguments.items() if isinstance(v, torch.Tensor)}
        known = ", ".join(f"{name} {shape}" for name, shape in self._tensors.items()) or "none"
        if not isinstance(axes, Mapping) or not axes:
            raise TypeError(
                f"axes must be a mapping from names of arguments to an axis, as {{'x': 0}}, got {axes!r}; "
                f"the tensors among the arguments are: {known}"
            )
        self._axes = dict(axes)
        sizes = {}
        for name, axis in self._axes.items():
            tensor = arguments.get(name)
            if not isinstance(tensor, torch.Tensor):
                raise ValueError(f"axes names {name!r}, which is no tensor among the arguments; these are: {known}")
            if not isinstance(axis, int) or isinstance(axis, bool) or not -tensor.dim() <= axis < tensor.dim():
                raise ValueError(f"axes[{name!r}] must be an axis of {tuple(tensor.shape)}, got {axis!r}")
            sizes[name] = tensor.shape[axis]
        if len(set(sizes.values())) > 1:
            raise ValueError(f"axes must all have the same size, got {sizes}")
        self.now = max(1, next(iter(sizes.values())))

    def explained(self, needs: Callable[[int], int | None]) -> Callable[[int], int | None]:
        """What a size needs. Where a step works with the arguments as they are, and with no other size, an error says
        which other axes may have to grow too."""

        def explaining(size: int) -> int | None:
            try:
                return needs(size)
            except SourceError as error:
                if size == self.now:
                    raise
                raise SourceError(f"{self._advice(size)}: {error}") from error

        return explaining

    def _advice(self, size: int) -> str:
        grown = ", ".join(f"axis {axis} of {name!r}" for name, axis in self._axes.items())
        text = f"the step works with {self.now} at {grown}, and fails with {size}"
        others = {name: shape for name, shape in self._tensors.items() if name not in self._axes}
        same = {name: shape.index(self.now) for name, shape in others.items() if self.now in shape}
        if not same:
            return text
        what = ", ".join(f"{name!r} {others[name]}" for name in same)
        return f"{text}; {what} has the same size: try axes={ ({**self._axes, **same})!r}"

    def of(self, size: int) -> dict[str, Any]:
        """The arguments with this size."""
        call = inspect.BoundArguments(self._call.signature, type(self._call.arguments)(self._call.arguments))
        for name, axis in self._axes.items():
            tensor = self._call.arguments[name]
            shape = list(tensor.shape)
            shape[axis] = size
            made = torch.empty(shape, dtype=tensor.dtype, device="meta", requires_grad=tensor.requires_grad)
            call.arguments[name] = made
        return {"args": call.args, "kwargs": call.kwargs}


def _bound(model: Any, args: Any, kwargs: Any) -> inspect.BoundArguments:
    """The arguments of a call by name."""
    call = calls.positional(args), calls.keywords(kwargs)
    try:
        return inspect.signature(model.forward).bind(*call[0], **call[1])
    except TypeError as error:
        takes = ", ".join(inspect.signature(model.forward).parameters)
        raise TypeError(f"args and kwargs must be those of {type(model).__name__}.forward({takes}): {error}") from None
