"""Eager training within a budget: modules whose forward runs again in the backward pass, by torch.utils.checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType
from typing import Any, Literal

import torch
from torch.utils.checkpoint import checkpoint as by_torch

from ...importers.torch.dry_run import DryRun
from .lightening import Lightened, Step, lightened

_Norms: Any = torch.nn.modules.batchnorm._NormBase  # whose statistics change, and do not change what it returns


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

    memplan chooses the modules, by a step without data, and wraps their forward in `torch.utils.checkpoint`. Names,
    weights and `state_dict` stay as they are. Losses and gradients are those without: random numbers are drawn again
    from the same state, and running statistics change once.

    Parameters
    ----------
    model
        A module, in train mode as it is to be trained.
    budget
        Bytes, as an integer or text such as "2GiB", for all that a step holds: weights, gradients, states of the
        optimizer and inputs too. `memplan.estimate` says what a step holds now.
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
    found = lightened(step, budget, lambda names: _wrapped(model, names), again=True, refused=_refused)
    return Checkpoints(model, found)


class Checkpoints:
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

    def __init__(self, model: torch.nn.Module, found: Lightened) -> None:
        self.modules, self.added_cost = found.modules, found.added_cost
        self.before, self.after = found.before, found.after
        self._wrapped: AbstractContextManager[Any] = _wrapped(model, found.modules)
        self._wrapped.__enter__()

    def remove(self) -> None:
        """Let the modules keep their activations again. A second call does nothing."""
        self._wrapped.__exit__(None, None, None)
        self._wrapped = nullcontext()

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def __str__(self) -> str:
        return described("compute again", self)


def described(what: str, found: Any) -> str:
    """What was chosen, and its price."""
    sizes = f"{found.before.total:,} bytes before, {found.after.total:,} now"
    if not found.modules:
        return f"a step fits as it is: {found.before.total:,} bytes"
    price = f"{found.added_cost:.1%} of the cost of a step"
    return "\n".join([f"a step holds {sizes}, for {price}", f"{what}: {', '.join(found.modules)}"])


@contextmanager
def _wrapped(model: torch.nn.Module, names: Sequence[str]) -> Iterator[None]:
    """Meanwhile, these modules compute again."""
    with replaced_forward(model, names, _Again):
        yield


class replaced_forward:
    """Meanwhile, the forward of some modules is what `make` makes of the module and its forward."""

    def __init__(self, model: torch.nn.Module, names: Sequence[str], make: Callable[[Any, Any], Any]) -> None:
        self._parts = [model.get_submodule(name) for name in names]
        self._make = make
        self._before: list[tuple[bool, Any]] = []

    def __enter__(self) -> None:
        for part in self._parts:
            self._before.append(("forward" in vars(part), vars(part).get("forward")))
            part.forward = self._make(part, part.forward)

    def __exit__(self, *_: object) -> None:
        for part, (own, forward) in zip(self._parts, self._before, strict=True):
            vars(part).pop("forward", None)
            if own:
                vars(part)["forward"] = forward


class _Again:
    """The forward of a module, which runs again in the backward pass."""

    def __init__(self, module: torch.nn.Module, forward: Callable[..., Any]) -> None:
        self._module, self._forward = module, forward

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return self._forward(*args, **kwargs)
        contexts: dict[str, Any] = {"context_fn": self._contexts} if any(_statistics(self._module)) else {}
        return by_torch(self._forward, *args, use_reentrant=False, **contexts, **kwargs)

    def _contexts(self) -> tuple[Any, Any]:
        return nullcontext(), _once(self._module)


@contextmanager
def _once(module: torch.nn.Module) -> Iterator[None]:
    """Meanwhile, running statistics change in copies: they have changed when forward ran first."""
    changed = [(part, dict(part._buffers)) for part in _statistics(module)]
    try:
        for part, buffers in changed:
            part._buffers.update({name: b.clone() for name, b in buffers.items() if b is not None})
        yield
    finally:
        for part, buffers in changed:
            part._buffers.update(buffers)


def _statistics(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    return (part for part in module.modules() if isinstance(part, _Norms) and part.training)


def _refused(found: DryRun) -> Collection[str]:
    """Modules that change buffers in a way that shows: all around a part that is no norm."""
    owners = {name.rpartition(".")[0] for name in found.changed if name.rpartition(".")[2] not in _OF_NORMS}
    refused: set[str] = set()
    for owner in owners:
        parts = owner.split(".")
        refused.update(".".join(parts[:depth]) for depth in range(len(parts) + 1))
    return refused


_OF_NORMS = ("running_mean", "running_var", "num_batches_tracked")
