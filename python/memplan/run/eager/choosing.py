"""Which modules give up what they keep for the backward pass, so that a step fits a budget: a model of the step.

A step without data says what autograd keeps, where, and when it is read first. Given up, it is free from the end of its
module's call to the first read in the backward pass. Then it is back; where it is computed again, the module's own
peak comes on top. What the model says is checked by a step without data in which the modules really give it up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...importers.torch.dry_run import DryRun

_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Candidate:
    """A module: what it costs to give up what it keeps, and the bytes that this adds at each op; most are negative."""

    module: str
    cost: float
    change: _Ints


def candidates_of(found: DryRun, again: bool, refused: Collection[str], beside: int = 0) -> list[Candidate]:
    """Modules worth a thought: those that keep bytes of their own which no other module keeps.

    Parameters
    ----------
    found
        A step that was watched.
    again
        Whether what is given up is computed again; else it is moved out, and costs its bytes twice.
    refused
        Names of modules that must not.
    beside
        Bytes that a call keeps until it is computed again, and that the step does not show.
    """
    calls: dict[str, list[int]] = {}
    for number, call in enumerate(found.calls):
        if call.last > call.first and call.module and call.module not in refused:
            calls.setdefault(call.module, []).append(number)
    made = [_candidate(found, module, numbers, again, beside) for module, numbers in calls.items()]
    return [candidate for candidate in made if candidate is not None]


def _candidate(found: DryRun, module: str, numbers: Iterable[int], again: bool, beside: int) -> Candidate | None:
    change, cost = np.zeros(len(found.ops) + 1, np.int64), 0.0
    kept = False
    for number in numbers:
        call = found.calls[number]
        inside = [save for save in found.saves if call.first <= save.op <= call.last and save.read >= 0]
        outside = {save.storage for save in found.saves if not call.first <= save.op <= call.last}
        own = {save.storage for save in inside} - outside
        if again:
            own = {s for s in own if found.first[s] >= call.first and s not in call.returned}
        if not own:
            continue
        kept = True
        back = min(save.read for save in inside)
        for storage in own:
            begin, end = call.last, back
            if not again:
                begin = max(begin, found.first[storage] + 1)
                end = min(save.read for save in inside if save.storage == storage)
                cost += 2.0 * found.size[storage]
            if end > begin:
                change[begin] -= found.size[storage]
                change[end] += found.size[storage]
        if again:
            change[call.first] += beside
            change[back + 1] -= beside
            cost += sum(found.cost[call.first : call.last])
            change[back] += _own_peak(found, call.first, call.last, own)
            change[back + 1] -= _own_peak(found, call.first, call.last, own)
    return Candidate(module, cost, np.cumsum(change)[:-1]) if kept else None


def _own_peak(found: DryRun, first: int, last: int, own: Collection[int]) -> int:
    """The most bytes of what is made in [first, last), over those of `own`: what running it again needs besides."""
    alive = np.zeros(last - first + 1, np.int64)
    size, born, dead = (np.array(column, np.int64) for column in (found.size, found.first, found.last))
    inside = np.flatnonzero((born >= first) & (born < last))
    np.add.at(alive, born[inside] - first, size[inside])
    np.add.at(alive, np.minimum(dead[inside], last) - first, -size[inside])
    return max(0, int(np.cumsum(alive).max()) - int(size[list(own)].sum()))


def choose(need: _Ints, candidates: list[Candidate], budget: int) -> list[Candidate] | None:
    """Modules, none within another, that bring the need within the budget at little cost; None if none are found.

    Greedy: the most bytes above the budget for the cost. Then each that is not needed is left out, the dearest first.
    """
    chosen: list[Candidate] = []
    now = need
    while (over := now > budget).any():
        best, worth = None, 0.0
        for candidate in candidates:
            if any(c is candidate or _within(candidate.module, c.module) for c in chosen):
                continue
            replaced = [c for c in chosen if _within(c.module, candidate.module)]
            then = now + candidate.change - sum((c.change for c in replaced), np.zeros_like(now))
            won = float(np.minimum(now[over], need.max()).sum() - np.maximum(then[over], budget).sum())
            cost = candidate.cost - sum(c.cost for c in replaced)
            if won > 0 and won / max(cost, 1.0) > worth and _peak_over(then, budget) < _peak_over(now, budget):
                best, worth = candidate, won / max(cost, 1.0)
        if best is None:
            return None
        chosen = [c for c in chosen if not _within(c.module, best.module)] + [best]
        now = need + sum((c.change for c in chosen), np.zeros_like(need))
    for candidate in sorted(chosen, key=lambda c: -c.cost):
        if (now - candidate.change).max() <= budget:
            chosen.remove(candidate)
            now = now - candidate.change
    return chosen


def _peak_over(need: _Ints, budget: int) -> int:
    """Bytes above the budget, summed over the ops."""
    return int(np.maximum(need - budget, 0).sum())


def _within(inner: str, outer: str) -> bool:
    return inner.startswith(f"{outer}.")
