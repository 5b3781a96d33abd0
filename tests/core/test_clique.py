"""The heaviest clique: against all sets of buffers, its checker against seeded faults, and where it is told."""

from __future__ import annotations

import dataclasses
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given

import memplan
from builders.strategies import BOUNDED, bounded, shaped_problems
from memplan import InfeasibleError, Problem
from memplan.generate import layered
from memplan.proofs import Clique, CliqueError, CliqueMember, heaviest_clique

THREE = Problem([4, 4, 4], [0, 1, 2], [1, 2, 3], conflicts=[(0, 1), (1, 2), (0, 2)])


def test_three_times_the_load() -> None:
    """Buffers that never live together, of which every two conflict."""
    plan = memplan.plan(THREE)
    assert (plan.load, plan.lower_bound, plan.peak, plan.optimal) == (4, 12, 12, True)
    clique = heaviest_clique(THREE)
    assert (clique.bytes, len(clique)) == (12, 3)
    clique.check(THREE)


def test_every_planner_is_told_the_bound() -> None:
    assert memplan.plan(THREE, "naive").optimal
    assert memplan.plan(THREE, "greedy_by_size").optimal


def test_without_conflicts_it_is_the_load() -> None:
    problem = layered(2000)
    clique = heaviest_clique(problem)
    assert clique.bytes == problem.load
    clique.check(problem)
    assert heaviest_clique(Problem([], [], [])).bytes == 0


def test_bytes_of_one_buffer_count_wherever_they_are_in_use() -> None:
    """The lower half of buffer 0 is in use early, and its upper half late; buffer 1 lives throughout."""
    problem = Problem([8, 5], [0, 0], [2, 2], parts=[(0, 0, 4, 0, 1), (0, 4, 8, 1, 2)])
    clique = heaviest_clique(problem)
    assert (problem.load, clique.bytes) == (9, 13)
    clique.check(problem)
    plan = memplan.plan(problem)
    assert (plan.peak, plan.optimal) == (13, True)


def test_padding_counts_but_for_the_highest() -> None:
    problem = Problem([3, 3, 3], [0, 1, 2], [1, 2, 3], alignment=4, conflicts=[(0, 1), (1, 2), (0, 2)])
    clique = heaviest_clique(problem)
    assert clique.bytes == 11
    clique.check(problem)
    assert memplan.plan(problem).peak == 11


@given(shaped_problems())
@BOUNDED
def test_it_is_the_heaviest_of_all(problem) -> None:  # type: ignore[no-untyped-def]
    """Of plain buffers without alignment: every set of which every two conflict."""
    (size, first, last, _), _, conflicts = problem
    given_problem = Problem(size, first, last, conflicts=conflicts or None)
    given_pairs = {*conflicts, *((b, a) for a, b in conflicts)}
    heaviest = 0
    for count in range(1, len(size) + 1):
        for some in combinations(range(len(size)), count):
            meets = (max(first[a], first[b]) < min(last[a], last[b]) for a, b in combinations(some, 2))
            if all(meet or pair in given_pairs for meet, pair in zip(meets, combinations(some, 2), strict=True)):
                heaviest = max(heaviest, sum(size[i] for i in some))
    clique = heaviest_clique(given_problem)
    assert clique.bytes == heaviest
    clique.check(given_problem)


@given(shaped_problems())
@bounded(60)
def test_it_bounds_every_plan(problem) -> None:  # type: ignore[no-untyped-def]
    rows, parts, conflicts = problem
    shaped = Problem(*rows, parts=parts or None, conflicts=conflicts or None)
    clique = heaviest_clique(shaped)
    clique.check(shaped)
    assert shaped.load <= clique.bytes <= memplan.plan(shaped, "auto:effort=100000").peak


def test_members_may_need_more_than_is_claimed() -> None:
    problem = Problem([1, 1], [0, 0], [1, 1], alignment=2)
    found = heaviest_clique(problem)
    found.check(problem)
    assert found.bytes == 2 < 3 == memplan.plan(problem).peak  # by the padding, which the checker counts


