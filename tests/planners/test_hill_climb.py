"""hill_climb: against a plain version with the same chance, and the cases of Apache TVM's and Arm Vela's tests."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memplan
from builders import peers
from builders.strategies import BOUNDED, columns
from oracles.reference import Columns, lowest, meet, place, with_bytes


class Chance:
    """splitmix64."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def below(self, bound: int) -> int:
        mask = 2**64 - 1
        self.state = (self.state + 0x9E3779B97F4A7C15) & mask
        x = self.state
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
        return (x ^ (x >> 31)) % bound


def load(problem: Columns) -> int:
    size, first, last, _ = problem
    return max((sum(s for s, f, m in zip(size, first, last, strict=True) if f <= t < m) for t in first), default=0)


def hill_climb(problem: Columns, seed: int, iterations: int) -> list[int]:
    size, chance = problem[0], Chance(seed)
    buffers = with_bytes(problem)
    count = {i: sum(meet(problem, i, j) for j in buffers) for i in buffers}
    order = sorted(buffers, key=lambda i: (-size[i], -count[i], i))

    def peak(offsets: list[int]) -> int:
        return max(map(sum, zip(offsets, size, strict=True)), default=0)

    def before(end: int, at: int) -> list[int]:
        return [p for p in range(end) if p != at and meet(problem, order[p], order[at])]

    current = best = place(problem, order, lowest)
    for iteration in range(1, iterations + 1):
        if peak(best) == load(problem):
            break
        tops = [p for p, i in enumerate(order) if current[i] + size[i] == peak(current)]
        top = tops[chance.below(len(tops))]
        first = before(top, top)
        if not first:
            continue
        a = first[chance.below(len(first))]
        around = before(len(order), top)
        between = around[chance.below(len(around))]
        second = before(between, between)
        pool = second if second and chance.below(100) >= 25 else first
        b = pool[chance.below(len(pool))]
        if a == b:
            continue
        order[a], order[b] = order[b], order[a]
        tried = place(problem, order, lowest)
        worse = peak(tried) - peak(current)
        if worse <= 0 or chance.below(100) < 50 * worse // peak(tried) // iteration:
            current = tried
            best = min(best, current, key=peak)
        else:
            order[a], order[b] = order[b], order[a]
    return best


@given(columns(), st.integers(0, 2**64 - 1))
@BOUNDED
def test_same_offsets_as_the_reference(problem: Columns, seed: int) -> None:
    plan = memplan.plan(memplan.Problem(*problem), "hill_climb:iterations=20", seed=seed)
    assert plan.offsets.tolist() == hill_climb(problem, seed, 20)


@pytest.mark.parametrize("rows", [peers.TVM_ALLOC_MAX, peers.TVM_SIMPLE, peers.TVM_FIVE], ids=["max", "simple", "five"])
@pytest.mark.parametrize("seed", range(5))
def test_the_intervals_of_tvm_reach_their_load(rows: list[peers.ComparisonRow], seed: int) -> None:
    assert memplan.plan(peers.problem(rows), "hill_climb", seed=seed).optimal


@pytest.mark.parametrize(("rows", "size"), peers.VELA)
def test_the_live_ranges_of_vela_reach_its_size(rows: list[peers.ComparisonRow], size: int) -> None:
    assert memplan.plan(peers.problem(rows), "hill_climb").peak == size


def test_climbing_lowers_the_peak() -> None:
    problem = memplan.Problem([2, 2, 5, 4], [2, 4, 1, 3], [6, 7, 3, 5])
    assert memplan.plan(problem, "hill_climb:iterations=0").peak == 9
    assert memplan.plan(problem, "hill_climb").peak == problem.load == 8


def test_both_budgets_end_the_search() -> None:
    """Neither a swap nor a placement is paid for: the plan is that of the first order."""
    problem = memplan.Problem([2, 2, 5, 4], [2, 4, 1, 3], [6, 7, 3, 5])
    for budget in ("iterations=0", "placements=3", "iterations=0,placements=0"):
        assert memplan.plan(problem, f"hill_climb:{budget}").peak == 9
    assert memplan.plan(problem, "hill_climb:placements=2000").peak == 8


def test_shapes_and_conflicts_count() -> None:
    assert memplan.plan(peers.tvm_fanout(), "hill_climb").peak <= peers.TVM_FANOUT_PEAK
    shaped = memplan.Problem([8, 4], [0, 1], [2, 2], parts=[(0, 0, 8, 0, 1), (0, 0, 4, 1, 2)])
    assert memplan.plan(shaped, "hill_climb").peak == 8
