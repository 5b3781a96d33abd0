"""What every planner of the registry owes: a valid, aligned, deterministic plan with honest figures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import memplan
from builders.contract_cases import BIG, CASES
from builders.paths import DATA, TESTS
from builders.registered import END_WITH_THEIR_BEST, NAMES, PLANNERS, SEARCHES, SEEDED_BY_THREADS, SHORT, brief
from oracles import plain as oracle

UNEQUAL_SIZES_APART = {"naive", "inductor_reuse"}  # buffers of different sizes never share bytes
ONLY_WHERE_IT_FITS = {"ge_pool", "linear_scan"}  # what does not fit what is free opens new bytes, all of its own
OTHERWISE_APART = {"min_cost_flow": 10}  # hands 5 bytes to 9 and 9 to 3, and keeps 1 for itself
SOME = {f"minimalloc/{name}.1048576.csv" for name in "AEK"}  # of eleven; valley fits all of them in tests of its own
INSTANCES = [
    pytest.param(name, marks=pytest.mark.slow) if name.startswith("minimalloc/") and name not in SOME else name
    for name in sorted(str(path.relative_to(DATA)) for path in DATA.glob("*/*.csv"))
]


def plan_or_skip(source: object, planner: str, **options: Any) -> memplan.Plan:
    """The plan, unless the planner refuses the problem by name: too large for it, or with a feature that it lacks."""
    try:
        return memplan.plan(source, planner, **{**brief(planner), **options})
    except memplan.errors.UnsupportedError as error:
        if not str(error).startswith(f"planner '{planner}' "):
            raise
        pytest.skip(str(error))


def expect_contract(problem: memplan.Problem, planner: str) -> memplan.Plan:
    plan = plan_or_skip(problem, planner)
    columns = tuple(c.tolist() for c in (problem.size, problem.first, problem.last, problem.alignment))
    assert plan.offsets.dtype == np.int64
    assert plan.offsets.shape == (len(problem),)
    assert not plan.offsets.flags.writeable
    assert oracle.is_valid(columns, plan.offsets)
    assert plan.peak == oracle.peak(columns, plan.offsets.tolist())
    assert plan.load == oracle.load(columns) <= plan.lower_bound <= plan.peak
    assert plan.optimal == (plan.peak == plan.lower_bound)
    assert plan.planner == planner
    assert plan.winner.partition(":")[0] in PLANNERS
    assert plan.seconds >= 0
    assert plan.verify() is None
    return plan


def test_every_planner_has_a_file() -> None:
    """Which compares it with a plain version of itself, or shows what else it owes."""
    assert set(NAMES) == {path.stem.removeprefix("test_") for path in TESTS.glob("planners/test_*.py")}


@pytest.mark.few(200)
@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("case", CASES)
def test_degenerate(planner: str, case: str) -> None:
    problem = memplan.Problem(*CASES[case])
    plan = expect_contract(problem, planner)
    columns = tuple(c.tolist() for c in (problem.size, problem.first, problem.last, problem.alignment))
    assert oracle.violations(columns, plan.offsets.tolist()) == set()


@pytest.mark.few(27)
@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("instance", INSTANCES)
def test_instance(planner: str, instance: str) -> None:
    expect_contract(memplan.read_problem(DATA / instance), SHORT.get(planner, planner))


@pytest.mark.few(27)
@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("alignment", [3, 64, 4096, pytest.param(2**20, marks=pytest.mark.slow)])
def test_alignment_of_a_whole_plan(planner: str, alignment: int) -> None:
    plan = plan_or_skip(DATA / "minimalloc" / "A.1048576.csv", SHORT.get(planner, planner), alignment=alignment)
    assert not (plan.offsets % alignment).any()
    assert set(plan.problem.alignment.tolist()) == {alignment}
    plan.verify()


@pytest.mark.few(8)
@pytest.mark.parametrize("planner", PLANNERS)
def test_same_plan_whatever_the_seed_and_threads(planner: str) -> None:
    problem = memplan.read_problem(DATA / "minimalloc" / "D.1048576.csv")
    planner = SHORT.get(planner, planner)
    if planner in SEARCHES:  # to the end, so that no clock has a say
        problem = memplan.Problem(*CASES["mixed alignments"])
    plan = plan_or_skip(problem, planner, time_limit=60)
    if planner in SEEDED_BY_THREADS:
        for threads in (1, 2):
            again = [memplan.plan(problem, planner, seed=3, threads=threads) for _ in range(2)]
            assert again[0] == again[1]
            assert (again[0].peak, again[0].optimal) == (plan.peak, True)
        return
    for seed, threads in [(0, 1), (0, 2), (0, 64)]:
        assert memplan.plan(problem, planner, seed=seed, threads=threads) == plan
    for seed in (1, 2**64 - 1):
        same_seed = [memplan.plan(problem, planner, seed=seed, threads=threads) for threads in (1, 3)]
        assert same_seed[0] == same_seed[1]


@pytest.mark.parametrize("planner", PLANNERS)
def test_zero_size_buffers_change_nothing(planner: str) -> None:
    size, first, last, _ = CASES["equal sizes"]
    plain = memplan.plan((size, first, last), planner)
    padded = memplan.plan(([0, *size, 0], [0, *first, 5], [9, *last, 6]), planner)
    assert padded.offsets[1:-1].tolist() == plain.offsets.tolist()
    assert padded.offsets[[0, -1]].tolist() == [0, 0]


@pytest.mark.parametrize("planner", PLANNERS)
def test_none_together_needs_only_the_largest(planner: str) -> None:
    plan = memplan.plan(CASES["none together"][:3], planner)
    if planner in OTHERWISE_APART:
        assert plan.peak == OTHERWISE_APART[planner]
        return
    expected = 18 if planner in UNEQUAL_SIZES_APART else 5 + 9 if planner in ONLY_WHERE_IT_FITS else 9
    assert (plan.peak, plan.optimal) == (expected, expected == 9)


@pytest.mark.parametrize("planner", PLANNERS)
def test_all_together_needs_the_sum(planner: str) -> None:
    plan = memplan.plan(CASES["all alive together"][:3], planner)
    assert (plan.peak, plan.optimal, plan.gap) == (18, True, 0.0)


@pytest.mark.parametrize("planner", PLANNERS)
def test_a_time_limit_gives_a_plan_or_says_that_there_was_none(planner: str) -> None:
    try:
        plan_or_skip(DATA / "minimalloc" / "A.1048576.csv", planner, time_limit=1e-9).verify()
    except memplan.errors.TimeLimitError:
        assert planner not in END_WITH_THEIR_BEST


@pytest.mark.few(100)
@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threads": 0}, "threads must be >= 1 .*got 0"),
        ({"threads": -3}, "threads must be >= 1 .*got -3"),
        ({"threads": 2**31}, "threads must be .*at most 2147483647, got 2147483648"),
        ({"seed": -1}, "seed must be >= 0 .*got -1"),
        ({"seed": 2**64}, "seed must be .*at most 18446744073709551615, got 18446744073709551616"),
        ({"time_limit": 0}, "time_limit must be > 0 seconds, got 0"),
        ({"time_limit": -1.5}, r"time_limit must be > 0 seconds, got -1\.5"),
        ({"time_limit": float("nan")}, "time_limit must be > 0 seconds, got nan"),
        ({"alignment": 0}, "alignment must be >= 1 .*got 0"),
        ({"alignment": 2**63}, "alignment must be .*at most 9223372036854775807, got 9223372036854775808"),
    ],
)
def test_bad_options(planner: str, options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        memplan.plan(([1], [0], [1]), planner, **options)


@pytest.mark.parametrize("name", ["", "first-fit", "FIRST_FIT", "nothing"])
def test_unknown_planner(name: str) -> None:
    with pytest.raises(ValueError, match=f"planner must be one of {', '.join(NAMES)}, got '{name}'"):
        memplan.plan(([1], [0], [1]), name)


def test_two_of_2_to_the_62_are_refused() -> None:
    with pytest.raises(
        memplan.errors.ProblemError, match=r"add up to at most 2\^63 - 1 bytes.*size\[1\] = 4611686018427387904"
    ):
        memplan.Problem([BIG, BIG], [0, 1], [1, 2])


def test_padding_counts_towards_the_sum() -> None:
    with pytest.raises(memplan.errors.ProblemError, match=r"sizes with alignment padding.*size\[1\] = 2"):
        memplan.Problem([1, 2], [0, 1], [1, 2], 2**62)


def test_rows_describe_their_planners() -> None:
    rows = memplan.planners()
    assert len({row.name for row in rows}) == len(rows)
    assert "auto" in PLANNERS
    for row in rows:
        assert row.title
        assert row.complexity
        assert row.source
        assert isinstance(row.exact, bool)
        assert set(row.supports) <= {*FEATURES, "start"}  # test_start.py has that
        assert repr(row) == f"<memplan planner '{row.name}'>"


FEATURES: dict[str, dict[str, Any]] = {
    "alignment": {"alignment": 8},
    "shapes": {"parts": [(0, 0, 4, 0, 2), (0, 4, 8, 1, 3)]},
    "conflicts": {"conflicts": [(0, 2)]},
    "pins": {"pins": [16, -1, -1]},
    "reserved": {"reserved": [(0, 4, 1, 2)]},
    "branches": {"branches": ["a/b", "a/c", ""]},
}


@pytest.mark.few(80)
@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("row", memplan.planners(), ids=lambda row: row.name)
def test_a_feature_is_supported_or_refused_by_name(row: memplan.planning.PlannerInfo, feature: str) -> None:
    problem = memplan.Problem([8, 8, 8], [0, 1, 3], [3, 4, 5], **FEATURES[feature])
    if feature in row.supports or feature == "shapes":  # whoever lacks shapes gets rectangles
        memplan.plan(problem, row.name).verify()
        return
    with pytest.raises(
        memplan.errors.UnsupportedError, match=f"planner '{row.name}' does not support {feature}, which this pr"
    ):
        memplan.plan(problem, row.name)
