"""The weights that a network holds, looked up at each run: quickly, and as they are then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor


def weights_held(source: Any) -> Callable[[], Mapping[str, Any]]:
    """What gives the weights of a source by name; those of a file are known to whoever has read it."""
    if isinstance(source, torch.export.ExportedProgram):
        return lambda: {**source.constants, **source.state_dict}
    if isinstance(source, torch.nn.Module):
        return _Weights(getattr(source, "_orig_mod", source))  # what torch.compile was given
    return dict


class _Weights:
    """The weights of a module. Where they are is found again when one of its parts has been exchanged."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._module = module
        self._find()

    def __call__(self) -> Mapping[str, Tensor | None]:
        if any(now != then for now, then in self._parts):
            self._find()
        return {name: held.get(key) for name, held, key in self._places}

    def _find(self) -> None:
        parts = list(self._module.named_modules(remove_duplicate=False))
        self._parts = [(part._modules, dict(part._modules)) for _, part in parts]
        self._places = [
            (f"{path}.{key}" if path else key, held, key)
            for path, part in parts
            for held in (part._parameters, part._buffers)
            for key in held
        ]
