"""What forward saves and backward computes again, chosen so that the planned peak of a step is within a budget.

AOTAutograd hands the joint graph of forward and backward to a partitioner. torch's own, with
`activation_memory_budget`, limits the bytes that are saved; it does not see when they are held. Here, the joint graph
is made to fit by the search behind `memplan.fit`: which ops of forward run again, and when, such that the load is
within the budget at the least cost. torch orders the graphs that come of it anew. So they are looked at as a whole, and
if they hold more than the budget, a little less is asked for.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import fx

from ... import sizes
from ...plans.failing import InfeasibleError
from ..private_compiler import CustomPartitionerFn, get_hash_for_files
from .anytime import Clock, Known, Pair, TimeIsUp
from .capacity_search import Attempt, Search
from .floor import Floor
from .partitions import Cuts, Partition
from .shapes import keep_shapes
from .splitting import MOST, Split, copied, split_graph
from .step_load import USUAL, Fusion

log = logging.getLogger("memplan.torch")
_TARGETS = 6  # capacities that are tried, until the partition is within the budget
_HALVINGS = 4  # of what is between a capacity that does not work and one that does
_FOR_LEAST = 8  # of them, where the least is what the error says
_FEWER = (16, 8, 4)  # pieces, where ops may run again
_SOON = 8  # after this part of the time, what is found is not tried in fewer
_SHARES = (1.0, 0.8, 0.5, 0.0)  # of the budget, which ops in pieces are to be within; 0 is as little as is found


class WithinBudget(CustomPartitionerFn):
    """A partitioner for Inductor.

    Tensors are counted before Inductor fuses kernels. ``usual`` is what the usual graphs hold as Inductor fuses them:
    the budget is larger before that, by the same factor. 0: that is not known. ``limit`` is what a step may hold, where
    the budget is a target below that. All are besides the ``kept`` bytes of weights, inputs and states. ``fusion``:
    what Inductor is taken to do. What runs again is written over too, and then runs once more: Inductor may run both at
    once. ``known`` is kept from one partitioner of a graph to the next.

    Attributes
    ----------
    made : callable
        Is called with what was found: forward and backward.
    meets : int
        The lowest budget that what was found is within.
    """

    def __init__(
        self,
        budget: int,
        usual: int = 0,
        limit: int = 0,
        kept: int = 0,
        allow: Sequence[str] = ("recompute",),
        fusion: Fusion = USUAL,
        known: Known | None = None,
    ) -> None:
        self._budget, self._usual, self._limit, self._kept = budget, usual, limit or budget, kept
        self._allow, self.fusion, self._known = tuple(allow), fusion, Known() if known is None else known
        self.made: Callable[[Pair], object] = lambda pair: None
        self.meets = budget

    def __reduce__(self) -> tuple[Any, ...]:
        """What keys of torch's caches have of it: what is asked for, and nothing that attempts have found."""
        return WithinBudget, (self._budget, self._usual, self._limit, self._kept, self._allow, self.fusion)

    def __call__(self, gm: fx.GraphModule, joint_inputs: Sequence[object], **kwargs: Any) -> Pair:
        keep_shapes(gm.graph)
        found, self.meets = self._found(gm, joint_inputs, kwargs)
        log.info("of a budget of %d bytes, %d are planned", self._budget, found.peak)
        forward, backward = map(copied, found.graphs)  # Inductor changes them
        self.made((forward, backward))
        return forward, backward

    def _found(
        self, gm: fx.GraphModule, joint_inputs: Sequence[object], kwargs: dict[str, Any]
    ) -> tuple[Partition, int]:
        """The partition, and the lowest budget that it is within."""
        cuts = self._cuts(gm, joint_inputs, kwargs)

        def look() -> Partition:
            if "split" in self._allow:
                return self._in_pieces(gm, joint_inputs, kwargs, cuts.usual()[0])
            return within(cuts, self._budget, self._usual, self._limit, self._kept, self._known.clock)

        found = self._known.once(self.fusion, self._budget, look)
        return found, _fused(found.peak, self._usual, cuts.usual()[0])

    def _in_pieces(
        self, gm: fx.GraphModule, joint_inputs: Sequence[object], kwargs: dict[str, Any], whole: int
    ) -> Partition:
        """A partition of the graph in pieces; ``whole``: what the usual partition holds.

        The split does not see that forward ends before backward, so less than the budget may be asked of it. What runs
        again is looked for at length only where no split helps. Regions that run in several passes are tried last.
        """
        budget = _before_fusing(self._budget, self._usual, whole)  # what is in pieces is fused as much as what is whole
        failed: list[InfeasibleError] = []

        @functools.cache
        def split(capacity: int, most: int, again: bool) -> tuple[Split, Cuts]:
            made = self._split(gm, capacity, most, again)
            return made, self._cuts(made.module, joint_inputs, kwargs, whole=False)

        ways = [(again, share) for again in (False, True)[: 1 + ("recompute" in self._allow)] for share in _SHARES]
        for thorough in (False, True):
            seen: set[int] = set()
            for again, share in ways:
                splits = self._splits(functools.partial(split, int(budget * share), again=again), seen)
                if found := self._cheapest(splits, budget, thorough, failed):
                    return found
        raise failed[0]

    def _splits(self, split: Callable[[int], tuple[Split, Cuts]], seen: set[int]) -> Iterator[tuple[Split, Cuts]]:
        """The graph in many pieces, and then in fewer, without those that were seen."""
        pieces = MOST + 1
        for most in (MOST, *_FEWER):
            if pieces > most:
                made, cuts = split(most)
                pieces, nodes = made.pieces, len(made.module.graph.nodes)
                if nodes not in seen:
                    seen.add(nodes)
                    yield made, cuts

    def _cheapest(
        self, splits: Iterator[tuple[Split, Cuts]], budget: int, thorough: bool, failed: list[InfeasibleError]
    ) -> Partition | None:
        """The cheapest partition of some splits: in few pieces, where what runs again brings more for less."""
        best: Partition | None = None
        clock = self._known.clock
        for split, cuts in splits:
            if "recompute" not in self._allow:
                return cuts.by_torch()
            try:
                found = within(cuts, budget, 0, self._limit, self._kept, clock, thorough=thorough)
            except TimeIsUp:
                if best is None:
                    raise
                return best
            except InfeasibleError as error:
                if error.proven:
                    raise
                failed.append(error)
                continue
            found = replace(found, cost=found.cost + split.cost)
            best = found if best is None or found.cost < best.cost else best
            if clock.spent > clock.limit / _SOON:
                break
        return best

    def _cuts(
        self, gm: fx.GraphModule, joint_inputs: Sequence[object], kwargs: dict[str, Any], whole: bool = True
    ) -> Cuts:
        known = self._known.usual if whole else {}  # there are several graphs in pieces
        return Cuts(gm, joint_inputs, kwargs, known, whole="split" not in self._allow, fusion=self.fusion)

    @property
    def in_pieces(self) -> bool:
        """Whether ops may run in pieces."""
        return "split" in self._allow

    def split(self, gm: fx.GraphModule) -> fx.GraphModule:
        """The graph with ops in pieces, as far as that is allowed and brings tensors within the budget."""
        return self._split(gm, self._budget, MOST, "recompute" in self._allow).module if "split" in self._allow else gm

    def _split(self, gm: fx.GraphModule, capacity: int, most: int, again: bool) -> Split:
        split = split_graph(gm, capacity, most, again=again)
        if split.reason and split.reason not in self._known.said:
            self._known.said.add(split.reason)
            log.warning("nothing is in pieces: %s", split.reason)
        return split

    def uuid(self) -> Any:
        """What compiled code depends on."""
        files = sorted(str(path) for path in Path(__file__).parent.glob("*.py"))
        return get_hash_for_files(
            tuple(files),
            f"{self._budget} of {self._usual}, {self._limit}, {self._kept}, {self._allow}, {self.fusion}",
        )


