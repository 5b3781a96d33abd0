"""Which modules are changed so that a step fits a budget, found by a model of the step and tried without data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ... import sizes
from ...errors import SourceError, UnsupportedError
from ...estimating import result
from ...plans.failing import InfeasibleError
from ..estimating import dry_run_of, of_run, step_load
from ..reading.dry_run import DryRun
from .choosing import Candidate, Way, candidates_of, choose, outermost
from .floor import Floor, floor_of, floor_of_code, worst_of
from .heads import with_heads
from .reads import ChangedError
from .rows import Noted
from .sweeps import few_pieces
from .updating import UpdatesAsYouGo, check

_TRIALS = 8  # sets of modules that are tried


@dataclass(frozen=True)
class Chosen:
    """What was chosen."""

    modules: tuple[tuple[str, ...], ...]  # by the way: names of modules, in the order of forward
    # what they add, as a share of the cost of a step: floating-point operations, and bytes that ops touch
    added_cost: float
    before: result.Estimate  # A step without and with it
    after: result.Estimate
    run: DryRun  # with it
    updates: bool = False  # whether gradients are used as they come
    heads: tuple[str, ...] = ()  # modules whose logits are never whole
    narrow: bool = False  # their pieces have as few rows as the least memory takes
    share: str = ""  # what the budget is a share of, in words


@dataclass(frozen=True)
class Step:
    """A step of training, as `memplan.estimate` takes it."""

    model: torch.nn.Module
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] | None = None
    optimizer: Any = None
    autocast: Any = None
    loss: Callable[[Any], Any] | None = None
    device: str = "cpu"
    heads: tuple[str, ...] = ()  # modules whose logits are never whole
    narrow: bool = False  # their pieces have as few rows as the least memory takes

    def __post_init__(self) -> None:
        if not isinstance(self.model, torch.nn.Module):
            raise TypeError(f"model must be a torch.nn.Module, got a {type(self.model).__qualname__}")

    def run(
        self,
        watch: bool = False,
        updates: bool = False,
        around: Callable[[torch.nn.Module], AbstractContextManager[Any]] | None = None,
    ) -> DryRun:
        """The step without data; with `updates`, gradients are used as they come."""
        how = {"train": True, "optimizer": self.optimizer, "loss": self.loss, "watch": watch, "around": around}
        how["going"] = UpdatesAsYouGo if updates else None
        with with_heads(self.model, self.heads, narrow=self.narrow), few_pieces():
            return dry_run_of(self.model, self.args, self.kwargs, autocast=self.autocast, device=self.device, **how)

    def forward(self, dropping: bool) -> DryRun:
        """Forward alone, without data: autograd is off, or it is `dropping` all that it is given."""
        keeping = _keeping(torch.empty(0))
        how = {"train": False, "watch": True, "around": (lambda _: keeping) if dropping else None}
        return dry_run_of(self.model, self.args, self.kwargs, autocast=self.autocast, device=self.device, **how)

    def noted(self) -> Noted:
        """What the step runs: operators, and calls of modules."""
        noted = Noted()
        self.run(around=noted.noting)
        return noted


@contextmanager
def _keeping(nothing: torch.Tensor) -> Iterator[None]:
    """Meanwhile, autograd keeps this in place of what it is given: no backward pass can follow."""
    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(lambda _: nothing, lambda _: nothing):
        yield


def applied(ways: Sequence[Way], modules: Sequence[Sequence[str]]) -> ExitStack:
    """Until it is closed, these modules give up what they keep."""
    with ExitStack() as stack:
        for way, names in zip(ways, modules, strict=True):
            stack.enter_context(way.applied(names))
        return stack.pop_all()


def fit_modules(
    step: Step,
    budget: int | str,
    ways: Sequence[Way],
    updates: bool,
    must: bool,
    heads: Mapping[str, float] | None = None,
) -> Chosen:
    """Modules with which a step is within the budget, by a step without data in which they do what they will do.

    All ways together are tried, and each alone: the choice is greedy. With `updates`, gradients may be used as they
    come, which costs nothing; with `must`, it is an error if the optimizer cannot. The logits of `heads` may never be
    whole, which costs these operations; None: ops run as a whole. Their pieces have so few rows that they are slow only
    where nothing else is within the budget. InfeasibleError if no such modules were found.
    """
    asked = sizes.budget_of(budget, "budget", or_least=True, of_step=True)
    usual = step.run(watch=True)
    before = of_run(usual, step.device)
    limit = None if asked.least else asked.of(lambda: before.total, before.kept)
    share = asked.said(before.total, "what a step holds as it is, kernels' memory counted", before.kept)
    nothing = Chosen(((),) * len(ways), 0.0, before, before, usual, share=share)
    if limit is not None and before.total <= limit:
        return nothing
    heads = heads and {name: again for name, again in heads.items() if name not in usual.not_again}
    work, again = max(sum(usual.cost), 1.0), 0.0
    if heads:
        lean = replace(step, heads=tuple(heads))
        without = lean.run(watch=True)
        if of_run(without, step.device).total < before.total:
            step, usual, again = lean, without, sum(heads.values())
            after = of_run(usual, step.device)
            nothing = replace(nothing, added_cost=again / work, after=after, run=usual)
            nothing = replace(nothing, heads=step.heads, narrow=step.narrow)
    found = _updating(step, must) if updates else None
    updates, found = found is not None, found or usual
    search = _Search(step, found, before, ways, updates, work, again)
    tried = [nothing, search.tried([])] if updates else [nothing]
    if limit is None or tried[-1].after.total > limit:
        each = [candidates_of(found, way, way.refused(usual)) for way in ways]
        together = [candidate for candidates in each for candidate in candidates]
        several = (together, *(each if len(ways) > 1 else ()))
        tried += [search.best(candidates, limit) for candidates in several if candidates]
        tried += [search.outermost(found) for way, found in zip(ways, each, strict=True) if way.pieces > 1 and found]
    least = min(tried, key=lambda one: (one.after.total, one.added_cost))
    if step.heads and not step.narrow and (limit is None or least.after.total > limit):
        narrow = replace(step, narrow=True)
        less = of_run(usual, step.device).total - of_run(narrow.run(), step.device).total
        if less > 0 and (limit is None or least.after.total - limit <= less):
            found_narrow = fit_modules(replace(narrow, heads=()), budget, ways, updates, must, heads)
            return min(least, found_narrow, key=lambda one: one.after.total)
    if limit is None:
        return least
    within = [one for one in tried if one.after.total <= limit]
    if not within:
        floors = [floor_of(usual, before.kept, updates, heads is not None)]
        if not heads:  # with which logits need not be whole
            floors.append(_floor_of_code(step, usual, before.kept, ways))
        floor = max(floors, key=lambda floor: floor.total)
        raise _infeasible(step, limit, least, floor, ways, usual, share)
    return replace(search.without_updates(min(within, key=lambda one: one.added_cost), limit), share=share)


def _floor_of_code(step: Step, usual: DryRun, kept: int, ways: Sequence[Way]) -> Floor:
    """What the code of forward holds, whatever modules do."""
    try:
        alone = [step.forward(dropping) for dropping in (False, True)]
    except SourceError:  # it runs only where autograd keeps what it needs
        return Floor(0, "")
    called = {call.module for call in usual.calls}
    apart = {name for way in ways if way.pieces > 1 for name in called - set(way.refused(usual))}
    return floor_of_code(usual, alone, kept, apart)


def _updating(step: Step, must: bool) -> DryRun | None:
    """A step in which gradients are used as they come; None if the optimizer cannot."""
    try:
        check(step.optimizer)
        found = step.run(watch=True, updates=True)
        if found.too_early is not None:
            problem = "an update as gradients come would change a parameter that the backward pass has still to read"
            raise UnsupportedError(f"{problem}, under another name; leave 'update' out of allow")
        return found
    except UnsupportedError:
        if must:
            raise
    except SourceError as error:
        if must:
            problem = f"the updates of {type(step.optimizer).__name__} cannot run one by one in a step without data"
            raise UnsupportedError(f"{problem}, so nobody knows what they hold; leave 'update' out of allow") from error
    return None


class _Search:
    """Looks for modules with which a step holds little, and tries what it finds."""

    def __init__(
        self,
        step: Step,
        found: DryRun,
        before: result.Estimate,
        ways: Sequence[Way],
        updates: bool,
        work: float,
        again: float,
    ) -> None:
        self._step, self._found, self._before, self._ways, self._updates = step, found, before, ways, updates
        self._work, self._again = work, again  # the cost of a step as it was, and what heads add
        load, total = step_load(found, step.device), of_run(found, step.device).total
        # What else is held at all times, such as rounding of what is kept, is added.
        self._need = load + (total - int(load.max()))
        self._refused: set[tuple[Way, str]] = set()

    def best(self, candidates: list[Candidate], limit: int | None) -> Chosen:
        """Those with which a step is within the limit, or with which it holds as little as is found."""
        return self._found_by(lambda left: self._best(left, limit), candidates)

    def outermost(self, candidates: list[Candidate]) -> Chosen:
        """All that are not within another one."""
        return self._found_by(lambda left: self.tried(outermost(left)), candidates)

    def _found_by(self, search: Callable[[list[Candidate]], Chosen], candidates: list[Candidate]) -> Chosen:
        """What a search finds among those that can do what they are to do."""
        while True:
            try:
                return search([c for c in candidates if (c.way, c.module) not in self._refused])
            except SourceError as error:
                cause = error.__cause__
                changed = cause.module if isinstance(cause, ChangedError) else None
                refused = {(c.way, c.module) for c in candidates if c.way.again and c.module == changed}
                if refused <= self._refused:
                    raise
                self._refused |= refused  # what it reads is written to before it runs again

    def _best(self, candidates: list[Candidate], limit: int | None) -> Chosen:
        tried, target = list[Chosen](), limit or 0
        for _ in range(0 if limit is None else _TRIALS):
            chosen = choose(self._need, candidates, target)
            if limit is None or chosen is None:
                break
            tried.append(self.tried(chosen))
            above = tried[-1].after.total - limit
            if above <= 0:
                return tried[-1]
            thought = self._need + sum((c.change for c in chosen), np.zeros_like(self._need))
            target = min(target, int(thought.max())) - max(above, limit // 1000)
        for priced in (True, False):
            tried.append(self.tried(_least(self._need, self._before.kept, candidates, priced)))
            if limit is not None and tried[-1].after.total <= limit:
                break
        return min(tried, key=lambda one: one.after.total)

    def tried(self, chosen: list[Candidate]) -> Chosen:
        """A step without data in which they give up what they keep."""
        cost = (sum(candidate.cost for candidate in chosen) + self._again) / self._work
        return self._run(_by_way(self._found, chosen, self._ways), cost, self._updates)

    def without_updates(self, chosen: Chosen, limit: int) -> Chosen:
        """The same modules, and no updates as gradients come, if a step is within the limit without these."""
        if not chosen.updates or not chosen.modules:
            return chosen
        usual = self._run(chosen.modules, chosen.added_cost, False)
        return usual if usual.after.total <= limit else chosen

    def _run(self, modules: tuple[tuple[str, ...], ...], cost: float, updates: bool) -> Chosen:
        with applied(self._ways, modules):
            run = self._step.run(updates=updates)
        after = of_run(run, self._step.device)
        kept = after.activations
        for way, names in zip(self._ways, modules, strict=True):
            calls = sum(call.module in names for call in self._found.calls)
            kept += way.beside * (calls + 1) if calls else 0  # one more while one runs again
        heads = (self._step.heads, self._step.narrow)
        return Chosen(modules, cost, self._before, replace(after, activations=kept), run, updates, *heads)


def _by_way(found: DryRun, chosen: Sequence[Candidate], ways: Sequence[Way]) -> tuple[tuple[str, ...], ...]:
    """The names of the modules by their ways, in the order of forward."""

    def of(way: Way) -> tuple[str, ...]:
        names = {candidate.module for candidate in chosen if candidate.way is way}
        return tuple(dict.fromkeys(call.module for call in found.calls if call.module in names))

    return tuple(map(of, ways))


def _least(need: npt.NDArray[np.int64], low: int, candidates: list[Candidate], priced: bool) -> list[Candidate]:
    """Modules with which the model of the step needs the least that is found, to a percent."""
    high, least = int(need.max()), list[Candidate]()
    while high - low > high // 100:
        middle = (low + high) // 2
        chosen = choose(need, candidates, middle, priced)
        low, high, least = (low, middle, chosen) if chosen is not None else (middle, high, least)
    return least


def _infeasible(
    step: Step, limit: int, least: Chosen, floor: Floor, ways: Sequence[Way], usual: DryRun, share: str
) -> InfeasibleError:
    """The error: what no choice can go below, or what was found, and which tensors stand in the way."""
    best = least.after
    if floor.total > limit:
        needed = sizes.with_bytes(floor.total)
        text = f"no choice of modules fits {sizes.with_bytes(limit)}: a step holds at least {needed}, "
        text += f"because {floor.where}"
    else:
        with applied(ways, least.modules):
            run = step.run(watch=True, updates=least.updates)
        held = ", ".join(f"{sizes.format_bytes(size)} of {name}" for name, size in best.parts.items() if size)
        worst = worst_of(run, int(step_load(run, step.device).argmax()))
        text = f"no modules were found with which a step fits {sizes.with_bytes(limit)}; its worst moment is in the "
        text += f"{best.phase} pass, at {best.at}: {held}; the largest are {', '.join(worst)}"
    more = "" if len(ways) > 1 else "memplan.torch.fit may find more, and "
    more += "" if least.updates else "updates as gradients come hold less, if optimizer= is an instance that can, and "
    advice = f"{more}a smaller batch holds less: memplan.largest says which fits"
    if left := usual.not_again if any(way.again for way in ways) else usual.rewritten:
        name = max(left, key=lambda name: name.count(".") + bool(name))
        who = f"module '{name}'" if name else "the model"
        text += f"; {who} stays as it is: what it reads or keeps is written to by {left[name].where}"
    text += f"; the budget is {share}" if share else ""
    message = f"{text}; the least found is {sizes.with_bytes(best.total)}; {advice}"
    return InfeasibleError(message, capacity=limit, lower_bound=floor.total, peak=best.total)
