"""Checks a proof that no plan fits a capacity. Shares nothing with the search that found it: this file imports nothing.

A proof is a tree. Each node stands for a question about the buffers U that are not placed yet, each with a `base`, a
height that it may not lie below:

    Is there a plan of U alone, in which every buffer lies at a multiple of its alignment, at its base or higher, and
    ends within the capacity?

At the root U is every buffer that has bytes, and bases are 0: this is the question whether a plan fits. The proof says
"no" at every node; the check is that each "no" follows from those below it. What was placed on the way down is no part
of a question: it is enough that a "yes" at a node would mean a "yes" at one of its children, and that no leaf is "yes".

Words: two buffers *conflict* when their lives [first, last) meet; then their bytes may not overlap. The *floor* at a
step is the least base of those of U that live there; none of them can lie lower. The *gap* of a buffer is what lies
between its end and the next multiple of g, the greatest common divisor of its alignment and of those of all that
conflict with it. Whatever conflicts with it and lies above it begins at a multiple of g, hence above the gap.

A leaf is dead where either holds:

- its buffer was placed, and ends above the capacity.
- at its step, the floor and all sizes and gaps of U there but the largest gap add up to more than the capacity. They
  all live at that step, so they lie one on another from the floor up, and only the highest does not need its gap.

A node with children names a step t at which some of U live; f is the floor there. If there is a plan, there is one in
which nothing can be pushed down: take one whose offsets add up to least. There each buffer lies at its base, or rests
on another of U that conflicts with it, at the end of that one rounded up to its own alignment. Let z be the lowest
at t.

- z lies at f. Then its base is f. So there has to be a child "z is placed at f" for each buffer at t whose base is f,
  or for one that can be exchanged for it: of the same size, alignment, base, and with the same conflicts. In that
  child, everything that conflicts with z has a base of at least z's end, rounded up. The plan without z is a plan of
  it, provided that all that conflicts with z lies above z. So nothing of U that conflicts with z may fit in below f:
  each must have base + size > f. This is what allows to forget what is below: no plan of U has anything there that
  could meet z.
- z lies above f. If its base is above f, it lies there or higher. If its base is f, it rests on some y. As z is the
  lowest at t, y does not live at t; and z lies at base + size of y or higher, rounded up to z's alignment. So all of U
  at t lie at `rise` or higher, the least of these over all that z and y could be. There has to be a child "all at t lie
  at h or higher", with h at most `rise`, in which bases are raised so; unless there is nothing to take the least of, or
  `rise` and the sizes and gaps at t but the largest gap add up to more than the capacity, as in a leaf.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class Node(NamedTuple):
    """A node of a proof: its parent's question, with one thing more.

    Attributes
    ----------
    parent : int or None
        Position of the parent, which comes before; None at the root, which comes first.
    buffer : int or None
        Position of the buffer that is placed at `height`; None: whatever lives at the parent's step lies at `height`
        or higher. None at the root.
    height : int
        Bytes; 0 at the root.
    step : int
        The step at which the children are all that there can be; without children, one without room.
    """

    parent: int | None
    buffer: int | None
    height: int
    step: int


class RefutationError(ValueError):
    """A proof that does not hold; the message, and ``node``, name the node at which it fails."""

    def __init__(self, node: int, message: str) -> None:
        super().__init__(f"the refutation does not hold at node {node}: {message}")
        self.node = node


# Per buffer, its base; None where it is placed or has no bytes.
_Bases = list[int | None]


class Problem:
    """Buffers as plain numbers, and what follows from them alone."""

    def __init__(
        self, size: Sequence[int], first: Sequence[int], last: Sequence[int], alignment: Sequence[int]
    ) -> None:
        self.size, self.first, self.last, self.alignment = list(size), list(first), list(last), list(alignment)
        count = len(self.size)
        self.conflicts = [
            [y for y in range(count) if x != y and self.size[y] > 0 and first[x] < last[y] and first[y] < last[x]]
            for x in range(count)
        ]
        self.gap = [
            -self.size[x] % math.gcd(self.alignment[x], *(self.alignment[y] for y in self.conflicts[x]))
            for x in range(count)
        ]

    def at(self, step: int, base: _Bases) -> list[tuple[int, int]]:
        """The buffers that are to come and live at a step, each with its base."""
        return [(x, b) for x, b in enumerate(base) if b is not None and self.first[x] <= step < self.last[x]]

    def needed(self, buffers: list[tuple[int, int]]) -> int:
        """The bytes from the lowest offset to the highest end, where all live together."""
        gaps = [self.gap[x] for x, _ in buffers]
        return sum(self.size[x] for x, _ in buffers) + sum(gaps) - max(gaps)

    def rounded(self, height: int, buffer: int) -> int:
        return height + -height % self.alignment[buffer]

    def placed(self, buffer: int, height: int, base: _Bases) -> _Bases:
        """The bases after a buffer is placed: those of all that conflict with it are at least its end."""
        after = list(base)
        after[buffer] = None
        for y in self.conflicts[buffer]:
            b = after[y]
            if b is not None:
                after[y] = max(b, self.rounded(height + self.size[buffer], y))
        return after

    def raised(self, step: int, height: int, base: _Bases) -> _Bases:
        """The bases after all that live at a step have been told to lie at a height or above."""
        after = list(base)
        for x, b in self.at(step, base):
            after[x] = max(b, self.rounded(height, x))
        return after

    def exchangeable(self, x: int, y: int) -> bool:
        """Whether two buffers of the same base can take each other's place in any plan."""
        return (
            self.size[x] == self.size[y]
            and self.alignment[x] == self.alignment[y]
            and {*self.conflicts[x], x} == {*self.conflicts[y], y}
        )

    def rise(self, there: list[tuple[int, int]], floor: int, base: _Bases) -> int | None:
        """How high all of `there`, which live at one step, lie at least when none lies on the floor; None: one does."""
        alive = {x for x, _ in there}
        heights = []
        for z, own in there:
            if own > floor:
                heights.append(own)
                continue
            for y in self.conflicts[z]:
                below = base[y]
                if below is not None and y not in alive:
                    heights.append(self.rounded(below + self.size[y], z))
        return min(heights, default=None)


