"""Eager training within a budget: modules whose forward runs again in the backward pass."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.checkpoint import checkpoint as by_torch

from .choosing import Way
from .replaced_forward import Wrapped, replaced_forward
from .rerunning import Rerun


def again(model: torch.nn.Module, device: str) -> Way:
    """Modules compute again what they keep."""
    state = torch.get_rng_state().nbytes if device == "cpu" else 0  # kept by torch, to draw again
    return Way(True, lambda names: replaced_forward(model, names, _Again), lambda found: found.not_again, state)


class _Again(Wrapped):
    """The forward of a module, which runs again in the backward pass."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return self.forward(*args, **kwargs)
        if torch.compiler.is_compiling():  # torch sees to what changes in between
            return by_torch(self.forward, *args, use_reentrant=False, **kwargs)
        return Rerun(self, args, kwargs).first(args, kwargs)
