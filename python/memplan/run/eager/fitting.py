"""Eager training within a budget: each module computes again, or moves out, or stays as it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal

import torch

from ...options.checks import names, number
from .checkpointing import again
from .choosing import Way
from .fitted_modules import Chosen, FittedModules, Step, fit_modules
from .offloading import Store, outside

WAYS = ("recompute", "offload")


def fit(
    model: torch.nn.Module,
    budget: int | str,
    *,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    optimizer: Any = None,
    autocast: Any = None,
    loss: Callable[[Any], Any] | None = None,
    device: Literal["cpu", "cuda"] = "cpu",
    allow: Collection[str] = WAYS,
    transfer: float = 2.0,
    folder: str | None = None,
) -> Fitted:
    """Change modules so that a step of training fits a budget, at the least cost that is found.

    `checkpoint` and `offload` in one: memplan chooses for each module whether it computes again what it keeps for the
    backward pass, moves it to host memory, or stays as it is. Losses and gradients are those without, bit for bit.

    Parameters
    ----------
    model
        A module, in train mode as it is to be trained.
    budget
        Bytes, as an integer or text such as "2GiB", for all that a step holds: weights, gradients, states of the
        optimizer and inputs too. "60%" is of what `memplan.estimate` says that a step holds now. "least" holds the
        least that is found.
    args, kwargs, optimizer, autocast, loss, device
        What a step is, as for `memplan.estimate`.
    allow
        What modules may do: "recompute", "offload".
    transfer
        The cost of moving a byte out, and the same cost again to fetch it, >= 0. The unit is that of what is computed
        again: a floating-point operation, or a byte that an op touches. Disks are slower than memory.
    folder
        As for `offload`.

    Returns
    -------
    Fitted
        Which modules do what, and the price. `remove` undoes it; so does the end of a ``with``.

    Raises
    ------
    InfeasibleError
        No modules were found with which a step fits. The error says what is needed, and where.
    TypeError, ValueError
        As `memplan.estimate`.
    """
    step = Step(model, args, kwargs, optimizer, autocast, loss, device)
    wrong = [name for name in names(allow, "allow") if name not in WAYS]
    if wrong or not allow:
        raise ValueError(f"allow must hold one or more of {', '.join(WAYS)}, got {wrong[0] if wrong else 'none'!r}")
    cost = number(transfer, "transfer", math.inf)
    store = Store(folder)
    made = {"recompute": lambda: again(model, device), "offload": lambda: outside(model, store, cost)}
    ways = {name: made[name]() for name in WAYS if name in allow}
    return Fitted(fit_modules(step, budget, [*ways.values()]), ways, store)


class Fitted(FittedModules):
    """Modules that compute again or move out what they keep, until `remove` is called or a ``with`` ends.

    Attributes
    ----------
    recomputed, offloaded : tuple of str
        Names of the modules that compute again, and of those that move out.
    modules : tuple of str
        All of them.
    added_cost : float
        What they add to a step, as a share of its cost.
    before, after : Estimate
        A step without and with it.
    """

    def __init__(self, found: Chosen, ways: Mapping[str, Way], store: Store) -> None:
        what = {"recompute": "compute again", "offload": "keep tensors in host memory"}
        self._what = tuple(what[name] for name in ways)
        super().__init__(found, [*ways.values()])
        chosen = dict(zip(ways, found.modules, strict=True))
        self.recomputed, self.offloaded = (chosen.get(name, ()) for name in WAYS)
        self._store = store

    @property
    def moved(self) -> int:
        """Bytes that were moved out so far."""
        return self._store.moved
