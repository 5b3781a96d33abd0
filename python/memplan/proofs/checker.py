"""Checks a proof that no plan fits a capacity. Shares nothing with the search that found it.

It serves every problem: lifetimes, conflicts beyond them, shapes and alignment only say which *differences* two
buffers may have, the offset of the one less that of the other. Parts [b, e) and [b', e') of buffers i and j that are in
use at one step overlap where b - e' < d < e - b', d being the offset of j less that of i. A conflict forbids all with
which the buffers would overlap as a whole. Offsets are multiples of alignments, so d is one of their common divisor.

What lies together at fixed distances counts as one buffer here, and what is pinned or reserved as another; `items` says
which bytes these have.

A proof names some of the buffers. If these have no plan within the capacity, then all of them have none. It is a tree.
Each node adds to its parent that one buffer, `upper`, lies at least `difference` above another one, `lower`, and claims
that there is no plan then. The check is that each claim follows from those below it.

What is known at a node are least differences between all offsets, the ground and the capacity included. From them
follow more, until nothing changes:

- `c` lies at least x + y above `a` if `b` lies at least x above `a`, and `c` at least y above `b`. Rounded up to what
  the difference is a multiple of.
- the least difference of two buffers is one that they may have, and so is the greatest.

A leaf is dead where one of these holds:

- a buffer would lie above itself, or a pair has no difference left.
- it names a clique, byte ranges of buffers of which no two may overlap in any plan: they are different bytes of one
  buffer, their buffers conflict, or parts that use them are in use at one step. All of them lie between the least
  beginning that one of them may have, and the greatest end. They need their bytes; and where all alignments and
  beginnings are multiples of g, each of them needs its bytes rounded up to g, but for the highest of them.
- the ranges of such a clique lie one on another in no order. The least end of a set of them is the least over all that
  may be its highest: on the least end of the others, where its alignment and what is known of it allow.

A node with children has two, and they speak of the same pair: in the one i lies at least so many bytes above j, in the
other j at least so many above i. What they leave out between them is forbidden to that pair, so a plan is in one of
them.

The root adds nothing but order: of two buffers that can be exchanged, because they have the same size, alignment, and
forbidden differences to all others, the second may be taken to lie no lower than the first. That holds for all such
pairs at once, if the second is always listed later: sort the offsets of those that can be exchanged for one another.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

Range = tuple[int, int, int]
"""A buffer, and its bytes from the second number up to the third, counted from where it starts."""

Conflict = tuple[Range, Range]
"""Bytes of two buffers that may not overlap, whatever their lifetimes."""


class Node(NamedTuple):
    """A node of a proof: what its parent says, with one difference more.

    Attributes
    ----------
    parent : int or None
        Position of the parent, which comes before; None at the root, which comes first.
    lower, upper : int or None
        Positions of the buffers of which `upper` lies at least `difference` above `lower`; None at the root.
    difference : int
        Bytes, of offsets; perhaps negative; 0 at the root.
    clique : tuple of (buffer, begin, end)
        Byte ranges that have too little room. Empty if the node has children, and where the differences say enough.
    """

    parent: int | None
    lower: int | None
    upper: int | None
    difference: int
    clique: tuple[Range, ...] = ()


class RefutationError(ValueError):
    """A proof that does not hold; the message, and ``node``, name the node at which it fails."""

    def __init__(self, node: int, message: str) -> None:
        super().__init__(f"the refutation does not hold at node {node}: {message}")
        self.node = node


class Problem:
    """Buffers as plain numbers, each with its parts (begin, end, first, last): one, if it has no shape."""

    def __init__(
        self,
        size: Sequence[int],
        alignment: Sequence[int],
        parts: Sequence[Sequence[tuple[int, int, int, int]]],
        conflicts: Iterable[Conflict],
    ) -> None:
        self.size, self.alignment, self.parts = size, alignment, parts
        self.conflicts: dict[tuple[int, int], list[tuple[int, int, int, int]]] = {}
        for (i, begin, end), (j, begin2, end2) in conflicts:
            self.conflicts.setdefault((i, j), []).append((begin, end, begin2, end2))
            self.conflicts.setdefault((j, i), []).append((begin2, end2, begin, end))

    def meeting(self, i: int, j: int) -> list[tuple[int, int, int, int]]:
        """Bytes of i, from the first number up to the second, and of j, that may not overlap."""
        found = list(self.conflicts.get((i, j), ()))
        for b1, e1, f1, l1 in self.parts[i]:
            for b2, e2, f2, l2 in self.parts[j]:
                if max(f1, f2) < min(l1, l2):
                    found.append((b1, e1, b2, e2))
        return found

    def forbidden(self, i: int, j: int) -> list[tuple[int, int]]:
        """What the offset of j less that of i may not be: ranges, both ends included."""
        return sorted((b1 + 1 - e2, e1 - 1 - b2) for b1, e1, b2, e2 in self.meeting(i, j))

    def apart(self, one: Range, other: Range) -> bool:
        """Whether two ranges of bytes overlap in no plan."""
        (i, begin, end), (j, begin2, end2) = one, other
        if i == j:
            return end <= begin2 or end2 <= begin
        return any(b1 <= begin and end <= e1 and b2 <= begin2 and end2 <= e2 for b1, e1, b2, e2 in self.meeting(i, j))

    def needed(self, clique: Sequence[Range]) -> int:
        """From the lowest beginning to the highest end of ranges that lie apart."""
        divisor = math.gcd(*(n for i, begin, _ in clique for n in (self.alignment[i], begin)))
        padding = [(begin - end) % divisor for _, begin, end in clique]
        return sum(end - begin for _, begin, end in clique) + sum(padding) - max(padding)


class _Dead(Exception):
    """No plan has these differences."""


_MOST_STACKED = 16  # ranges of a clique, of which each set is looked at

_Table = list[list[int]]  # the least differences from the row's to the column's; the last is the ground


class _Differences:
    """What follows from differences of some buffers of a problem."""

    def __init__(self, problem: Problem, buffers: Sequence[int], capacity: int) -> None:
        self.problem, self.buffers, self.capacity = problem, buffers, capacity
        self.place = {buffer: k for k, buffer in enumerate(buffers)}
        self.forbidden = [[problem.forbidden(i, j) if i != j else [] for j in buffers] for i in buffers]
        alignment = [*(problem.alignment[i] for i in buffers), 0]
        self.step = [[math.gcd(a, b) for b in alignment] for a in alignment]

    def at_first(self, ordered: Iterable[tuple[int, int]]) -> _Table:
        """Between the ground and the capacity, and the second of each pair no lower than the first."""
        count = len(self.buffers)
        room = [self.capacity - self.problem.size[i] for i in self.buffers]
        if min(room, default=0) < 0:
            raise _Dead
        least = [[-r for _ in range(count)] + [-r] for r in room]
        table = [*least, [0] * (count + 1)]
        for k in range(count):
            table[k][k] = 0
        changed = [(a, b) for a in range(count + 1) for b in range(count + 1) if a != b]
        for i, j in ordered:
            table[self.place[i]][self.place[j]] = max(table[self.place[i]][self.place[j]], 0)
        self._close(table, changed)
        return table

    def raised(self, table: _Table, lower: int, upper: int, difference: int) -> _Table:
        """With `upper` at least so much above `lower`."""
        after = [list(row) for row in table]
        a, b = self.place[lower], self.place[upper]
        if difference > after[a][b]:
            after[a][b] = difference
            self._close(after, [(a, b)])
        return after

    def _close(self, table: _Table, changed: list[tuple[int, int]]) -> None:
        """Takes in all that follows from the differences that changed."""
        ground = len(self.buffers)
        while changed:
            a, b = changed.pop()
            row = table[a]
            least = row[b] = self._allowed(a, b, row[b])
            if least + table[b][a] > 0:
                raise _Dead
            if a != ground and b != ground:
                greatest = self._allowed(b, a, table[b][a])  # of b's offset less a's, with the sign turned
                if greatest > table[b][a]:
                    table[b][a] = greatest
                    changed.append((b, a))
            onwards = table[b]
            for k in range(ground + 1):
                if k not in (a, b):
                    if table[k][a] + least > table[k][b]:
                        table[k][b] = self._rounded(k, b, table[k][a] + least)
                        changed.append((k, b))
                    if least + onwards[k] > row[k]:
                        row[k] = self._rounded(a, k, least + onwards[k])
                        changed.append((a, k))

    def _rounded(self, a: int, b: int, difference: int) -> int:
        step = self.step[a][b]
        return difference + -difference % step if step else difference

    def _allowed(self, a: int, b: int, least: int) -> int:
        """The least difference from a to b that they may have, from this one on."""
        least = self._rounded(a, b, least)
        if max(a, b) < len(self.buffers):
            for low, high in self.forbidden[a][b]:
                if low <= least <= high:
                    least = self._rounded(a, b, high + 1)
        return least

    def ruled_out(self, a: int, b: int) -> list[tuple[int, int]]:
        """The forbidden differences, in units of what a difference is a multiple of, as few ranges as there can be."""
        step = self.step[a][b]
        merged: list[tuple[int, int]] = []
        for low, high in self.forbidden[a][b]:
            first, last = -(-low // step), high // step
            if first > last:
                continue
            if merged and first <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(merged[-1][1], last))
            else:
                merged.append((first, last))
        return merged

    def room(self, table: _Table, clique: Sequence[Range]) -> int:
        """What there is from the lowest that one of them may lie to the highest that one may end."""
        ground = len(self.buffers)
        lowest = min(table[ground][self.place[i]] + begin for i, begin, _ in clique)
        return max(end - table[self.place[i]][ground] for i, _, end in clique) - lowest

    def stacked(self, table: _Table, clique: Sequence[Range]) -> bool:
        """Whether these ranges, which lie apart, may lie one on another in some order; for a few of them."""
        if len(clique) > _MOST_STACKED:
            return True
        ground = len(self.buffers)
        places = [self.place[i] for i, _, _ in clique]
        below = [
            sum(
                1 << other
                for other, (_, begin2, _) in enumerate(clique)
                if other != one
                and table[places[other]][places[one]] > begin2 - end  # so the one is not below the other
            )
            for one, (_, _, end) in enumerate(clique)
        ]
        ends = {0: 0}  # per set of ranges, as bits
        everything = (1 << len(clique)) - 1
        for lain in range(everything):
            if lain not in ends:
                continue
            for k, (i, begin, end) in enumerate(clique):
                if lain >> k & 1 or below[k] & ~lain:
                    continue
                offset = max(ends[lain] - begin, table[ground][places[k]])
                offset += -offset % self.problem.alignment[i]
                if offset <= -table[places[k]][ground]:
                    ends[lain | 1 << k] = min(ends.get(lain | 1 << k, offset + end), offset + end)
        return everything in ends


def check(
    problem: Problem,
    capacity: int,
    buffers: Sequence[int],
    ordered: Sequence[tuple[int, int]],
    nodes: Sequence[Node],
) -> None:
    """Return where the nodes prove that no plan of these buffers fits the capacity; else raise RefutationError."""
    known = {*buffers}
    if len(known) != len(buffers) or not all(0 <= i < len(problem.size) and problem.size[i] > 0 for i in buffers):
        raise RefutationError(0, "it must name buffers of the problem that have bytes, each once")
    children = _children(nodes, known)
    for k, node in enumerate(nodes):
        _check_clique(problem, k, node.clique, known)
    if nodes[0].clique and problem.needed(nodes[0].clique) > capacity:
        return
    facts = _Differences(problem, buffers, capacity)
    _check_ordered(problem, facts, ordered)
    waiting: list[tuple[int, _Table | None]] = [(0, None)]
    while waiting:
        k, before = waiting.pop()
        _, lower, upper, difference, clique = nodes[k]
        try:
            if before is None or lower is None or upper is None:
                table = facts.at_first(ordered)
            else:
                table = facts.raised(before, lower, upper, difference)
        except _Dead:
            continue
        if clique and (problem.needed(clique) > facts.room(table, clique) or not facts.stacked(table, clique)):
            continue
        if not children[k]:
            why = "the members of its clique have room" if clique else "its differences may all hold"
            raise RefutationError(k, f"it has no children, and {why}")
        _check_children(problem, k, [nodes[child] for child in children[k]])
        waiting += [(child, table) for child in reversed(children[k])]  # the first is looked at first


def _children(nodes: Sequence[Node], buffers: set[int]) -> list[list[int]]:
    """Per node its children; refuses what is no tree, and buffers that the proof does not name."""
    if not nodes:
        raise RefutationError(0, "there is none")
    children: list[list[int]] = [[] for _ in nodes]
    for k, (parent, lower, upper, _, _) in enumerate(nodes):
        if k == 0:
            if (parent, lower, upper) != (None, None, None):
                raise RefutationError(0, "the root has neither parent nor buffers")
            continue
        if parent is None or not 0 <= parent < k:
            raise RefutationError(k, f"its parent must be a node before it, got {parent}")
        if lower not in buffers or upper not in buffers or lower == upper:
            raise RefutationError(k, f"it must speak of two buffers of the proof, got {lower} and {upper}")
        children[parent].append(k)
    return children


def _check_ordered(problem: Problem, facts: _Differences, ordered: Sequence[tuple[int, int]]) -> None:
    place = facts.place
    for i, j in ordered:
        if i not in place or j not in place or place[i] >= place[j]:
            raise RefutationError(0, f"it must order two of its buffers as it lists them, got {i} and {j}")
        same = (problem.size[i], problem.alignment[i]) == (problem.size[j], problem.alignment[j])
        a, b = place[i], place[j]
        if not same or any(
            facts.ruled_out(a, b if k == a else k) != facts.ruled_out(b, a if k == a else k)
            for k in range(len(place))
            if k != b
        ):
            raise RefutationError(0, f"buffers {i} and {j} cannot be exchanged, so neither need lie above the other")


def _check_children(problem: Problem, k: int, children: Sequence[Node]) -> None:
    pairs = {(child.lower, child.upper) for child in children}
    (one, other) = (children[0], children[-1])
    if len(children) != 2 or pairs != {(one.lower, one.upper), (one.upper, one.lower)}:
        raise RefutationError(k, "it must have two children, which speak of the same two buffers")
    i, j = one.lower, one.upper
    assert i is not None
    assert j is not None
    step = math.gcd(problem.alignment[i], problem.alignment[j])
    allowed = 1 - other.difference  # the least that neither child has, then the least that is not forbidden
    allowed += -allowed % step
    for low, high in problem.forbidden(i, j):
        if low <= allowed <= high:
            allowed = high + 1 + -(high + 1) % step
    if allowed < one.difference:
        raise RefutationError(k, f"no child has buffer {j} at {allowed} above buffer {i}, which is allowed")


def _check_clique(problem: Problem, k: int, clique: Sequence[Range], buffers: set[int]) -> None:
    for i, begin, end in clique:
        if i not in buffers or not 0 <= begin < end <= problem.size[i]:
            raise RefutationError(k, f"{(i, begin, end)} is no range of bytes of a buffer of the proof")
    for position, one in enumerate(clique):
        for other in clique[:position]:
            if not problem.apart(one, other):
                raise RefutationError(k, f"bytes {other} and {one} (buffer, begin, end) may overlap in a plan")
