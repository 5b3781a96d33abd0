"""Which ops run earlier or later in one order than in another."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from .. import _core


@dataclass(frozen=True)
class OpMove:
    """An op that moved, its steps in the two orders, and the bytes that it writes; 0 where that is not known."""

    name: str
    before: int
    after: int
    bytes: int = 0


def moved_ops(before: Sequence[str], after: Sequence[str], graph: _core.Graph | None = None) -> tuple[OpMove, ...]:
    """The fewest ops that have to move to make one order of the other.

    Those that write most come first, as far as the graph of one of the orders says, then those that move furthest. None
    if the orders are not of the same ops. The ops that stay are a longest sequence that both orders have in common: an
    increasing one of places. O(n log n).
    """
    place = {name: step for step, name in enumerate(before)}
    if place.keys() != set(after):
        return ()
    places = [place[name] for name in after]
    stay = _longest_increasing(places)
    written = {} if graph is None else _written(graph)
    moved = [
        OpMove(name, places[step], step, written.get(name, 0)) for step, name in enumerate(after) if step not in stay
    ]
    return tuple(sorted(moved, key=lambda move: (-move.bytes, -abs(move.after - move.before), move.after)))


def _written(graph: _core.Graph) -> dict[str, int]:
    """Per op, the bytes of its outputs that are no views."""
    size = {tensor.name: tensor.bytes for tensor in graph.tensors}
    return {op.name: sum(size[name] for name in {*op.outputs} - {out for out, _, _ in op.aliases}) for op in graph.ops}


def _longest_increasing(values: Sequence[int]) -> set[int]:
    """The positions of a longest increasing subsequence of values that all differ."""
    ends: list[int] = []  # per length less one, the least value that such a sequence ends with
    at: list[int] = []  # where that is
    before: list[int] = []  # per position, the one before it in its sequence; -1 for none
    for k, value in enumerate(values):
        length = bisect_left(ends, value)
        before.append(at[length - 1] if length else -1)
        ends[length : length + 1], at[length : length + 1] = [value], [k]
    found, k = set(), at[-1] if at else -1
    while k >= 0:
        found.add(k)
        k = before[k]
    return found
