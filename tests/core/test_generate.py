"""Problems made on purpose: what is promised of them holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import memplan
from builders.strategies import BOUNDED, bounded, shaped_problems
from memplan import generate
from oracles import plain as oracle


def columns_of(problem: memplan.Problem) -> tuple[list[int], ...]:
    return tuple(column.tolist() for column in (problem.size, problem.first, problem.last, problem.alignment))


# Layered networks


def test_layered_networks_are_the_same_each_time() -> None:
    assert generate.layered(500, seed=3) == generate.layered(500, seed=3)
    assert generate.layered(500, seed=3) != generate.layered(500, seed=4)
    assert [len(generate.layered(buffers)) for buffers in (0, 1, 7)] == [0, 1, 7]


def test_layered_networks_are_alive_a_few_at_a_time() -> None:
    problem = generate.layered(10_000)
    assert problem.first.tolist() == list(range(10_000))
    assert problem.last.max() == 10_000
    assert 0 < problem.load < problem.size.sum() / 20


# Puzzles

SMALL = {"buffers": 9, "steps": 5, "units": 12, "unit": 10}


@pytest.mark.parametrize("pinwheels", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("seed", range(8))
def test_a_puzzle_fills_the_arena_and_fits(pinwheels: float, seed: int) -> None:
    problem = generate.tight(**SMALL, pinwheels=pinwheels, seed=seed)
    assert len(problem) == 9
    step, bytes_ = problem.load_curve()
    assert (step[0], step[-1]) == (0, 5)
    assert set(bytes_[:-1].tolist()) == {120}  # no slack at any step
    assert (problem.size % 10 == 0).all()
    plan = memplan.plan(problem, "exhaustive")
    assert plan.optimal
    assert plan.peak == 120


def test_a_pinwheel_is_no_line() -> None:
    """Five pieces: no step and no address divides them into two puzzles."""
    for seed in range(6):
        plan = memplan.plan(generate.tight(5, steps=5, units=12, unit=10, pinwheels=1.0, seed=seed), "exhaustive")
        assert plan.peak == 120
        for step in range(1, 5):
            assert any(slot.first < step < slot.last for slot in plan)
        for address in range(10, 120, 10):
            assert any(slot.offset < address < slot.end for slot in plan)


def test_puzzles_are_the_same_each_time() -> None:
    for options in ({}, {"exchanges": 10}, {"removed": 0.1, "shrunk": 0.2}, {"pinwheels": 1.0}):
        assert generate.tight(seed=3, **options) == generate.tight(seed=3, **options)
        assert generate.tight(seed=3, **options) != generate.tight(seed=4, **options)


@pytest.mark.parametrize("buffers", [1, 2, 30, 45, 60])
def test_as_many_buffers_as_asked_for(buffers: int) -> None:
    for seed in range(5):
        assert len(generate.tight(buffers, seed=seed)) == buffers
    assert len(generate.tight(buffers, steps=buffers, units=1)) == buffers  # cells of one unit and one step


def test_what_greedy_planners_do_not_find() -> None:
    puzzles = [generate.tight(40, seed=seed) for seed in range(12)]
    assert sum(memplan.plan(puzzle, "greedy_by_size").optimal for puzzle in puzzles) <= 1
    assert sum(memplan.plan(puzzle, "hill_climb:iterations=100").optimal for puzzle in puzzles) <= 4


@pytest.mark.parametrize("seed", range(6))
def test_exchanges_keep_the_load_at_every_step(seed: int) -> None:
    before, after = generate.tight(seed=seed), generate.tight(seed=seed, exchanges=20)
    assert sorted(before.size.tolist()) != sorted(after.size.tolist())
    assert [c.tolist() for c in before.load_curve()] == [c.tolist() for c in after.load_curve()]
    assert (after.size > 0).all()


def test_exchanges_may_put_the_optimum_above_the_load() -> None:
    plans = [memplan.plan(generate.tight(16, steps=8, exchanges=40, seed=seed), "exhaustive") for seed in range(20)]
    assert all(plan.optimal for plan in plans)
    assert {plan.peak > plan.load for plan in plans} == {False, True}


@pytest.mark.parametrize("seed", range(8))
def test_slack_leaves_the_load_where_it_is_asked_to(seed: int) -> None:
    options: dict[str, Any] = SMALL | {"removed": 0.2, "shrunk": 0.2, "seed": seed}
    kept, lowered = generate.tight(**options), generate.tight(**options, keep_load=False)
    assert kept.load == 120
    assert lowered.load <= 120
    for problem in (kept, lowered):
        assert 9 - 2 <= len(problem) <= 9
        assert problem.load_curve()[1].sum() < 5 * 120
        plan = memplan.plan(problem, "exhaustive")
        assert plan.optimal
        assert plan.peak <= 120


def test_all_removed_and_all_shrunk() -> None:
    assert len(generate.tight(removed=1.0, keep_load=False)) == 0
    assert generate.tight(40, shrunk=1.0, keep_load=False).size.sum() < generate.tight(40).size.sum()
    only_those_alive = generate.tight(removed=1.0)
    assert len(only_those_alive) > 0
    assert only_those_alive.first.max() < only_those_alive.last.min()


def test_what_is_no_puzzle() -> None:
    for buffers in (0, -1, 13):
        with pytest.raises(ValueError, match=r"buffers must be >= 1 and at most steps \* units = 12, got"):
            generate.tight(buffers, steps=3, units=4)
    for share in ("pinwheels", "removed", "shrunk"):
        with pytest.raises(ValueError, match=rf"{share} must be a share in \[0, 1\], got 1.5"):
            generate.tight(**{share: 1.5})


# The same problem told otherwise


def problem_of(case: Any) -> memplan.Problem:
    columns, parts, conflicts = case
    names = [f"b{i}" for i in range(len(columns[0]))]
    return memplan.Problem(*columns, names=names, parts=parts, conflicts=conflicts)


def found(problem: memplan.Problem, offsets: list[int]) -> set[Any]:
    parts = [] if problem.parts is None else problem.parts.tolist()
    conflicts = [] if problem.conflicts is None else problem.conflicts.tolist()
    return oracle.violations_of_shapes(columns_of(problem), parts, conflicts, offsets)


@given(shaped_problems(), st.data())
@BOUNDED
def test_a_mirror_breaks_the_same_plans(case: Any, data: st.DataObject) -> None:
    problem = problem_of(case)
    mirror = generate.mirrored(problem)
    offsets = data.draw(st.lists(st.integers(0, 30), min_size=len(problem), max_size=len(problem)))
    assert found(mirror, offsets) == found(problem, offsets)
    assert generate.mirrored(mirror) == problem
    assert (mirror.names, mirror.load) == (problem.names, problem.load)
    assert mirror.alignment.tolist() == problem.alignment.tolist()


def test_the_last_to_be_born_is_the_first_to_die() -> None:
    mirror = generate.mirrored(memplan.Problem([1, 2, 3], [0, 2, 4], [3, 5, 9], parts=[(2, 0, 1, 4, 6)]))
    assert mirror.first.tolist() == [6, 4, 0]
    assert mirror.last.tolist() == [9, 7, 5]
    assert mirror.parts is not None
    assert mirror.parts.tolist() == [[2, 0, 1, 3, 5]]


@pytest.mark.parametrize(("low", "high"), [(-(2**63), 2**63 - 1), (2**63 - 9, 2**63 - 1), (-(2**63), -(2**63) + 8)])
def test_a_mirror_of_the_first_and_the_last_of_steps(low: int, high: int) -> None:
    problem = memplan.Problem([1, 2], [low, low + 3], [low + 4, high])
    mirror = generate.mirrored(problem)
    assert mirror.first.tolist() == [high - 4, low]
    assert mirror.last.tolist() == [high, high - 3]
    assert generate.mirrored(mirror) == problem


@given(shaped_problems(), st.integers(0, 5), st.data())
@BOUNDED
def test_shuffled_rows_are_the_same_buffers(case: Any, seed: int, data: st.DataObject) -> None:
    problem = problem_of(case)
    again = generate.shuffled(problem, seed)
    order = np.random.default_rng(seed).permutation(len(problem)).tolist()
    assert [problem.names[i] for i in order] == again.names
    assert list(zip(*columns_of(again), strict=True)) == [
        tuple(column[i] for column in columns_of(problem)) for i in order
    ]
    offsets = data.draw(st.lists(st.integers(0, 30), min_size=len(problem), max_size=len(problem)))
    by_name = {
        (kind, frozenset({problem.name(i), problem.name(j)} if j >= 0 else {problem.name(i)}))
        for kind, i, j in found(problem, offsets)
    }
    assert by_name == {
        (kind, frozenset({again.name(i), again.name(j)} if j >= 0 else {again.name(i)}))
        for kind, i, j in found(again, [offsets[i] for i in order])
    }


@given(shaped_problems())
@bounded(30)
def test_other_seeds_give_other_orders(case: Any) -> None:
    problem = problem_of(case)
    assume(len(problem) > 5)
    assert len({tuple(generate.shuffled(problem, seed).names) for seed in range(8)}) > 1
    unnamed = memplan.Problem(problem.size, problem.first, problem.last)
    assert generate.shuffled(unnamed, 1).names == []


def test_nothing_told_otherwise() -> None:
    nothing = memplan.Problem([], [], [])
    assert generate.mirrored(nothing) == nothing
    assert generate.shuffled(nothing) == nothing
