"""Planners written in Python: checked like those of the core, and given what they support."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import memplan
from memplan.planners import Options, Parameter, Placement, PlannerInfo

REGISTRY = sys.modules["memplan.planners"]
GRAPH: dict[str, Any] = {
    "tensors": [
        {"name": name, "bytes": 4, "kind": kind}
        for name, kind in [("x", "input"), ("a", "intermediate"), ("b", "intermediate")]
    ],
    "ops": [{"name": "f", "inputs": ["x"], "outputs": ["a"]}, {"name": "g", "inputs": ["a"], "outputs": ["b"]}],
    "outputs": ["b"],
}
NUMBER = Parameter("k", "a number", 3, -5, 9)
WORD = Parameter("order", "a word", "size", words=("birth", "size"))

Register = Callable[..., list[tuple[memplan.Problem, Options]]]


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Register:
    """Adds a planner "mine" that gives these offsets; returns what it is asked, as it comes."""

    def add(
        offsets: Sequence[int] | None = None, supports: tuple[str, ...] = (), bound: int = 0, pools: int = 0
    ) -> Any:
        asked: list[tuple[memplan.Problem, Options]] = []

        def run(problem: memplan.Problem, options: Options) -> Placement:
            asked.append((problem, options))
            return Placement(offsets if offsets is not None else [0] * len(problem), bound, pools)

        row = PlannerInfo("mine", "a test", True, supports, "O(1)", "here", (NUMBER, WORD), run)
        monkeypatch.setattr(REGISTRY, "IN_PYTHON", (*REGISTRY.IN_PYTHON, row))
        return asked

    return add


def test_it_is_listed_last(register: Register) -> None:
    register()
    assert [row.name for row in memplan.planners()][-2:] == ["cp_sat", "mine"]
    assert repr(memplan.planners()[-1]) == "<memplan planner 'mine'>"


def test_a_plan_of_it(register: Register) -> None:
    asked = register([0, 4], bound=8, pools=2)
    plan = memplan.plan(([4, 4], [0, 0], [1, 1]), "mine:k=-2", seed=7, threads=3, time_limit=1.5)
    assert plan.offsets.tolist() == [0, 4]
    assert (plan.peak, plan.lower_bound, plan.optimal, plan.pools) == (8, 8, True, 2)
    assert (plan.planner, plan.winner) == ("mine:k=-2", "mine:k=-2")
    assert plan.seconds >= 0
    assert asked[0][1] == Options(1.5, 7, 3, {"k": -2, "order": "size"})


def test_wrong_offsets_are_caught_by_name(register: Register) -> None:
    register()
    with pytest.raises(
        memplan.InvalidPlanError, match=r"planner 'mine' made an invalid plan.*\n.*share bytes \[0, 4\)"
    ):
        memplan.plan(([4, 4], [0, 0], [1, 1]), "mine")
    with pytest.raises(memplan.InvalidPlanError, match="planner 'mine'"):
        memplan.plan(GRAPH, "mine")


@pytest.mark.parametrize("offsets", [[0], [0, 4, 8]])
def test_offsets_for_other_buffers_are_refused(register: Register, offsets: list[int]) -> None:
    register(offsets)
    with pytest.raises(memplan.ProblemError, match="one entry per buffer"):
        memplan.plan(([4, 4], [0, 0], [1, 1]), "mine")


def test_a_graph_is_planned_replayed_and_kept(register: Register) -> None:
    register([0, 4])
    plan = memplan.plan(GRAPH, "mine")
    assert plan["b"].offset == 4
    assert plan.graph == memplan.capture(GRAPH)
    plan.verify()


def test_a_graph_is_the_same_problem_as_for_the_core(register: Register) -> None:
    asked = register(supports=("alignment",), offsets=[0, 8, 16])
    plan = memplan.plan(GRAPH, "first_fit", alignment=8, place=("input", "intermediate", "output"))
    memplan.plan(GRAPH, "mine", alignment=8, place=("input", "intermediate", "output"))
    assert asked[0][0] == plan.problem


def test_what_it_lacks_is_refused_by_name(register: Register) -> None:
    register()
    problem = memplan.Problem([4, 4], [0, 1], [1, 2], 4, conflicts=[(0, 1)])
    with pytest.raises(memplan.UnsupportedError, match="'mine' does not support alignment, conflicts, which"):
        memplan.plan(problem, "mine")


@pytest.mark.parametrize(("supports", "bound"), [((), 8), (("shapes",), 9)])
def test_without_shapes_it_is_given_rectangles(register: Register, supports: tuple[str, ...], bound: int) -> None:
    """And what it proves of those is not kept."""
    asked = register([0, 8], supports=supports, bound=9)
    problem = memplan.Problem([8, 1], [0, 1], [2, 2], names=["a", "b"], parts=[(0, 0, 8, 0, 1), (0, 0, 4, 1, 2)])
    plan = memplan.plan(problem, "mine")
    assert (asked[0][0].parts is not None) == ("shapes" in supports)
    assert asked[0][0].names == ["a", "b"]
    assert plan.lower_bound == bound
    assert plan.problem is problem


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mine:k=10", r"parameter k must be an integer in \[-5, 9\], got '10'"),
        ("mine:k=x", r"parameter k must be an integer in \[-5, 9\], got 'x'"),
        ("mine:order=name", "parameter order must be one of birth, size, got 'name'"),
        ("mine:depth=1", "planner 'mine' takes NAME=VALUE for k, order, got 'depth=1'"),
        ("mine:k", "planner 'mine' takes NAME=VALUE for k, order, got 'k'"),
        ("mine2", "planner must be one of auto, .*, cp_sat, mine, got 'mine2'"),
        ("tlsf_replay:block=0", "parameter block must be an integer in"),
    ],
)
def test_bad_parameters(register: Register, text: str, message: str) -> None:
    register()
    with pytest.raises(ValueError, match=message):
        memplan.plan(([4], [0], [1]), text)


def test_it_is_told_the_capacity(register: Register) -> None:
    asked = register([0, 4])
    assert memplan.plan(([4, 4], [0, 0], [1, 1]), "mine", capacity=8).peak == 8
    assert asked[0][1].capacity == 8
    assert asked[0][1].tell is None
    with pytest.raises(memplan.InfeasibleError):
        memplan.plan(([4, 4], [0, 0], [1, 1]), "mine", capacity=7)
    assert len(asked) == 1  # the load says so


@pytest.mark.parametrize("source", [([4, 4], [0, 0], [1, 1]), GRAPH], ids=["problem", "graph"])
def test_what_does_not_fit_is_in_the_error(register: Register, source: Any) -> None:
    register([0, 6], bound=9)
    with pytest.raises(memplan.InfeasibleError, match="the best plan of planner 'mine:k=1' peaks at 10") as caught:
        memplan.plan(source, "mine:k=1", capacity=9)
    assert (caught.value.lower_bound, caught.value.peak, caught.value.proven) == (9, 10, False)
    assert caught.value.plan is not None
    assert caught.value.plan.offsets.tolist() == [0, 6]
    assert (caught.value.plan.graph is None) == (source is not GRAPH)
    with pytest.raises(memplan.InfeasibleError, match="no plan fits a capacity of 8 bytes: at least 9") as caught:
        memplan.plan(source, "mine", capacity=8)
    assert caught.value.proven


Run = Callable[[memplan.Problem, Options], Placement]


@pytest.fixture
def run_as(monkeypatch: pytest.MonkeyPatch) -> Callable[[Run], None]:
    """Adds a planner "mine" that is a function."""

    def add(run: Run) -> None:
        row = PlannerInfo("mine", "a test", False, (), "O(1)", "here", (), run)
        monkeypatch.setattr(REGISTRY, "IN_PYTHON", (*REGISTRY.IN_PYTHON, row))

    return add


def descending(problem: memplan.Problem, options: Options) -> Placement:
    assert options.tell is not None
    for offset, bound in [(9, 1), (12, 8), (7, 9), (7, 9)]:
        options.tell([0, offset], bound)
    return Placement([0, 5])


@pytest.mark.parametrize("source", [([4, 4], [0, 0], [1, 1]), GRAPH], ids=["problem", "graph"])
def test_it_tells_of_better_plans(run_as: Callable[[Run], None], source: Any) -> None:
    run_as(descending)
    told: list[memplan.Plan] = []
    plan = memplan.plan(source, "mine", on_improvement=told.append)
    assert [(better.peak, better.lower_bound) for better in told] == [(13, 8), (11, 9), (9, 8)]
    assert all((better.graph is None) == (source is not GRAPH) for better in told)
    assert told[-1] == plan


@pytest.mark.parametrize("source", [([4, 4], [0, 0], [1, 1]), GRAPH], ids=["problem", "graph"])
def test_nothing_wrong_is_told(run_as: Callable[[Run], None], source: Any) -> None:
    def overlapping(problem: memplan.Problem, options: Options) -> Placement:
        assert options.tell is not None
        options.tell([0, 3], 0)
        return Placement([0, 4])

    run_as(overlapping)
    with pytest.raises(memplan.InvalidPlanError, match="planner 'mine' made an invalid plan"):
        memplan.plan(source, "mine", on_improvement=lambda plan: pytest.fail("told"))


def test_it_keeps_what_it_has_when_interrupted(run_as: Callable[[Run], None]) -> None:
    run_as(lambda problem, options: Placement([0, 4], interrupted=True))
    assert memplan.plan(([4, 4], [0, 0], [1, 1]), "mine").interrupted
    with pytest.raises(KeyboardInterrupt):
        memplan.plan(([4, 4], [0, 0], [1, 1]), "mine", on_interrupt="raise")


def test_an_interrupt_before_there_is_a_plan_is_raised(run_as: Callable[[Run], None]) -> None:
    def run(problem: memplan.Problem, options: Options) -> Placement:
        raise KeyboardInterrupt

    run_as(run)
    with pytest.raises(KeyboardInterrupt):
        memplan.plan(([4, 4], [0, 0], [1, 1]), "mine")


def test_words_and_the_last_of_two_values_count(register: Register) -> None:
    asked = register()
    memplan.plan(([4], [0], [1]), "mine:order=birth,k=1,k=2")
    assert asked[0][1].settings == {"k": 2, "order": "birth"}
