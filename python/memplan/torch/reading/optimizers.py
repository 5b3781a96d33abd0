"""Optimizers as they are given: an instance, what makes one, or a name; and others like it, for other tensors."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from ...errors import SourceError
from ...text import nearest
from ..private import STEP_HOOKS

_OF_AN_INSTANCE = ("step", "zero_grad")  # what schedulers and others put in place of methods


def optimizer_of(given: Any, parameters: Sequence[Tensor]) -> Optimizer:
    """The optimizer that was given, or that a class, a function or a name in torch.optim makes for the parameters.

    SourceError if there is none of this name, or its step is no single pass over given gradients.
    """
    optimizer = given if isinstance(given, Optimizer) else _made(given, parameters)
    if needs_closure(optimizer):
        raise refused(optimizer, "its step needs a closure, which computes gradients several times")
    if has_step_hooks(optimizer):
        raise refused(optimizer, "it has hooks of its step, which a plan does not call")
    if any(group.get("differentiable") for group in optimizer.param_groups):
        raise refused(optimizer, "with differentiable=True it keeps all that a step computes")
    return optimizer


def alike(optimizer: Optimizer, groups: list[dict[str, Any]], state: Any) -> Optimizer:
    """An optimizer of the same kind, with other groups of parameters and other states, and no hooks."""
    other = object.__new__(type(optimizer))
    vars(other).update(vars(optimizer), param_groups=groups, state=state)
    vars(other).update((name, OrderedDict()) for name in STEP_HOOKS)
    for name in _OF_AN_INSTANCE:
        vars(other).pop(name, None)
    return other


def step_of(optimizer: Optimizer) -> None:
    """Make a step, as the class of an optimizer has it."""
    type(optimizer).step(optimizer)


def needs_closure(optimizer: Optimizer) -> bool:
    """Whether its step takes a function that computes the loss, and cannot do without."""
    closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty


def has_step_hooks(optimizer: Optimizer) -> bool:
    """Whether others run before or after its step."""
    return any(vars(optimizer).get(name) for name in STEP_HOOKS)


def refused(optimizer: Optimizer, why: str) -> SourceError:
    """The error for an optimizer."""
    return SourceError(f"optimizer {type(optimizer).__name__}: {why}")


def _made(given: Any, parameters: Sequence[Tensor]) -> Optimizer:
    make = _class_of(given) if isinstance(given, str) else given
    if not callable(make):
        kinds = "an optimizer of torch, a class or function that makes one from parameters, or a name in torch.optim"
        raise TypeError(f"optimizer must be {kinds}, got {given!r}")
    if not parameters:
        raise SourceError("optimizer: the network has no parameters")
    optimizer = make(list(parameters))
    if not isinstance(optimizer, Optimizer):
        kind = type(optimizer).__qualname__
        raise TypeError(f"optimizer must make an optimizer of torch from parameters, got what makes a {kind}")
    return optimizer


def _class_of(name: str) -> Any:
    names = [key for key in torch.optim.__all__ if isinstance(getattr(torch.optim, key), type) and key != "Optimizer"]
    if name not in names:
        near = nearest(name, names)
        meant = f"; did you mean {near!r}?" if near else ""
        raise SourceError(f"optimizer must be a name in torch.optim, one of {', '.join(names)}, got {name!r}{meant}")
    return getattr(torch.optim, name)
