"""Eager training within a budget: modules whose forward runs again in the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal

import torch
from torch.utils.checkpoint import checkpoint as by_torch

from ...importers.torch.dry_run import DryRun
from .choosing import Way
from .fitted_modules import FittedModules, Step, Wrapped, fit_modules, replaced_forward
from .rerunning import Rerun


def checkpoint(
    model: torch.nn.Module,
    budget: int | str,
    *,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    optimizer: Any = None,
    autocast: Any = None,
    loss: Callable[[Any], Any] | None = None,
    device: Literal["cpu", "cuda"] = "cpu",
) -> Checkpoints:
    """Let modules compute their activations again in the backward pass, so that a step of training fits a budget.

    memplan chooses the modules, by a step without data, and wraps their forward. Names, weights and `state_dict` stay
    as they are. Losses and gradients are those without: random numbers are drawn again from the same state, and what
    forward changes on the module changes once. A forward that would read a tensor that was written to since raises an
    `UnsupportedError` in the backward pass, which names both.

    Parameters
    ----------
    model
        A module, in train mode as it is to be trained.
    budget
        Bytes, as an integer or text such as "2GiB", for all that a step holds: weights, gradients, states of the
        optimizer and inputs too. `memplan.estimate` says what a step holds now, and "60%" is of that. "least" takes the
        modules with which it holds least, of all sets that are tried.
    args, kwargs, optimizer, autocast, loss, device
        What a step is, as for `memplan.estimate`.

    Returns
    -------
    Checkpoints
        Which modules, and the price. `remove` undoes it; so does the end of a ``with``.

    Raises
    ------
    InfeasibleError
        No modules were found with which a step fits. The error says what is needed, and where.
    TypeError, ValueError
        As `memplan.estimate`.
    """
    step = Step(model, args, kwargs, optimizer, autocast, loss, device)
    ways = [again(model, device)]
    return Checkpoints(fit_modules(step, budget, ways), ways)


def again(model: torch.nn.Module, device: str) -> Way:
    """Modules compute again what they keep."""
    state = torch.get_rng_state().nbytes if device == "cpu" else 0  # kept by torch, to draw again
    return Way(True, lambda names: replaced_forward(model, names, _Again), _refused, state)


class Checkpoints(FittedModules):
    """Modules that compute again, until `remove` is called or a ``with`` ends.

    Attributes
    ----------
    modules : tuple of str
        Their names.
    added_cost : float
        What they add to a step, as a share of its cost: floating-point operations, and bytes that ops touch.
    before, after : Estimate
        A step without and with it.
    """

    _what = ("compute again",)


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
