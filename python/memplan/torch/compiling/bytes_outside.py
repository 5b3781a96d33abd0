"""What a step holds besides what its compiled graphs hold: weights, inputs, states of the optimizer, and its update."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..estimating import step_load
from ..private import storage_key
from ..reading.dry_run import dry_update


@dataclass(frozen=True)
class Outside:
    """Bytes outside of the graphs.

    Attributes
    ----------
    kept : int
        Of weights, inputs and states, which are there before the step and after it.
    updating : int
        The most besides them while the optimizer updates: gradients, and what the update makes.
    """

    kept: int = 0
    updating: int = 0


def outside_of(inputs: Sequence[Any], optimizer: Any = None) -> Outside:
    """What lies outside of a graph with these inputs, weights among them; the optimizer as for `memplan.estimate`.

    An instance also says which weights there are in other graphs.
    """
    given = [tensor for tensor in inputs if isinstance(tensor, Tensor)]
    groups = optimizer.param_groups if isinstance(optimizer, torch.optim.Optimizer) else []
    given += [parameter for group in groups for parameter in group["params"]]
    trained = dict.fromkeys(p for p in given if isinstance(p, torch.nn.Parameter) and p.requires_grad)
    kept = _bytes(given)
    if optimizer is None or not trained:
        return Outside(kept)
    device = next(iter(trained)).device.type
    found = dry_update(optimizer, trained, device)
    made = int(max(step_load(found, device), default=0))
    return Outside(kept + sum(found.states), _bytes(trained) + made if torch.is_grad_enabled() else 0)


def _bytes(tensors: Iterable[Tensor]) -> int:
    storages = [tensor.untyped_storage() for tensor in tensors]
    return sum({storage_key(storage): storage.nbytes() for storage in storages}.values())
