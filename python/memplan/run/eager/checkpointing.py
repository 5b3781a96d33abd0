"""Eager training within a budget: modules whose forward runs again in the backward pass."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint as by_torch

from ...importers.torch.dry_run import DryRun
from .choosing import Way
from .rerunning import Rerun
from .wrapping import Wrapped, replaced_forward


def again(model: torch.nn.Module, device: str) -> Way:
    """Modules compute again what they keep."""
    state = torch.get_rng_state().nbytes if device == "cpu" else 0  # kept by torch, to draw again
    return Way(True, lambda names: replaced_forward(model, names, _Again), _refused, state)


class _Again(Wrapped):
    """The forward of a module, which runs again in the backward pass."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return self.forward(*args, **kwargs)
        if torch.compiler.is_compiling():  # torch sees to what changes in between
            return by_torch(self.forward, *args, use_reentrant=False, **kwargs)
        return Rerun(self, args, kwargs).first(args, kwargs)


def _refused(found: DryRun) -> Collection[str]:
    """Modules that change buffers in a way that shows: all around a part that is no norm."""
    owners = {name.rpartition(".")[0] for name in found.changed if name.rpartition(".")[2] not in _OF_NORMS}
    refused: set[str] = set()
    for owner in owners:
        parts = owner.split(".")
        refused.update(".".join(parts[:depth]) for depth in range(len(parts) + 1))
    return refused


_OF_NORMS = ("running_mean", "running_var", "num_batches_tracked")
