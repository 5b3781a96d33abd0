"""squeaky_wheel: its first order against a plain version, what mending adds, and what chance and work do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memplan
from builders.paths import DATA
from builders.strategies import BOUNDED, bounded, columns, shaped_problems
from oracles.reference import Columns, place, tightest, with_bytes


def sections(problem: Columns) -> list[set[int]]:
    """The buffers with bytes alive together, largest sets only, in the order of time."""
    _, first, last, _ = problem
    alive = [{i for i in with_bytes(problem) if first[i] <= t < last[i]} for t in sorted(set(first))]
    found: list[set[int]] = []
    for k, here in enumerate(alive):
        if here and not any(here < other or (here == other and k > m) for m, other in enumerate(alive)):
            found.append(here)
    return found


def first_order(problem: Columns) -> list[int]:
    """The largest load covered first, then the most sections, then the largest size; each into the tightest gap."""
    size = problem[0]
    cliques = sections(problem)

    def key(i: int) -> tuple[int, int, int, int]:
        mine = [sum(size[j] for j in clique) for clique in cliques if i in clique]
        return (-max(mine), -len(mine), -size[i], i)

    return place(problem, sorted(with_bytes(problem), key=key), tightest)


def peak(problem: Columns, offsets: list[int]) -> int:
    return max(map(sum, zip(offsets, problem[0], strict=True)), default=0)


@given(columns())
@BOUNDED
def test_an_order_that_reaches_the_load_is_left_alone(problem: Columns) -> None:
    expected = first_order(problem)
    plan = memplan.plan(memplan.Problem(*problem), "squeaky_wheel:orders=2")
    if peak(problem, expected) == plan.problem.load:
        assert plan.offsets.tolist() == expected


@given(columns(max_buffers=8, alignments=(1,)))
@BOUNDED
def test_small_problems_come_near_their_optimum(problem: Columns) -> None:
    optimum = memplan.plan(memplan.Problem(*problem), "exhaustive")
    plan = memplan.plan(memplan.Problem(*problem), "squeaky_wheel:orders=200")
    assert optimum.peak <= plan.peak <= optimum.peak * 1.25
    if optimum.peak == optimum.problem.load:
        assert plan.peak == optimum.peak


@given(shaped_problems(), st.integers(0, 2**64 - 1))
@bounded(20)
def test_shapes_and_conflicts_count(problem, seed: int) -> None:  # type: ignore[no-untyped-def]
    rows, parts, conflicts = problem
    shaped = memplan.Problem(*rows, parts=parts, conflicts=conflicts)
    plan = memplan.plan(shaped, "squeaky_wheel:orders=10", seed=seed)  # verified there
    assert plan.peak >= shaped.load


@pytest.mark.few(5)
@pytest.mark.parametrize("name", ["somas/resnet50", "torch/vgg16_b1_train", "iopddl/G_1"])
@pytest.mark.parametrize("seed", range(3))
def test_reaches_the_load(name: str, seed: int) -> None:
    problem = memplan.read_problem(DATA / f"{name}.csv")
    assert memplan.plan(problem, "squeaky_wheel:orders=3000", seed=seed).optimal


@pytest.mark.parametrize("name", ["somas/resnet50", "torch/vgg16_b1_train"])
def test_mending_and_repairing_beat_the_order(name: str) -> None:
    """Without work beyond the first order, only that is placed, mended on the way."""
    problem = memplan.read_problem(DATA / f"{name}.csv")
    once = memplan.plan(problem, "squeaky_wheel:orders=0")
    assert problem.load < once.peak
    assert memplan.plan(problem, "squeaky_wheel:orders=300").peak < once.peak


def test_more_work_is_never_worse_and_a_seed_is_a_plan() -> None:
    problem = memplan.read_problem(DATA / "minimalloc" / "A.1048576.csv")
    plans = [memplan.plan(problem, f"squeaky_wheel:placements={work}", seed=7) for work in (0, 2000, 8000)]
    again = memplan.plan(problem, "squeaky_wheel:placements=8000", seed=7)
    assert plans[0].peak > plans[1].peak >= plans[2].peak
    assert plans[2].offsets.tolist() == again.offsets.tolist()
    others = {memplan.plan(problem, "squeaky_wheel:placements=2000", seed=s).peak for s in range(4)}
    assert len(others) > 1


def test_a_shape_that_leaves_its_highest_bytes_unused_ends_the_search() -> None:
    """No plan peaks below a buffer's size, though the load does."""
    shaped = memplan.Problem([8], [0], [2], parts=[(0, 0, 4, 0, 2)])
    assert shaped.load == 4
    assert memplan.plan(shaped, f"squeaky_wheel:orders={1 << 30},placements={1 << 40}").peak == 8