def check(problem: Problem, capacity: int, nodes: Sequence[Node]) -> None:
    """Return where the nodes prove that no plan of the problem fits the capacity; else raise RefutationError."""
    children = _children(nodes, len(problem.size))
    waiting: list[tuple[int, _Bases]] = [(0, [0 if size > 0 else None for size in problem.size])]
    while waiting:
        k, base = waiting.pop()
        if not children[k]:
            _check_leaf(problem, capacity, k, nodes[k], base)
            continue
        own = [nodes[child] for child in children[k]]
        _check_children(problem, capacity, k, nodes[k].step, own, base)
        for child, node in zip(reversed(children[k]), reversed(own), strict=True):  # the first is looked at first
            if node.buffer is None:
                waiting.append((child, problem.raised(nodes[k].step, node.height, base)))
            else:
                waiting.append((child, problem.placed(node.buffer, node.height, base)))


def _children(nodes: Sequence[Node], buffers: int) -> list[list[int]]:
    """Per node its children; refuses what is no tree."""
    if not nodes:
        raise RefutationError(0, "there is none")
    children: list[list[int]] = [[] for _ in nodes]
    for k, (parent, buffer, _, _) in enumerate(nodes):
        if k == 0:
            if (parent, buffer) != (None, None):
                raise RefutationError(0, "the root has neither parent nor buffer")
            continue
        if parent is None or not 0 <= parent < k:
            raise RefutationError(k, f"its parent must be a node before it, got {parent}")
        if buffer is not None and not 0 <= buffer < buffers:
            raise RefutationError(k, f"there is no buffer {buffer}")
        children[parent].append(k)
    return children


def _check_leaf(problem: Problem, capacity: int, k: int, node: Node, base: _Bases) -> None:
    if node.buffer is not None and node.height + problem.size[node.buffer] > capacity:
        return
    there = problem.at(node.step, base)
    if there and min(b for _, b in there) + problem.needed(there) > capacity:
        return
    raise RefutationError(k, f"it has no children, but what is to come at step {node.step} may fit")


def _check_children(problem: Problem, capacity: int, k: int, step: int, children: list[Node], base: _Bases) -> None:
    there = problem.at(step, base)
    if not there:
        raise RefutationError(k, f"nothing is to come at step {step}")
    floor = min(b for _, b in there)
    lowest = [x for x, b in there if b == floor]
    rise = problem.rise(there, floor, base)
    tried = []
    higher = False
    for _, buffer, height, _ in children:
        if buffer is None:
            higher = True
            if rise is not None and height > rise:
                raise RefutationError(k, f"at step {step} something may lie at {rise}, below the {height} of a child")
            continue
        if buffer not in lowest or height != floor:
            raise RefutationError(k, f"buffer {buffer} is placed at {height} where the floor at step {step} is {floor}")
        for y in problem.conflicts[buffer]:
            below = base[y]
            if below is not None and below + problem.size[y] <= floor:
                raise RefutationError(k, f"buffer {y} may lie below buffer {buffer}, which is placed at {floor}")
        tried.append(buffer)
    for x in lowest:
        if x not in tried and not any(problem.exchangeable(x, y) for y in tried):
            raise RefutationError(k, f"no child places buffer {x}, which may lie at {floor} at step {step}")
    if not higher and rise is not None and rise + problem.needed(there) <= capacity:
        raise RefutationError(k, f"no child has all at step {step} above {floor}, though there is room from {rise} on")
