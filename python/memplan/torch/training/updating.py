"""Eager training with updates as gradients come: a parameter is updated, and its gradient freed, before the next one.

torch runs a hook when the gradient of a parameter is complete. The hook makes the optimizer's own step for this
parameter alone. So a gradient lives for as long as its update, and not until the end of the backward pass.

Temporaries of updates shall not raise the peak. While activations are held, temporaries of an update take at most as
much as the gradients that were freed, which the usual loop would still hold. So an update runs in pieces that are so
small, or waits until the backward pass ends.

`torch.nn.utils.clip_grad_norm_` takes what gradients there are. Without any it does nothing, and a loop that relies on
it trains otherwise than it says. So the private function that it gets the norm from is replaced meanwhile.
`clip_grad_value_` raises an error of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import WeakSet, ref

import torch
from torch import Tensor
from torch.nn.utils import clip_grad

from ...errors import UnsupportedError
from ..private import SCALES_ITSELF, STEPPED, TOTAL_NORM, after_backward, mark_wrapped, storage_key
from ..reading.fake import describe
from ..reading.optimizers import has_step_hooks, needs_closure
from .reads import is_read_again
from .update_pieces import needs_no_room, update

_WHAT = "memplan.torch.update_as_you_go()"
_REPLACED = ("step", "zero_grad", SCALES_ITSELF)  # attributes of an optimizer, for as long as it is on


def update_as_you_go(optimizer: torch.optim.Optimizer) -> UpdatesAsYouGo:
    """Update each parameter as soon as its gradient is complete, and free the gradient.

    The loop stays as it is: ``optimizer.step()`` and ``optimizer.zero_grad()`` find nothing left to do. Losses, weights
    and states are those of the plain loop, bit for bit. Learning rates are read at each update, so schedulers go on
    working, as do `state_dict` and `load_state_dict`. An update whose temporaries have no room runs in pieces, or waits
    until the backward pass ends. So a step holds no more than the usual loop, but for temporaries of some 8,192 numbers
    before the first gradient is freed, and in the first step, which makes the states.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        Of torch, or any that updates each parameter by its own gradient and states. Updates of optimizers that are not
        of torch, of Adafactor, Muon and SparseAdam wait.

    Returns
    -------
    UpdatesAsYouGo
        `remove` undoes it; so does the end of a ``with``.

    Raises
    ------
    TypeError
        If it is no optimizer.
    UnsupportedError
        If its step needs a closure, as that of LBFGS, if it has hooks of its step, or if a parameter is updated as you
        go already.
    """
    return UpdatesAsYouGo(optimizer)


class UpdatesAsYouGo:
    """An optimizer whose updates run in the backward pass, until `remove` is called or a ``with`` ends.

    What needs all gradients at once cannot work. Each of these raises an `UnsupportedError` that says so:

    - a second gradient for a parameter before `step` or `zero_grad`: accumulation over several backward passes,
    - clipping by `torch.nn.utils.clip_grad_norm_` and `clip_grad_value_`, if they find no gradient,
    - the step of a `torch.amp.GradScaler`, a step with a closure, and hooks of the step.
    """

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        check(optimizer)
        self._optimizer = optimizer
        self._groups: dict[int, int] = {}  # of a parameter, the number of its group
        self._hooks: dict[int, Any] = {}
        self._shared: set[int] = set()  # parameters that share bytes with another one
        self._updated: set[int] = set()  # parameters that were updated since the last step
        self._freed = 0  # bytes of their gradients
        self._before = {name: vars(optimizer)[name] for name in _REPLACED if name in vars(optimizer)}
        self._watch_parameters()
        vars(optimizer).update({"step": _as_wrapped(self._step), "zero_grad": self._zero_grad, SCALES_ITSELF: True})
        _ACTIVE.add(self)
        norm = getattr(clip_grad, TOTAL_NORM)
        if not hasattr(norm, "refuses"):
            setattr(clip_grad, TOTAL_NORM, _refusing(norm))

    def remove(self) -> None:
        """Let the optimizer do its own step again. A second call does nothing."""
        _ACTIVE.discard(self)
        norm = getattr(clip_grad, TOTAL_NORM)
        if not _ACTIVE and hasattr(norm, "refuses"):
            setattr(clip_grad, TOTAL_NORM, norm.refuses)
        for hook in self._hooks.values():
            hook.remove()
        if self._hooks:
            for name in _REPLACED:
                vars(self._optimizer).pop(name, None)
            vars(self._optimizer).update(self._before)
        self._hooks.clear()
        self._forget()

    def __enter__(self) -> UpdatesAsYouGo:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def _watch_parameters(self) -> None:
        """A hook for each parameter that has none yet: all at first, later those that were added or unfrozen."""
        this = ref(self)  # torch keeps the hook: it must not keep the optimizer

        def use(parameter: Tensor) -> None:
            updates = this()
            if updates is not None:
                updates._use(parameter)

        parameters = [parameter for group in self._optimizer.param_groups for parameter in group["params"]]
        users = Counter(_storage(parameter) for parameter in parameters)
        self._shared = {id(parameter) for parameter in parameters if users[_storage(parameter)] > 1}
        for number, group in enumerate(self._optimizer.param_groups):
            for parameter in group["params"]:
                self._groups[id(parameter)] = number
                if parameter.requires_grad and id(parameter) not in self._hooks:
                    self._hooks[id(parameter)] = parameter.register_post_accumulate_grad_hook(use)

    def _use(self, parameter: Tensor) -> None:
        if id(parameter) in self._updated:
            problem = f"a parameter, {describe(parameter)}, gets a second gradient before optimizer.step()"
            advice = (
                "it was updated by the first one. Gradients cannot be accumulated; call step() after each backward()"
            )
            raise UnsupportedError(f"{_WHAT}: {problem}: {advice}")
        if id(parameter) in self._shared:
            return  # the other one is read later, perhaps: step() updates both, one after another
        group = self._optimizer.param_groups[self._groups[id(parameter)]]
        if is_read_again(parameter) or not needs_no_room(self._optimizer, group, parameter):
            after_backward(partial(self._use_late, ref(parameter)))
            return
        self._update(parameter)

    def _use_late(self, of: ref[Tensor]) -> None:
        """Update a parameter when the backward pass ends: a module had still to read it, or it needs room."""
        parameter = of()
        if parameter is not None and parameter.grad is not None:
            self._update(parameter)

    def _update(self, parameter: Tensor) -> None:
        """The optimizer's step for one parameter."""
        assert parameter.grad is not None
        size = parameter.grad.nbytes if parameter.grad.layout == torch.strided else 0
        group = self._optimizer.param_groups[self._groups[id(parameter)]]
        own = update(self._optimizer, group, parameter, self._freed)
        parameter.grad = None
        self._updated.add(id(parameter))
        self._freed += size
        for key, value in group.items():
            if key != "params" and own[key] is not value:
                problem = f"the step of {type(self._optimizer).__name__} changes '{key}' of its parameter groups"
                raise UnsupportedError(f"{_WHAT}: {problem}, and takes all parameters to be updated at once")

    def _step(self, closure: Callable[[], Any] | None = None) -> None:
        """What `optimizer.step` does meanwhile: it updates what has a gradient still, such as one set by hand."""
        if closure is not None:
            raise UnsupportedError(f"{_WHAT}: a closure runs backward() inside of the step; run it before, without one")
        _refuse_step_hooks(self._optimizer)
        self._refuse_scaled_gradients()
        self._watch_parameters()
        for group in self._optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter)
        self._forget()
        vars(self._optimizer)[STEPPED] = True  # schedulers ask for it

    def _zero_grad(self, set_to_none: bool = True) -> None:
        self._forget()
        type(self._optimizer).zero_grad(self._optimizer, set_to_none)

    def _forget(self) -> None:
        """A step has ended."""
        self._updated.clear()
        self._freed = 0

    def _refuse_scaled_gradients(self) -> None:
        """A GradScaler leaves its scale with an optimizer that says it can use it."""
        found = [vars(self._optimizer).pop(name, None) for name in ("grad_scale", "found_inf")]
        if any(value is not None for value in found):
            problem = (
                "a GradScaler scales the loss, and the parameters were updated by gradients that still had its scale"
            )
            raise UnsupportedError(f"{_WHAT}: {problem}; train without one, in bfloat16 for instance")


