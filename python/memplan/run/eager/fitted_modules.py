"""Which modules are changed so that a step fits a budget, found by a model of the step and tried without data."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from weakref import ref

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ...errors import SourceError
from ...estimating.estimate import dry_run_of, of_run, step_load
from ...estimating.result import Estimate
from ...importers.torch.dry_run import DryRun
from ...importers.torch.fake import describe
from ...plans.failing import InfeasibleError
from ...sizes import budget_of, format_bytes, with_bytes
from .choosing import Candidate, candidates_of, choose
from .reads import ChangedError

_TRIALS = 8  # sets of modules that are tried
_Applied = Callable[[Sequence[str]], AbstractContextManager[Any]]
_This = TypeVar("_This", bound="FittedModules")


@dataclass(frozen=True)
class Chosen:
    """What was chosen."""

    modules: tuple[str, ...]  # names of modules, in the order of forward
    # what they add, as a share of the cost of a step: floating-point operations, and bytes that ops touch
    added_cost: float
    before: Estimate  # A step without and with it
    after: Estimate


class FittedModules:
    """Modules that are changed, so that a step holds less, until `remove` is called or a ``with`` ends."""

    _what = ""  # they do

    def __init__(self, found: Chosen, changed: AbstractContextManager[Any]) -> None:
        self.modules, self.added_cost = found.modules, found.added_cost
        self.before, self.after = found.before, found.after
        self._changed = changed
        self._changed.__enter__()

    def remove(self) -> None:
        """Let the modules be as they were. A second call does nothing."""
        self._changed.__exit__(None, None, None)
        self._changed = nullcontext()

    def __enter__(self: _This) -> _This:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def __str__(self) -> str:
        before, after = with_bytes(self.before.total), with_bytes(self.after.total)
        if not self.modules:
            return f"a step fits as it is: {before}"
        held = f"a step holds {before} before, {after} now, for {self.added_cost:.1%} of the cost of a step"
        return "\n".join([held, f"{self._what}: {', '.join(self.modules)}"])

    def __repr__(self) -> str:
        sizes = f"{format_bytes(self.before.total)} before, {format_bytes(self.after.total)} now"
        what = f"{self.modules} {self._what}, cost +{self.added_cost:.1%}" if self.modules else "nothing is changed"
        return f"<memplan.run.{type(self).__name__}: {sizes}, {what}>"


class Wrapped:
    """The forward of a module, in something that calls it.

    Attributes
    ----------
    name : str
        Of the module in its model.
    module : Module
        The module.
    forward : callable
        Its forward, as it was.
    """

    def __init__(self, name: str, module: torch.nn.Module, forward: Callable[..., Any], model: torch.nn.Module) -> None:
        self.name, self.module = name, module
        self.forward: Any = forward
        self._model: ref[torch.nn.Module] | None = ref(model)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_model": None}  # a part of a model may be copied without the rest

    def named(self, tensor: Tensor) -> str:
        """A tensor in words: by its name, if it is a weight of the model or a view of one."""
        model = None if self._model is None else self._model()
        prefix, within = (self.name, self.module) if model is None else ("", model)
        for name, weight in (*within.named_parameters(prefix), *within.named_buffers(prefix)):
            if weight.untyped_storage()._cdata == tensor.untyped_storage()._cdata:
                return f"weight '{name}', {describe(tensor)}"
        return f"a tensor, {describe(tensor)}"


class replaced_forward:
    """Meanwhile, the forward of some modules is what `make` makes of the module and its forward.

    `make` also gets the module's name and the model. Others may be put around it, and taken away in any order.
    """

    def __init__(
        self, model: torch.nn.Module, names: Sequence[str], make: Callable[[str, Any, Any, Any], Wrapped]
    ) -> None:
        self._model, self._names, self._make = model, names, make
        self._parts = [model.get_submodule(name) for name in names]
        self._wrapped: list[Wrapped] = []

    def __enter__(self) -> None:
        for name, part in zip(self._names, self._parts, strict=True):
            wrapped: Any = self._make(name, part, part.forward, self._model)
            self._wrapped.append(wrapped)
            part.forward = wrapped

    def __exit__(self, *_: object) -> None:
        for part, wrapped in zip(self._parts, self._wrapped, strict=True):
            around: Any = vars(part).get("forward")
            if around is wrapped:
                del part.forward
                if part.forward != wrapped.forward:  # it had a forward of its own
                    part.forward = wrapped.forward
                continue
            while isinstance(around, Wrapped) and around.forward is not wrapped:
                around = around.forward
            if isinstance(around, Wrapped):
                around.forward = wrapped.forward


@dataclass(frozen=True)
class Step:
    """A step of training, as `memplan.estimate` takes it."""

    model: torch.nn.Module
    args: Sequence[Any]
    kwargs: Mapping[str, Any] | None
    optimizer: Any
    autocast: Any
    loss: Callable[[Any], Any] | None
    device: str

    def __post_init__(self) -> None:
        if not isinstance(self.model, torch.nn.Module):
            raise TypeError(f"model must be a torch.nn.Module, got a {type(self.model).__qualname__}")

    def run(self, watch: bool = False) -> DryRun:
        """The step without data."""
        how = {"train": True, "optimizer": self.optimizer, "loss": self.loss, "watch": watch}
        return dry_run_of(self.model, self.args, self.kwargs, autocast=self.autocast, device=self.device, **how)


def fit_modules(
    step: Step,
    budget: int | str,
    applied: _Applied,
    *,
    again: bool,
    refused: Callable[[DryRun], Collection[str]],
    beside: int = 0,
) -> Chosen:
    """Modules with which a step is within the budget, by a step without data in which they do what they will do.

    `applied` is a context in which modules with these names do so; `again` says whether they compute again, or move
    out. Modules of the names `refused` may not. `beside` are bytes that each call of a chosen module keeps until its
    backward pass, and that a step without data does not see. InfeasibleError if no such modules were found.
    """
    asked = budget_of(budget, "budget", or_least=True)
    found = step.run(watch=True)
    before = of_run(found, step.device)
    limit = 0 if asked.least else asked.of(lambda: before.total)
    if before.total <= limit:
        return Chosen((), 0.0, before, before)
    load = step_load(found, step.device)
    need = load + (before.total - int(load.max()))  # what else is held at all times, such as rounding of what is kept
    candidates = candidates_of(found, again, refused(found), beside)

    def tried(chosen: list[Candidate]) -> Estimate:
        names = _in_order(found, chosen)
        with applied(names):
            after = of_run(step.run(), step.device)
        calls = sum(call.module in names for call in found.calls)
        return replace(after, activations=after.activations + beside * (calls + 1))  # one more while one runs again

    def within_limit(candidates: list[Candidate]) -> Chosen:
        """Those with which a step is within the limit, or with which it holds as little as is found."""
        target, best = limit, before
        for _ in range(0 if asked.least else _TRIALS):
            chosen = choose(need, candidates, target)
            if chosen is None:
                break
            after = tried(chosen)
            if after.total <= limit:
                return _made(found, chosen, before, after)
            best = min(best, after, key=lambda estimate: estimate.total)
            thought = need + sum((candidate.change for candidate in chosen), np.zeros_like(need))
            target = min(target, int(thought.max())) - max(after.total - limit, limit // 1000)
        least = _least(need, before.kept, candidates)
        after = tried(least)
        if after.total <= limit or (asked.least and after.total < before.total):
            return _made(found, least, before, after)
        if asked.least:
            return Chosen((), 0.0, before, before)
        gradients = sum(found.size[place] for place in found.gradient)
        raise _infeasible(limit, min(best, after, key=lambda estimate: estimate.total), before.kept + gradients, again)

    while True:
        try:
            return within_limit(candidates)
        except SourceError as error:
            cause = error.__cause__
            left = [c for c in candidates if not isinstance(cause, ChangedError) or c.module != cause.module]
            if len(left) == len(candidates):
                raise
            candidates = left  # what it reads is written to before it runs again: it cannot be chosen


def _made(found: DryRun, chosen: list[Candidate], before: Estimate, after: Estimate) -> Chosen:
    cost = sum(candidate.cost for candidate in chosen)
    return Chosen(_in_order(found, chosen), cost / max(sum(found.cost), 1.0), before, after)


def _in_order(found: DryRun, chosen: Sequence[Candidate]) -> tuple[str, ...]:
    names = {candidate.module for candidate in chosen}
    return tuple(dict.fromkeys(call.module for call in found.calls if call.module in names))


def _least(need: npt.NDArray[np.int64], low: int, candidates: list[Candidate]) -> list[Candidate]:
    """Modules with which the model of the step needs the least that is found, to a percent."""
    high, least = int(need.max()), list[Candidate]()
    while high - low > high // 100:
        middle = (low + high) // 2
        chosen = choose(need, candidates, middle)
        low, high, least = (low, middle, chosen) if chosen is not None else (middle, high, least)
    return least


def _infeasible(limit: int, best: Estimate, end: int, again: bool) -> InfeasibleError:
    """The error, with the least that was found, and what it holds at its worst moment; `end` is held after backward."""
    other = "memplan.run.offload may hold less, and so does " if again else ""
    advice = f"; {other}a smaller batch{'' if again else ' holds less'}: memplan.largest says which fits"
    held = ", ".join(f"{format_bytes(size)} of {name}" for name, size in best.parts.items() if size)
    worst = f"its worst moment is in the {best.phase} pass, at {best.at}: {held}"
    if end > limit:
        text = f"no choice of modules fits {with_bytes(limit)}: weights, states, inputs and gradients are "
        text += f"{with_bytes(end)}, all held when the backward pass ends (see update_as_you_go)"
    else:
        text = f"no modules were found with which a step fits {with_bytes(limit)}"
    message = f"{text}; the least found is {with_bytes(best.total)}; {worst}{advice}"
    return InfeasibleError(message, capacity=limit, lower_bound=end, peak=best.total)