WRONG = {
    "a member left out": (lambda m: m[1:], "need 8 bytes"),
    "a buffer that is not there": (lambda m: (*m, CliqueMember(9, 0, 4)), "no range of bytes"),
    "bytes that are not there": (lambda m: (*m[1:], CliqueMember(0, 0, 5)), "no range of bytes"),
    "the same bytes twice": (lambda m: (*m, m[0]), "may overlap"),
}


@pytest.mark.parametrize("fault", WRONG)
def test_the_checker_finds_faults(fault: str) -> None:
    change, message = WRONG[fault]
    clique = heaviest_clique(THREE)
    with pytest.raises(CliqueError, match=message):
        dataclasses.replace(clique, members=change(clique.members)).check(THREE)


def test_the_checker_knows_who_conflicts() -> None:
    apart = Problem([4, 4, 4], [0, 1, 2], [1, 2, 3])
    with pytest.raises(CliqueError, match=r"bytes \(0, 0, 4\) and \(1, 0, 4\)"):
        heaviest_clique(THREE).check(apart)
    halves = Problem([8, 5], [0, 0], [2, 2], parts=[(0, 0, 4, 0, 1), (0, 4, 8, 1, 2), (1, 0, 5, 1, 2)])
    with pytest.raises(CliqueError, match="may overlap"):
        Clique(13, (CliqueMember(0, 0, 4), CliqueMember(0, 4, 8), CliqueMember(1, 0, 5))).check(halves)


def test_an_error_holds_the_clique() -> None:
    named = Problem([4, 4, 6], [0, 1, 2], [1, 2, 3], names=["a", "b", "c"], conflicts=[(0, 1), (1, 2), (0, 2)])
    with pytest.raises(InfeasibleError, match=r"alive together or conflict, 14 bytes of 3 buffers") as caught:
        memplan.plan(named, capacity=13)
    assert caught.value.proven
    assert caught.value.plan is None  # nothing was planned
    assert caught.value.buffers == ("c", "a", "b")
    assert caught.value.clique is not None
    caught.value.clique.check(named)


def test_an_error_at_the_load_holds_none() -> None:
    with pytest.raises(InfeasibleError, match="most is alive at step 0") as caught:
        memplan.plan(Problem([4, 4], [0, 0], [1, 1]), capacity=7)
    assert caught.value.clique is None


def test_an_explanation_names_it() -> None:
    explanation = memplan.plan(THREE).explain()
    assert explanation.apart == (("#0", 4), ("#1", 4), ("#2", 4))
    assert "the bytes of 3 buffers of which no two may share any" in explanation.sentences[1]
    assert memplan.plan(Problem([4, 4], [0, 0], [1, 1])).explain().apart == ()
    ring = Problem([1] * 5, range(5), range(1, 6), conflicts=[(i, (i + 1) % 5) for i in range(5)])
    assert memplan.plan(ring).explain().apart == ()  # proven by a search


def test_many_pairs_of_lifetimes_on_streams_take_little() -> None:
    """Four streams that never meet: what may follow is a partial order, which needs no search."""
    rng = np.random.default_rng(0)
    stream, first = np.repeat(range(4), 100), np.tile(range(100), 4)
    last = first + rng.integers(1, 9, 400)
    size = rng.integers(1, 1000, 400)
    conflicts = [(a, b) for a, b in combinations(range(400), 2) if stream[a] != stream[b]]
    problem = Problem(size, first, last, conflicts=conflicts)
    alone = [Problem(size[stream == s], first[stream == s], last[stream == s]).load for s in range(4)]
    assert heaviest_clique(problem).bytes == sum(alone)


def test_an_explanation_of_what_never_lives_together_reads_well() -> None:
    sentence = memplan.plan(THREE).explain().sentences[0]
    assert "1 buffer holds 4 B there and 8 B are free" in sentence
