"""Clipping of gradients that are gone: refused, while updates run as gradients come.

`torch.nn.utils.clip_grad_norm_` takes what gradients there are. Without any it does nothing, and a loop that relies on
it trains otherwise than it says. So the private function that it gets the norm from is replaced meanwhile.
`clip_grad_value_` raises an error of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol
from weakref import WeakSet

from torch.nn.utils import clip_grad

from ...errors import UnsupportedError

_NORM = "_get_total_norm"


class Updates(Protocol):
    """What updates as you go."""

    @property
    def pending(self) -> bool:
        """Whether gradients were used and freed since the last step."""

    @property
    def parameters(self) -> frozenset[int]:
        """The ids of the parameters."""


_ACTIVE: WeakSet[Updates] = WeakSet()


def active() -> tuple[Updates, ...]:
    """All that update as you go now."""
    return tuple(_ACTIVE)


def refuse_while(updates: Updates) -> None:
    """Refuse to clip nothing from now on, when gradients have been used."""
    _ACTIVE.add(updates)
    norm = getattr(clip_grad, _NORM)
    if not hasattr(norm, "refuses"):
        setattr(clip_grad, _NORM, _refusing(norm))


def allow(updates: Updates) -> None:
    """Put torch's function back when nothing updates as you go any more."""
    _ACTIVE.discard(updates)
    norm = getattr(clip_grad, _NORM)
    if not _ACTIVE and hasattr(norm, "refuses"):
        setattr(clip_grad, _NORM, norm.refuses)


def _refusing(norm: Callable[..., Any]) -> Callable[..., Any]:
    def checked(gradients: Any, *args: Any, **options: Any) -> Any:
        nothing = isinstance(gradients, (list, tuple)) and not gradients
        if nothing and any(updates.pending for updates in _ACTIVE):
            problem = "there are no gradients to clip, each was used as it came"
            raise UnsupportedError(f"memplan.run.update_as_you_go(): {problem}; clip nothing, or remove() it")
        return norm(gradients, *args, **options)

    checked.refuses = norm  # type: ignore[attr-defined]
    return checked
