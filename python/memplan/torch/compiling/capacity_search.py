"""Which capacity to ask for, where what comes of it may hold more than was asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

Found = TypeVar("Found")
_SLIGHT = 200  # a budget over this is not worth another attempt


@dataclass(frozen=True)
class Attempt(Generic[Found]):
    """What came of a target, the bytes that it holds, and what it costs. It comes of all targets from `meets` on."""

    found: Found
    holds: int
    cost: float = 0.0
    meets: int | None = None


class Search(Generic[Found]):
    """The largest target found of which comes what is within a budget.

    The targets go down from the budget, by what was too much, and by steps that double; what meets lower targets too is
    not asked for again. Where a target brought nothing,
    the next step is three times the one before. Where nothing fits a target, or something was found with room to spare,
    targets between that and the last one that gave too much are tried.

    Attributes
    ----------
    best : Attempt or None
        The cheapest that is within the budget.
    least : Attempt or None
        Of those that are not, the one that holds least.
    """

    def __init__(self, attempt: Callable[[int], Attempt[Found] | None], budget: int) -> None:
        self._attempt, self._budget = attempt, budget
        self.best: Attempt[Found] | None = None
        self.least: Attempt[Found] | None = None

    def down(self, steps: int) -> tuple[int, int]:
        """Lower targets until one works, or nothing fits it: that one, and the last before it."""
        slight = max(self._budget // _SLIGHT, 1)
        low, high, step = self._budget, self._budget, slight
        held = None
        for _ in range(steps):
            tried = self.at(low)
            if tried is None or tried.holds <= self._budget:
                break
            down = max(tried.holds - self._budget, 3 * (high - low) if tried.holds == held else step)
            if tried.meets is not None:
                down = max(down, low - tried.meets + tried.holds - self._budget)
            low, high, held = max(low - down, 0), low, tried.holds
            step *= 2
        return low, high

    def between(self, low: int, high: int, halvings: int) -> None:
        """Try targets between one of `down` and one that gives too much, where what works may cost less."""
        slight = max(self._budget // _SLIGHT, 1)
        for _ in range(halvings):
            if high - low <= slight or (self.best and self._budget - self.best.holds <= slight):
                break
            middle = (low + high) // 2
            tried = self.at(middle)
            low, high = (low, middle) if tried and tried.holds > self._budget else (middle, high)

    def at(self, target: int) -> Attempt[Found] | None:
        """What comes of a target."""
        tried = self._attempt(target)
        if tried is None:
            return None
        if tried.holds <= self._budget:
            self.best = tried if self.best is None or tried.cost < self.best.cost else self.best
        elif self.least is None or tried.holds < self.least.holds:
            self.least = tried
        return tried
