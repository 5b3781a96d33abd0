"""Modules in pieces: their rows are independent, so they compute a few at a time, forward and backward.

Backward computes a piece again, and then its gradients. So what lies between the argument and the result of a module is
never whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ..reading.dry_run import DryRun
from .choosing import Way
from .replaced_forward import Wrapped, replaced_forward
from .rerunning import Rerun
from .rows import Axes

PIECES = 8


def in_pieces(model: torch.nn.Module, axes: Mapping[str, Axes]) -> Way:
    """Modules compute a few rows at a time; ``axes`` says where the rows of each module's argument lie."""
    state = torch.get_rng_state().nbytes  # kept by each piece

    def make(name: str, module: Any, forward: Any, within: Any) -> Wrapped:
        return _InPieces(name, module, forward, within, axes[name])

    def refused(found: DryRun) -> set[str]:
        return {call.module for call in found.calls} - axes.keys() | found.not_again.keys()

    return Way(True, lambda names: replaced_forward(model, names, make), refused, state * PIECES, pieces=PIECES)


class _InPieces(Wrapped):
    """The forward of a module, which runs on a few rows at a time."""

    def __init__(self, name: str, module: torch.nn.Module, forward: Any, model: torch.nn.Module, axes: Axes) -> None:
        super().__init__(name, module, forward, model)
        self._axes = axes

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        x = args[0] if len(args) == 1 and not kwargs else None
        if torch.compiler.is_compiling() or not isinstance(x, Tensor) or x.dim() <= self._axes[1]:
            return self.forward(*args, **kwargs)
        axis = max(range(self._axes[0], self._axes[1] + 1), key=lambda axis: x.shape[axis])
        size = -(-x.shape[axis] // PIECES)
        if size == 0:
            return self.forward(x)
        parts = torch.split(x, size, axis)
        if torch.is_grad_enabled():
            return torch.cat([Rerun(self, (part,), {}).first((part,), {}) for part in parts], axis)
        return torch.cat([self.forward(part) for part in parts], axis)
