"""Lifetimes over a partial order: by pairs of events and by vector clocks, against reachability spelt out."""

from __future__ import annotations

import pickle
import random
import time
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import memplan
from builders.interrupting import SOON, signals
from builders.strategies import BOUNDED
from memplan import Problem
from memplan.errors import ProblemError

EVENTS = 8


@st.composite
def orders(draw: st.DrawFn) -> tuple[list[int], list[int], list[int], list[tuple[int, int]]]:
    """Sizes, first and last events of some buffers, and pairs of events that happen one before the other."""
    pair = st.tuples(st.integers(0, EVENTS - 1), st.integers(0, EVENTS - 1)).filter(lambda p: p[0] < p[1])
    lives = draw(st.lists(pair, min_size=1, max_size=7))
    size = draw(st.lists(st.integers(1, 9), min_size=len(lives), max_size=len(lives)))
    pairs = draw(st.lists(pair, max_size=12))
    return size, [first for first, _ in lives], [last for _, last in lives], pairs + lives


def reached(pairs: list[tuple[int, int]], events: int = EVENTS) -> list[set[int]]:
    """Per event, itself and what happens after it."""
    after = [{e} for e in range(events)]
    for e in reversed(range(events)):
        for earlier, later in pairs:
            if earlier == e:
                after[e] |= after[later]
    return after


def apart(problem: Problem) -> set[tuple[int, int]]:
    """All pairs that conflict."""
    first, last = problem.first.tolist(), problem.last.tolist()
    together = {(a, b) for a, b in combinations(range(len(problem)), 2) if first[a] < last[b] and first[b] < last[a]}
    return together | {(min(a, b), max(a, b)) for a, b in (problem.conflicts if problem.conflicts is not None else [])}


@given(orders())
@BOUNDED
def test_what_may_follow_is_what_is_reached(order) -> None:  # type: ignore[no-untyped-def]
    size, first, last, pairs = order
    after = reached(pairs)
    expected = {
        (a, b)
        for a, b in combinations(range(len(size)), 2)
        if (first[a] < last[b] and first[b] < last[a])
        or (first[b] not in after[last[a]] and first[a] not in after[last[b]])
    }
    problem = Problem(size, first, last, happens_before=pairs)
    assert apart(problem) == expected
    assert pickle.loads(pickle.dumps(problem)) == problem


@pytest.mark.parametrize("events", [8, 20, 60])
def test_long_orders_by_pairs_and_by_clocks(events: int) -> None:
    """Events on a few cores, which wait for each other now and then, in no particular order of pairs."""
    for seed in range(40):
        chance = random.Random(seed)
        core = [chance.randrange(1 + seed % 5) for _ in range(events)]
        pairs = [max(((e, f) for e in range(f) if core[e] == core[f]), default=(0, 0)) for f in range(1, events)]
        pairs += [(chance.randrange(f), f) for f in range(1, events) if chance.random() < 0.3]
        pairs = [pair for pair in pairs if pair != (0, 0)]
        chance.shuffle(pairs)
        after = reached(pairs, events)
        lives = [(e, max(after[e])) for e in range(events) if len(after[e]) > 1]
        lives += [(e, f) for e, f in pairs if chance.random() < 0.5]
        first, last = [list(column) for column in zip(*lives, strict=True)]
        follows = {
            (a, b)
            for a, b in combinations(range(len(lives)), 2)
            if first[b] not in after[last[a]] and first[a] not in after[last[b]]
        }
        size = [1] * len(lives)
        assert apart(Problem(size, first, last, happens_before=pairs)) == follows
        clock = np.array([[int(e in after[earlier]) for earlier in range(events)] for e in range(events)])
        assert apart(Problem(size, clock[first], clock[last])) == follows


@given(orders())
@BOUNDED
def test_clocks_say_the_same(order) -> None:  # type: ignore[no-untyped-def]
    """The clock of an event counts, event by event, what has happened until then."""
    size, first, last, pairs = order
    after = reached(pairs)
    clock = np.array([[int(e in after[earlier]) for earlier in range(EVENTS)] for e in range(EVENTS)])
    clocked = Problem(size, clock[first], clock[last])
    follows = {
        (a, b)
        for a, b in combinations(range(len(size)), 2)
        if first[b] not in after[last[a]] and first[a] not in after[last[b]]
    }
    assert apart(clocked) == follows
    plan = memplan.plan(clocked)
    assert plan.optimal


def test_one_total_order_is_plain() -> None:
    chain = [(step, step + 1) for step in range(4)]
    plain = Problem([4, 4, 2], [0, 1, 3], [1, 3, 4])
    assert apart(Problem([4, 4, 2], [0, 1, 3], [1, 3, 4], happens_before=chain)) == apart(plain)
    clocks = Problem([4, 4, 2], [[0], [1], [3]], [[1], [3], [4]])
    assert apart(clocks) == apart(plain)
    assert clocks.first.tolist() == [0, 1, 2]


