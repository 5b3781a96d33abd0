"""What a problem asks of pairs, for the checker of proofs. Shares nothing with the search.

A proof speaks of items. An item is a buffer, or all buffers that lie at fixed distances from each other: it is named by
the first of them that has bytes. Its offset is the highest common multiple of their alignments that is not above the
lowest of them; so it says where all of them lie, and ranges of its bytes are counted from there.

What is pinned, and the items in which something is pinned, have no choice, and what is reserved has none. All of that
is one more item, the *ground*, named by the number of buffers. It is as large as the capacity, so its offset is 0, and
its bytes are in use where and when something is fixed there. It is larger than the capacity where a pin ends above it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from .checker import Conflict, Problem

Part = tuple[int, int, int, int]
"""Bytes from the first number up to the second, in use in the steps from the third up to the fourth."""


class Columns(NamedTuple):
    """A problem in plain lists. The pin of a free buffer is -1; `parts` has the parts of each buffer, one or more."""

    size: Sequence[int]
    alignment: Sequence[int]
    parts: Sequence[Sequence[Part]]
    conflicts: Sequence[tuple[int, int]]
    pins: Sequence[int]
    reserved: Sequence[Part]
    together: Sequence[tuple[int, int, int]]


def items_of(given: Columns, capacity: int) -> Problem:
    """Items by their names; a name that is not used has no bytes."""
    count = len(given.size)
    ground = count
    size, alignment = [0] * (count + 1), [1] * (count + 1)
    parts: list[list[Part]] = [[] for _ in range(count + 1)]
    place: dict[int, tuple[int, int]] = {}  # per buffer, its item, and where it lies there
    for group in _groups(given):
        with_bytes = [i for i in group if given.size[i] > 0]
        pins = [given.pins[i] - at for i, at in group.items() if given.pins[i] >= 0]
        base, step = _base(given, group) if not pins else (-pins[0], 1)
        if not with_bytes and not pins:
            continue
        item = ground if pins else min(with_bytes)
        alignment[item] = step
        size[item] = max(size[item], *(at - base + given.size[i] for i, at in group.items()))
        for i in with_bytes:
            place[i] = item, group[i] - base
            parts[item] += [_moved(part, group[i] - base) for part in given.parts[i]]
    is_fixed = bool(given.reserved) or any(pin >= 0 for pin in given.pins)
    size[ground] = max(size[ground], capacity) if is_fixed else 0
    parts[ground] += [(b, min(e, capacity), first, last) for b, e, first, last in given.reserved if b < capacity]
    return Problem(size, alignment, parts, _conflicts(given, place))


def _groups(given: Columns) -> list[dict[int, int]]:
    """Buffers that lie together, each with its distance from one of them; alone, if nothing is asked."""
    edges: list[list[tuple[int, int]]] = [[] for _ in given.size]
    for a, b, distance in given.together:
        edges[a].append((b, distance))
        edges[b].append((a, -distance))
    groups, seen = [], set[int]()
    for start in range(len(edges)):
        if start in seen:
            continue
        group, waiting = {start: 0}, [start]
        while waiting:
            a = waiting.pop()
            for b, distance in edges[a]:
                if b not in group:
                    group[b] = group[a] + distance
                    waiting.append(b)
        seen |= group.keys()
        groups.append(group)
    return groups


def _base(given: Columns, group: dict[int, int]) -> tuple[int, int]:
    """Where the item begins, on the scale of the distances, and what its offset is a multiple of."""
    base, step = min(group.values()), 1
    for i, at in group.items():
        while (at - base) % given.alignment[i]:
            base -= step
        step = math.lcm(step, given.alignment[i])
    return base, step


def _moved(part: Part, by: int) -> Part:
    begin, end, first, last = part
    return begin + by, end + by, first, last


def _conflicts(given: Columns, place: dict[int, tuple[int, int]]) -> list[Conflict]:
    """Of bytes of items; those without bytes have no place."""
    found: list[Conflict] = []
    for a, b in given.conflicts:
        if a in place and b in place:
            (item, at), (other, other_at) = place[a], place[b]
            found.append(((item, at, at + given.size[a]), (other, other_at, other_at + given.size[b])))
    return found
