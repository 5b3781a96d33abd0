"""Heads of networks in pieces: linear layers whose logits are read by rows, by a loss, and are never whole."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from ...errors import SourceError
from .replaced_forward import Wrapped, replaced_forward
from .waiting import Waiting

if TYPE_CHECKING:
    from .fitted_modules import Step


class Event(NamedTuple):
    """A head is called, its logits are whole, or backward computes them again, by `again` operations."""

    head: str
    whole: bool = False
    again: float = 0.0


def heads_in(step: Step) -> dict[str, float]:
    """The linear layers of a model whose logits need not be whole, by name: a step without data says so.

    With each, the floating-point operations that run once more in the backward pass.
    """
    names = [
        name
        for name, part in step.model.named_modules()
        if type(part) is torch.nn.Linear and part.out_features > part.in_features
    ]
    found: dict[str, float] = {}
    while names:
        events: list[Event] = []
        try:
            with with_heads(step.model, names, events):
                step.run()
        except SourceError:  # with tensors that wait, it does not run
            return found
        seen, whole = {event.head for event in events}, {event.head for event in events if event.whole}
        for name in names:
            if name in seen - whole:
                found[name] = sum(event.again for event in events if event.head == name)
        names = [name for name in names if name not in seen] if seen else []  # those were given what waits
    return found


def with_heads(
    model: torch.nn.Module, names: Sequence[str], events: list[Event] | None = None, *, narrow: bool = False
) -> replaced_forward:
    """Meanwhile, these linear layers return logits that are computed when something reads them.

    What happens is added to `events`. `narrow`: pieces have as few rows as the least memory takes, and are slow.
    """
    told: Any = deque[Event](maxlen=0) if events is None else events
    return replaced_forward(model, names, partial(_Head, told.append, narrow))


class _Head(Wrapped):
    """The forward of a linear layer, which waits."""

    def __init__(self, told: Callable[[Event], None], narrow: bool, *args: Any) -> None:
        super().__init__(*args)
        self.narrow = narrow
        self._told = told  # a builtin, which steps without data do not look into

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        x = args[0] if len(args) == 1 and not kwargs else None
        if not isinstance(x, Tensor) or isinstance(x, Waiting) or torch.compiler.is_compiling():
            return self.forward(*args, **kwargs)
        waits = x.dim() > 1 and x.dtype != torch.float16 and x.numel() > 0
        waits = waits and not torch.is_autocast_enabled(x.device.type)  # else it would have another dtype later
        self._told(Event(self.name, not waits))
        return Waiting.of_head(self, x) if waits else self.forward(x)

    def note_whole(self) -> None:
        """Its logits are whole."""
        self._told(Event(self.name, True))

    def note_again(self, work: float) -> None:
        """Backward computes logits again, by as many floating-point operations."""
        self._told(Event(self.name, again=work))