def test_double_buffering_on_two_cores() -> None:
    """Core 0 fills two tiles in turn, which core 1 empties; each waits for the other only where it must.

    Events 0, 2, 4, 6 are core 0's, 1, 3, 5, 7 core 1's. Tile k lives from its fill to the end of its emptying.
    """
    core0, core1 = [(0, 2), (2, 4), (4, 6)], [(1, 3), (3, 5), (5, 7)]
    filled = [(0, 1), (2, 3), (4, 5), (6, 7)]
    first, last = [0, 2, 4], [3, 5, 7]
    waits_for_the_last_but_one = [(3, 4)]
    double = memplan.plan(
        Problem([8] * 3, first, last, happens_before=core0 + core1 + filled + waits_for_the_last_but_one)
    )
    assert (double.peak, double.optimal) == (16, True)
    never_waits = memplan.plan(Problem([8] * 3, first, last, happens_before=core0 + core1 + filled))
    assert (never_waits.load, never_waits.peak, never_waits.optimal) == (16, 24, True)


def test_given_conflicts_count_too() -> None:
    problem = Problem([1, 1], [0, 1], [1, 2], conflicts=[(0, 1)], happens_before=[(0, 1), (1, 2)])
    assert apart(problem) == {(0, 1)}


MANY = 200_000  # n x n bits of so many would take 5 GB


def test_memory_is_in_proportion_to_what_is_given() -> None:
    """One chain of events, with and without a second core, and clocks; none of them needs rows of bits."""
    size, first = [1] * MANY, np.arange(MANY)
    chain = np.stack([first, first + 1], axis=1)
    assert Problem(size, first, first + 1, happens_before=chain).conflicts is None
    far = np.concatenate([np.add(chain[:-1], (0, 1)), np.add(chain[:-2], (0, 2))])  # each before all but the next
    two = Problem(size, first, first + 1, happens_before=far)
    assert len(two.conflicts) == MANY - 2
    apart = [[0, MANY + 7]]
    assert Problem([1] * (MANY + 8), range(MANY + 8), range(1, MANY + 9), conflicts=apart).conflicts.tolist() == apart
    clock = np.stack([first, first // 2], axis=1)
    assert Problem(size, clock, np.add(clock, (1, 0))).conflicts is None


def test_many_conflicts_of_one_buffer() -> None:
    """A row that is long turns from a list to bits."""
    n, most = 40_000, 1300
    pairs = [(5, b) for b in np.random.default_rng(0).permutation(np.arange(6, n))[:most].tolist()]
    for count in (1248, 1249, 1250, most):  # of 1250 words a row of bits has 40,000 bits
        problem = Problem([1] * n, range(n), range(1, n + 1), conflicts=pairs[:count] * 2)
        assert problem.conflicts.tolist() == sorted(map(list, pairs[:count]))
        assert problem == Problem([1] * n, range(n), range(1, n + 1), conflicts=sorted(pairs[:count]))


def test_ctrl_c_ends_what_has_too_many_pairs() -> None:
    n = 40_000
    with pytest.raises(KeyboardInterrupt), signals(SOON) as sent:
        Problem([1] * n, range(n), range(1, n + 1), happens_before=[(0, 1)])
    assert time.perf_counter() - sent[0] < 0.5


WRONG = {
    "backwards": (lambda: Problem([1], [0], [1], happens_before=[(0, 1), (3, 2)]), r"happens_before\[1\] must name"),
    "columns": (lambda: Problem([1], [0], [1], happens_before=[(0, 1, 2)]), "happens_before must have 2 columns"),
    "both": (lambda: Problem([1], [[0, 0]], [[1, 1]], happens_before=[(0, 1)]), "happens_before must be None"),
    "clocks": (lambda: Problem([1], [[0, 0]], [[1, 1, 1]]), "last must have 2 columns"),
    "rows": (lambda: Problem([1, 1], [[0, 0], [0, 0]], [[1, 1]]), "last must have one clock per buffer"),
    "concurrent": (lambda: Problem([1], [[0, 1]], [[1, 0]]), r"last\[0\] must be a clock that comes after first\[0\]"),
    "empty": (lambda: Problem([1], [[0, 1]], [[0, 1]]), r"last\[0\] must be a clock"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_order_is_refused(case: str) -> None:
    make, message = WRONG[case]
    with pytest.raises((ProblemError, ValueError), match=message):
        make()


def test_plans_are_written_and_read(tmp_path: Path) -> None:
    problem = Problem([4, 4], [[0, 0], [0, 0]], [[1, 0], [0, 1]])
    plan = memplan.plan(problem)
    assert plan.peak == 8
    plan.to_json(tmp_path / "plan.json")
    assert apart(memplan.read_plan(tmp_path / "plan.json").problem) == apart(problem)
