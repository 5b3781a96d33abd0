"""Eager training within a budget: modules compute again, move out what they keep, or run in pieces; and more."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import torch

from ... import sizes
from ...explaining.explanation import Explanation
from ...options import checks
from ...plans.failing import InfeasibleError
from .checkpointing import again
from .choosing import Way
from .fitted_modules import Chosen, Step, applied, fit_modules
from .heads import heads_in, with_heads
from .holding import held_by_run
from .offloading import Store, outside
from .row_pieces import in_pieces
from .updating import UpdatesAsYouGo

if TYPE_CHECKING:
    from typing_extensions import Unpack

# What modules may do, in words
MODULES = {"recompute": "compute again", "offload": "keep tensors in host memory", "split": "run in pieces"}
WAYS = (*MODULES, "update")
_EXACT = tuple(name for name in WAYS if name != "split")  # with results equal bit for bit


class StepOptions(TypedDict, total=False):
    """What a step is, as for `memplan.estimate`."""

    args: Sequence[Any]
    kwargs: Mapping[str, Any] | None
    optimizer: Any
    autocast: Any
    loss: Callable[[Any], Any] | None
    device: Literal["cpu", "cuda"]


def fit(
    model: torch.nn.Module,
    budget: int | str,
    *,
    allow: Collection[str] | None = None,
    transfer: float = 2.0,
    folder: str | None = None,
    **step: Unpack[StepOptions],
) -> Fitted:
    """Change a step of training so that it fits a budget, at the least cost that is found.

    memplan chooses for each module whether it computes again what it keeps for the backward pass, moves it to host
    memory (on the CPU, to a file), runs in pieces, or stays as it is, by steps without data. It also chooses whether
    gradients are used as they come, as by `update_as_you_go`. Names, weights and `state_dict` stay as they are. Losses
    and gradients are those without, bit for bit; up to rounding where something runs in pieces.

    A module, or the whole model, can run in pieces if its rows (samples of a batch, tokens) are independent: a few rows
    at a time, once more in the backward pass. Each row gets the random numbers that it gets without, on the CPU. The
    logits of a linear layer are computed a few rows at a time if all that is made of them works by rows: of what is
    summed over all rows, with its gradients, in forward; of a few numbers of each row, once more in the backward pass.
    They are never whole, unless something else reads them.

    A module that computes again draws the same random numbers, and what forward changes on it changes once. If it would
    read a tensor that was written to since, the backward pass raises an `UnsupportedError` that names both.

    Parameters
    ----------
    model
        A module, in train mode as it is to be trained.
    budget
        Bytes, as an integer or text such as "2GiB", for all that a step holds: weights, gradients, states of the
        optimizer and inputs too. "60%" is of what `memplan.estimate` says that a step holds now, kernels' memory
        counted. "kept + 2GiB" and "kept + 60%" leave out weights, states and inputs. "least" holds the least that is
        found.
    allow
        What may be done: "recompute", "offload", "split", "update". By default all, "update" if `optimizer` is an
        optimizer whose updates can run one by one: a class has no parameters yet; and "split" only if a step does not
        fit without it.
    transfer
        The cost of moving a byte out, and the same cost again to fetch it, >= 0. The unit is that of what is computed
        again: a floating-point operation, or a byte that an op touches. Disks are slower than memory.
    folder
        Where the file lies that tensors of the CPU go to; by default where temporary files do. Tensors of CUDA go to
        pinned memory of the CPU.
    args, kwargs, optimizer, autocast, loss, device
        What a step is, as for `memplan.estimate`.

    Returns
    -------
    Fitted
        What does what, and the price. `remove` undoes it; so does the end of a ``with``.

    Raises
    ------
    InfeasibleError
        Nothing was found with which a step fits. The error says what is needed, and where.
    TypeError, ValueError
        As `memplan.estimate`.
    UnsupportedError
        `allow` names "update", and the optimizer needs all gradients at once.
    """
    if unknown := step.keys() - StepOptions.__annotations__.keys():
        raise TypeError(f"a step has {', '.join(StepOptions.__annotations__)}, got {min(unknown)}=")
    run = Step(model, **step)
    allowed = WAYS if allow is None else checks.names(allow, "allow")
    wrong = [name for name in allowed if name not in WAYS]
    if wrong or not allowed:
        raise ValueError(f"allow must hold one or more of {', '.join(WAYS)}, got {wrong[0] if wrong else 'none'!r}")
    cost = checks.number(transfer, "transfer", math.inf)
    store = Store(folder)
    made = {"recompute": lambda: again(model, run.device), "offload": lambda: outside(model, store, cost)}
    must = allow is not None
    updates = "update" in allowed and (must or isinstance(run.optimizer, torch.optim.Optimizer))

    def fitted(allowed: Collection[str]) -> Fitted:
        noted = run.noted() if "split" in allowed else None
        apart = {} if noted is None else noted.independent()
        made["split"] = lambda: in_pieces(model, apart)
        ways = {name: made[name]() for name in MODULES if name in allowed}
        heads = None if noted is None else heads_in(run)
        try:
            found = fit_modules(run, budget, [*ways.values()], updates, must, heads)
        except InfeasibleError as error:
            why = "" if noted is None else noted.why_whole()
            error.args = (f"{error}{f'; the model is not in pieces as a whole: {why}' if why else ''}", *error.args[1:])
            raise
        return Fitted(found, ways, store, run)

    if allow is None and budget != "least":
        try:
            return fitted(_EXACT)
        except InfeasibleError:
            pass
    return fitted(allowed)


def checkpoint(model: torch.nn.Module, budget: int | str, **step: Unpack[StepOptions]) -> Fitted:
    """`fit` where modules may only compute again: ``allow=["recompute"]``."""
    return fit(model, budget, allow=["recompute"], **step)


def offload(
    model: torch.nn.Module, budget: int | str, *, folder: str | None = None, **step: Unpack[StepOptions]
) -> Fitted:
    """`fit` where modules may only move out what they keep: ``allow=["offload"]``, and a byte costs 1 each way."""
    return fit(model, budget, allow=["offload"], transfer=1.0, folder=folder, **step)


class Fitted:
    """A step of training that was changed to hold less, until `remove` is called or a ``with`` ends.

    Attributes
    ----------
    recomputed, offloaded : tuple of str
        Names of the modules that compute again, and of those that move out: "" is the whole model.
    split : tuple of str
        Names of the modules that run in pieces, and of linear layers whose logits are never whole.
    modules : tuple of str
        All of them.
    updates : UpdatesAsYouGo or None
        What uses gradients as they come.
    added_cost : float
        What modules add to a step, as a share of its cost: floating-point operations, and bytes that ops touch or that
        are moved.
    before, after : Estimate
        A step without and with it.
    share : str
        What the budget is a share of, in words; "" if it is none.
    """

    def __init__(self, found: Chosen, ways: Mapping[str, Way], store: Store, step: Step) -> None:
        self._chosen = dict(zip(ways, found.modules, strict=True))
        self._chosen["split"] = (*self._chosen.get("split", ()), *found.heads)
        self.recomputed, self.offloaded, self.split = (self._chosen.get(name, ()) for name in MODULES)
        self.modules = tuple(name for chosen in self._chosen.values() for name in chosen)
        self.added_cost, self.before, self.after = found.added_cost, found.before, found.after
        self.share, self._run = found.share, found.run
        self._store = store
        self._changed = applied([*ways.values()], found.modules)
        self._changed.enter_context(with_heads(step.model, found.heads, narrow=found.narrow))
        self.updates = self._changed.enter_context(UpdatesAsYouGo(step.optimizer)) if found.updates else None

    @property
    def moved(self) -> int:
        """Bytes that were moved out so far."""
        return self._store.moved

    def explain(self) -> Explanation:
        """All that a step holds now, by what it is for, and what would bring less. Nothing is in an arena."""
        return held_by_run(self._run, self.after.device, self.after.total, "a step").explain()

    def remove(self) -> None:
        """Let all be as it was. A second call does nothing."""
        self._changed.close()

    def __enter__(self) -> Fitted:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def _done(self) -> list[tuple[str, str]]:
        """What is done, and by which modules."""
        done = [
            (self._what(way), ", ".join(name or "the whole model" for name in names))
            for way, names in self._chosen.items()
            if names
        ]
        return done + ([("update as gradients come", "the optimizer")] if self.updates is not None else [])

    def _what(self, way: str) -> str:
        """What modules do. Tensors of the CPU are in host memory as they are."""
        is_file = way == "offload" and self.after.device == "cpu"
        return "keep tensors in a file" if is_file else MODULES[way]

    def __str__(self) -> str:
        before, after = sizes.with_bytes(self.before.total), sizes.with_bytes(self.after.total)
        share = f" (the budget: {self.share})" if self.share else ""
        if not self._done():
            return f"a step fits as it is: {before}{share}"
        held = f"a step holds {before} before, {after} now, for {self.added_cost:.1%} of the cost of a step{share}"
        return "\n".join([held, *(f"{what}: {who}" for what, who in self._done())])

    def __repr__(self) -> str:
        change = f"{sizes.format_bytes(self.before.total)} before, {sizes.format_bytes(self.after.total)} now"
        what = ", ".join(f"{who} {what}" for what, who in self._done()) or "nothing is changed"
        cost = f", cost +{self.added_cost:.1%}" if self._done() else ""
        return f"<memplan.torch.{type(self).__name__}: {change}, {what}{cost}>"


Checkpoints = Offload = Fitted  # what `checkpoint` and `offload` return
