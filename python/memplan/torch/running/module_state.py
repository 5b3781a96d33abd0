"""What a network is at each run: the weights that it holds, looked up quickly, and the modes that it is in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from ..private import buffers_of, modules_of, parameters_of, uncompiled


def weights_held(source: Any) -> Callable[[], Mapping[str, Any]]:
    """What gives the weights of a source by name; those of a file are known to whoever has read it."""
    if isinstance(source, torch.export.ExportedProgram):
        return lambda: {**source.constants, **source.state_dict}
    if isinstance(source, torch.nn.Module):
        return _Weights(uncompiled(source))  # what torch.compile was given
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
        self._parts = [(modules_of(part), dict(modules_of(part))) for _, part in parts]
        self._places = [
            (f"{path}.{key}" if path else key, held, key)
            for path, part in parts
            for held in (parameters_of(part), buffers_of(part))
            for key in held
        ]


class Modes:
    """What decides on the ops of a network besides its arguments: which parts train, autocast, the default dtype."""

    def __init__(self, source: Any) -> None:
        module = uncompiled(source)
        self._parts = list(module.named_modules()) if isinstance(module, torch.nn.Module) else []
        self._training = [part.training for _, part in self._parts]
        self._around = _around()

    def changed(self) -> str | None:
        """What is not as it was; None for nothing."""
        if self._training != [part.training for _, part in self._parts]:
            for (name, part), training in zip(self._parts, self._training, strict=True):
                if part.training != training:
                    modes = ("train", "eval") if training else ("eval", "train")
                    what = f"module '{name}'" if name else "the network"
                    return f"{what} was in {modes[0]} mode when it was planned, and is in {modes[1]} mode now"
        now = _around()
        for name, value in self._around.items():
            if now[name] != value:
                return f"{name} was {value} when it was planned, and is {now[name]} now"
        return None


def _around() -> dict[str, Any]:
    casts = {device: torch.is_autocast_enabled(device) for device in ("cpu", "cuda")}
    found: dict[str, Any] = {
        f"autocast on {device}": torch.get_autocast_dtype(device) if on else "off" for device, on in casts.items()
    }
    return {**found, "the default dtype": torch.get_default_dtype()}
