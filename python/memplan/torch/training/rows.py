"""Modules whose rows are independent: each row of what they return is made of the same row of what they are given.

A step without data says which operators a call of a module runs. Rows are followed from its arguments to its results.
They lie along the first axis of each; of one argument also along all axes but the last, taken together: the samples of
a batch, or its tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from ..private import TorchDispatchMode, pytree
from ..reading.effects import draws, flat_tensors
from ..reading.fake import PLAIN
from .row_checks import Made, Shapes, made_by, shapes_of
from .row_flow import Axes, Draw, Lie, Ran, followed, trimmed


@dataclass(frozen=True)
class Apart:
    """Where the rows of a module lie that are independent.

    Attributes
    ----------
    given, returned : sequence
        The axes of each tensor among its arguments and results; None for what all rows read.
    draws : sequence
        The random numbers that it draws, and where rows lie in them.
    ran : mapping
        What a call ran, by the shapes of its arguments: operators, and where rows lie in what they make.
    """

    given: Sequence[Axes | None]
    returned: Sequence[Axes]
    draws: Sequence[Draw]
    ran: Mapping[Shapes, Sequence[Made]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def axes(self) -> Axes:
        """Those of the first tensor that has rows."""
        return next(axes for axes in self.given if axes is not None)


@dataclass
class NotedCall:
    """A call of a module in forward: its operators [first, last), what it is given and what it returns."""

    name: str
    module: torch.nn.Module
    first: int
    last: int = -1
    given: Any = None
    result: Any = None
    bound: Sequence[Any] = ()  # what attributes of the module are bound to anew


class Noted(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes what a forward runs while it is on: operators, and calls of the modules of a model."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[NotedCall] = []
        self.ops: list[Ran] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.namespace != "prim":  # which asks what a tensor is
            self.ops.append(Ran(func, args, kwargs or {}, result))
        return result

    @contextmanager
    def noting(self, model: torch.nn.Module) -> Iterator[None]:
        """Meanwhile, what a model runs is noted."""
        names = {id(part): name for name, part in model.named_modules()}
        waiting: list[tuple[NotedCall, dict[Any, Any]]] = []

        def begin(part: torch.nn.Module, _: Any) -> None:
            if id(part) in names:
                self.calls.append(NotedCall(names[id(part)], part, len(self.ops)))
                waiting.append((self.calls[-1], _bound(part)))

        def finish(part: torch.nn.Module, args: Any, kwargs: Any, result: Any) -> None:
            if waiting and waiting[-1][0].module is part:
                call, before = waiting.pop()
                call.last, call.given, call.result = len(self.ops), (args, kwargs), result
                call.bound = [value for key, value in _bound(part).items() if before.get(key) is not value]

        hooks = [
            register_module_forward_pre_hook(begin),
            register_module_forward_hook(finish, with_kwargs=True),
        ]
        try:
            with self:
                yield
        finally:
            for hook in hooks:
                hook.remove()

    def independent(self) -> dict[str, Apart]:
        """The modules whose rows are independent in each call, and where they lie; "" is the model."""
        found: dict[str, Apart | None] = {}
        for call in self.calls:
            rows = self.rows(call)
            apart, before = None if isinstance(rows, str) else rows, found.get(call.name)
            if apart is not None and before is not None:
                apart = replace(apart, ran={**before.ran, **apart.ran}) if apart == before else None
            found[call.name] = apart if call.name not in found or before is not None else None
        return {name: apart for name, apart in found.items() if apart is not None}

    def why_whole(self) -> str:
        """Why the model does not run in pieces as a whole, in words; "" if it can, or if it was not called."""
        found = next((self.rows(call) for call in self.calls if not call.name), "")
        return found if isinstance(found, str) else ""

    def rows(self, call: NotedCall) -> Apart | str:
        """Where the rows of a call lie that are independent; a reason in words if they are not."""
        leaves = pytree.tree_leaves((call.given, call.result)) if call.last >= 0 else [call]
        other = next((leaf for leaf in leaves if not isinstance(leaf, (Tensor, *PLAIN, *_OF_TORCH))), None)
        if other is not None:
            return f"it takes or returns a {type(other).__name__}"
        given, returned = (list(flat_tensors(pytree.tree_leaves(of))) for of in (call.given, call.result))
        x = next((x for x in given if x.dim() > 1), None)
        if x is None:
            return "none of its arguments has rows"
        if {*map(id, given)} & {*map(id, returned)}:
            return "it returns what it is given"
        alone = len(given) == 1 and x.is_floating_point() and x.is_contiguous()
        tokens = [(0, x.dim() - 2)] if alone else []
        reason = "it is given one row"
        for axes in dict.fromkeys([*tokens, (0, 0)]):
            lead = x.shape[: axes[1] + 1]
            if prod(lead) == 1:
                continue
            reason = "it returns something that has no rows"
            if returned and all(one.shape[: len(lead)] == lead for one in returned):
                found = self._apart(call, given, returned, lead)
                if isinstance(found, Apart):
                    return found
                reason = found
        return reason

    def _apart(
        self, call: NotedCall, given: Sequence[Tensor], returned: Sequence[Tensor], lead: Sequence[int]
    ) -> Apart | str:
        """Where rows lie, if all tensors that begin with these axes have rows along them, and rows are independent."""
        axes, ops = (0, len(lead) - 1), self.ops[call.first : call.last]
        has_rows = [tuple(one.shape[: len(lead)]) == tuple(lead) for one in given]
        first = {id(one): Lie(trimmed(one, axes)) for one, has in zip(given, has_rows, strict=True) if has}
        flow = followed(ops, first, lead)
        if flow.mixed is not None:
            return self._mixing(call.first + flow.mixed)
        if any(flow.lie.get(id(one)) != Lie(trimmed(one, axes)) for one in returned):
            return "what it returns is not made of its rows"
        if any(isinstance(value, PLAIN) or id(value) in flow.lie for value in call.bound):
            return "it sets attributes of its own"  # of the last piece alone, or once for each
        whole = next(lie for lie in first.values())
        several = whole.axes[0] != whole.axes[1]
        lies = [draw.lie for draw in flow.draws if draw.lie is not None]
        if any((several and lie != whole) or (lie.times > 1 and lie.step > 1) for lie in lies):
            return "it draws random numbers in another shape"
        return Apart(
            tuple(axes if has else None for has in has_rows),
            tuple(axes for _ in returned),
            tuple(flow.draws),
            {shapes_of(given): tuple(made_by(ops, flow.lie))},
        )

    def _mixing(self, at: int) -> str:
        """An operator that does not keep rows apart, in words."""
        ran = self.ops[at]
        within = [call.name for call in self.calls if call.first <= at < call.last and call.name]
        where = f"{ran.func}{f' in {within[-1]!r}' if within else ''}"
        if draws(ran.func, ran.args, ran.kwargs):
            return f"{where} draws random numbers in a way of its own"
        return f"{where} does not keep its rows apart"


def _bound(module: torch.nn.Module) -> dict[Any, Any]:
    """What attributes of a module and of its parts are bound to, and what is in lists and dicts among them."""
    found = dict[Any, Any]()
    for part in module.modules():
        for name, value in vars(part).items():
            found[id(part), name] = value
            if isinstance(value, (dict, list)):
                items = value.items() if isinstance(value, dict) else enumerate(value)
                found.update({(id(part), name, key): item for key, item in items})
    return found


_OF_TORCH = (torch.dtype, torch.device, torch.memory_format, torch.layout)
