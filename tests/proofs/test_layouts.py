"""Proofs around pins, reserved bytes and distances: what they name, what the checker makes of it and refuses."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import pytest

import memplan
from memplan import Problem
from memplan.proofs import Refutation
from memplan.proofs.checker import Node
from memplan.proofs.items import Columns, items_of

ROOT = Node(None, None, None, 0)


def proof_of(problem: Problem, capacity: int) -> Refutation:
    proof = memplan.refute(problem, capacity)
    assert isinstance(proof, Refutation)
    proof.check(problem)
    return proof


def clique(*members: tuple[int, int, int], capacity: int) -> Refutation:
    """A claim: these have too little room."""
    buffers = tuple(dict.fromkeys(i for i, _, _ in members))
    return Refutation(capacity, buffers, (), (ROOT._replace(clique=members),))


# What the search writes down


def test_pins_and_reserved_bytes_are_the_buffer_after_the_last() -> None:
    pinned = Problem([4, 4], [0, 0], [2, 2], pins=[2, -1])
    proof = proof_of(pinned, 9)
    assert proof.buffers == (1, 2)
    reserved = Problem([4], [0], [2], reserved=[(2, 3, 0, 1), (6, 9, 1, 2)])
    proof = proof_of(reserved, 8)
    assert proof.buffers == (0, 1)
    assert memplan.refute(reserved, 13) is None


def test_a_pin_above_the_capacity_is_enough() -> None:
    pinned = Problem([4, 4], [0, 2], [2, 4], pins=[10, -1])
    proof = proof_of(pinned, 13)
    assert (proof.buffers, len(proof)) == ((2,), 1)
    with pytest.raises(memplan.proofs.RefutationError, match="node 0: it has no children"):
        Refutation(14, (2,), (), (ROOT,)).check(pinned)


def test_a_group_is_named_by_its_first_buffer_with_bytes() -> None:
    together = Problem([0, 4, 4, 4], [0, 0, 1, 0], [2, 1, 2, 2], together=[(2, 0, 2), (1, 2, 3)])
    assert proof_of(together, 10).buffers == (1, 3)
    with pytest.raises(memplan.proofs.RefutationError, match="buffers of the problem that have bytes"):
        Refutation(10, (2, 3), (), (ROOT,)).check(together)


def test_what_is_pinned_lets_parts_be_proven_alone() -> None:
    """Puzzles of seven buffers, one after another, each around a pin: only the last needs more than it gets."""
    size, first, last = [2, 4, 4, 1, 2, 1, 1], [0, 4, 0, 2, 5, 3, 2], [2, 6, 3, 5, 9, 5, 4]
    puzzles = 20
    columns = [[value + 10 * k for k in range(puzzles) for value in steps] for steps in (first, last)]
    pins = [-1] * (7 * puzzles)
    pins[0] = 0
    easy = [1 if k % 7 else 2 for k in range(7 * puzzles - 7)]
    problem = Problem(easy + size, *columns, pins=pins)
    proof = proof_of(problem, 6)
    assert set(proof.buffers) <= {*range(7 * puzzles - 7, 7 * puzzles + 1)}
    assert memplan.refute(problem, 7) is None


# What the checker makes of a problem


def columns(**given: Any) -> Columns:
    count = len(given["size"])
    parts = given.pop("parts", [[(0, size, 0, 1)] for size in given["size"]])
    rest = {"alignment": [1] * count, "conflicts": [], "pins": [-1] * count, "reserved": [], "together": []}
    return Columns(**{**rest, **given, "parts": parts})


def test_where_an_item_lies() -> None:
    """Two multiples of 4 and of 8, 4 apart: the item begins at a multiple of 8, 4 below the first."""
    made = items_of(columns(size=[2, 3], alignment=[4, 8], together=[(0, 1, 4)]), 100)
    assert (made.size, made.alignment) == ([11, 0, 0], [8, 1, 1])
    assert made.parts[0] == [(4, 6, 0, 1), (8, 11, 0, 1)]
    made = items_of(columns(size=[2, 3], alignment=[3, 5], together=[(0, 1, -7)]), 100)
    lowest = [a - 7 for a in range(7, 60) if a % 3 == 0 and (a - 7) % 5 == 0]
    assert made.alignment[0] == 15
    assert made.parts[0][1][0] == lowest[0]


def test_what_has_no_bytes_takes_room_and_meets_nothing() -> None:
    given = columns(size=[4, 0, 5], together=[(0, 1, 20)], conflicts=[(1, 2), (0, 2)], reserved=[(2, 30, 0, 1)])
    made = items_of(given, 40)
    assert made.size == [20, 0, 5, 40]
    assert made.forbidden(0, 2) == [(-4, 3), (-4, 3)]
    assert made.forbidden(3, 0) == [(-1, 29)]


def test_what_is_pinned_is_ground() -> None:
    """With all that lies together with it; what is reserved above the capacity is not there."""
    given = columns(
        size=[4, 2, 5],
        together=[(0, 1, 6)],
        pins=[-1, 10, -1],
        conflicts=[(1, 2)],
        reserved=[(14, 99, 0, 1), (60, 70, 0, 1)],
    )
    made = items_of(given, 50)
    assert made.size == [0, 0, 5, 50]
    assert made.parts[3] == [(4, 8, 0, 1), (10, 12, 0, 1), (14, 50, 0, 1)]
    assert (10, 12, 0, 5) in made.meeting(3, 2)
    assert items_of(given, 9).size[3] == 12
    assert items_of(columns(size=[4]), 9).size == [4, 0]


def test_items_are_what_the_columns_say() -> None:
    """Random layouts of few buffers: offsets that obey are those that items allow, tried one by one."""
    chance = random.Random(5)
    both = {True: 0, False: 0}
    for _ in range(60):
        size = [chance.randint(0, 3) for _ in range(3)]
        alignment = [chance.choice([1, 2, 3]) for _ in size]
        first = [chance.randint(0, 2) for _ in size]
        parts = [[(0, s, f, f + chance.randint(1, 2))] for s, f in zip(size, first, strict=True)]
        together = [(0, 1, chance.choice([-6, 6]))] if chance.random() < 0.5 else []
        pins = [-1, -1, 6 * chance.randint(0, 1) if chance.random() < 0.5 else -1]
        reserved = [(chance.randint(0, 3), chance.randint(4, 9), 0, 2)] if chance.random() < 0.5 else []
        conflicts = [(0, 2)] if chance.random() < 0.5 else []
        given = Columns(size, alignment, parts, conflicts, pins, reserved, together)
        capacity = chance.randint(6, 9)
        made = items_of(given, capacity)
        for offsets in product(range(capacity + 1), repeat=3):
            expected = obeys(given, capacity, offsets)
            if size.count(0) == 0 or expected:
                assert allows(made, given, capacity, offsets) == expected, (given, offsets)
                both[expected] += 1
    assert min(both.values()) > 300


def obeys(given: Columns, capacity: int, offsets: tuple[int, ...]) -> bool:
    """Read off the definitions."""
    for i, at in enumerate(offsets):
        if at % given.alignment[i] or at + given.size[i] > capacity or given.pins[i] not in (-1, at):
            return False
        for begin, end, first, last in given.parts[i]:
            for b, e, f, m in given.reserved:
                if max(first, f) < min(last, m) and max(at + begin, b) < min(at + end, e):
                    return False
    if any(offsets[b] - offsets[a] != distance for a, b, distance in given.together):
        return False
    for i, j in ((0, 1), (0, 2), (1, 2)):
        (b1, e1, f1, l1), (b2, e2, f2, l2) = given.parts[i][0], given.parts[j][0]
        alive = max(f1, f2) < min(l1, l2) or (i, j) in given.conflicts
        if alive and max(offsets[i] + b1, offsets[j] + b2) < min(offsets[i] + e1, offsets[j] + e2):
            return False
    return True


def allows(made: Any, given: Columns, capacity: int, offsets: tuple[int, ...]) -> bool:
    """By the offsets of the items, which follow from those of the buffers."""
    lies = {len(given.size): 0}
    for i, at in enumerate(offsets):
        if made.size[i] > 0:
            group = {0, 1} if given.together and i < 2 else {i}
            lies[i] = min(offsets[k] for k in group)
            lies[i] -= lies[i] % made.alignment[i]
            if lies[i] + made.size[i] > capacity:
                return False
        if given.pins[i] not in (-1, at) or at % given.alignment[i]:
            return False
    if any(offsets[b] - offsets[a] != distance for a, b, distance in given.together):
        return False
    if made.size[len(given.size)] > capacity:
        return False
    pairs = [(i, j) for i in lies for j in lies if i < j]
    return not any(low <= lies[j] - lies[i] <= high for i, j in pairs for low, high in made.forbidden(i, j))


# What does not hold


def test_reserved_bytes_above_the_capacity_prove_nothing() -> None:
    given = Problem([4], [0], [2], reserved=[(4, 99, 0, 2)])
    assert memplan.plan(given).peak == 4
    with pytest.raises(memplan.proofs.RefutationError, match="is no range of bytes"):
        clique((1, 4, 99), capacity=8).check(given)
    with pytest.raises(memplan.proofs.RefutationError, match="the members of its clique have room"):
        clique((0, 0, 4), (1, 4, 8), capacity=8).check(given)


def test_the_ground_is_named_only_where_something_is_fixed() -> None:
    with pytest.raises(memplan.proofs.RefutationError, match="buffers of the problem that have bytes"):
        clique((0, 0, 4), (1, 0, 4), capacity=4).check(Problem([4], [0], [2]))
    with pytest.raises(memplan.proofs.RefutationError, match="buffers of the problem that have bytes"):
        clique((0, 0, 4), capacity=4).check(Problem([4], [0], [2], pins=[0]))


def test_what_is_alive_at_other_steps_may_overlap() -> None:
    """Of a group, and of what is reserved."""
    given = Problem([4, 4, 4], [0, 2, 0], [1, 3, 1], together=[(0, 1, 4)], reserved=[(0, 2, 2, 3)])
    assert memplan.plan(given).peak == 8
    proof_of(given, 7)
    for members in (((2, 0, 4), (0, 0, 8)), ((0, 4, 8), (2, 0, 4)), ((3, 0, 2), (2, 0, 4)), ((0, 0, 4), (3, 0, 2))):
        with pytest.raises(memplan.proofs.RefutationError, match="may overlap in a plan"):
            clique(*members, capacity=11).check(given)