def _storage(parameter: Tensor) -> int:
    return storage_key(parameter.untyped_storage()) if parameter.layout == torch.strided else id(parameter)


_ACTIVE: WeakSet[UpdatesAsYouGo] = WeakSet()


def _refusing(norm: Callable[..., Any]) -> Callable[..., Any]:
    """What refuses to clip nothing when gradients have been used."""

    def checked(gradients: Any, *args: Any, **options: Any) -> Any:
        nothing = isinstance(gradients, (list, tuple)) and not gradients
        if nothing and any(updates._updated for updates in _ACTIVE):
            problem = "there are no gradients to clip, each was used as it came"
            raise UnsupportedError(f"{_WHAT}: {problem}; clip nothing, or remove() it")
        return norm(gradients, *args, **options)

    checked.refuses = norm  # type: ignore[attr-defined]
    return checked


def check(optimizer: Any) -> None:
    """Raise the error of an optimizer that cannot update as gradients come."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        more = "; a class has no parameters yet" if isinstance(optimizer, type) else ""
        raise TypeError(f"{_WHAT} takes an optimizer of torch, got a {type(optimizer).__qualname__}{more}")
    name = type(optimizer).__name__
    if needs_closure(optimizer):
        raise UnsupportedError(
            f"{_WHAT}: the step of {name} needs a closure: it looks at all parameters, several times"
        )
    _refuse_step_hooks(optimizer)
    taken = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    if any(taken & other._hooks.keys() for other in _ACTIVE):
        raise UnsupportedError(f"{_WHAT}: a parameter of this {name} is updated as you go already; remove that first")


def _refuse_step_hooks(optimizer: torch.optim.Optimizer) -> None:
    if has_step_hooks(optimizer):
        problem = f"this {type(optimizer).__name__} has hooks of its step, which expect all gradients"
        raise UnsupportedError(f"{_WHAT}: {problem}; remove them first")


def _as_wrapped(step: Callable[..., None]) -> Callable[..., None]:
    """A function in place of a method, which schedulers take for one that they have wrapped themselves."""

    def replaced(closure: Callable[[], Any] | None = None) -> None:
        step(closure)

    mark_wrapped(replaced)
    return replaced
