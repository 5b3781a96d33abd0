"""Which modules give up what they keep for the backward pass, so that a step fits a budget: a model of the step.

A step without data says what autograd keeps, where, and when it is read first. Given up, it is free from the end of its
module's call to the first read in the backward pass. Then it is back; where it is computed again, the module's own
peak comes on top. What the model says is checked by a step without data in which the modules really give it up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..reading.dry_run import DryRun

_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Way:
    """How modules give up what they keep.

    ``again``: it is computed again; else it is moved out. ``applied`` is a context in which the modules of these names
    do so. ``refused`` says of a step which may not. ``beside`` are bytes that each call keeps until its backward pass,
    and that a step without data does not see. ``transfer`` is the cost of moving a byte out, and again to fetch it. Of
    ``pieces`` of a call, each is computed again when the one before has given its gradients.
    """

    again: bool
    applied: Callable[[Sequence[str]], AbstractContextManager[Any]]
    refused: Callable[[DryRun], Collection[str]] = lambda _: ()
    beside: int = 0
    transfer: float = 1.0
    pieces: int = 1


@dataclass(frozen=True)
class Candidate:
    """A module: what it costs to give up what it keeps, and the bytes that this adds at each op; most are negative."""

    module: str
    cost: float
    change: _Ints
    way: Way


def candidates_of(found: DryRun, way: Way, refused: Collection[str]) -> list[Candidate]:
    """Modules worth a thought: those that keep bytes of their own which no other module keeps.

    The model itself is one of them, without a name, unless it would be computed again as a whole.

    Parameters
    ----------
    found
        A step that was watched.
    way
        How they give it up.
    refused
        Names of modules that may not.
    """
    calls: dict[str, list[int]] = {}
    for number, call in enumerate(found.calls):
        if call.last > call.first and (call.module or not way.again or way.pieces > 1) and call.module not in refused:
            calls.setdefault(call.module, []).append(number)
    made = [_candidate(found, module, numbers, way) for module, numbers in calls.items()]
    return [candidate for candidate in made if candidate is not None]


def _candidate(found: DryRun, module: str, numbers: Iterable[int], way: Way) -> Candidate | None:
    change, cost = np.zeros(len(found.ops) + 1, np.int64), 0.0
    kept = False
    for number in numbers:
        call = found.calls[number]
        inside = [save for save in found.saves if call.first <= save.op <= call.last and save.read >= 0]
        outside = {save.storage for save in found.saves if not call.first <= save.op <= call.last}
        own = {save.storage for save in inside} - outside
        if way.again or not module:
            own = {s for s in own if found.first[s] >= call.first and s not in call.returned}
        if not own:
            continue
        kept = True
        back = min(save.read for save in inside)
        for storage in own:
            begin, end = call.last, back if way.pieces == 1 else found.last[storage]
            if not way.again:
                begin = max(begin, found.first[storage] + 1) if module else _used(found, storage, call.last)
                end = min(save.read for save in inside if save.storage == storage)
                cost += 2.0 * way.transfer * found.size[storage]
            if end > begin:
                change[begin] -= found.size[storage]
                change[end] += found.size[storage]
        if way.again:
            change[call.first] += way.beside
            change[back + 1] -= way.beside
            cost += sum(found.cost[call.first : call.last])
            peak, end = _own_peak(found, call.first, call.last, own), back + 1
            if way.pieces > 1:
                peak = -(-(peak + sum(found.size[storage] for storage in own)) // way.pieces)
                end = max(end, *(found.last[storage] for storage in own))
            change[back] += peak
            change[end] -= peak
    return Candidate(module, cost, np.cumsum(change)[:-1], way) if kept else None


def _used(found: DryRun, storage: int, end: int) -> int:
    """The op after the last one before `end` that touches a storage."""
    return max((op + 1 for op in range(found.first[storage], end) if storage in found.touched[op]), default=end)


def _own_peak(found: DryRun, first: int, last: int, own: Collection[int]) -> int:
    """The most bytes of what is made in [first, last), over those of `own`: what running it again needs besides."""
    alive = np.zeros(last - first + 1, np.int64)
    size, born, dead = (np.array(column, np.int64) for column in (found.size, found.first, found.last))
    inside = np.flatnonzero((born >= first) & (born < last))
    np.add.at(alive, born[inside] - first, size[inside])
    np.add.at(alive, np.minimum(dead[inside], last) - first, -size[inside])
    return max(0, int(np.cumsum(alive).max()) - int(size[list(own)].sum()))


def choose(need: _Ints, candidates: list[Candidate], budget: int, priced: bool = True) -> list[Candidate] | None:
    """Modules, none within another, that bring the need within the budget at little cost; None if none are found.

    Greedy: the most bytes above the budget for the cost, or at any cost if not ``priced``. Then each that is not needed
    is left out, the dearest first.
    """
    chosen: list[Candidate] = []
    now = need
    while (over := now > budget).any():
        best, worth = None, 0.0
        for candidate in candidates:
            if any(c is candidate or _within(candidate.module, c.module) for c in chosen):
                continue
            replaced = [c for c in chosen if c.module == candidate.module or _within(c.module, candidate.module)]
            then = now + candidate.change - sum((c.change for c in replaced), np.zeros_like(now))
            won = float(np.minimum(now[over], need.max()).sum() - np.maximum(then[over], budget).sum())
            cost = candidate.cost - sum(c.cost for c in replaced) if priced else 0.0
            if won > 0 and won / max(cost, 1.0) > worth and _peak_over(then, budget) < _peak_over(now, budget):
                best, worth = candidate, won / max(cost, 1.0)
        if best is None:
            return None
        chosen = [c for c in chosen if c.module != best.module and not _within(c.module, best.module)] + [best]
        now = need + sum((c.change for c in chosen), np.zeros_like(need))
    for candidate in sorted(chosen, key=lambda c: -c.cost):
        if (now - candidate.change).max() <= budget:
            chosen.remove(candidate)
            now = now - candidate.change
    return chosen


def outermost(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Those that are not within another one."""
    return [c for c in candidates if not any(_within(c.module, other.module) for other in candidates)]


def _peak_over(need: _Ints, budget: int) -> int:
    """Bytes above the budget, summed over the ops."""
    return int(np.maximum(need - budget, 0).sum())


def _within(inner: str, outer: str) -> bool:
    return inner.startswith(f"{outer}.") if outer else inner != outer
