"""A graph compiled within a budget of what its wrappers hold: partitions are tried until one is within it.

What Inductor fuses is known when it has lowered forward and backward. The partitioner counts tensors before that, so it
is told what the usual graphs hold. If its partition holds more than the budget, less is asked of it. Only the code that
runs gets kernels.

All attempts have a time limit. Then the best that was found is taken, or the error says what was.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from typing import Any

from torch import fx

from ... import sizes
from ...plans.failing import InfeasibleError
from ..private_compiler import functorch_config, keep_source
from .anytime import LEAST, Clock, Known, Pair, TimeIsUp, shown, text_of
from .budget import WithinBudget, of_kept, unfit
from .bytes_outside import outside_of
from .capacity_search import Attempt, Search
from .compiled import forget_since, loaded_since, times_loaded, worst_of
from .floor import Floor
from .kernels_once import kernels_once
from .settings import Settings
from .splitting import copied
from .step_load import Fusion
from .without_kernels import Kernel, seconds_of_kernels, without_kernels

Code = Callable[..., Any]
Compile = Callable[..., Code]
Fusing = dict[str, int]  # options of Inductor
Tried = Attempt[Callable[[], Code]]  # what is found compiles the code that runs
_TARGETS = 5  # budgets that are asked of the partitioner
_HALVINGS = 3  # of what is between one that it cannot meet and one that is not enough
_ROOM = 8  # a part of the limit that is not used is worth other attempts
_FOR_ROOM = 2  # of them
_CLOSE = 16  # a part of the limit: what is over by less goes on at once, before other kinds are tried
_IN_PIECES = Fraction(7, 8)  # of a target is asked of pieces: fused, they hold more than is thought
_NEAR = 16  # ops between two that are fused: what runs again is not fused with what runs again much later
_WRITTEN: Fusing = {"realize_reads_threshold": 1}  # what several ops read is in memory
_ALL_WRITTEN: Fusing = {"realize_reads_threshold": 0}  # also if it is computed of one tensor, as the relu of a product
# how graphs are fused, and what Inductor is taken to do then
_KINDS: tuple[tuple[Fusing, Fusion], ...] = (
    *((_WRITTEN, Fusion()), (_WRITTEN, Fusion(writers=False)), (_ALL_WRITTEN, Fusion(writers=False))),
    *(({}, Fusion()), (_WRITTEN, Fusion(in_place=False)), (_ALL_WRITTEN, Fusion())),
)
_IF_NONE: tuple[Fusing, Fusion] = ({}, Fusion(rows=True))  # where too little counts as fused for anything to be found
# torch would gather pieces beside a total, as if that were twice; and what is no loop it puts off: it would keep logits
# in inference it would move each op to its first reader, and keep what the op reads until then
_AS_GIVEN: Fusing = {"reorder_for_peak_memory": False, "reorder_for_locality": False, "unroll_reductions_threshold": 1}


def within(
    compiled: Compile,
    graph: Any,
    inputs: Sequence[Any],
    settings: Settings,
    patches: dict[str, Any],
    budget: sizes.Budget,
) -> Code:
    """A graph within a budget, in the buffers of its wrappers too; ``compiled`` compiles one by its settings.

    Attempts end after the time limit of the settings. By default, it is about the time that Inductor alone would take.

    InfeasibleError: none was found that fits. The error says what the least found holds, and when. If no partition can
    fit, it says why.
    """
    outside = outside_of(inputs, settings.optimizer)
    kept, updating = outside.kept, outside.updating
    partitions = _Partitions(lambda own, *how: compiled(own, inputs, *how), graph, settings, patches, kept)
    usual = partitions.read(None, {})
    if not usual.holds and budget.share is not None:
        return usual.found()  # there is nothing to count
    whole = kept + max(usual.holds, updating)
    limit = budget.of(lambda: whole, kept) - kept
    try:
        if max(updating, 1) > limit:
            where = f"the optimizer's step needs {sizes.format_bytes(updating)} for gradients and what it makes"
            raise unfit(limit, kept, Floor(updating, where if updating else "these are kept"))
        found = usual if 0 < usual.holds <= limit else partitions.search(usual.holds, limit)
    except InfeasibleError as error:
        if share := budget.said(whole, "what the step holds as torch.compile runs it without a budget", kept):
            error.args = (f"{error}; the budget is {share}", *error.args[1:])
        raise
    with kernels_once() if "split" in settings.allow else nullcontext():
        return found.found()


class _Partitions:
    """Partitions of a graph, as Inductor fuses them. What they hold is besides what is kept."""

    def __init__(self, compiled: Compile, graph: Any, settings: Settings, patches: dict[str, Any], kept: int) -> None:
        self._compiled, self._graph, self._settings, self._patches = compiled, graph, settings, patches
        self._kept = kept
        self._said: dict[int, str] = {}  # of what holds so many bytes: the worst moment
        self._known = Known()
        self._seen: dict[tuple[object, ...], Tried] = {}  # by how it is fused and its text: what a partition holds
        self._best: Tried | None = None  # that is within the limit
        self._kernels: list[Kernel] = []  # of the usual graphs
        self._seconds = 0.0  # of reading these

    def read(self, partitioner: WithinBudget | None, fusing: Fusing) -> Tried:
        """What a graph holds in code that is read and not run. What was read before is not lowered again."""
        before, begin = times_loaded(), time.perf_counter()
        place: tuple[object, ...] = ()

        def stop_if_seen(pair: Pair) -> None:
            nonlocal place
            assert partitioner is not None
            place = (*sorted(fusing.items()), partitioner.fusion.writers, text_of(pair))
            if place in self._seen:
                raise _Seen(self._seen[place])

        if partitioner is not None:
            partitioner.made = stop_if_seen
        try:
            with without_kernels() as kernels:
                self._code(partitioner, fusing)
        except _Seen as seen:
            return seen.tried
        finally:
            if partitioner is not None:
                partitioner.made = lambda pair: None
        graphs = loaded_since(before)
        holds = max((most for graph in graphs for most in graph.planned), default=0)
        self._said[holds] = worst_of(graphs)
        forget_since(before)
        found: Tried = Attempt(functools.partial(self._code, partitioner, fusing), holds)
        if partitioner is None:
            self._kernels, self._seconds = kernels, time.perf_counter() - begin
        elif place:
            self._seen[place] = found
        return found

    def search(self, usual: int, limit: int) -> Tried:
        """A partition within a limit, where the usual one holds so much: the best that is found in time."""
        seconds = self._settings.time_limit
        if seconds is None:
            seconds = max(LEAST, self._seconds + seconds_of_kernels(self._kernels))
        self._known.clock = Clock(seconds)
        with shown("torch.compile within a budget") as say:
            try:
                found = self._search(usual, limit, say)
            except TimeIsUp:
                found = self._best
        if found is None:
            raise self._infeasible(limit)
        return found

    def _search(self, usual: int, limit: int, say: Callable[[str], None]) -> Tried | None:
        """It goes on with what is close at first, else with what holds least, and if it is late with that at once."""
        known = self._known
        least: dict[Fusion, int] = {}  # a target for which something is found, before it is fused
        attempts = 0

        def partitioned(target: int, fusing: Fusing, fusion: Fusion) -> Tried | None:
            nonlocal attempts
            if attempts:
                known.clock.check()
            attempts += 1
            say(self._so_far(attempts, limit))
            share = _IN_PIECES if "split" in self._settings.allow else 1
            asked = int(target * share)
            partitioner = WithinBudget(asked, usual, limit, self._kept, self._settings.allow, fusion, known)
            try:
                found = self.read(partitioner, fusing)
                meets = math.ceil(partitioner.meets / share)
                found = replace(found, cost=-target, meets=meets)  # more is saved, less runs again
                if found.holds <= limit and (self._best is None or found.cost < self._best.cost):
                    self._best = found
                return found
            except InfeasibleError as error:
                if error.proven:
                    raise
                found_for = -(-target * error.peak // error.capacity) if error.peak and error.capacity else usual
                least[fusion] = min(least.get(fusion, usual), found_for)
                return None

        begun: list[_Way] = []
        late: _Way | None = None
        for kind in (*_KINDS, _IF_NONE):
            if kind == _IF_NONE and not least:
                continue
            if begun and late is None and known.clock.is_late:
                late = min(begun, key=lambda way: way.over)
                if found := late.best(thorough=True):
                    return found
            nothing = kind[1] in least  # was found for the limit; how it would be fused is not asked before that
            first = None if nothing else partitioned(limit, *kind)
            if first is not None and first.holds <= limit:
                return first
            begun.append(_Way(partitioned, kind, first, usual, limit))
            close = begun[-1].over <= limit // _CLOSE or "split" in self._settings.allow  # more pieces hold less
            if close and (found := begun[-1].best()):
                return found
        way = min(begun, key=lambda way: way.over)
        found = None if way is late else way.best(thorough=True)
        for way, (_, fusion) in zip(begun, _KINDS, strict=False):
            if found is None and fusion in least:  # fused, it may be within the limit, and the error says the least
                found = way.above(least[fusion])
        return found

    def _so_far(self, attempts: int, limit: int) -> str:
        """How far attempts have come, in words."""
        clock, best = self._known.clock, self._best.holds if self._best is not None else min(self._said)
        held = f"{sizes.format_bytes(best + self._kept)} of {sizes.format_bytes(limit + self._kept)}"
        return f"attempt {attempts}, {held} so far, {clock.spent:.0f} of {clock.limit:.0f} s"

    def _code(self, partitioner: WithinBudget | None, fusing: Fusing) -> Code:
        own = _copied(self._graph)
        settings, patches = self._settings, self._patches
        if partitioner is not None:
            settings = replace(settings, fuse_within=_NEAR, fuse_writers=partitioner.fusion.writers)
            ordered = _AS_GIVEN if "split" in settings.allow else {}
            patches = {**fusing, **ordered, **patches, "custom_partitioner_fn": partitioner}
        with functorch_config.patch(force_non_lazy_backward_lowering=True):
            return self._compiled(own, settings, patches)

    def _infeasible(self, limit: int) -> InfeasibleError:
        found, clock, floor = min(self._said), self._known.clock, self._known.floor
        capacity, least = self._kept + limit, self._kept + found
        text = f"no partition of the graph was found that fits {sizes.with_bytes(capacity)} as Inductor fuses it"
        if clock.spent > clock.limit:
            text += f", in {clock.limit:.3g} s (time_limit)"
        moment = f"; its worst moment is in {self._said[found]}" if self._said[found] else ""
        message = f"{text}; the least found holds {sizes.with_bytes(least)} at once, {of_kept(self._kept)}{moment}"
        if floor.total:
            message += f"; any holds at least {sizes.with_bytes(self._kept + floor.total)}, because {floor.where}"
        return InfeasibleError(message, capacity=capacity, peak=least, lower_bound=self._kept + floor.total)


class _Seen(Exception):
    """A partition that was read before, for another target."""

    def __init__(self, tried: Tried) -> None:
        super().__init__()
        self.tried = tried


class _Way:
    """The targets of one kind of attempt, of which the first, for the limit, gave too much or nothing."""

    def __init__(
        self,
        partitioned: Callable[..., Tried | None],
        kind: tuple[Fusing, Fusion],
        first: Tried | None,
        usual: int,
        limit: int,
    ) -> None:
        self.over = (first.holds if first else usual) - limit
        self._usual, self._limit = usual, limit
        self._search = Search(lambda target: first if target == limit else partitioned(target, *kind), limit)
        self._between: tuple[int, int] | None = None  # where `Search.down` has ended

    def above(self, least: int) -> Tried | None:
        """What is within the limit; it gave nothing, and gives something for the target `least`, or more."""
        found = self._search.at(least)
        if found and 0 < self._limit // _ROOM < self._limit - found.holds:
            self._search.between(least, self._usual, _FOR_ROOM)
        return self._search.best

    def best(self, *, thorough: bool = False) -> Tried | None:
        """What is within the limit; ``thorough``: also by targets between those that give too much and too little."""
        search, limit = self._search, self._limit
        low, high = self._between = self._between or search.down(_TARGETS)
        if search.best is None and search.least and thorough:
            search.between(low, high, _HALVINGS)
        elif search.best is not None and limit - search.best.holds > limit // _ROOM:
            search.between(low, high, _FOR_ROOM)
        return search.best


def _copied(graph: fx.GraphModule) -> fx.GraphModule:
    """A graph that may be changed. What Dynamo has noted says which inputs are weights."""
    own = copied(graph)
    for node, twin in zip(graph.graph.nodes, own.graph.nodes, strict=True):
        keep_source(twin, node)
    return own