def within(
    cuts: Any,
    budget: int,
    fused: int = 0,
    limit: int = 0,
    kept: int = 0,
    clock: Clock | None = None,
    *,
    thorough: bool = True,
) -> Partition:
    """The cheapest partition found whose peak is within a budget, where the usual one holds ``fused`` bytes when fused.

    If the time is up, it is the cheapest until then; TimeIsUp: there is none. Unless ``thorough``, only the budget is
    asked for, and nothing below it.

    InfeasibleError: none was found. The error says what the least found holds. If the floor is above the limit, no
    partition is within it, and the error says why.
    """
    clock = clock or Clock()
    usual, floor = cuts.usual()
    if floor.total > limit > 0:
        raise unfit(limit, kept, floor)
    budget = _before_fusing(budget, fused, usual)
    if usual <= budget:
        return cuts.by_torch()  # type: ignore[no-any-return]

    def attempt(capacity: int) -> Attempt[Partition] | None:
        clock.check()
        try:
            found: Partition = cuts.within(capacity)
        except InfeasibleError:
            return None
        return Attempt(found, found.peak, found.cost)

    search = Search(attempt, budget)
    try:
        low, high = search.down(_TARGETS if thorough else 1)
        found = search.best or search.least
        if thorough:
            search.between(low, high if found else usual, _HALVINGS if found else _FOR_LEAST)
    except TimeIsUp:
        if search.best is None:
            raise
    if search.best is not None:
        return search.best.found
    least = min(usual, search.least.holds if search.least else usual)
    text = f"no partition of the graph was found that fits {sizes.with_bytes(budget)}"
    raise InfeasibleError(f"{text}; the least found holds {least:,} at once", capacity=budget, peak=least)


def _before_fusing(budget: int, fused: int, whole: int) -> int:
    """A budget of tensors that are not fused yet, where as a whole they hold ``whole`` bytes, and ``fused`` fused."""
    return budget * whole // fused if 0 < fused < whole else budget


def _fused(planned: int, fused: int, whole: int) -> int:
    """What is planned before fusing, as the budget that it is taken for: the inverse of `_before_fusing`."""
    return -(-planned * fused // whole) if 0 < fused < whole else planned


def unfit(limit: int, kept: int, floor: Floor) -> InfeasibleError:
    """The error if a step holds more whatever is done; the limit and the floor are besides what is kept."""
    least = kept + floor.total
    asked, needed = sizes.with_bytes(kept + limit), sizes.with_bytes(least)
    text = f"no partition of the graph fits {asked}: a step holds at least {needed}, "
    message = f"{text}{of_kept(kept)}, because {floor.where}"
    return InfeasibleError(message, capacity=kept + limit, lower_bound=least)


def of_kept(kept: int) -> str:
    """How much of what is held was there before, in words."""
    return f"{sizes.format_bytes(kept)} of it weights, inputs and states"
