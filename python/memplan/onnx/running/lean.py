"""Which parts of a plan's regions run in pieces in a runtime, and in how many: what holds least for little more work.

A plan may have a region through the whole network in hundreds of pieces, as its rows are kept. Here rows are made
again, so a long region is worth less than its parts, and few pieces are worth more than many. Regions are taken in one
by one: of those that leave fewest bytes above the target the cheapest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from .held import Estimate, estimate
from .regions import Network, Region

MORE_WORK = 0.15  # of all operations: rows that are made again, copies and calls
_COUNTS = (2, 3, 4, 6, 8, 12, 16, 24, 32)
_CUTS = 16  # places at most at which a region is cut
_ROUNDS = 8
_AIMS = 5  # targets that are tried, where the one that is asked for is not reached
_NEAR = 0.05  # of bytes: what is as good
_WORK = 1_000_000  # steps of graphs that the search looks at


def lean_regions(
    graph: Network,
    costs: Sequence[float],
    regions: Sequence[Region],
    target: int,
    can_write: Callable[[int, int], bool],
) -> list[Region]:
    """Regions of which each is a part of one of `regions`, so that about `target` bytes are there; none if none helps.

    `can_write` says of which ops, along which of their loops, pieces can be written.
    """
    search = _Search(graph, costs, [run for region in regions for run in _runs(region, can_write)])
    best, refused = search.whole, target - 1
    for aim in (target, *[None] * _AIMS):
        aim = refused + (best.load - refused) // 2 if aim is None else aim
        found = search.descend(aim)
        if found.load < best.load * (1 - _NEAR):
            best = found
        if best.load <= target:
            break
        refused = max(refused, aim) if found.load > aim else refused
    return list(best.regions)


class _State(NamedTuple):
    regions: tuple[Region, ...]
    made: Estimate

    @property
    def load(self) -> int:
        return self.made.load

    @property
    def cost(self) -> float:
        return self.made.cost


class _Search:
    def __init__(self, graph: Network, costs: Sequence[float], runs: Sequence[Mapping[int, int]]) -> None:
        self._graph, self._costs = graph, costs
        self._parts = [part for run in runs for part in _parts(graph, run)]
        self._known, self._left = dict[tuple[object, ...], _State](), _WORK
        self.whole = self._state(())
        self._most = self.whole.cost * (1 + MORE_WORK)

    def _state(self, regions: tuple[Region, ...]) -> _State:
        key = tuple(sorted((tuple(region.loop_of.items()), region.pieces) for region in regions))
        if key not in self._known:
            self._left -= len(self._graph.ops) + sum(region.pieces * len(region.loop_of) for region in regions)
            self._known[key] = _State(regions, estimate(self._graph, self._costs, regions))
        return self._known[key]

    def descend(self, target: int) -> _State:
        """Takes in regions until at most `target` bytes are there, or nothing lowers them."""
        now = self.whole
        for _ in range(_ROUNDS):
            above = now.made.above(target)
            found = [state for state in self._next(now, target) if state.made.above(target) < above]
            if not found:
                break
            enough = min(state.made.above(target) for state in found) + _NEAR * above
            now = min((state for state in found if state.made.above(target) <= enough), key=lambda state: state.cost)
        return now

    def _next(self, now: _State, target: int) -> Iterator[_State]:
        """With one more region, which takes the place of those that share an op with it."""
        hot = {k for k, need in enumerate(now.made.needs) if need + now.made.packed > target}
        for loop_of in self._parts:
            if self._left < 0 or not hot.intersection(loop_of):
                continue
            others = tuple(other for other in now.regions if not other.loop_of.keys() & loop_of.keys())
            extent = min(self._graph.ops[k].loops[loop][0] for k, loop in loop_of.items())
            for count in (count for count in _COUNTS if count <= extent):
                state = self._state((*others, Region(loop_of, count)))
                if state.cost > self._most:
                    break
                yield state
                if not state.made.above(target):
                    break


def _runs(region: Region, can_write: Callable[[int, int], bool]) -> Iterator[dict[int, int]]:
    """The longest runs of ops of a region that can be written."""
    run = dict[int, int]()
    for k, loop in sorted(region.loop_of.items()):
        if can_write(k, loop):
            run[k] = loop
            continue
        if run:
            yield run
        run = {}
    if run:
        yield run


def _parts(graph: Network, run: Mapping[int, int]) -> Iterator[dict[int, int]]:
    """Parts of a run, cut where an op makes what lies in bytes of its own."""
    ops = list(run)
    places = [place for place, k in enumerate(ops) if not place or not (graph.ops[k].inplace or graph.ops[k].aliases)]
    places = places[:: -(-len(places) // _CUTS)]
    ends = [*places[1:], len(ops)]
    for begin in places:
        for end in ends:
            if end > begin:
                yield {k: run[k] for k in ops[begin:end]}
