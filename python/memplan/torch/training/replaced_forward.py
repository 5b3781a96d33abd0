"""Something in the place of the forward of modules, which calls it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

import torch
from torch import Tensor

from ..private import storage_key
from ..reading.fake import describe


class Wrapped:
    """The forward of a module, in something that calls it.

    Attributes
    ----------
    name : str
        Of the module in its model.
    module : Module
        The module.
    forward : callable
        Its forward, as it was.
    """

    def __init__(self, name: str, module: torch.nn.Module, forward: Callable[..., Any], model: torch.nn.Module) -> None:
        self.name, self.module = name, module
        self.forward: Any = forward
        self._model: ref[torch.nn.Module] | None = ref(model)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_model": None}  # a part of a model may be copied without the rest

    def named(self, tensor: Tensor) -> str:
        """A tensor in words: by its name, if it is a weight of the model or a view of one."""
        model = None if self._model is None else self._model()
        prefix, within = (self.name, self.module) if model is None else ("", model)
        for name, weight in (*within.named_parameters(prefix), *within.named_buffers(prefix)):
            if storage_key(weight.untyped_storage()) == storage_key(tensor.untyped_storage()):
                return f"weight '{name}', {describe(tensor)}"
        return f"a tensor, {describe(tensor)}"


class replaced_forward:
    """Meanwhile, the forward of some modules is what `make` makes of the module and its forward.

    `make` also gets the module's name and the model. Others may be put around it, and taken away in any order.
    """

    def __init__(
        self, model: torch.nn.Module, names: Sequence[str], make: Callable[[str, Any, Any, Any], Wrapped]
    ) -> None:
        self._model, self._names, self._make = model, names, make
        self._parts = [model.get_submodule(name) for name in names]
        self._wrapped: list[Wrapped] = []

    def __enter__(self) -> None:
        for name, part in zip(self._names, self._parts, strict=True):
            wrapped: Any = self._make(name, part, part.forward, self._model)
            self._wrapped.append(wrapped)
            part.forward = wrapped

    def __exit__(self, *_: object) -> None:
        for part, wrapped in zip(self._parts, self._wrapped, strict=True):
            around: Any = vars(part).get("forward")
            if around is wrapped:
                del part.forward
                if part.forward != wrapped.forward:  # it had a forward of its own
                    part.forward = wrapped.forward
                continue
            while isinstance(around, Wrapped) and around.forward is not wrapped:
                around = around.forward
            if isinstance(around, Wrapped):
                around.forward = wrapped.forward
